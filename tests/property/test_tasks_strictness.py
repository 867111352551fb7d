"""Whatever stands in a task's files: a suite comes out, or a refusal of one line."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from appliance.errors import InputRefused
from appliance.importers.suite_writer import toml_table
from appliance.tasks.archive import archive_suite, unpack_suite
from appliance.tasks.names import name_problem
from appliance.tasks.reader import read_suite
from appliance.tasks.toml import Table
from tests.tasks_made import make_task

WHOLE = """\
name = "one"
prompt = "Make it one."
test_cmd = ["python3", "test_it.py"]
test_files = ["test_it.py"]
image = "base"
network = "none"
protected = ["docs/**"]
allow = ["Makefile"]

[limits]
wall_seconds = 600
cpus = 1.5
memory_mib = 2048
pids = 256
disk_mib = 1024
test_seconds = 120

[oracle]
format = "junit"
path = "/grade/result.xml"
isolation = "user"
fail_to_pass = ["test_it.py::test_x"]
pass_to_pass = []
"""
KEYS = [line.split(" = ")[0] for line in WHOLE.splitlines() if " = " in line]

scalars = st.one_of(
    st.booleans().map(lambda value: "true" if value else "false"),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(max_size=30).map(json.dumps),
    st.sampled_from(["1979-05-27", "07:32:00", "inf", "-nan", "0x1F", "''", '"\\u0000"', '"../x"', "{}", '{a = "b"}']),
)
values = st.one_of(scalars, st.lists(scalars, max_size=4).map(lambda items: f"[{', '.join(items)}]"))
few = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_or_refuse(toml: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_task(Path(scratch))
        (folder / "task.toml").write_bytes(toml)
        try:
            suite = read_suite(Path(scratch))
        except InputRefused as refusal:
            assert "\n" not in str(refusal)
            assert str(refusal).startswith(f"{folder}/task.toml")
        else:
            task = suite.tasks[0]
            assert type(task.spec).from_canonical(task.spec.canonical(), "spec") == task.spec


@few
@given(st.sampled_from(KEYS), values)
def test_any_value_under_any_key_is_taken_or_refused(key: str, value: str) -> None:
    """Kinds, bounds and shapes: no value gets past the reader as a bug (J02)."""
    lines = [f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in WHOLE.splitlines()]
    read_or_refuse("\n".join(lines).encode("utf-8", "surrogatepass"))


@few
@given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.binary(max_size=20))
def test_any_bytes_anywhere_are_taken_or_refused(at: int, cut: int, put: bytes) -> None:
    """A file cut, overwritten or filled with anything ends in a suite or one line (J02)."""
    content = WHOLE.encode()
    read_or_refuse(content[:at] + put + content[at + cut :])


@few
@given(st.text(max_size=220))
def test_a_name_is_taken_exactly_when_it_has_no_problem(name: str) -> None:
    """Whatever is accepted as a name can be read, archived and unpacked (H25)."""
    if name_problem(name) is not None or len(name.encode()) > 255:
        return
    with tempfile.TemporaryDirectory() as scratch:
        suite_folder = Path(scratch) / "s"
        folder = make_task(suite_folder, name, "")
        (folder / "task.toml").write_text(
            toml_table({"name": name, "prompt": "p", "test_cmd": ["true"], "test_files": []}), encoding="utf-8"
        )
        suite = read_suite(suite_folder)
        assert suite.tasks[0].spec.name == name
        unpack_suite(archive_suite(suite), Path(scratch) / "out")
        assert read_suite(Path(scratch) / "out").digest == suite.digest


@few
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
@example('DEL \x7f, """quotes""", \\ and\nlines\r\n')
def test_written_toml_is_read_back(text: str) -> None:
    """What an importer writes is what the reader sees: quotes, escapes, lines, DEL, any Unicode (J02)."""
    table = Table.parse(toml_table({"key": text, "list": [text, "x"]}).encode(), "made.toml")
    assert table.text("key", "") == text
    assert table.texts("list") == (text, "x") if text != "x" else True


@few
@given(st.binary(max_size=2000))
def test_any_bytes_as_an_archive_are_unpacked_or_refused(content: bytes) -> None:
    """An archive from a stranger: files below the target, or one line and nothing (R1)."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            unpack_suite(content, Path(scratch) / "out")
        except InputRefused as refusal:
            assert "\n" not in str(refusal)
            assert not list(Path(scratch).iterdir())


@few
@given(st.data())
def test_any_flipped_byte_of_an_archive_is_refused_or_shows_in_the_digest(data: st.DataObject) -> None:
    """One changed byte never gives the same digest with other files, nor a traceback (R1)."""
    with tempfile.TemporaryDirectory() as scratch:
        make_task(Path(scratch) / "s")
        suite = read_suite(Path(scratch) / "s")
        content = bytearray(archive_suite(suite))
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
        try:
            unpack_suite(bytes(content), Path(scratch) / "out")
            again = read_suite(Path(scratch) / "out")
        except InputRefused as refusal:
            assert "\n" not in str(refusal)
        else:
            if again.digest == suite.digest:
                assert archive_suite(again) == archive_suite(suite)
