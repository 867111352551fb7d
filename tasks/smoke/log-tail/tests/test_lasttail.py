"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest


def subject(*argv, stdin=""):
    return subprocess.run(
        ["/run/appliance/subject", *argv], input=stdin, capture_output=True, text=True, timeout=50
    )


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subject("make", "-B", "-s", "lasttail")
    assert done.returncode == 0, done.stderr[-2000:]


def last(count, text):
    done = subject("./lasttail", str(count), stdin=text)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_more_lines_than_asked_for_come_in_order():
    assert last(3, "1\n2\n3\n4\n5\n6\n7\n") == "5\n6\n7\n"
    assert last(4, "a\nb\nc\nd\ne\n") == "b\nc\nd\ne\n"
    assert last(1, "first\nsecond\n") == "second\n"
    assert last(2, "red\ngreen\nblue") == "green\nblue"


def test_none_asked_for_prints_nothing():
    assert last(0, "a\nb\n") == ""
    assert last(0, "") == ""


def test_a_long_log():
    log = "".join(f"entry {number}\n" for number in range(12_347))
    assert last(5, log) == "entry 12342\nentry 12343\nentry 12344\nentry 12345\nentry 12346\n"


def test_fewer_lines_than_asked_for():
    assert last(10, "x\ny\n") == "x\ny\n"
    assert last(10, "") == ""


def test_exactly_as_many_lines():
    assert last(3, "x\ny\nz\n") == "x\ny\nz\n"


def test_a_wrong_count_is_refused():
    for words in (["three"], ["-1"], [""], ["3x"], []):
        done = subject("./lasttail", *words, stdin="a\n")
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: lasttail COUNT < file\n")
