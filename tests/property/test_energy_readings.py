"""Readings from a stranger: whatever the bytes, there are samples or a line that is named."""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.energy.idle import Idle, Rest, ZoneRest, rest_of
from appliance.energy.readings import MAX_LINE_BYTES, Malformed, pack, unpack
from appliance.energy.windows import window_of
from tests.readings_builder import BOOT, packed, zone

slow = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMED = re.compile(r"line \d+: ")
IDLE = Idle((Rest(BOOT, 0, 20.0, {"package-0": ZoneRest(10_000_000, 0, 0, 20, (10_000_000,) * 20)}, None),))
GPU = {"path": "GPU", "domain": "gpu", "unit": "mj", "max_range": None}


def valid() -> list[Any]:
    from appliance.energy.readings import Event, InnerWindow

    content = packed(
        [zone(), zone("gpu-a", **GPU), zone("gpu-a-power", **{**GPU, "unit": "mw"})],
        [25.0, 300.0, 300.0],
        seconds=1.0,
        others={("solver", "f00d"): 0.1},
        events={0: [Event("gpu", subject="z-gpu-a", cgroups=("c0",), number=0)], 4: [Event("cpus", number=2)]},
        inner=(InnerWindow("case", 0, 500_000_000),),
    )
    return [json.loads(line) for line in gzip.decompress(content).splitlines()]


VALID = valid()


def reads(content: bytes) -> bool:
    """Whether it was taken; what is refused names its line, and nothing else is ever raised."""
    try:
        readings = unpack(content, 4 * 1024 * 1024)
        window_of(readings, IDLE)
        rest_of(readings)
    except Malformed as error:
        assert NAMED.match(str(error)), str(error)
        return False
    return True


def written(lines: list[Any]) -> bytes:
    return pack(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 2**63, "0", "-1", "--5", "١", "1" * 25, "gpu", "z-package-0", "c0"]),
    st.floats(),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


def test_the_valid_one_is_taken() -> None:
    """What the other tests spoil."""
    assert reads(written(VALID))


@slow
@given(content=st.binary(max_size=200))
def test_bytes_that_are_no_readings_are_refused(content: bytes) -> None:
    """Bounded, and by name (issue: the meter)."""
    assert not reads(content)
    reads(pack(content))
    reads(written(VALID)[:-1] + content)


@slow
@given(data=st.data())
def test_a_value_put_anywhere_is_taken_or_named(data: st.DataObject) -> None:
    """Any part of any line, replaced by any JSON value, or its key taken away (house rule 5)."""
    lines = json.loads(json.dumps(VALID))
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            places.append((value, key))
            walk(value[key])

    walk(lines)
    holder, key = data.draw(st.sampled_from(range(len(places))).map(lambda at: places[at]))
    if data.draw(st.booleans()):
        holder[key] = data.draw(values)
    elif isinstance(holder, dict):
        del holder[key]
        holder[data.draw(st.text(max_size=6))] = data.draw(values)
    reads(written(lines))


@slow
@given(data=st.data())
def test_lines_of_any_json_are_taken_or_named(data: st.DataObject) -> None:
    """Blocks, samples and events by chance, after a header of ours."""
    ids = st.lists(st.sampled_from(["z-package-0", "z-gpu-a", "c0", "c1", "other"]), max_size=3)
    numbers = st.lists(st.one_of(st.none(), st.integers(-(2**54), 2**54), st.sampled_from(["5", "1" * 24])), max_size=5)
    event = st.fixed_dictionaries(
        {"event": st.sampled_from(["gap", "suspend", "cpus", "gpu", "late", "zone_gone", "none"])},
        optional={"subject": scalars, "word": scalars, "number": scalars, "cgroups": ids | scalars},
    )
    block = st.fixed_dictionaries({"zones": ids, "cgroups": ids, "raw": numbers})
    body = data.draw(st.lists(st.one_of(block, numbers, event, values), max_size=12))
    reads(written([VALID[0], *body]))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda lines: lines[0].update(lengthNs=1_000_000_001), "line 14: the last sample", id="length"),
        pytest.param(lambda lines: lines[0].update(cpus=0), "line 1: cpus of header", id="no cpus"),
        pytest.param(lambda lines: lines[0].update(cpus=True), "line 1: cpus of header", id="a truth is no number"),
        pytest.param(lambda lines: lines[0].update(length_ns=5), "line 1: header has a key", id="snake case"),
        pytest.param(lambda lines: lines[0]["zones"][0].update(mostUw=0), "line 1: mostUw of zones[0]", id="no power"),
        pytest.param(lambda lines: lines[0]["zones"][0].pop("unit"), "line 1: zones[0] lacks unit", id="no unit"),
        pytest.param(lambda lines: lines[0]["inner"][0].update(closedNs=2 * 10**9), "line 1: inner[0]", id="inner"),
        pytest.param(
            lambda lines: lines[0]["cgroups"].append(lines[0]["cgroups"][0]), "line 1: an id", id="an id twice"
        ),
        pytest.param(lambda lines: lines.insert(2, [1, 2, 3, 4, 5, 6]), "line 3: neither", id="a sample first"),
        pytest.param(lambda lines: lines[3].append(1), "line 4: 7 numbers for 6", id="a number too many"),
        pytest.param(lambda lines: lines[3].__setitem__(0, -1), "line 4: no time", id="back in time"),
        pytest.param(lambda lines: lines[3].__setitem__(1, 2**53 + 1), "line 4: no difference", id="past 2^53"),
        pytest.param(lambda lines: lines[2]["raw"].__setitem__(0, 5), "line 3: raw numbers", id="no decimal string"),
        pytest.param(lambda lines: lines[2].update(zones=["nobody"]), "line 3: a zone that", id="an unknown zone"),
        pytest.param(lambda lines: lines[1].update(word="\ud800"), "line 2: word of an event", id="half a pair"),
        pytest.param(lambda lines: lines[0].update(run="\ud800"), "line 1: run of header", id="half a pair in a name"),
        pytest.param(lambda lines: lines.append({"event": "late"}), "line 15: no sample follows", id="an event last"),
        pytest.param(
            lambda lines: lines.append(lines[2]), "line 15: z-package-0 is not where", id="a block that jumps"
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_line(spoil: Any, message: str) -> None:
    """(brief: clear refusals)"""
    lines = json.loads(json.dumps(VALID))
    spoil(lines)
    with pytest.raises(Malformed, match=re.escape(message)):
        window_of(unpack(written(lines)), None)


def test_a_bomb_is_refused_at_its_bound() -> None:
    """A gigabyte of zeros in a megabyte, as one line or as many."""
    head = [json.dumps(line).encode() + b"\n" for line in (VALID[0], VALID[2])]
    for filling in (b"0" * (MAX_LINE_BYTES + 2), b"[0,0,0,0,0,0,0]\n" * 200_000):
        content = b"".join(map(pack, [*head, filling]))
        with pytest.raises(Malformed, match="over"):
            list(unpack(content, 2 * MAX_LINE_BYTES).samples())


def test_members_hold_whole_lines_and_never_nothing() -> None:
    """Two that share a line, or a million empty ones, are no readings."""
    lines = [json.dumps(line).encode() + b"\n" for line in VALID]
    assert reads(b"".join(map(pack, lines)))
    whole = b"".join(lines)
    assert not reads(pack(whole[:-5]) + pack(whole[-5:]))
    assert not reads(pack(whole + b"[1]"))
    assert not reads(pack(whole) + pack(b"") * 1000)
    assert not reads(pack(whole) + zlib.compress(b"[1]\n"))


def test_every_flip_of_a_byte_is_taken_or_named() -> None:
    """The checksum of gzip sees most of them."""
    content = bytearray(written(VALID))
    chance = random.Random(7)
    for _ in range(2000):
        at, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        content[at] ^= bit
        reads(bytes(content))
        content[at] ^= bit


def test_inner_windows_are_bounded_in_number_and_in_depth() -> None:
    """256 at once, 4096 in all: more is nobody's trial."""
    for count, at_once, taken in ((256, True, True), (257, True, False), (4096, False, True), (4097, False, False)):
        lines = json.loads(json.dumps(VALID))
        lines[0]["inner"] = [
            {"label": "case", "openedNs": at * (not at_once), "closedNs": 10**9 if at_once else at}
            for at in range(count)
        ]
        assert reads(written(lines)) is taken


def test_a_key_that_stands_twice_is_refused() -> None:
    """Two readers could take two readings from it."""
    lines = [json.dumps(line).encode() + b"\n" for line in VALID]
    twice = lines[0].replace(b'"cpus": 4', b'"cpus": 8, "cpus": 4')
    assert twice != lines[0]
    assert not reads(pack(twice) + pack(b"".join(lines[1:])))


def test_deep_nesting_and_long_numbers_are_refused() -> None:
    """Neither the stack nor big integers are ours to spend."""
    for line in (
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b"[" + b"9" * 100_000 + b"]",
        b"[1e5]",
        b"[NaN]",
        b'{"event":"late","event":"gap"}',
    ):
        content = pack(json.dumps(VALID[0]).encode() + b"\n") + pack(line + b"\n")
        assert not reads(content)
