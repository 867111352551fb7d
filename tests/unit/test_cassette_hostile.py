"""What a stranger may send for a cassette: nothing of it is believed, nothing hangs, nothing fills a disk."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.gateway import unpacking
from appliance.gateway.cassette import read_cassette
from tests.cassette_builder import asked, exchange, written

Case = tuple[str, Callable[[bytes], bytes], str]


def packed(tar: bytes) -> bytes:
    """With the header that a cassette has."""
    squeezed = zlib.compressobj(1, zlib.DEFLATED, 31)
    return squeezed.compress(tar) + squeezed.flush()


def edited(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A change of the tar within."""
    return lambda content: packed(change(gzip.decompress(content)))


def with_member(name: str, content: bytes = b"", **fields: object) -> Callable[[bytes], bytes]:
    """A member more, before the end."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    block = member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)
    return edited(lambda tar: tar[:-1024] + block + tar[-1024:])


def member_start(tar: bytes, name: str) -> int:
    return tar.index(name.encode() + bytes(100 - len(name)))


def without(name: str) -> Callable[[bytes], bytes]:
    def change(tar: bytes) -> bytes:
        start = member_start(tar, name)
        size = int(tar[start + 124 : start + 135], 8)
        return tar[:start] + tar[start + 512 + -(-size // 512) * 512 :]

    return edited(change)


def twice(tar: bytes) -> bytes:
    start = member_start(tar, "00001/exchange.json")
    return tar[:-1024] + tar[start:-1024] + tar[-1024:]


def sized(name: str, size: int) -> Callable[[bytes], bytes]:
    def change(tar: bytes) -> bytes:
        start = member_start(tar, name)
        return tar[:start] + unpacking.header_of(name, size) + tar[start + 512 :]

    return edited(change)


def named(tar: bytes) -> bytes:
    with io.BytesIO() as kept:
        with gzip.GzipFile("name", "wb", fileobj=kept) as stream:
            stream.write(tar)
        return kept.getvalue()


def left_out(tar: bytes) -> bytes:
    return tar[: member_start(tar, "00000/exchange.json")] + tar[member_start(tar, "00001/exchange.json") :]


def swapped(tar: bytes) -> bytes:
    """The first exchange under the second's names and the other way about."""
    marked = tar
    for name in ("exchange.json", "request", "response"):
        zero, one = member_start(tar, f"00000/{name}"), member_start(tar, f"00001/{name}")
        for start, order in ((zero, 1), (one, 0)):
            size = int(tar[start + 124 : start + 135], 8)
            marked = marked[:start] + unpacking.header_of(f"{order:05d}/{name}", size) + marked[start + 512 :]
    return marked


def reordered(tar: bytes) -> bytes:
    return tar.replace(b'"order":0,"redacted":0', b'"redacted":0,"order":0')


def padded(tar: bytes) -> bytes:
    start = member_start(tar, "00000/request") + 512 + 511
    return tar[:start] + b"!" + tar[start + 1 :]


def genuine(folder: Path) -> bytes:
    pairs = [(exchange(at, asked({"n": at})), b"answer %d" % at) for at in range(2)]
    return written(folder / "genuine.tar.gz", pairs).read_bytes()


CASES: list[Case] = [
    ("nothing", lambda _: b"", "not a cassette"),
    ("no gzip", lambda _: b"{}" * 100, "not a cassette"),
    ("a plain tar", gzip.decompress, "not a cassette"),
    ("a gzip with a name and a clock", lambda c: named(gzip.decompress(c)), "not a cassette"),
    ("cut off in the middle", lambda c: c[: len(c) // 2], "is cut off"),
    ("without its last byte", lambda c: c[:-1], "goes on after its end"),
    ("one bit of its checksum", lambda c: c[:-5] + bytes([c[-5] ^ 1]) + c[-4:], "cannot be unpacked"),
    ("a second gzip behind it", lambda c: c + packed(b""), "goes on after its end"),
    ("a byte behind it", lambda c: c + b"\0", "goes on after its end"),
    ("a member behind the end", edited(lambda tar: tar + tar), "goes on after its end"),
    ("no end", edited(lambda tar: tar[:-1024]), "is cut off"),
    ("no cassette.json", without("cassette.json"), "not the member that must stand here"),
    ("a folder's name", with_member("../../etc/cron.d/x", b"x"), "a member that no cassette has"),
    ("an absolute name", with_member("/etc/passwd", b"x"), "a member that no cassette has"),
    ("a link", with_member("00002/exchange.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "not the member"),
    ("a device", with_member("00002/exchange.json", type=tarfile.CHRTYPE, devmajor=1, devminor=5), "not the member"),
    ("a sparse file", with_member("00002/exchange.json", type=tarfile.GNUTYPE_SPARSE), "not the member"),
    ("an extended header", with_member("00002/exchange.json", b"11 size=1\n", type=tarfile.XHDTYPE), "not the member"),
    ("an owner", with_member("00002/exchange.json", b"{}", uid=0, uname="root"), "not the member"),
    ("a negative size", with_member("00002/exchange.json", b"{}", size=-1), "not the member"),
    ("an order twice", edited(twice), "stands there twice"),
    ("an exchange left out", edited(left_out), "lacks an exchange"),
    ("no request", without("00000/request"), "not the member that must stand here"),
    ("no response", without("00001/response"), "not the member that must stand here"),
    ("an order that its place is not", edited(swapped), "says that it is 0000"),
    ("a request of terabytes", sized("00000/request", 8 * 1024**3 - 1), "over the bound of"),
    ("a document of gigabytes", sized("00000/exchange.json", 2**30), "over the bound of"),
    (
        "an answer that is another",
        edited(lambda tar: tar.replace(b"answer 1", b"answer 2")),
        "is not what exchange.json",
    ),
    (
        "a request that is another",
        edited(lambda tar: tar.replace(b'{"n": 1}', b'{"n": 2}')),
        "is not what exchange.json",
    ),
    ("a document in another order", edited(reordered), "00000/exchange.json: "),
    ("a schema of nobody's", edited(lambda tar: tar.replace(b"cassette-v1", b"cassette-v9")), "cassette.json"),
    ("masks of nobody's", edited(lambda tar: tar.replace(b"masks-v1", b"masks-v9")), "cassette.json"),
    ("something in the padding", edited(padded), "between its members"),
]


@pytest.mark.parametrize(("name", "change", "words"), CASES, ids=[case[0] for case in CASES])
def test_nothing_but_what_our_writer_writes_is_read(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], words: str
) -> None:
    """Row M14: bombs, links, names, doubles, gaps and digests; file and place in one line, status 3."""
    path, into = tmp_path / "hostile.tar.gz", tmp_path / "into"
    into.mkdir()
    changed = change(genuine(tmp_path))
    assert changed != genuine_again(tmp_path)
    path.write_bytes(changed)
    with pytest.raises(InputRefused, match=words) as refused:
        read_cassette(path, into)
    assert refused.value.status == 3
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {one.name for one in into.iterdir()} <= {
        f"0000{at}.{kind}" for at in range(2) for kind in ("request", "response")
    }


def genuine_again(folder: Path) -> bytes:
    return (folder / "genuine.tar.gz").read_bytes()


def test_the_genuine_one_is_read(tmp_path: Path) -> None:
    """What all these cases were made of."""
    genuine(tmp_path)
    assert len(read_cassette(tmp_path / "genuine.tar.gz", tmp_path).exchanges) == 2


def test_a_bomb_is_refused_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row M14: of what it unpacks to no more is made than the bound."""
    monkeypatch.setattr(unpacking, "MAX_TOTAL_BYTES", 4 * 1024 * 1024)
    path = written(tmp_path / "bomb", [(exchange(0, asked({})), b"\0" * 16 * 1024 * 1024)])
    assert path.stat().st_size < 256 * 1024
    with pytest.raises(InputRefused, match="over the bound of 4194304 bytes once unpacked"):
        read_cassette(path, tmp_path)
    assert (tmp_path / "00000.response").stat().st_size <= 4 * 1024 * 1024


def test_a_pipe_and_a_link_in_its_place_are_refused(tmp_path: Path) -> None:
    """A blob is a regular file: nobody waits for a writer, and no link leads elsewhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "genuine.tar.gz")
    genuine(tmp_path)
    for name in ("pipe", "link", "absent"):
        with pytest.raises(InputRefused):
            read_cassette(tmp_path / name, tmp_path)
