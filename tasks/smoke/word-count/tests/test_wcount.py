"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest


def subject(*argv, stdin=b""):
    return subprocess.run(["/run/appliance/subject", *argv], input=stdin, capture_output=True, timeout=50)


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subject("make", "-B", "-s", "wcount")
    assert done.returncode == 0, done.stderr[-2000:]


def counted(text):
    done = subject("./wcount", stdin=text)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_word_across_two_blocks_is_one_word():
    assert counted(b"a" * 4090 + b" elephants everywhere\n") == b"1 3 4112\n"
    assert counted(b"x\n" * 2047 + b"elephant") == b"2047 2048 4102\n"


def test_one_word_of_many_blocks():
    assert counted(b"y" * 50_001) == b"0 1 50001\n"


def test_a_long_text():
    text = b"".join(b"line %d of a longer text, with words of several lengths\n" % number for number in range(2500))
    assert counted(text) == b"2500 27500 143890\n"


def test_short_texts():
    assert counted(b"") == b"0 0 0\n"
    assert counted(b"one") == b"0 1 3\n"
    assert counted(b" two\twords \n\n") == b"2 2 13\n"
    assert counted("größer \u00e4hnlich\n".encode()) == b"1 2 18\n"


def test_a_block_that_ends_between_words():
    assert counted(b"b" * 4095 + b" c\n") == b"1 2 4098\n"
    assert counted(b"b" * 4096 + b" c\n") == b"1 2 4099\n"


def test_a_missing_file_is_an_error():
    done = subject("./wcount", "/nowhere/at/all")
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr == b"wcount: /nowhere/at/all: No such file or directory\n"
