"""What a child may say, and what becomes of everything else."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy
from appliance.meter.counters.frames import (
    MOST_BYTES,
    MOST_ZONES,
    BadFrame,
    Frames,
    ReadingsSaid,
    ZonesSaid,
    frame,
    readings_frame,
    zones_frame,
)

ZONE = CounterZone("a", "a", "a", "a", "wall", "mj", None, 10**9, 10**6, 0, "x", "hw_shunt", None, False, ())


def said(content: bytes) -> list[ZonesSaid | ReadingsSaid]:
    return list(Frames().feed(content))


@given(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from(["EIO", "STALE"]), max_size=MOST_ZONES), st.integers(1, 7))
def test_what_was_said_is_heard_however_it_is_cut(readings: list[int | str], size: int) -> None:
    """(J47)"""
    content = zones_frame([ZONE], [AbsentZone("b", "EIO", None)], 3)
    content += readings_frame(readings, 17, [Occupancy("a", frozenset({4, 5}), "mps")], 3)
    frames = Frames()
    heard = [one for at in range(0, len(content), size) for one in frames.feed(content[at : at + size])]
    assert heard == [
        ZonesSaid((ZONE,), (AbsentZone("b", "EIO", None),), 3),
        ReadingsSaid(tuple(readings), 17, (("a", Occupancy("a", frozenset({4, 5}), "mps")),), 3),
    ]


@given(st.binary(max_size=200))
def test_other_bytes_are_refused_and_nothing_else_happens(content: bytes) -> None:
    """(W12)"""
    for whole in (content, struct.pack(">I", len(content)) + content):
        try:
            heard = said(whole)
        except BadFrame:
            continue
        assert heard == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*vars(ZONE), "pids"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["zones", "absent", "generation", "readings", "at", "occupancy"]), JSON, min_size=3, max_size=6
    )
)
def test_values_of_another_kind_are_refused(value: dict[str, Any]) -> None:
    """Whatever stands where (W12)."""
    body = json.dumps(value).encode()
    try:
        said(struct.pack(">I", len(body)) + body)
    except BadFrame as error:
        assert len(str(error)) < 1000


def test_a_frame_is_refused_by_its_length_before_it_has_come() -> None:
    """So that a child fills no memory of the daemon's."""
    with pytest.raises(BadFrame, match="bytes in a frame"):
        said(struct.pack(">I", MOST_BYTES + 1))
    with pytest.raises(BadFrame, match="bytes in a frame"):
        frame({"x": "y" * MOST_BYTES})
    assert said(struct.pack(">I", MOST_BYTES) + b" " * 1000) == []


def test_zones_are_bounded_in_number_and_named_apart() -> None:
    """(ZN3)"""
    with pytest.raises(BadFrame, match="two zones of one name"):
        said(zones_frame([ZONE, ZONE], [], 0))
    with pytest.raises(BadFrame, match="no list of 64"):
        said(readings_frame([1] * (MOST_ZONES + 1), 0, [], 0))


def test_a_deep_value_is_refused() -> None:
    """Not followed to the end of the stack."""
    body = b'{"generation":' + b"[" * 100_000
    with pytest.raises(BadFrame):
        said(struct.pack(">I", len(body)) + body)
