"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
const book = require(process.cwd() + '/lib/book.js');
for (const [name, ...words] of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  console.log(JSON.stringify(book[name](...words)));
}
"""


def answers(*calls):
    done = subprocess.run(
        ["/run/appliance/subject", "node", "-e", DRIVER],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def read(*texts):
    return answers(*(["readBook", text] for text in texts))


def test_commas_in_quotes():
    assert read('name,email\n"Byron, Ada",ada@example.org\nBo,"bo@example.org"\n') == [
        [{"name": "Byron, Ada", "email": "ada@example.org"}, {"name": "Bo", "email": "bo@example.org"}]
    ]


def test_quotes_in_quotes():
    assert read('name,email\n"Jim ""Bo"" Hill",j@example.org\n"""",""\n') == [
        [{"name": 'Jim "Bo" Hill', "email": "j@example.org"}, {"name": '"', "email": ""}]
    ]


def test_lines_in_quotes():
    assert read('name,address\nCy,"1 Elm Road\n\nLeeds"\nDi,"x\r\ny"\n') == [
        [{"name": "Cy", "address": "1 Elm Road\n\nLeeds"}, {"name": "Di", "address": "x\r\ny"}]
    ]


def test_files_from_other_systems():
    assert read('name,email\r\n"Ed",e@example.org\r\n\r\nFlo,\r\n', "name,email\r\nGus,g@example.org") == [
        [{"name": "Ed", "email": "e@example.org"}, {"name": "Flo", "email": ""}],
        [{"name": "Gus", "email": "g@example.org"}],
    ]


def test_what_is_written_can_be_read():
    people = [
        {"name": 'Jim "Bo" Hill', "note": "a,b"},
        {"name": "two\nlines", "note": '","'},
        {"name": "plain", "note": "ends in a return\r"},
    ]
    (text,) = answers(["writeBook", ["name", "note"], people])
    assert text == 'name,note\n"Jim ""Bo"" Hill","a,b"\n"two\nlines",""","""\nplain,"ends in a return\r"\n'
    assert read(text) == [people]


def test_merged_books_keep_their_commas():
    first = 'email,name\na@example.org,"Byron, Ada"\nb@example.org,Bo\n'
    second = 'name,email\n"Bo ""B"" Hill",b@example.org\n"Cy, Jr.",c@example.org\n'
    assert answers(["mergeBooks", first, second]) == [
        'email,name\na@example.org,"Byron, Ada"\nb@example.org,"Bo ""B"" Hill"\nc@example.org,"Cy, Jr."\n'
    ]


def test_plain_files():
    assert read("name,email\nAda,a@example.org\nBo,\n\n,c@example.org", "name\n") == [
        [
            {"name": "Ada", "email": "a@example.org"},
            {"name": "Bo", "email": ""},
            {"name": "", "email": "c@example.org"},
        ],
        [],
    ]


def test_short_rows():
    assert read("name,email,phone\nAda,a@example.org\n") == [[{"name": "Ada", "email": "a@example.org", "phone": ""}]]


def test_plain_books_are_written():
    assert answers(["writeBook", ["name", "email"], [{"name": "Ada", "email": "a@example.org"}, {"name": "Bo"}]]) == [
        "name,email\nAda,a@example.org\nBo,\n"
    ]
