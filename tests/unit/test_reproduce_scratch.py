"""The folder that a record's suite is unpacked in: gone with its process, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from appliance.scratch import shared_home, shared_scratch, sweep

HOLDING = """
import sys
from appliance.scratch import shared_scratch
with shared_scratch() as folder:
    (folder / "suite").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    """Another process that has such a folder, and the folder."""
    words = [sys.executable, "-c", HOLDING]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_with_the_next_and_that_of_a_live_one_stays(temporary: Path) -> None:
    """SIGKILL leaves it for a moment; nobody else's is touched (H12)."""
    killed, left = holder()
    live, kept = holder()
    killed.kill()
    killed.communicate()
    assert (left / "suite").is_dir()
    with shared_scratch() as own:
        assert not left.exists()
        assert (kept / "suite").is_dir()
        assert own.parent == temporary
    assert sorted(temporary.iterdir()) == [kept]
    live.communicate("")
    assert list(temporary.iterdir()) == []


def test_it_goes_when_what_was_done_in_it_fails(temporary: Path) -> None:
    """Also on the way out of a refusal or a signal (H12)."""
    with pytest.raises(KeyboardInterrupt), shared_scratch() as folder:
        (folder / "a").touch()
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []


def test_a_link_or_a_file_of_that_name_is_not_followed(temporary: Path) -> None:
    """Whoever may write there may name it so (H12)."""
    (temporary / "victim").mkdir()
    (temporary / "victim/a").touch()
    (temporary / "bench-scratch.x").symlink_to("victim")
    (temporary / "bench-scratch.y").touch()
    assert sweep(shared_home(), everyone=True) == 0
    assert (temporary / "victim/a").exists()


@pytest.mark.root
def test_another_users_folder_is_left_to_roots_gc(temporary: Path) -> None:
    """In a folder that all share, one's own only (H13)."""
    folder = temporary / "bench-scratch.theirs"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    assert sweep(shared_home()) == 0
    assert sweep(shared_home(), everyone=True) == 1
    assert list(temporary.iterdir()) == []


def test_gc_takes_what_a_killed_reproduce_left(temporary: Path) -> None:
    """Also where nobody reproduces anything any more; it asks no engine for that (H12)."""
    killed, left = holder()
    live, kept = holder()
    killed.kill()
    killed.communicate()
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", "gc"],
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(temporary / "cache"),
            "DOCKER_HOST": f"unix://{temporary}/none.sock",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4, ended.stderr
    assert not left.exists()
    assert kept.is_dir()
    live.communicate("")
