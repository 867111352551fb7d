"""readings-v1 line by line: what the writing side puts down is what the reading side finds."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from appliance.energy.readings import (
    Event,
    Malformed,
    ReadCgroup,
    Sample,
    block_line,
    event_line,
    header_line,
    pack,
    sample_line,
    unpack,
)
from appliance.energy.windows import window_of
from tests.readings_builder import header, packed, zone

SECOND_NS = 10**9
ZONE = zone(id="z0")
COLUMNS = (ReadCgroup("c0", "solver", "own"), ReadCgroup("c1", "solver", "f00d"))


def samples(*lines: bytes, length_ns: int = 0) -> list[Sample]:
    return list(unpack(pack(header_line(header([ZONE], COLUMNS, length_ns))) + pack(b"".join(lines))).samples())


def test_lines_are_compact_json_with_raw_numbers_as_decimal_strings() -> None:
    """No number passes 2^53 but in a string (formats 5)."""
    assert block_line(["z0"], ["c0"], [2**60, None, 5]) == (
        b'{"zones":["z0"],"cgroups":["c0"],"raw":["1152921504606846976",null,"5"]}\n'
    )
    assert sample_line(100, [3, None, -2]) == b"[100,3,null,-2]\n"
    assert event_line(Event("gap", subject="z0", word="EIO")) == b'{"event":"gap","subject":"z0","word":"EIO"}\n'
    assert event_line(Event("gpu", subject="z0", number=0, cgroups=("c0",))) == (
        b'{"event":"gpu","subject":"z0","number":0,"cgroups":["c0"]}\n'
    )


def test_equal_lines_are_equal_bytes_that_gzip_reads() -> None:
    """A fixed header: no name, no time (formats 5)."""
    line = block_line(["z0"], [], [1, 2])
    assert pack(line) == pack(line)
    assert gzip.decompress(pack(line)) == line
    assert pack(line)[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def test_a_header_comes_back_as_it_was_written() -> None:
    """In lowerCamelCase, under its schema's name (formats 5)."""
    made = header([ZONE], COLUMNS, SECOND_NS, flags=("cgroup_left",), cpu_after_close_ns=None)
    found = unpack(pack(header_line(made)))
    assert found.header == made
    line = json.loads(header_line(made))
    assert line["schema"] == "readings-v1"
    assert "openedBoottimeNs" in line
    assert line["zones"][0]["maxRange"] == ZONE.max_range


def test_differences_refer_to_the_last_number_that_was_read() -> None:
    """A null is passed over, and a block goes on where the sample before left it (W12)."""
    found = samples(
        block_line(["z0"], ["c0"], [100, 1_000, 10]),
        sample_line(5, [7, 50, 1]),
        sample_line(5, [None, 50, None]),
        sample_line(5, [3, 50, 2]),
        block_line(["z0"], ["c0", "c1"], [110, 1_150, 13, 2**61]),
        sample_line(5, [1, 1, 1, 1]),
        length_ns=20,
    )
    assert [one.at_ns for one in found] == [0, 5, 10, 15, 15, 20]
    assert [one.zones["z0"] for one in found] == [100, 107, None, 110, 110, 111]
    assert [one.machine for one in found] == [1_000, 1_050, 1_100, 1_150, 1_150, 1_151]
    assert [one.cgroups.get("c0") for one in found] == [10, 11, None, 13, 13, 14]
    assert [one.cgroups.get("c1") for one in found] == [None, None, None, None, 2**61, 2**61 + 1]


def test_after_a_gap_a_block_may_begin_at_another_number() -> None:
    """What the sample before could not read, the head gives anew; what it read, the head repeats."""
    block, gap = block_line(["z0"], [], [100, 1_000]), sample_line(5, [None, 1])
    again = block_line(["z0"], [], [5_000, 1_001])
    found = samples(block, gap, again, sample_line(5, [1, 1]), length_ns=10)
    assert [one.zones["z0"] for one in found] == [100, None, 5_000, 5_001]
    with pytest.raises(Malformed, match="line 4: z0 is not where the sample before left it"):
        samples(block, sample_line(5, [1, 1]), again, length_ns=5)


def test_an_event_belongs_to_the_sample_that_follows() -> None:
    """(formats 5)"""
    late = Event("late", number=2 * SECOND_NS)
    found = samples(block_line(["z0"], [], [1, 1]), event_line(late), sample_line(5, [1, 1]), length_ns=5)
    assert [one.events for one in found] == [(), (late,)]


def test_a_window_is_read_in_the_memory_of_one_sample() -> None:
    """Three times the samples take no more memory, once a piece of the stream is full."""

    def peak(seconds: float) -> int:
        readings = unpack(packed([ZONE], [25.0], seconds=seconds))
        tracemalloc.start()
        window_of(readings, None)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10.0)
    assert peak(900.0) < 1.2 * peak(300.0)
