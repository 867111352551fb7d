"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from envfile import EnvFileError, load_env
try:
    print(json.dumps(load_env(sys.stdin.read()), sort_keys=True))
except EnvFileError as error:
    print("EnvFileError", str(error).split(":")[0])
"""


def loaded(*lines):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_values_keep_their_equals_signs():
    url = "postgres://app:s3cret@db/main?sslmode=require&options=-c%20timeout=5"
    assert loaded(f"DATABASE_URL={url}", "PADDED='cGFk=='", "E = a = b") == (
        '{"DATABASE_URL": "postgres://app:s3cret@db/main?sslmode=require&options=-c%20timeout=5", '
        '"E": "a = b", "PADDED": "cGFk=="}\n'
    )


def test_a_hash_in_quotes_is_kept():
    assert loaded('COLOR="#ff8800"', "NOTE='a # b' # really", 'BOTH = "x=#1"') == (
        '{"BOTH": "x=#1", "COLOR": "#ff8800", "NOTE": "a # b"}\n'
    )


def test_a_hash_within_a_word_is_kept():
    assert loaded("PASSWORD=a#b", "CHANNEL=team#dev # where we talk") == '{"CHANNEL": "team#dev", "PASSWORD": "a#b"}\n'


def test_comments_and_blank_lines_are_left_out():
    assert loaded("# a comment", "", "   ", "  # another", "A=1 # one", "B=2") == '{"A": "1", "B": "2"}\n'


def test_quotes_and_spaces_are_taken_off():
    assert loaded("export A='x y'", ' B = "z" ', "C=", "D=''", "A=last", "E=it's") == (
        '{"A": "last", "B": "z", "C": "", "D": "", "E": "it\'s"}\n'
    )


def test_a_line_without_equals_is_named():
    assert loaded("A=1", "", "nonsense") == "EnvFileError line 3\n"
    assert loaded("=x") == "EnvFileError line 1\n"
