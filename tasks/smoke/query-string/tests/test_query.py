"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
const { parseQuery } = require(process.cwd() + '/lib/query.js');
const { addParameter } = require(process.cwd() + '/lib/link.js');
for (const [name, ...words] of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  console.log(JSON.stringify({ parseQuery, addParameter }[name](...words)));
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
    return done.stdout


def parsed(*queries):
    return answers(*(["parseQuery", query] for query in queries)).splitlines()


def test_escapes_are_decoded_after_the_split():
    assert parsed("?q=fish+%26+chips&page=2", "a%3Db=c%2Bd", "k=%E2%82%AC+5") == [
        '{"q":"fish & chips","page":"2"}',
        '{"a=b":"c+d"}',
        '{"k":"€ 5"}',
    ]


def test_values_keep_their_equals_signs():
    assert parsed("next=/a?b=c&x==", "token=abc==") == ['{"next":"/a?b=c","x":"="}', '{"token":"abc=="}']


def test_repeated_keys_become_lists():
    assert parsed("tag=a&tag=b", "?tag=a&n=1&tag=b&tag=", "t&t") == [
        '{"tag":["a","b"]}',
        '{"tag":["a","b",""],"n":"1"}',
        '{"t":["",""]}',
    ]


def test_a_stray_percent_sign_is_left_alone():
    assert parsed("off=100%&q=a", "q=5%25+or+5%") == ['{"off":"100%","q":"a"}', '{"q":"5% or 5%"}']


def test_links_keep_repeated_keys():
    assert answers(
        ["addParameter", "/s?tag=a&tag=b#top", "utm", "mail"], ["addParameter", "/s?q=a+b", "n", "1"]
    ) == '"/s?tag=a&tag=b&utm=mail#top"\n"/s?q=a%20b&n=1"\n'


def test_plain_pairs():
    assert parsed("a=1&b=two", "?x=y") == ['{"a":"1","b":"two"}', '{"x":"y"}']


def test_keys_without_values():
    assert parsed("a&b=", "", "?", "&&a=1&") == ['{"a":"","b":""}', "{}", "{}", '{"a":"1"}']


def test_links_without_a_query():
    assert answers(["addParameter", "/s", "utm", "mail"], ["addParameter", "/s#top", "a", "b c"]) == (
        '"/s?utm=mail"\n"/s?a=b%20c#top"\n'
    )
