"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest


def subject(*argv):
    return subprocess.run(["/run/appliance/subject", *argv], capture_output=True, text=True, timeout=50)


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subject("make", "-B", "-s", "countdown")
    assert done.returncode == 0, done.stderr[-2000:]


def counted(*words):
    done = subject("./countdown", *words)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_three():
    assert counted("3") == "3\n2\n1\nLiftoff!\n"


def test_one():
    assert counted("1") == "1\nLiftoff!\n"


def test_ten_unless_told_otherwise():
    assert counted() == "10\n9\n8\n7\n6\n5\n4\n3\n2\n1\nLiftoff!\n"


def test_nothing_to_wait_for():
    assert counted("0") == "Liftoff!\n"
