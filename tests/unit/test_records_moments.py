"""Moments of records, journals and readings: RFC 3339 in UTC, and nothing that only looks like it."""

from __future__ import annotations

import json

import pytest

from appliance import schemas
from appliance.energy.readings import pack, unpack
from appliance.energy.readings_shapes import Malformed
from appliance.energy.readings_writing import header_line
from appliance.errors import InputRefused
from appliance.records.journal import HeaderLine, HostLine, Line, decode, encode
from appliance.records.record import Record
from tests import record_builder as build
from tests.readings_builder import header

NONE = [
    "yesterday",
    "",
    "2026-01-02",
    "2026-01-02T03:04:05",
    "2026-01-02T03:04:05+00:00",
    "2026-01-02 03:04:05Z",
    "2026-01-02T03:04:05z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T03:04:60Z",
    "2026-13-02T03:04:05Z",
    "2026-02-30T03:04:05Z",
    "2026-01-02T03:04:05Z\n",
    "2026-01-02T03:04:05.1234567Z",
]
HEADER = HeaderLine(
    run_id="r", plan_digests=("e" * 64,), harness=build.harness_stamp(), started_at="2026-01-02T03:04:05.123456Z"
)


@pytest.mark.parametrize("text", NONE)
@pytest.mark.parametrize("path", ["date", "trials.0.startedAt"])
def test_a_record_holds_no_other_moment(path: str, text: str) -> None:
    """Its schema says so too, but for the days of a month (design.md: moments RFC 3339 with `Z`)."""
    value = build.record().json_value()
    place = value if path == "date" else value["trials"][0]
    place[path.rpartition(".")[2]] = text
    with pytest.raises(InputRefused) as refused:
        Record.from_json(json.dumps(value).encode(), "r")
    assert str(refused.value.where).endswith(path.replace(".0.", "[0]."))
    assert (schemas.first_problem("record-v1", value) is None) == (text == "2026-02-30T03:04:05Z")


@pytest.mark.parametrize("text", NONE)
def test_a_journal_holds_no_other_moment(text: str) -> None:
    """Of its header and of its hosts: the record's date is taken from there."""
    lines: list[Line] = [HEADER, HostLine(host=build.host_stamp(), at="2026-01-02T03:04:05Z")]
    assert decode(b"".join(encode(line) for line in lines), "journal").header == HEADER
    for at, key in enumerate(("startedAt", "at")):
        values = [line.json_value() for line in lines]
        values[at][key] = text
        with pytest.raises(InputRefused, match=key):
            decode(
                b"".join(json.dumps(one, separators=(",", ":"), sort_keys=True).encode() + b"\n" for one in values), "j"
            )


@pytest.mark.parametrize("text", NONE)
def test_readings_were_opened_at_no_other_moment(text: str) -> None:
    """A look at the machine at rest has its moment from there."""
    with pytest.raises(Malformed, match="opened"):
        unpack(pack(header_line(header((), (), 1, opened_at=text))))
