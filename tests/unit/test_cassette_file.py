"""A cassette as a file: what is written, what is read again, what is not believed."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from appliance import schemas
from appliance.errors import InputRefused
from appliance.gateway.cassette import CassetteWriter, read_cassette
from appliance.gateway.exchange import Try
from appliance.records.trial import Usage
from tests.cassette_builder import PRICES_AT, asked, cassette, exchange, written

USAGE = Usage(input_tokens=7, cache_read_tokens=1, cache_write_tokens=2, output_tokens=3, reasoning_tokens=0)


def test_what_was_exchanged_is_read_back_as_it_was(tmp_path: Path) -> None:
    """Row M14: requests and answers by their bytes, refusals, tries, usage and cost, whatever order they ended in."""
    first = exchange(
        0,
        asked({"model": "m"}),
        b"",
        status=429,
        tries=(Try(1.0, 2.0, 529, None), Try(2.5, 600.0, None, "timed out after 600 s")),
        refused="provider",
        complete=False,
        cut=True,
        detail="every try failed",
    )
    second = exchange(1, asked(b"\xff\x00 no JSON"), b"\x00\xffdata: x\n\n", usage=USAGE, cost_usd="0.01")
    answer = tmp_path / "answer"
    answer.write_bytes(b"\x00\xffdata: x\n\n")
    writer = CassetteWriter(tmp_path / "c.tar.gz", PRICES_AT)
    writer.add(second, answer)
    writer.add(first, b"")
    writer.close()
    read = read_cassette(tmp_path / "c.tar.gz", tmp_path)
    assert [one.exchange for one in read.exchanges] == [first, second]
    assert [one.response.read_bytes() for one in read.exchanges] == [b"", b"\x00\xffdata: x\n\n"]
    assert read.prices_at == PRICES_AT


def test_tar_and_jq_alone_read_it(tmp_path: Path) -> None:
    """Row M14: `tar xzf` of anybody's, then JSON beside the bodies as they were."""
    written(tmp_path / "c.tar.gz", [(exchange(0, asked({"model": "m", "n": 1})), b"answer")])
    subprocess.run(["tar", "xzf", "c.tar.gz"], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "00000/request").read_bytes()) == {"model": "m", "n": 1}
    assert (tmp_path / "00000/response").read_bytes() == b"answer"
    for name, schema in (("cassette.json", "cassette-v1"), ("00000/exchange.json", "cassette-exchange-v1")):
        told = json.loads((tmp_path / name).read_bytes())
        assert schemas.first_problem(schema, told) is None
    if shutil.which("jq"):
        shown = subprocess.run(
            ["jq", "-r", ".status"],
            stdin=(tmp_path / "00000/exchange.json").open("rb"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == "200\n"


def test_equal_exchanges_make_equal_bytes(tmp_path: Path) -> None:
    """Row M14, content-addressed: no clock, owner or name of the machine is in the file."""
    pairs = [(exchange(at, asked({"n": at})), b"answer" * 1000) for at in range(3)]
    one = written(tmp_path / "a", pairs).read_bytes()
    assert written(tmp_path / "elsewhere", pairs).read_bytes() == one
    with tarfile.open(tmp_path / "a") as tar:
        assert {(member.mtime, member.uid, member.uname, member.mode) for member in tar} == {(0, 0, "", 0o644)}


SECRET = b'sk-"live"/0123456789'


@pytest.mark.parametrize(
    "spelt",
    [
        SECRET,
        rb"sk-\"live\"/0123456789",
        rb"sk-\"live\"\/0123456789",
        b"sk-%22live%22%2F0123456789",
        b"c2stImxpdmUiLzAxMjM0NTY3ODk=",
    ],
)
def test_a_key_that_is_known_is_nowhere_in_it(tmp_path: Path, spelt: bytes) -> None:
    """Row M16: in no body, header, target or word, however JSON, a URL or base64 spell it; that it was is said."""
    text = spelt.decode()
    request = asked(b'{"echo": "' + spelt + b'"}', target=f"/v1/messages?x={text}", headers=(("x-other", text),))
    told = exchange(0, request, headers=(("x-request", text),), tries=(Try(0.0, 1.0, None, text),), detail=text)
    path = written(tmp_path / "c", [(told, b"data: " + spelt)], frozenset({SECRET}))
    assert spelt not in gzip.decompress(path.read_bytes())
    read = read_cassette(path, tmp_path).exchanges[0]
    assert read.asked.body == b'{"echo": "<redacted>"}'
    assert read.response.read_bytes() == b"data: <redacted>"
    assert read.told.redacted == 7


@pytest.mark.parametrize("at", [1024 * 1024 - 5, 1024 * 1024, 2 * 1024 * 1024 - 1])
def test_a_key_across_two_reads_of_a_large_answer_is_found(tmp_path: Path, at: int) -> None:
    """Row M16: an answer is never held whole, and a key may lie over the edge of what is."""
    answer = tmp_path / "answer"
    answer.write_bytes(b"." * at + SECRET + b"." * 1024 * 1024)
    written(tmp_path / "c", [(exchange(0, asked({})), answer)], frozenset({SECRET, b"sk-"}))
    kept = read_cassette(tmp_path / "c", tmp_path).exchanges[0].response.read_bytes()
    assert kept == b"." * at + b"<redacted>" + b"." * 1024 * 1024


def test_a_harness_that_was_killed_leaves_what_tar_reads_and_nobody_believes(tmp_path: Path) -> None:
    """Row M14: every exchange that was added is in the file at once; without its end the file is no cassette."""
    path = tmp_path / "c.tar.gz"
    writer = CassetteWriter(path, PRICES_AT)
    writer.add(exchange(0, asked({"n": 1})), b"answer")
    # No close: these are the bytes that a killed process leaves.
    left = tmp_path / "left.tar.gz"
    left.write_bytes(path.read_bytes())
    subprocess.run(["tar", "xzf", "left.tar.gz"], cwd=tmp_path, check=False, stderr=subprocess.DEVNULL)
    assert (tmp_path / "00000/response").read_bytes() == b"answer"
    with pytest.raises(InputRefused, match="is cut off"):
        read_cassette(left, tmp_path)


def test_no_order_is_added_twice_and_none_is_left_out(tmp_path: Path) -> None:
    """Row M14: every exchange, in order."""
    writer = CassetteWriter(tmp_path / "c", PRICES_AT)
    writer.add(exchange(1, asked({})), b"")
    with pytest.raises(ValueError, match="exchange 1 was added already"):
        writer.add(exchange(1, asked({})), b"")
    with pytest.raises(ValueError, match="without one of its exchanges"):
        writer.close()


def test_a_trial_that_asked_nothing_has_an_empty_cassette(tmp_path: Path) -> None:
    """Row R3: what replays a trial without exchanges."""
    assert cassette([], tmp_path).exchanges == ()
