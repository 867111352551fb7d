"""Reports of test runners, honest and not."""

from __future__ import annotations

import pytest

from appliance.trials.grading.report import Malformed, junit, node_id, tap

FILES = {"tests/test_a.py", "test_b.py", "tests/a/b.py"}


def suite(cases: str) -> bytes:
    return f'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>{cases}</testsuite></testsuites>'.encode()


def test_ids_are_pytests_own() -> None:
    """The longest dotted prefix that is a file, its rest and the name (formats 1)."""
    assert node_id("tests.test_a", "test_x[1-2]", FILES) == "tests/test_a.py::test_x[1-2]"
    assert node_id("tests.test_a.TestC.TestD", "test_x", FILES) == "tests/test_a.py::TestC::TestD::test_x"
    assert node_id("tests.a.b.C", "t", FILES) == "tests/a/b.py::C::t"
    assert node_id("com.example.Thing", "works", FILES) == "com.example.Thing::works"
    assert node_id("", "alone", FILES) == "alone"


def test_each_status_is_read() -> None:
    """Passed is the absence of anything else; the worst of two wins (J11)."""
    found = junit(
        suite(
            '<testcase classname="test_b" name="ok"/>'
            '<testcase classname="test_b" name="bad"><failure message="m">&lt;x&gt;</failure></testcase>'
            '<testcase classname="test_b" name="err"><error/></testcase>'
            '<testcase classname="test_b" name="skip"><skipped/></testcase>'
            '<testcase classname="test_b" name="twice"><failure/></testcase><testcase classname="test_b" name="twice"/>'
        ),
        FILES,
    )
    assert {name.split("::")[1]: status for name, status in found.items()} == {
        "ok": "passed", "bad": "failed", "err": "error", "skip": "skipped", "twice": "failed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not XML"),
        (b"<testsuites>", "not XML"),
        (b"\xff\xfe\x00", "not XML"),
        (b"<html/>", "root"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><testsuites/>', "document type"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuites/>', "document type"),
        (b"<testsuites>" + b"<a>" * 100 + b"</a>" * 100 + b"</testsuites>", "nested"),
        (b"<testsuites>" + b"x" * (8 << 20) + b"</testsuites>", "larger"),
        (b"<testsuites>" + b"<testcase/>" * 100_001 + b"</testsuites>", "more than"),
    ],
)
def test_a_hostile_document_is_no_verdict(content: bytes, words: str) -> None:
    """Entities, document types, depth, size and count are refused in words, never expanded (H23)."""
    with pytest.raises(Malformed, match=words):
        junit(content, FILES)


def test_tap_is_read_by_description() -> None:
    """Outermost lines only, directives and escapes as TAP 14 has them (formats 1)."""
    found = tap(
        b"TAP version 13\n# a comment\n    ok 1 - inner\nok 1 - outer\r\n  ---\n  duration_ms: 1\n  ...\n"
        b"not ok 2 - breaks\nok 3 - not here # SKIP no network\nok 4 - with \\# sign\nok 5\nok 6 odd\n1..6\n"
    )
    assert found == {
        "outer": "passed", "breaks": "failed", "not here": "skipped", "with # sign": "passed", "": "passed",
        "odd": "passed",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok 1 - a\n",
        "1..2\nok 1 - a\n",
        "1..1\nok 1 - a\nok 2 - b\n",
        "1..1\nok 1 - a\nBail out!\n",
        "1..1\n1..1\nok 1 - a\n",
        "1..2\nok 1 - a\nok 1 - b\n",
    ],
)
def test_tap_that_does_not_add_up_is_no_verdict(text: str) -> None:
    """A plan that is missing or differs from the lines: cut off, or forged (H23)."""
    with pytest.raises(Malformed):
        tap(text.encode())


def test_a_second_line_of_one_name_cannot_mend_the_first() -> None:
    """A forged `ok` beside the real `not ok` gains nothing (H1)."""
    assert tap(b"1..2\nnot ok 1 - a\nok 2 - a\n") == {"a": "failed"}
