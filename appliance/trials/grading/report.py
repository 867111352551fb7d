"""What a test runner wrote, as `id -> status`: JUnit XML and TAP, from tests that may have met a hostile solution."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final
from xml.parsers import expat

from appliance.records.words import TestStatus

Statuses = Mapping[str, TestStatus]

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_CASES: Final = 100_000
_WORST_FIRST: Final[tuple[TestStatus, ...]] = ("error", "failed", "missing", "skipped", "passed")


class Malformed(Exception):
    """No verdict can be read from this report; the message says why."""


def junit(content: bytes, files: Collection[str]) -> Statuses:
    """`files` are the paths among which a class name's file is looked for. Raises Malformed.

    An id that is there twice has its worst status: a forged second one gains nothing.
    """
    if len(content) > MAX_BYTES:
        raise Malformed(f"larger than {MAX_BYTES} bytes")
    reader = _Junit(frozenset(files))
    parser = expat.ParserCreate()
    parser.buffer_text = False
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise Malformed(f"not XML: {error}") from error
    return reader.statuses


def _refuse_doctype(*_: object) -> None:
    raise Malformed("a document type or an entity")


class _Junit:
    def __init__(self, files: frozenset[str]):
        self._files = files
        self._depth = 0
        self._id: str | None = None
        self._cases = 0
        self.statuses: dict[str, TestStatus] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Malformed(f"nested deeper than {MAX_DEPTH}")
        if self._depth == 1 and name not in ("testsuites", "testsuite"):
            raise Malformed(f"its root is <{name[:40]}>, not <testsuites>")
        if name == "testcase":
            self._cases += 1
            if self._cases > MAX_CASES:
                raise Malformed(f"more than {MAX_CASES} test cases")
            self._id = node_id(attributes.get("classname", ""), attributes.get("name", ""), self._files)
            self._note("passed")
        elif name in ("failure", "rerunFailure"):
            self._note("failed")
        elif name in ("error", "rerunError"):
            self._note("error")
        elif name == "skipped":
            self._note("skipped")

    def end(self, name: str) -> None:
        self._depth -= 1
        if name == "testcase":
            self._id = None

    def _note(self, status: TestStatus) -> None:
        if self._id is not None:
            self.statuses[self._id] = worst(self.statuses.get(self._id, "passed"), status)


def node_id(classname: str, name: str, files: Collection[str]) -> str:
    """`a.b.TestC`, `test_d` -> `a/b.py::TestC::test_d` where a/b.py is a file, else `a.b.TestC::test_d`."""
    parts = classname.split(".")
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if path in files:
            return "::".join([path, *parts[count:], name])
    return f"{classname}::{name}" if classname else name


_RESULT = re.compile(r"(?P<not>not )?ok\b(?:\s+(?P<number>\d+))?(?:\s+-)?(?:\s+(?P<rest>.*))?")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(?P<word>skip|todo)\S*(?:\s.*)?$", re.IGNORECASE)
_PLAN = re.compile(r"1\.\.(?P<count>\d{1,9})(?:\s*#.*)?")


def tap(content: bytes) -> Statuses:
    """By description, of the outermost level (TAP 13 and 14). Raises Malformed, also where plan and lines differ."""
    if len(content) > MAX_BYTES:
        raise Malformed(f"larger than {MAX_BYTES} bytes")
    statuses: dict[str, TestStatus] = {}
    planned: int | None = None
    seen = 0
    for line in content.decode("utf-8", "replace").split("\n"):
        text = line.rstrip("\r")
        if text.startswith("Bail out!"):
            raise Malformed("it bailed out")
        if plan := _PLAN.fullmatch(text):
            if planned is not None:
                raise Malformed("two plans")
            planned = int(plan["count"])
        elif result := _RESULT.fullmatch(text):
            seen += 1
            if result["number"] is not None and int(result["number"]) != seen:
                raise Malformed(f"line {seen} is numbered {result['number'][:12]}")
            description, status = _tap_line(result["rest"] or "", failed=result["not"] is not None)
            statuses[description] = worst(statuses.get(description, "passed"), status)
    if planned is None:
        raise Malformed("no plan (1..N)")
    if planned != seen:
        raise Malformed(f"planned {planned} tests, and has {seen}")
    return statuses


def _tap_line(rest: str, *, failed: bool) -> tuple[str, TestStatus]:
    directive = _DIRECTIVE.search(rest)
    text = rest[: directive.start()] if directive else rest
    description = re.sub(r"\\([\\#])", r"\1", text).strip()
    if failed:
        return description, "failed"
    return description, "skipped" if directive and directive["word"].lower() == "skip" else "passed"


def worst(one: TestStatus, other: TestStatus) -> TestStatus:
    return min(one, other, key=_WORST_FIRST.index)
