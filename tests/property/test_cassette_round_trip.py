"""Whatever an agent and a provider say to each other is read back as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.gateway.cassette import read_cassette
from appliance.gateway.cassette_shapes import Body, RecordedExchange
from appliance.gateway.exchange import Asked, Exchange, Refused, ReplayLevel, Try, WireForm
from appliance.gateway.redacting import REDACTED, Redactor
from appliance.records.trial import Usage
from tests.cassette_builder import exchange, written
from tests.wire_strategies import wire_values

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_HEADERS = st.lists(st.tuples(_TEXT, _TEXT), max_size=2).map(tuple)
_MS = st.floats(0, 1e9, allow_nan=False)
_COUNT = st.integers(0, 2**40)
_USAGE: st.SearchStrategy[Any] = wire_values(Usage)
_TRIES = st.lists(
    st.tuples(_MS, _MS, st.integers(100, 599) | _TEXT).map(
        lambda found: Try(*found[:2], *((found[2], None) if isinstance(found[2], int) else (None, found[2])))
    ),
    max_size=2,
).map(tuple)
_REFUSED = st.none() | st.sampled_from(get_args(Refused))
_LEVELS = st.none() | st.sampled_from(get_args(ReplayLevel))


@st.composite
def one_exchange(draw: st.DrawFn, order: int) -> tuple[Exchange, bytes]:
    request = Asked(draw(_TEXT), draw(_TEXT), draw(_HEADERS), draw(st.binary(max_size=2000)))
    drawn = exchange(
        order,
        request,
        form=draw(st.none() | st.sampled_from(get_args(WireForm))),
        act=draw(st.sampled_from(["generate", "count_tokens", "models", None])),
        stream=draw(st.booleans()),
        model=draw(st.none() | _TEXT),
        status=draw(st.integers(100, 599)),
        headers=draw(_HEADERS),
        started_ms=draw(_MS),
        first_byte_ms=draw(st.none() | _MS),
        first_token_ms=draw(st.none() | _MS),
        ended_ms=draw(_MS),
        tries=draw(_TRIES),
        complete=draw(st.booleans()),
        cut=draw(st.booleans()),
        usage=draw(st.none() | _USAGE),
        cost_usd=draw(st.none() | st.sampled_from(["0", "0.001", "12.5"])),
        refused=draw(_REFUSED),
        detail=draw(st.none() | _TEXT),
        replay_level=draw(_LEVELS),
        replay_of=draw(st.none() | _COUNT),
    )
    return drawn, draw(st.binary(max_size=2000))


def exchanges(least: int = 0) -> st.SearchStrategy[list[tuple[Exchange, bytes]]]:
    """In the order in which they ended."""
    several = st.integers(least, 3).flatmap(lambda count: st.tuples(*[one_exchange(order) for order in range(count)]))
    return several.flatmap(st.permutations)


def as_kept(one: Exchange, response: bytes) -> Exchange:
    """Digest and size are of the bytes that are there; moments are kept to the microsecond."""
    bodies = (Body(bytes=len(body), sha256=sha256_hex(body)) for body in (one.asked.body, response))
    told = RecordedExchange.of(one, *bodies)
    return told.exchange(one.asked.body)


@given(exchanges())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read(pairs: list[tuple[Exchange, bytes]]) -> None:
    """Row M14, and equal exchanges in equal order make equal bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "c", pairs)
        read = read_cassette(path, Path(folder))
        by_order = sorted(pairs, key=lambda pair: pair[0].order)
        assert [one.exchange for one in read.exchanges] == [as_kept(*pair) for pair in by_order]
        assert [one.response.read_bytes() for one in read.exchanges] == [response for _, response in by_order]
        assert written(Path(folder) / "again", pairs).read_bytes() == path.read_bytes()


@given(exchanges(1), st.data())
@settings(deadline=None, max_examples=60)
def test_a_flipped_bit_is_refused_or_changes_nothing(pairs: list[tuple[Exchange, bytes]], data: st.DataObject) -> None:
    """Row M14: a cassette that is read at all is the one that was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "c", pairs)
        genuine_ones = [one.exchange for one in read_cassette(path, Path(folder)).exchanges]
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) * 8 - 1))
        content[at // 8] ^= 1 << at % 8
        path.write_bytes(content)
        try:
            read = read_cassette(path, Path(folder))
        except InputRefused:
            return
        # Bits that say nothing: of the system that it was packed on, and those that fill a byte up.
        assert [one.exchange for one in read.exchanges] == genuine_ones


_FEW_LETTERS = st.text("ab", max_size=4).map(str.encode)


@given(st.lists(_FEW_LETTERS, max_size=3), st.lists(_FEW_LETTERS, max_size=8))
@settings(deadline=None, max_examples=200)
def test_a_secret_is_found_however_a_stream_is_cut(secrets: list[bytes], chunks: list[bytes]) -> None:
    """Row M16: in pieces or whole, the same is taken out, and no secret is left."""
    whole, pieces = Redactor(secrets), Redactor(secrets)
    content = b"".join(chunks)
    clean = whole.content(content)
    assert b"".join(pieces.chunks(chunks)) == clean
    assert pieces.count == whole.count
    for part in clean.split(REDACTED):
        assert not any(secret in part for secret in secrets if secret not in REDACTED)
