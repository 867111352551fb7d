"""What comes out of a grader's container, read into values: the judge's document, reports, captured streams."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.digests import sha256_hex
from appliance.ports import Captured, ExecOutcome
from appliance.records.words import TestStatus
from appliance.tasks.model import OracleSpec
from appliance.trials.grading import report


@dataclass(frozen=True)
class Seen:
    """What came out of the container."""

    exit: int | None
    timed_out: bool
    start_error: str | None
    stdout: Captured
    stderr: Captured
    report: bytes | None
    tests_digest: str | None
    unrouted: int | None


def frame_of(said: ExecOutcome) -> dict[str, Any] | None:
    """The judge's document; None where it did not come to say it."""
    if said.exit != 0 or said.stdout.truncated:
        return None
    try:
        frame = json.loads(said.stdout.head + said.stdout.tail)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None


def seen_in(frame: Mapping[str, Any]) -> Seen:
    return Seen(
        exit=frame.get("exit"),
        timed_out=frame.get("timedOut", False),
        start_error=frame.get("startError"),
        stdout=_stream(frame.get("stdout")),
        stderr=_stream(frame.get("stderr")),
        report=None if frame["report"] is None else base64.b64decode(frame["report"]),
        tests_digest=frame["testsDigest"],
        unrouted=frame["unrouted"],
    )


def _stream(said: Mapping[str, Any] | None) -> Captured:
    if said is None:
        return _SILENCE
    head, tail = base64.b64decode(said["head"]), base64.b64decode(said["tail"])
    return Captured(said["bytes"], said["sha256"], head, tail, said["bytes"] > len(head) + len(tail))


_SILENCE = Captured(0, sha256_hex(b""), b"", b"", truncated=False)


def cut_off(why: str, said: ExecOutcome) -> Seen:
    return Seen(None, False, why, _SILENCE, said.stderr, None, None, None)


def words_of(said: ExecOutcome) -> str:
    text = said.start_error or said.stderr.kept.decode("utf-8", "backslashreplace").strip() or f"exit {said.exit}"
    return " ".join(text.split())[:400]


def statuses_of(
    oracle: OracleSpec, seen: Seen, files: frozenset[str]
) -> tuple[Mapping[str, TestStatus] | None, str | None]:
    """What the report says of each id, or why nothing can be read from it."""
    try:
        if oracle.format == "junit":
            if seen.report is None:
                return None, f"no report at {oracle.path}"
            return report.junit(seen.report, files), None
        if oracle.format == "tap":
            if seen.stdout.truncated:
                return None, "more output than is kept"
            return report.tap(seen.stdout.kept), None
    except report.Malformed as error:
        return None, f"malformed report: {error}"
    return None, None


def open_report(said: Captured, mark: bytes) -> tuple[bytes | None, int | None]:
    """The report and the packets without a route, from what `open_collect_exec` prints."""
    whole = said.kept
    content, found, tables = whole.rpartition(b"\n" + mark + b"\n")
    if said.truncated or not found:
        return None, None
    report_bytes = content.removeprefix(mark + b"\n") if content.startswith(mark + b"\n") else None
    return report_bytes, _unrouted(tables.decode("ascii", "replace"))


def _unrouted(tables: str) -> int | None:
    rows = [line.split() for line in tables.splitlines()]
    v4 = [row for row in rows if row and row[0] == "Ip:"]
    if len(v4) != 2:
        return None
    total = int(dict(zip(*v4, strict=False)).get("OutNoRoutes", 0))
    return total + sum(int(row[1]) for row in rows if row and row[0] == "Ip6OutNoRoutes")
