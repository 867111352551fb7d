"""Tars, locks and definitions, for anything that they may hold."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.errors import InputRefused
from appliance.images.builder.deb import read_deb
from appliance.images.builder.spool import Spool
from appliance.images.builder.tar import Entry, Slice, write_tar
from appliance.images.builder.wheel import Scheme, read_wheel
from appliance.images.definition import read_definition
from appliance.images.lock import ImageLock
from tests.images_small import small_packages

PART = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=120).filter(
    lambda part: part not in (".", "..")
)
NAMES = st.lists(PART, min_size=1, max_size=4).map("/".join)
FILES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=1200), st.sampled_from([0o644, 0o755, 0o4755])), max_size=8)
LINKS = st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
SCHEME = Scheme("lib", "bin", "", "/usr/bin/python3")
DEB = small_packages()["hello-file"]


@given(files=FILES, links=LINKS, mtime=st.integers(0, 2**33 - 1))
@settings(deadline=None, max_examples=150)
def test_every_tar_reads_back_as_what_went_in(
    files: dict[str, tuple[bytes, int]], links: dict[str, str], mtime: int
) -> None:
    """Names of any length and script, contents, modes, targets; by Python's own reader (I1)."""
    entries = [Entry(name, "file", mode, 1000, 1000, mtime, content=body) for name, (body, mode) in files.items()]
    entries += [Entry(name, "symlink", 0o777, mtime=mtime, link=to) for name, to in links.items() if name not in files]
    out = io.BytesIO()
    digest, size = write_tar(entries, out)
    assert (digest, size) == (f"sha256:{hashlib.sha256(out.getvalue()).hexdigest()}", len(out.getvalue()))
    out.seek(0)
    with tarfile.open(fileobj=out, mode="r:", errors="surrogateescape", encoding="utf-8") as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == sorted((e.name for e in entries), key=str.encode)
        for member in members:
            if member.issym():
                assert member.linkname == links[member.name]
                continue
            body, mode = files[member.name]
            stream = tar.extractfile(member)
            assert stream is not None
            assert (stream.read(), member.mode, member.uid, member.mtime) == (body, mode, 1000, mtime)
            assert (member.uname, member.gname) == ("", "")


@given(entries=st.permutations([Entry(name, content=name.encode()) for name in ("a", "b/c", "b", "é", "z" * 300)]))
def test_the_order_of_entries_does_not_show(entries: list[Entry]) -> None:
    """Equal sets of entries are equal bytes (I1)."""
    first, second = io.BytesIO(), io.BytesIO()
    write_tar(entries, first)
    write_tar(sorted(entries, key=lambda entry: entry.name), second)
    assert first.getvalue() == second.getvalue()


def test_a_slice_of_a_file_is_written_as_its_bytes_are(tmp_path: Path) -> None:
    """Contents that lie on disk and contents in memory make the same tar; a file that ends early is no tar."""
    (tmp_path / "f").write_bytes(b"xx" + b"content" * 1000)
    sliced, whole = io.BytesIO(), io.BytesIO()
    write_tar([Entry("a", content=Slice(tmp_path / "f", 2, 7000))], sliced)
    write_tar([Entry("a", content=b"content" * 1000)], whole)
    assert sliced.getvalue() == whole.getvalue()
    try:
        write_tar([Entry("a", content=Slice(tmp_path / "f", 2, 7001))], io.BytesIO())
    except EOFError:
        return
    raise AssertionError("a tar was written with fewer bytes than its header says")


@given(at=st.integers(0, len(DEB) - 1), flip=st.integers(1, 255), cut=st.integers(0, len(DEB)))
@settings(deadline=None, max_examples=300)
def test_a_package_that_cannot_be_read_is_refused_and_nothing_else(at: int, flip: int, cut: int) -> None:
    """Bytes that were changed or cut read as a package or are refused: never another error (I8; issue: bad input)."""
    for content in (DEB[:at] + bytes([DEB[at] ^ flip]) + DEB[at + 1 :], DEB[:cut]):
        try:
            read_deb(content, "hello-file")
        except InputRefused as refused:
            assert str(refused).startswith("hello-file: ")


@given(content=st.binary(max_size=400))
def test_a_wheel_that_cannot_be_read_is_refused_and_nothing_else(content: bytes) -> None:
    """Not a zip, or a broken one: status 3 by name."""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            list(read_wheel(io.BytesIO(content), "x-1-py3-none-any.whl", SCHEME, 0, Spool(Path(scratch))))
    except InputRefused as refused:
        assert str(refused).startswith("x-1-py3-none-any.whl: ")


@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_a_definition_of_any_bytes_is_read_or_refused_in_one_line(tmp_path_factory: object, content: bytes) -> None:
    """No input makes a traceback (issue: bad input)."""
    folder = Path(str(tmp_path_factory.mktemp("d")))  # type: ignore[attr-defined]
    (folder / "image.toml").write_bytes(content)
    try:
        read_definition(folder)
    except InputRefused as refused:
        assert "\n" not in str(refused)


SHIPPED = sorted((Path(__file__).parents[2] / "images").glob("*/image.lock.json"))


@given(path=st.sampled_from(SHIPPED), at=st.integers(0, 10**6), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=200)
def test_a_lock_with_a_byte_changed_is_read_strictly_or_refused_in_one_line(path: Path, at: int, byte: int) -> None:
    """What still reads is another value than the committed one or the same: never a crash (issue: bad input)."""
    content = bytearray(path.read_bytes())
    content[at % len(content)] = byte
    try:
        lock = ImageLock.from_json(bytes(content), "image.lock.json")
    except InputRefused as refused:
        assert str(refused).startswith("image.lock.json: $")
        assert "\n" not in str(refused)
    else:
        assert ImageLock.from_canonical(lock.canonical(), "x") == lock


def test_a_committed_lock_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Reading and writing a lock changes no byte: diffs show what changed and nothing else."""
    for path in SHIPPED:
        ImageLock.from_json(path.read_bytes(), str(path)).write(tmp_path)
        assert (tmp_path / "image.lock.json").read_bytes() == path.read_bytes()
        assert json.loads(path.read_bytes())["schema"] == "image-lock-v1"
