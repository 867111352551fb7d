"""Hostile suites, as a stranger could hand them over: `appliance tasks show` refuses each in one line."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.tasks.reader import read_suite
from tests.hostile import refused, typed

_GOOD = b'name = "one"\nprompt = "p"\ntest_cmd = ["true"]\ntest_files = []\n'

TASK_TOML = {
    "empty": (b"", "name: required key is missing"),
    "binary": (bytes(range(256)), "not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf" + _GOOD, "not TOML"),
    "another encoding": (_GOOD.decode().encode("utf-16"), "not UTF-8"),
    "a stray byte": (_GOOD + b'x = "\xff"', "task.toml:5: not UTF-8 at byte"),
    "lists in lists": (b"a = " + b"[" * 5000, "nested too deeply"),
    "tables in tables": (_GOOD + b"[" + b".".join([b"a"] * 20_000) + b"]", "task.toml"),
    "digits without end": (_GOOD + b"[limits]\npids = " + b"9" * 5000, "not TOML"),
    "hexadecimal digits without end": (_GOOD + b"[limits]\npids = 0x" + b"f" * 9000, "limits.pids: a whole number of"),
    "the same as a number": (_GOOD + b"[limits]\ncpus = 0x" + b"f" * 9000, "limits.cpus: a whole number of"),
    "no number": (_GOOD + b"[limits]\ncpus = nan", "limits.cpus: nan is not within"),
    "infinite": (_GOOD + b"[limits]\nwall_seconds = inf", "limits.wall_seconds: inf is not within"),
    "a list for a table": (_GOOD + b"limits = []", "limits: a list where a table belongs"),
    "a key twice": (_GOOD + b'name = "one"', "not TOML"),
    "a NUL": (_GOOD.replace(b'"p"', b'"a\\u0000"'), "prompt: holds a NUL"),
    "a key that drives a terminal": (_GOOD + b'"a\\n\\u001b[31m\\u202e" = 1', "unknown key"),
    "a value that drives a terminal": (_GOOD + b'image = "\\u001b[31m\\n\\u202e"', "image: "),
    "a key without end": (_GOOD + b'"' + b"k" * 100_000 + b'" = 1', "unknown key"),
    "a file elsewhere": (_GOOD.replace(b"= []", b'= ["../../etc/passwd"]'), "climbs with .."),
}
PLACES = {
    "a pipe for suite.toml": (lambda suite: os.mkfifo(suite / "suite.toml"), "suite.toml: a named pipe"),
    "a folder for suite.toml": (lambda suite: (suite / "suite.toml").mkdir(), "suite.toml: a folder"),
    "an endless suite.toml": (lambda suite: (suite / "suite.toml").symlink_to("/dev/zero"), "suite.toml: a device"),
    "a pipe for checks.json": (lambda suite: os.mkfifo(suite / "checks.json"), "checks.json: a named pipe"),
    "an endless checks.json": (lambda suite: (suite / "checks.json").symlink_to("/dev/zero"), "checks.json: a device"),
    "a gigabyte of checks.json": (lambda suite: _sparse(suite / "checks.json", 1 << 30), "checks.json: over the bound"),
    "a folder for checks.json": (lambda suite: (suite / "checks.json").mkdir(), "checks.json: a folder"),
    "a link to nothing for checks.json": (lambda suite: (suite / "checks.json").symlink_to("x"), "leads nowhere"),
    "noise for checks.json": (lambda suite: (suite / "checks.json").write_bytes(bytes(range(256))), "checks.json: $"),
    "other JSON for checks.json": (lambda suite: (suite / "checks.json").write_text('{"a": 1}'), "checks.json: $."),
    "checks.json in lists": (lambda suite: (suite / "checks.json").write_bytes(b"[" * 100_000), "checks.json: $"),
    "100 MB of task.toml": (lambda suite: _sparse(suite / "one/task.toml", 100 << 20), "task.toml: over the bound"),
    "4 GiB in a task": (lambda suite: _sparse(suite / "one/before/big", 4 << 30), "one/before/big: 4096 MiB, over the"),
    "five large files": (
        lambda suite: _sparse_files(suite / "one/before"),
        "suite/one: over the bound of 512 MiB for all",
    ),
    "a pipe for a file": (lambda suite: os.mkfifo(suite / "one/before/p"), "neither a file"),
    "a loop of links": (lambda suite: (suite / "one/before/l").symlink_to("l"), "leads nowhere"),
    "a name in bytes": (lambda suite: _named(suite / "one/before", b"\xff"), "not UTF-8"),
    "a name that drives a terminal": (lambda suite: _folder(suite, b"a\n\x1b[31m"), "no task.toml"),
    "a name of no characters": (lambda suite: _folder(suite, b"\xff\xfe"), "no task.toml"),
}


@pytest.mark.parametrize(("content", "words"), TASK_TOML.values(), ids=TASK_TOML)
def test_a_malformed_task_is_one_line_with_file_and_key(tmp_path: Path, content: bytes, words: str) -> None:
    """Status 3, whatever the bytes are (J02; issue 3, Bad input)."""
    suite = _suite(tmp_path)
    (suite / "one/task.toml").write_bytes(content)
    found = refused(tmp_path, "tasks", "show", "./suite", "one", "--json", status=3)
    assert "suite/one/task.toml" in found.line
    assert words in found.line


@pytest.mark.parametrize(("spoil", "words"), PLACES.values(), ids=PLACES)
def test_what_lies_in_the_place_of_a_file_is_named(tmp_path: Path, spoil: Callable[[Path], object], words: str) -> None:
    """A pipe does not hang it, a device does not feed it, a sparse file does not fill the memory (issue 3)."""
    spoil(_suite(tmp_path))
    assert words in refused(tmp_path, "tasks", "show", "./suite", "one", "--json", status=3).line


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """pytest's own folders are closed to other users, anew at each start of any pytest."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("closed", [".", "one", "one/before", "one/task.toml", "one/before/a"])
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_what_may_not_be_read_is_named(open_folder: Path, closed: str) -> None:
    """A folder that may not be searched is a refusal as well as a file that may not be read, with its path."""
    suite = _suite(open_folder)
    (suite / closed).chmod(0)
    other = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    home = {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    found = refused(open_folder, "tasks", "show", "./suite", "one", "--json", status=3, prefix=other, environment=home)
    assert "ermission denied" in found.line
    assert os.path.normpath(f"suite/{closed}") in found.error["where"]


@pytest.mark.parametrize("name", ["", "a" * 5000, "a/" * 5000, "~nobodyhere/x", b"\xff\xfe/x", "\x1b[31m\n\u202e"])
def test_a_suite_that_cannot_be_looked_up_is_a_word_of_the_command_line(tmp_path: Path, name: str | bytes) -> None:
    """Status 2, in one line, and its JSON is UTF-8 whatever was typed."""
    refused(tmp_path, "tasks", "show", name, "--json", status=2)


def _suite(home: Path) -> Path:
    suite = home / "suite"
    (suite / "one/before").mkdir(parents=True)
    (suite / "one/before/a").write_text("x")
    (suite / "one/task.toml").write_bytes(_GOOD)
    return suite


@pytest.mark.parametrize("place", ["beside", "data folder"])
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_checks_that_may_not_be_read_are_not_passed_over(open_folder: Path, place: str) -> None:
    """They may quarantine a task: unread, it would be planned again. One line, with the mend (H8)."""
    suite = _suite(open_folder)
    beside = suite / "checks.json"
    found = (
        beside if place == "beside" else open_folder / f".share/bench-appliance/checks/{read_suite(suite).digest}.json"
    )
    found.parent.mkdir(parents=True, exist_ok=True)
    found.write_text("{}")
    found.chmod(0)
    other = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    home = {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    line = refused(open_folder, "tasks", "show", "./suite", status=3, prefix=other, environment=home).line
    assert f"{found.name}: permission denied (make it readable, or remove the file and run" in line


def test_one_bad_checks_json_hides_no_other_suite(tmp_path: Path) -> None:
    """`tasks list` names what is wrong with the suite beside those that can be used (J03)."""
    (tmp_path / "tasks").mkdir()
    (_suite(tmp_path / "tasks") / "checks.json").write_text("{")
    rows = {row["name"]: row for row in json.loads(typed(tmp_path, "tasks", "list", "--json").stdout)}
    assert "checks.json: $" in rows["suite"]["problem"]
    assert rows["smoke"]["problem"] is None


def test_a_suite_too_large_to_be_carried_is_refused_before_it_is_run(tmp_path: Path) -> None:
    """Not after its trials, when the record is written; --no-suite-blob goes on, here to the engine that is not there
    (J26)."""
    suite = _suite(tmp_path)
    for name in ("one", "two"):
        task = suite / name
        if name != "one":
            shutil.copytree(suite / "one", task)
            (task / "task.toml").write_bytes(_GOOD.replace(b'"one"', b'"two"'))
        for number in range(3):
            _sparse(task / f"before/{number}", 100 << 20)
    asked = ("run", "--suite", "./suite", "--solver", "noop", "--dry-run")
    assert "over the bound of 512 MiB for a suite" in refused(tmp_path, *asked, status=3).line
    ended = typed(tmp_path, *asked, "--no-suite-blob")
    assert ended.returncode == 0, ended.stderr


def _sparse_files(folder: Path) -> None:
    for number in range(5):
        _sparse(folder / str(number), 120 << 20)


def _sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


def _named(folder: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(folder), name), "wb"):  # noqa: PTH118, PTH123 - no Path holds such a name
        pass


def _folder(folder: Path, name: bytes) -> None:
    os.mkdir(os.path.join(os.fsencode(folder), name))  # noqa: PTH102, PTH118 - as above
