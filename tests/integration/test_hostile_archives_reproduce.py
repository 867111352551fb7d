"""Hostile suite archives in genuinely signed records: `appliance reproduce` unpacks none of them."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.blob import BlobRef
from appliance.records.plan import PlannedSuite
from appliance.tasks.archive import archive_suite
from appliance.tasks.reader import read_suite
from tests import record_builder as build
from tests.hostile import Refused, refused, typed
from tests.tasks_made import make_task

RECORD = "run/records/reference.json"
_BLOCK = 512
_END = bytes(2 * _BLOCK)


def file(path: str, content: bytes = b"x", size: int | None = None) -> bytes:
    """One member of a tar; `size` is what its header says."""
    return _member(path, tarfile.REGTYPE, size=len(content) if size is None else size) + _padded(content)


def link(path: str, target: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    return _member(path, kind, target=target)


def special(path: str, kind: bytes) -> bytes:
    return _member(path, kind)


def extended(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header of POSIX 2001 with `records`, for the next member or, where `kind` is `g`, for all that follow."""
    return _member("pax", kind, size=len(records)) + _padded(records)


def keyword(name: str, value: str) -> bytes:
    line = f" {name}={value}\n".encode()
    length = len(line) + 1
    while len(str(length)) + len(line) != length:
        length += 1
    return str(length).encode() + line


def _member(path: str, kind: bytes, size: int = 0, target: str = "") -> bytes:
    member = tarfile.TarInfo(path)
    member.type, member.size, member.linkname = kind, size, target
    return member.tobuf(tarfile.GNU_FORMAT)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % _BLOCK)


def _sparse() -> bytes:
    records = keyword("GNU.sparse.map", "0,1") + keyword("GNU.sparse.size", str(1 << 40))
    return extended(records) + file("one/before/bomb")


def _compressed() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        member = tarfile.TarInfo("zeros")
        member.size = 16 << 20
        tar.addfile(member, io.BytesIO(b"\0" * member.size))
    return packed.getvalue()


def _keywords_for_all() -> bytes:
    """16 MB; a reader that keeps with each member what holds for it keeps more than a hundred gigabytes."""
    many = b"".join(keyword(f"k{number}", "") for number in range(50_000))
    return extended(many, tarfile.XGLTYPE) + b"".join(file(f"f{number}", b"") for number in range(30_000))


def _named(path: str) -> bytes:
    return extended(keyword("path", path)) + file("a")


def _stairs() -> bytes:
    """Folders in folders, each path short enough for the system, and too deep for a walk by recursion."""
    return b"".join(_named("a/" * depth + f"f{depth}") for depth in range(50, 2000, 50))


def _many_long_names() -> bytes:
    return b"".join(_named(f"{'a/' * 2000}f{number}") for number in range(20_000))


_TASK = b'name = "one"\nprompt = "p"\ntest_cmd = ["true"]\ntest_files = []\n'
_PLAIN = "neither a plain file nor a symbolic link"
ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "climbing": (lambda: file("../escaped"), "a path that climbs with .."),
    "climbing from within": (lambda: file("one/../../escaped"), "a path that climbs with .."),
    "climbing, in an extended header": (lambda: _named("../escaped"), "a path that climbs with .."),
    "absolute": (lambda: file("/tmp/escaped"), "a path that is absolute"),
    "roundabout": (lambda: file("one/./a"), "a path that is not in its shortest form"),
    "a name that drives a terminal": (lambda: file("a\x1b[31m\n"), "a path that holds a control character"),
    "a name in bytes": (lambda: file("a\udcff"), "a path that is not UTF-8"),
    "a name with a NUL": (lambda: _named("a\0b"), "a path that holds a control character"),
    "a name without end": (lambda: _named("a" * 60_000), "a path that is too long"),
    "a file without a name": (lambda: file(""), "a path that is empty"),
    "a folder": (lambda: special("one", tarfile.DIRTYPE), _PLAIN),
    "a link out": (lambda: link("one/before/out", "../../../victim"), "a link that leaves the suite"),
    "a link to the root": (lambda: link("out", "/etc"), "a link that leaves the suite"),
    "a link out, in an extended header": (
        lambda: extended(keyword("linkpath", "/etc")) + link("out", "one"),
        "a link that leaves the suite",
    ),
    "a link out through a link": (
        lambda: link("one/before/down", "../..") + link("one/before/out", "down/../victim") + file("one/task.toml"),
        "a symbolic link that leaves before/",
    ),
    "a suite.toml that is a link": (
        lambda: file("one/task.toml", _TASK) + file("one/before/a") + file("one/b", b"") + link("suite.toml", "one/b"),
        "the record's blobs: not a regular file",
    ),
    "a link, then a file through it": (
        lambda: link("out", "one") + file("one/a") + file("out/escaped"),
        "a path below a file or link",
    ),
    "a file through a link that comes last": (
        lambda: file("out/escaped") + link("out", "one"),
        "a path below a file or link",
    ),
    "a link that holds a file": (lambda: _member("a", tarfile.SYMTYPE, 1, "b") + _padded(b"x"), _PLAIN),
    "a path twice": (lambda: file("a", b"1") + file("a", b"2"), "a path that stands twice"),
    "a link over a file": (lambda: file("a") + link("a", "b"), "a path that stands twice"),
    "a hard link": (lambda: file("a") + link("b", "a", tarfile.LNKTYPE), _PLAIN),
    "a hard link out": (lambda: link("b", "/etc/hostname", tarfile.LNKTYPE), _PLAIN),
    "a pipe": (lambda: special("p", tarfile.FIFOTYPE), _PLAIN),
    "a device": (lambda: special("d", tarfile.CHRTYPE), _PLAIN),
    "a disk": (lambda: special("d", tarfile.BLKTYPE), _PLAIN),
    "no kind that there is": (lambda: special("d", b"Z"), _PLAIN),
    "a terabyte of holes": (_sparse, "an extended header with 'GNU.sparse.map'"),
    "more files than may be": (lambda: b"".join(file(f"f{n}", b"") for n in range(100_001)), "over 100000 members"),
    "a file larger than the archive": (lambda: file("a", b"x", 1 << 40), "a member that is not whole"),
    "a file of less than nothing": (lambda: file("a", b"x", -_BLOCK), "a member that is not whole"),
    "a size in an extended header": (
        lambda: extended(keyword("size", str(1 << 62))) + file("a"),
        "an extended header with 'size'",
    ),
    "an extended header of no length": (lambda: extended(b"0 path=a\n") + file("a"), "header that is not whole"),
    "an extended header with digits": (lambda: extended(b"9" * 60_000) + file("a"), "header that is not whole"),
    "headers of headers": (lambda: extended(keyword("path", "a")) * 5000 + file("a"), _PLAIN),
    "keywords for all": (_keywords_for_all, _PLAIN),
    "folders without end": (_stairs, "a path that lies more than 100 folders deep"),
    "long names without end": (_many_long_names, "a path that lies more than 100 folders deep"),
    "no archive": (lambda: b"\x7fELF" + b"\1" * 4096, "not a tar archive"),
    "compressed": (_compressed, "not a tar archive"),
    "half of a file": (lambda: file("one/task.toml", b"x" * 4000, 40_000), "a member that is not whole"),
    "an end before the end": (lambda: file("a") + bytes(_BLOCK) + file("../escaped"), "more after its end"),
    "no task": (lambda: b"", "holds no task"),
}
"""The archive, less its end mark, and the words that must refuse it."""


class Stranger:
    """Somebody with a signing key of their own, whom this machine trusts; and a folder where nothing may change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.scratch = home / ".tmp"
        self.scratch.mkdir(exist_ok=True)
        (home / "victim").write_text("untouched")

    def publish(self, content: bytes, *, suite: str = "0" * 64, name: str = "odd") -> Path:
        """A record whose signature, digests and sums all hold; its suite archive is `content`. The blob's path."""
        plan = build.plan(
            suite=PlannedSuite(name=name, version="1", digest=suite, timeout_resolves=True, weight=1.0),
        )
        stamp = build.stamps(plan).suite.model_copy(
            update={"archive": BlobRef(sha256=sha256_hex(content), bytes=len(content))}
        )
        record = build.record(plan, suite=stamp)
        blobs = self.home / "run/blobs/sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        (self.home / RECORD).parent.mkdir(exist_ok=True)
        (self.home / RECORD).write_bytes(record.canonical())
        for digest, held in {**build.blobs(record), sha256_hex(content): content}.items():
            (blobs / digest).write_bytes(held)
        with pytest.MonkeyPatch.context() as patched:
            for kind, place in (("DATA", ".share"), ("CONFIG", ".config"), ("CACHE", ".cache")):
                patched.setenv(f"XDG_{kind}_HOME", str(self.home / place))
            patched.chdir(self.home)
            assert run(["sign", RECORD]) == 0
        return blobs / sha256_hex(content)

    def refused(self, *words: str, status: int = 3) -> Refused:
        """What `reproduce` says; every file under the home, and the folder for temporary ones, is as it was."""
        before = self._found()
        said = refused(
            self.home,
            *("reproduce", RECORD, *words, "--json"),
            status=status,
            environment={"TMPDIR": str(self.scratch)},
            remarks=("unverified: ", "verified: "),
        )
        assert self._found() == before
        return said

    def _found(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for folder, folders, files in os.walk(self.home):
            for name in (*folders, *files):
                path = Path(folder, name)
                seen = path.lstat()
                kept = 0 if stat.S_ISDIR(seen.st_mode) else seen.st_mtime_ns
                found[str(path)] = (seen.st_mode, seen.st_size, kept)
        return found


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trusting")
    assert typed(home, "trust", "init").returncode == 0
    return home


@pytest.fixture
def stranger(trusting: Path, tmp_path: Path) -> Stranger:
    shutil.copytree(trusting, tmp_path, dirs_exist_ok=True)
    roots = tmp_path / ".config/bench-appliance/roots.toml"
    roots.write_text(roots.read_text().replace(str(trusting), str(tmp_path)))
    return Stranger(tmp_path)


TRUST = pytest.mark.parametrize("trust", [(), ("--trust", "local")], ids=["unverified", "verified"])


@pytest.mark.parametrize(("make", "words"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_hostile_archive_in_a_signed_record_is_refused_and_leaves_nothing(
    stranger: Stranger, make: Callable[[], bytes], words: str
) -> None:
    """Status 3 in one line, with the blob and the mend: a genuine signature says who, not that it is harmless (R4)."""
    blob = stranger.publish(make() + _END)
    found = stranger.refused("--trust", "local")
    assert words in found.line
    assert blob.name in found.line or "the record's blobs" in found.line
    assert "--suite PATH" in found.error["mend"]


@pytest.mark.parametrize("content", [b"", file("one/task.toml")[:300], file("a"), bytes(_BLOCK - 1)])
def test_an_archive_without_its_end_is_refused(stranger: Stranger, content: bytes) -> None:
    """Nothing of it is unpacked."""
    stranger.publish(content)
    assert "not a tar archive of a suite" in stranger.refused().line


@TRUST
def test_an_archive_of_another_suite_is_not_run(stranger: Stranger, trust: tuple[str, ...]) -> None:
    """Its bytes are those that the record names, and the suite in them is not (R1)."""
    make_task(stranger.home / "other")
    suite = read_suite(stranger.home / "other")
    stranger.publish(archive_suite(suite), suite="1" * 64)
    line = stranger.refused(*trust).line
    assert f"the record's blobs: its digest is {suite.digest[:12]}" in line
    assert f"digest {'1' * 12}" in line


@TRUST
def test_an_honest_archive_gets_as_far_as_the_solver(stranger: Stranger, trust: tuple[str, ...]) -> None:
    """What the others are measured against: the suite is taken, and what is asked next is the solver's digest (R1)."""
    make_task(stranger.home / "honest")
    suite = read_suite(stranger.home / "honest")
    stranger.publish(archive_suite(suite), suite=suite.digest)
    assert stranger.refused(*trust).error["where"].endswith("$.plan.solver.digest")


def _sparse_file(path: Path) -> None:
    path.touch()
    os.truncate(path, (512 << 20) + 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "a named pipe, not a regular file"),
        (Path.mkdir, "a folder, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "a symbolic link, not a regular file"),
        (lambda path: path.write_bytes(b"another"), "is not what its name says"),
        (_sparse_file, "over the bound of 512 MiB"),
    ],
    ids=["a pipe", "a folder", "no end", "other bytes", "larger than may be"],
)
def test_what_lies_in_the_archives_place_is_not_read(
    stranger: Stranger, make: Callable[[Path], object], words: str
) -> None:
    """Status 3; with trust asked for, 7, class blob: the record names other bytes (R1, V24)."""
    blob = stranger.publish(file("a") + _END)
    blob.unlink()
    make(blob)
    assert words in stranger.refused().line
    assert stranger.refused("--trust", "local", status=7).error["reason"] == "blob"


@pytest.mark.parametrize("name", ["../elsewhere", "{home}/elsewhere", "..", "elsewhere/../../elsewhere", "a\0b"])
def test_the_name_of_a_suite_leads_nowhere(stranger: Stranger, name: str) -> None:
    """The right suite lies where the name would lead from ./tasks; only a plain name is looked up there (R4)."""
    (stranger.home / "tasks").mkdir()
    make_task(stranger.home / "elsewhere")
    suite = read_suite(stranger.home / "elsewhere")
    blob = stranger.publish(file("a") + _END, suite=suite.digest, name=name.format(home=stranger.home))
    blob.unlink()
    assert "(the record's blobs: not there)" in stranger.refused().line


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_without_room_for_an_archive_is_this_machines(stranger: Stranger) -> None:
    """Status 4 with the place and the mend, and nothing of the half is left (H16)."""
    stranger.publish(file("one/before/a", os.urandom(1 << 20)) + _END)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(stranger.scratch)], check=True)
    try:
        found = stranger.refused(status=4)
    finally:
        subprocess.run(["umount", str(stranger.scratch)], check=True)
    assert "no space left on device" in found.line
    assert "TMPDIR" in found.line


def test_a_suite_deeper_than_may_be_is_refused_before_it_is_published(tmp_path: Path) -> None:
    """What nobody could reproduce is not run: the bound is that of a suite on disk as well."""
    folder = make_task(tmp_path / "deep") / "before"
    (folder / Path(*["a"] * 120)).mkdir(parents=True)
    (folder / Path(*["a"] * 120) / "b").touch()
    assert "lies more than 100 folders deep" in refused(tmp_path, "tasks", "show", "./deep", "--json", status=3).line
