"""The suite's archive: equal suites, equal bytes; nothing that is unpacked lands elsewhere."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from appliance.bundle import shipped
from appliance.errors import InputRefused
from appliance.tasks import archive
from appliance.tasks.archive import archive_suite, unpack_suite
from appliance.tasks.reader import read_suite
from tests.tasks_made import make_task


def tar_of(*members: tuple[str, str, bytes]) -> bytes:
    """`(kind, path, content or link target)` by tarfile's type letters."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for kind, path, content in members:
            member = tarfile.TarInfo(path)
            member.type = kind.encode()
            if kind in "12":
                member.linkname = content.decode()
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_what_was_archived_comes_back_as_the_same_suite(tmp_path: Path) -> None:
    """A record's own blob gives back the suite that was run: same digest, modes, links, names (R1)."""
    folder = make_task(tmp_path / "s", "größe mit Leerzeichen " + "x" * 150)
    (folder / "before" / "alias.py").symlink_to("it.py")
    (folder / "before" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "before" / "run.sh").chmod(0o755)
    (tmp_path / "s" / "suite.toml").write_text('name = "sweet"\n')
    suite = read_suite(tmp_path / "s")
    unpack_suite(archive_suite(suite), tmp_path / "out")
    again = read_suite(tmp_path / "out")
    assert again.digest == suite.digest
    assert [task.spec for task in again.tasks] == [task.spec for task in suite.tasks]
    assert again.name == "sweet"


def test_equal_suites_have_equal_archives(tmp_path: Path) -> None:
    """Clocks, owners, checks.json and the folder's own name are in no archive (H21)."""
    made = []
    for name in ("a", "b"):
        folder = make_task(tmp_path / name)
        os.utime(folder / "task.toml", (len(made) * 1000, 5))
        (tmp_path / name / f"note-{name}.txt").write_text(name)
        made.append(archive_suite(read_suite(tmp_path / name)))
    assert made[0] == made[1]


def test_a_suite_that_changed_since_it_was_read_is_not_archived(tmp_path: Path) -> None:
    """What a record carries is what was run, or nothing (R1)."""
    folder = make_task(tmp_path)
    suite = read_suite(tmp_path)
    (folder / "before" / "it.py").write_text("VALUE = 3\n")
    with pytest.raises(InputRefused, match="changed since it was read"):
        archive_suite(suite)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("0", "../out.txt", b"x")], "climbs with"),
        ([("0", "/etc/out.txt", b"x")], "is absolute"),
        ([("0", "a/../../out.txt", b"x")], "climbs with"),
        ([("0", "./a", b"x")], "not in its shortest form"),
        ([("0", "a\nb", b"x")], "control character"),
        ([("2", "a", b"/etc")], "a link that leaves the suite"),
        ([("2", "t/a", b"../../x")], "a link that leaves the suite"),
        ([("2", "t/a", b"b/../../../x")], "a link that leaves the suite"),
        ([("2", "a", b"b"), ("0", "a/x", b"x")], "a path below a file or link"),
        ([("0", "a", b"b"), ("0", "a/x", b"x")], "a path below a file or link"),
        ([("0", "a", b"1"), ("0", "a", b"2")], "stands twice"),
        ([("0", "a", b"1"), ("1", "b", b"a")], "neither a plain file nor a symbolic link"),
        ([("3", "tty", b"")], "neither a plain file nor a symbolic link"),
        ([("6", "pipe", b"")], "neither a plain file nor a symbolic link"),
        ([("5", "folder", b"")], "neither a plain file nor a symbolic link"),
    ],
)
def test_a_hostile_archive_leaves_nothing(tmp_path: Path, members: list[tuple[str, str, bytes]], reason: str) -> None:
    """Traversal, links, devices, doubles: refused with status 3 before a byte is written (R1)."""
    with pytest.raises(InputRefused) as caught:
        unpack_suite(tar_of(*members), tmp_path / "in" / "suite")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*")) or not any(tmp_path.rglob("*.txt"))
    assert not (tmp_path / "in" / "suite").exists()


def test_a_sparse_file_cannot_grow_while_unpacked(tmp_path: Path) -> None:
    """A kilobyte that says it is a terabyte of zeros is refused, not written (R1)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("bomb")
        member.size = 1
        member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**40)}
        tar.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(InputRefused, match=r"an extended header with 'GNU\.sparse\.map'"):
        unpack_suite(packed.getvalue(), tmp_path / "suite")
    assert not list(tmp_path.iterdir())


def test_bounds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes or members are refused, however small the file is (R1)."""
    many = tar_of(*(("0", f"f{number}", b"") for number in range(11)))
    monkeypatch.setattr(archive, "MAX_FILES", 10)
    with pytest.raises(InputRefused, match="over 10 members"):
        unpack_suite(many, tmp_path / "suite")
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    with pytest.raises(InputRefused, match="over the bound of 100"):
        unpack_suite(many, tmp_path / "suite")
    assert not list(tmp_path.iterdir())


def test_a_cut_archive_is_refused_at_every_length(tmp_path: Path) -> None:
    """Half an archive is an error in one line, also where it is cut between two files (R1)."""
    make_task(tmp_path / "s")
    suite = read_suite(tmp_path / "s")
    whole = archive_suite(suite)
    for length in sorted({*range(0, len(whole), 97), *range(0, len(whole), 512)}):
        out = tmp_path / f"out-{length}"
        try:
            unpack_suite(whole[:length], out)
        except InputRefused as refusal:
            assert "\n" not in str(refusal)
            continue
        # Only the zeros at its end were cut.
        assert read_suite(out).digest == suite.digest


def test_a_target_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Nothing is written over (R1)."""
    make_task(tmp_path / "s")
    content = archive_suite(read_suite(tmp_path / "s"))
    (tmp_path / "there").mkdir()
    with pytest.raises(InputRefused, match="is there already"):
        unpack_suite(content, tmp_path / "there")
    assert not list((tmp_path / "there").iterdir())


def test_the_bundled_suite_travels_whole(tmp_path: Path) -> None:
    """The smoke suite survives its own archive (R1)."""
    suite = read_suite(shipped("tasks") / "smoke")
    unpack_suite(archive_suite(suite), tmp_path / "smoke")
    assert read_suite(tmp_path / "smoke").digest == suite.digest
