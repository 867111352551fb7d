"""Hostile records, bundles and blobs, through every verb that opens one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.records.record import Record
from attest import canonical
from tests.hostile import refused, typed
from tests.record_builder import blobs, record

RECORD = "run/records/noop.json"
BUNDLE = "run/records/noop.sigstore.json"
VERBS = {
    "verify": ("verify", RECORD, "--trust", "local", "--json"),
    "report": ("report", RECORD, "--json"),
    "show": ("show", RECORD, "--json"),
    "sign": ("sign", RECORD, "--json"),
    "schema": ("schema", "check", RECORD, "--json"),
    "reproduce": ("reproduce", RECORD, "--plan", "--json"),
}


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


_OTHERWISE = "should be 'record-v1'"
"""As the model says it, to `sign`, which looks at no schema."""
IN_ITS_PLACE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "a named pipe, not a regular file"),
    "a folder": (Path.mkdir, "a folder, not a regular file|no records? in (this folder|it)"),
    "no end": (lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file"),
    "a loop": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "a gigabyte": (_sparse, "over the bound of"),
    "nothing": (lambda path: path, "No such file or directory"),
    "an empty file": (Path.touch, "not JSON at line 1|is empty"),
    "brackets": (lambda path: path.write_bytes(b"[" * 200_000), "nested deeper than 64|not JSON"),
    "a key twice": (
        lambda path: path.write_bytes(b'{"schema":"record-v1","schema":"record-v1"}'),
        "key 'schema' stands twice",
    ),
    "half a character": (lambda path: path.write_bytes(b'{"schema":"\\ud800"}'), "a lone surrogate"),
    "digits": (lambda path: path.write_bytes(b'{"schema":' + b"9" * 100_000 + b"}"), r"integer beyond 2\^53"),
    "no number": (lambda path: path.write_bytes(b'{"schema":NaN}'), "NaN is not a JSON number"),
    "another encoding": (
        lambda path: path.write_bytes('{"schema":"record-v1"}'.encode("utf-16")),
        "not UTF-8 at byte 0",
    ),
    "a later version": (lambda path: path.write_bytes(b'{"schema":"record-v2"}'), f"'record-v2'|{_OTHERWISE}"),
    "no schema at all": (
        lambda path: path.write_bytes(b'{"schema":["record-v1"]}'),
        rf"not a record-v1, but \['record-v1'\]|names no schema|{_OTHERWISE}",
    ),
    "a name that drives a terminal": (
        lambda path: path.write_bytes(b'{"schema":"\\u001b[31m\\n\xe2\x80\xae"}'),
        rf"'\\x1b\[31m\\n\\u202e'|{_OTHERWISE}",
    ),
    "a name without end": (
        lambda path: path.write_bytes(b'{"schema":"' + b"x" * 1_000_000 + b'"}'),
        rf"'x{{60,}}\.\.\.|{_OTHERWISE}",
    ),
    "keys that drive a terminal": (
        lambda path: path.write_bytes(b'{"\\u001b[31m\\n":1,"schema":"record-v1"}'),
        r"\\x1b\[31m\\n|Field required",
    ),
}
"""What lies where a record should, and the words that refuse it."""
OF_ANOTHER = "the statement is about"
"""What `verify` says first of bytes that nobody signed."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template")
    (home / RECORD).parent.mkdir(parents=True)
    (home / "run/blobs/sha256").mkdir(parents=True)
    (home / RECORD).write_bytes(record().canonical())
    for digest, content in blobs(record()).items():
        (home / "run/blobs/sha256" / digest).write_bytes(content)
    assert typed(home, "sign", RECORD).returncode == 0
    assert typed(home, "verify", RECORD, "--trust", "local").returncode == 0
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    config = tmp_path / ".config/bench-appliance/roots.toml"
    config.write_text(config.read_text().replace(str(template), str(tmp_path)))
    yield tmp_path


@pytest.mark.parametrize(("make", "words"), IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
def test_no_verb_hangs_or_breaks_on_what_lies_in_a_records_place(
    home: Path, make: Callable[[Path], object], words: str
) -> None:
    """One line that names file and reason, status 3 (verify: 7 for bytes that nobody signed, 2 for nothing at all), one
    JSON document; no bundle is written for what is no record (issue 3, Bad input)."""
    (home / RECORD).unlink()
    (home / BUNDLE).rename(home / "kept")
    make(home / RECORD)
    for verb, command in VERBS.items():
        if verb == "verify":
            (home / "kept").rename(home / BUNDLE)
        said = refused(home, *command, status=(2, 3, 7) if verb == "verify" else (2, 3) if verb == "schema" else 3)
        reason = f"{OF_ANOTHER}|{words}" if said.status == 7 else words
        assert RECORD in said.line or said.status == 7, said
        assert re.search(reason, said.line), (verb, said)
        if verb == "verify":
            (home / BUNDLE).rename(home / "kept")
    assert not (home / BUNDLE).exists()


@pytest.mark.parametrize("make", [make for make, _ in IN_ITS_PLACE.values()], ids=IN_ITS_PLACE)
def test_no_bundle_hangs_or_breaks_verify(home: Path, make: Callable[[Path], object]) -> None:
    """Status 7, class bundle, whatever lies there."""
    (home / BUNDLE).unlink()
    make(home / BUNDLE)
    assert refused(home, *VERBS["verify"], status=7).error["reason"] == "bundle"


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, _sparse, lambda path: path.symlink_to("/dev/zero")])
def test_no_blob_hangs_or_breaks_verify(home: Path, make: Callable[[Path], object]) -> None:
    """Status 7, class blob; `show --artifact` does not open it either."""
    for digest in blobs(record()):
        (home / "run/blobs/sha256" / digest).unlink()
        make(home / "run/blobs/sha256" / digest)
    ended = typed(home, *VERBS["verify"])
    assert (ended.returncode, json.loads(ended.stdout)["error"]["reason"]) == (7, "blob")
    refused(home, "show", RECORD, "--artifact", "journal", status=(3, 7))


@pytest.mark.parametrize("field", ["passes", "rollouts"])
def test_a_plan_of_more_trials_than_can_be_counted_is_refused_unlisted(home: Path, field: str) -> None:
    """Listed whole, a plan of 9e15 passes would take all memory before anything could be said of it."""
    value = json.loads(record().canonical())
    value["plan"][field] = 2**53 - 1
    (home / RECORD).write_bytes(canonical.dumps(value))
    for verb in ("report", "show", "sign", "schema", "reproduce"):
        assert "over 100000 trials" in refused(home, *VERBS[verb], status=3).line
    refused(home, *VERBS["verify"], status=7)


HOSTILE = "\x1b[31m<script>alert(1)</script>\r\n\x07\x9b2J\u202e../../../x"


def test_no_text_of_a_record_drives_a_terminal(home: Path) -> None:
    """Every text that a record may choose freely, at once, in every form of report and show (J28)."""
    (home / RECORD).write_bytes(canonical.dumps(_spoilt(json.loads(record().canonical()))))
    Record.read(home / RECORD)
    for words in (
        ("report", RECORD),
        ("report", RECORD, "--json"),
        ("report", RECORD, "--format", "csv"),
        ("show", RECORD),
        ("show", RECORD, "--json"),
        ("show", RECORD, "--trial", "0"),
        ("reproduce", RECORD, "--plan"),
        ("reproduce", RECORD, "--plan", "--json"),
        ("verify", RECORD, "--trust", "local"),
    ):
        ended = typed(home, *words)
        assert b"Traceback" not in ended.stderr, ended.stderr
        said = (ended.stdout + ended.stderr).decode()
        driving = {char for char in said if not char.isprintable() and char not in "\n\t"}
        assert not driving, (words, driving)


def _spoilt(value: Any) -> Any:
    """The record with `HOSTILE` after every text that may be any text: whatever the model still takes."""
    spoilt = json.loads(json.dumps(value))
    for holder, key in list(_texts(spoilt)):
        before = holder[key]
        holder[key] = f"{before}{HOSTILE}"
        try:
            Record.from_canonical(canonical.dumps(spoilt), "spoilt")
        except Exception:  # noqa: BLE001 - whatever it is, this text has a form of its own
            holder[key] = before
    return spoilt


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(inner, str):
            yield value, key
        yield from _texts(inner)
