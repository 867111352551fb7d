"""What builds and locks that were killed leave, and who may take it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from appliance.images.archives import archive_home
from appliance.images.leavings import remove_leavings
from appliance.images.store import package_store, scratch_home
from appliance.images.weights import weights_home
from appliance.scratch import scratch_in, shared_home, sweep
from tests.images_small import small_shelf

_KILLED_IN_A_BUILD = """
import os, signal
from appliance.images.builder import recipe
def build(recipe, packages, scratch):
    (scratch / "half").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
recipe.build = build
from appliance.cli.main import run
run(["images", "build", "--again", "small"])
"""
_HOLDS = """
import sys, pathlib
from appliance.scratch import scratch_in
with scratch_in(pathlib.Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, and a folder for temporary files, of its own; an image `small` that can be built."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("APPLIANCE_DEBIAN_MIRROR", f"file://{tmp_path}/mirror")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    small_shelf(tmp_path / "images")
    return tmp_path / "cache"


def test_what_a_killed_build_left_is_removed_and_nothing_else(cache: Path) -> None:
    """Its scratch folder goes, the archives and packages stay; a second time there is nothing (H12, H13)."""
    ended = subprocess.run([sys.executable, "-c", _KILLED_IN_A_BUILD], check=False, capture_output=True)
    assert ended.returncode == -9, ended.stderr
    kept = {path for path in cache.rglob("*") if path.is_file() and path.name != "half"}
    assert len(kept) > 1
    assert [path.read_bytes() for path in cache.rglob("half")] == [b"x"]
    assert remove_leavings(everyone=False) == 1
    assert {path for path in cache.rglob("*") if path.is_file()} == kept
    assert remove_leavings(everyone=False) == 0


def test_a_folder_is_taken_once_its_owner_is_dead_and_not_before(tmp_path: Path) -> None:
    """By the lock that the kernel lets go of: no clock, no process id that another has by now (H13)."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        assert sweep(tmp_path) == 0
        assert folder.is_dir()
    finally:
        holder.kill()
        holder.communicate()
    assert sweep(tmp_path) == 1
    assert not folder.exists()


def test_a_scratch_folder_is_gone_after_use_and_after_a_failure(tmp_path: Path) -> None:
    """Nothing is left for a sweep where nobody was killed."""
    with pytest.raises(RuntimeError), scratch_in(tmp_path / "made") as folder:
        (folder / "in").mkdir()
        (folder / "in/file").touch()
        raise RuntimeError
    assert list((tmp_path / "made").iterdir()) == []


def test_everywhere_that_images_are_made_is_swept(cache: Path) -> None:
    """Archives half written, packages half fetched, byte code half compiled; of the last only what is old, since
    no lock speaks of it."""
    for home in (scratch_home(), archive_home(), package_store(), weights_home()):
        (home / "bench-scratch.dead").mkdir(parents=True)
    shared = shared_home()
    for name, age in (("new", 60), ("old", 4000)):
        folder = shared / f"bench-bytecode.{name}"
        (folder / "usr").mkdir(parents=True)
        os.utime(folder, (0, folder.stat().st_mtime - age))
    (shared / "bench-bytecode.file").touch()
    (shared / "bench-bytecode.link").symlink_to(cache)
    for odd in ("file", "link"):
        os.utime(shared / f"bench-bytecode.{odd}", (0, 0), follow_symlinks=False)
    assert remove_leavings(everyone=False) == 5
    assert sorted(path.name.rpartition(".")[2] for path in shared.iterdir()) == ["file", "link", "new"]


@pytest.mark.root
def test_another_users_folder_is_left_to_root(cache: Path) -> None:
    """In a folder that all share, one's own only; root's gc takes everyone's (H13)."""
    folder = shared_home() / "bench-bytecode.theirs"
    folder.mkdir()
    os.utime(folder, (0, 0))
    os.chown(folder, 65534, 65534)
    assert remove_leavings(everyone=False) == 0
    assert remove_leavings(everyone=True) == 1
