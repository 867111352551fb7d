"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest

CHECKED = "gcc -g -O1 -std=c11 -D_POSIX_C_SOURCE=200809L -fsanitize=address,undefined -fno-sanitize-recover=all *.c -o led-checked"


def subject(*argv, stdin=""):
    return subprocess.run(
        ["/run/appliance/subject", *argv], input=stdin, capture_output=True, text=True, timeout=50
    )


@pytest.fixture(scope="module", autouse=True)
def built():
    for words in (["make", "-B", "-s", "led"], ["sh", "-c", CHECKED]):
        done = subject(*words)
        assert done.returncode == 0, done.stderr[-2000:]


def answers(stdin, *argv):
    done = subject(*argv, stdin=stdin)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


def edited(*commands):
    """What both builds print, the one that we use and the one that looks at every access to memory."""
    stdin = "".join(f"{command}\n" for command in commands)
    seen = answers(stdin, "./led")
    assert answers(stdin, "env", "ASAN_OPTIONS=detect_leaks=0", "./led-checked") == seen
    return seen.splitlines()


def test_a_deleted_line_comes_back():
    assert edited("a one", "a two", "a three", "d 2", "a a line that is a little longer", "p", "u", "u", "p") == [
        "1 one",
        "2 three",
        "3 a line that is a little longer",
        "1 one",
        "2 two",
        "3 three",
    ]


def test_all_deleted_lines_come_back():
    lines = [f"line number {n}" for n in range(40)]
    seen = edited(*(f"a {line}" for line in lines), *["d 1"] * 40, "n", *["u"] * 40, "p")
    assert seen == ["0", *(f"{n} {line}" for n, line in enumerate(lines, 1))]


def test_a_change_can_be_undone_and_redone():
    assert edited("a old", "c 1 new", "u", "p", "r", "p", "u", "p", "r", "p") == ["1 old", "1 new", "1 old", "1 new"]
    assert edited("a a", "c 1 b", "c 1 c", "c 1 d", "u", "u", "p", "r", "p", "u", "u", "p", "r", "r", "r", "p") == [
        "1 b",
        "1 c",
        "1 a",
        "1 d",
    ]


def test_back_and_forth_through_everything():
    commands = ["a one", "a two", "i 1 zero", "c 2 ONE", "d 3", "a end", "d 1"]
    assert edited(*commands, "p", *["u"] * 7, "n", *["r"] * 7, "p", "r", *["u"] * 3, "p", "r", "p") == [
        "1 ONE",
        "2 end",
        "0",
        "1 ONE",
        "2 end",
        "?",
        "1 zero",
        "2 ONE",
        "3 two",
        "1 zero",
        "2 ONE",
    ]


def test_a_new_change_ends_redoing():
    assert edited("a one", "a two", "u", "a three", "r", "p", "u", "u", "u", "r", "p") == [
        "?",
        "1 one",
        "2 three",
        "?",
        "1 one",
    ]
    assert edited("a one", "c 1 two", "d 1", "u", "u", "c 1 three", "r", "u", "p", "r", "p") == ["?", "1 one", "1 three"]


def test_a_hundred_changes_are_remembered():
    changes = [f"c 1 version {n}" for n in range(150)]
    assert edited("a first", *changes, *["u"] * 99, "p", "u", "p", "u", "p", *["r"] * 100, "p", "r") == [
        "1 version 50",
        "1 version 49",
        "?",
        "1 version 49",
        "1 version 149",
        "?",
    ]


def test_the_oldest_changes_are_forgotten_whatever_they_were():
    commands = [f"a line {n}" for n in range(60)] + ["d 1"] * 50 + [f"c 1 x{n}" for n in range(60)]
    seen = edited(*commands, "n", *["u"] * 60, "p", *["u"] * 40, "n", "u", "p")
    assert seen[0] == "10"
    assert seen[1:11] == [f"{n - 49} line {n}" for n in range(50, 60)]
    assert seen[11:13] == ["50", "?"]
    assert seen[13:] == [f"{n - 9} line {n}" for n in range(10, 60)]


def test_long_texts():
    seen = edited(*(f"a {n}" for n in range(3000)), "n", "d 2999", "d 1", "p")
    assert seen == ["3000", *(f"{n} {n}" for n in range(1, 2998)), "2998 2999"]


def test_long_sessions_need_little_memory():
    text = "x" * 1000
    each_round = f"c 1 {text}\nc 1 {text}y\nu\nu\na {text}\nd 2"
    commands = f"echo a start; yes '{each_round}' | head -n 240000; printf 'n\\nc 1 end\\np\\n'"
    assert answers("", "sh", "-c", f"({commands}) | (ulimit -v 30000; exec ./led)") == "1\n1 end\n"


def test_plain_editing():
    assert edited("a one", "i 1 nought", "p", "n", "c 2 uno", "p") == ["1 nought", "2 one", "2", "1 nought", "2 uno"]


def test_what_cannot_be_done():
    assert edited("u", "r", "d 1", "a x", "d 2", "c 0 y", "i x", "z", "", "c 1x y", "p") == ["?"] * 9 + ["1 x"]


def test_insertions_can_be_undone():
    assert edited("a one", "i 1 zero", "u", "p", "r", "p", "u", "u", "u", "n") == [
        "1 one",
        "1 zero",
        "2 one",
        "?",
        "0",
    ]
