"""Reading what somebody else put there: a regular file of bounded size, or words why not."""

from __future__ import annotations

import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.digests import sha256_of_file
from appliance.files import write_atomically
from appliance.reading import open_regular, read_regular
from attest.local.files import read_bounded


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has 107 bytes, a test's folder may have more
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "a named pipe"),
    "folder": (Path.mkdir, "a folder"),
    "socket": (_socket, "a socket"),
    "endless": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "loop": (lambda path: path.symlink_to(path.name), "symbolic link"),
    "nothing": (lambda path: path, "No such file"),
}


@pytest.mark.parametrize(("make", "words"), ODD.values(), ids=ODD)
def test_what_is_no_regular_file_neither_blocks_nor_is_read(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    """An OSError that says what is there instead, from every reader (issue 3, Bad input)."""
    path = tmp_path / "odd"
    make(path)
    for read in (lambda: read_regular(path, 10), lambda: open_regular(path), lambda: sha256_of_file(path)):
        with pytest.raises(OSError, match=words):
            read()
    with pytest.raises(OSError):
        read_bounded(path, 10)


def test_a_file_over_its_bound_is_refused_unread(tmp_path: Path) -> None:
    """A gigabyte of nothing costs no memory; the bound itself is still taken."""
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(OSError, match="over the bound of 9 bytes"):
        read_regular(path, 9)
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="over the bound of 256 MiB"):
        read_regular(path, 256 << 20)


def test_a_link_is_followed_only_where_that_was_asked(tmp_path: Path) -> None:
    """A record may be a link; a blob may not: it may lead out of the folder."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 10) == b"x"
    with pytest.raises(OSError, match="a symbolic link"):
        read_regular(tmp_path / "link", 10, follow=False)


def test_a_name_that_no_file_can_have_is_an_error_like_any_other(tmp_path: Path) -> None:
    """Paths come from TOML and JSON, where a NUL can stand."""
    with pytest.raises(OSError, match="no name that a file can have"):
        read_regular(tmp_path / "a\0b", 10)


def test_only_a_file_is_ever_written_over(tmp_path: Path) -> None:
    """`--out /dev/full`, typed by root, put a file in the device's place."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path / "pipe", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("read", [read_regular, read_bounded])
def test_a_small_file_takes_no_more_memory_for_a_large_bound(
    tmp_path: Path, read: Callable[[Path, int], bytes]
) -> None:
    """A buffer of the bound, made for each of many small records, ended every process of a small machine."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read(path, 256 << 20) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("read", [read_regular, read_bounded])
def test_a_file_that_has_no_size_is_read_whole_within_its_bound(read: Callable[[Path, int], bytes]) -> None:
    """As those of /proc, and one that has grown since it was measured."""
    path = Path("/proc/self/maps")
    whole = read(path, 1 << 20)
    assert whole.endswith(b"\n")
    assert len(whole) > 1000
    assert len(read_bounded(path, 100)) == 101
    with pytest.raises(OSError, match="over the bound of 100 bytes"):
        read_regular(path, 100)
