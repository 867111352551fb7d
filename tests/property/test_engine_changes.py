# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH115, PTH120, PTH208, PTH211 - bytes, not pathlib
"""The harvest of any tree: the same from an overlay and from a tar stream, and enough to make the tree again (I28)."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.digests import tree_entries
from appliance.engine.overlay import OverlayWorkspace
from appliance.engine.places import Places
from appliance.engine.pristine import Pristine
from appliance.engine.tar_walk import tar_changes
from appliance.ports import Changes
from tests.engine_bench import new_run

pytestmark = pytest.mark.root

NAMES = [b"a", b"b", b"c.py", b"d", b"e", b".git", b"n\xff\n", b"sp ace"]
PRISTINE = {
    "a": (b"one", 0o644),
    "b": (b"two\n" * 20000, 0o755),
    "d/a": (b"three", 0o644),
    "d/e/c.py": (b"four", 0o644),
    "d/e/b": (b"", 0o644),
    "e/d/a/b": (b"five", 0o755),
}

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
contents = st.sampled_from([b"", b"one", b"three", b"other", b"\xff\x00" * 9, b"z" * 70_000])
operations = st.one_of(
    st.tuples(st.just("write"), paths, contents),
    st.tuples(st.just("folder"), paths, st.just(b"")),
    st.tuples(st.just("link"), paths, st.sampled_from([b"a", b"../..", b"/etc/passwd", b"\xfe"])),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("hard"), paths, paths),
    st.tuples(st.just("remove"), paths, st.just(b"")),
    st.tuples(st.just("mode"), paths, st.sampled_from([b"\x00", b"\x01", b"\x02"])),
    st.tuples(st.just("fifo"), paths, st.just(b"")),
    st.tuples(st.just("socket"), paths, st.just(b"")),
)


def apply(root: bytes, name: str, path: bytes, more: bytes) -> None:
    """As a solver's process would; what cannot be done is not done."""
    place = root + b"/" + path
    with contextlib.suppress(OSError):
        if name in ("write", "folder", "link", "fifo", "socket", "hard", "rename"):
            target = root + b"/" + more if name in ("rename", "hard") else place
            os.makedirs(os.path.dirname(target), exist_ok=True)
        match name:
            case "write":
                if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
                    return
                Path(os.fsdecode(place)).write_bytes(more)
            case "folder":
                os.mkdir(place)
            case "link":
                os.symlink(more, place)
            case "rename":
                os.rename(place, root + b"/" + more)
            case "hard":
                os.link(place, root + b"/" + more, follow_symlinks=False)
            case "remove":
                remove(place)
            case "mode":
                if stat.S_ISREG(os.lstat(place).st_mode):
                    os.chmod(place, {0: 0o644, 1: 0o755, 2: 0o4755}[more[0]])
            case "fifo":
                os.mkfifo(place)
            case _:
                made = socket.socket(socket.AF_UNIX)
                made.bind(place)
                made.close()


def remove(place: bytes) -> None:
    if stat.S_ISDIR(os.lstat(place).st_mode):
        for name in os.listdir(place):
            remove(place + b"/" + name)
        os.rmdir(place)
    else:
        os.unlink(place)


def engine_tar(root: Path) -> tuple[Iterator[bytes], list[bytes]]:
    """What Docker's archive call gives: sorted, depth first, sockets left out; and the sockets."""
    buffer, sockets = io.BytesIO(), []
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:

        def add(place: bytes, name: bytes) -> None:
            mode = os.lstat(place).st_mode
            if stat.S_ISSOCK(mode):
                sockets.append(name.partition(b"/")[2])
                return
            tar.add(os.fsdecode(place), os.fsdecode(name), recursive=False)
            if stat.S_ISDIR(mode):
                for child in sorted(os.listdir(place)):
                    add(place + b"/" + child, name + b"/" + child)

        add(os.fsencode(root), b"workspace")
    return iter([buffer.getvalue()]), sockets


def read_one(root: Path, path: bytes) -> Iterator[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as tar:
        tar.add(os.fsdecode(os.fsencode(root) + b"/" + path), "one", recursive=False)
    return iter([buffer.getvalue()])


def values(changes: Changes) -> list[tuple[bytes, str, bool, bytes]]:
    return [
        (
            one.path,
            one.kind,
            one.executable,
            one.content if isinstance(one.content, bytes) else one.content.read_bytes(),
        )
        for one in changes.entries
    ]


def plain(root: Path) -> dict[bytes, tuple[int, bytes]]:
    """Files and links that a patch can say, by path."""
    found: dict[bytes, tuple[int, bytes]] = {}
    top = os.fsencode(root)
    for folder, names, files in os.walk(top):
        for name in [*names, *files]:
            place = folder + b"/" + name
            path = place[len(top) + 1 :]
            mode = os.lstat(place).st_mode
            if any(part.lower() == b".git" for part in path.split(b"/")):
                continue
            if stat.S_ISLNK(mode):
                found[path] = (0, os.readlink(place))
            elif stat.S_ISREG(mode):
                found[path] = (mode & 0o100, Path(os.fsdecode(place)).read_bytes())
    return found


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    root = tmp_path_factory.mktemp("before")
    for path, (content, mode) in PRISTINE.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)
    (root / "d" / "d").symlink_to("../a")
    return Pristine(root, tree_entries(root))


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Places:
    state = tmp_path_factory.mktemp("state")
    return Places(state / "locks", state)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(operations, max_size=14))
def test_overlay_and_tar_stream_give_the_same_changes_and_these_make_the_tree_again(
    before: Pristine, where: Places, done: list[tuple[str, bytes, bytes]]
) -> None:
    """Renames, whiteouts, opaque folders, hard links, bytes in names (I21, I28, H19, H20)."""
    workspace = OverlayWorkspace.opened(where, new_run("prop"), before, 16)
    again = OverlayWorkspace.opened(where, new_run("prop"), before, 16)
    try:
        merged = Path(workspace.mount.source)
        for name, path, more in done:
            apply(os.fsencode(merged), name, path, more)
        from_overlay = workspace.harvest()
        stream, sockets = engine_tar(merged)
        with tempfile.TemporaryDirectory() as spill:
            from_tar = tar_changes(
                stream,
                before,
                Path(spill),
                limit=1 << 30,
                read_one=lambda path: read_one(merged, path),
                sockets=sockets,
            )
            assert values(from_tar) == values(from_overlay)
        assert from_tar.dropped == from_overlay.dropped
        again.lay("", from_overlay.entries)
        assert plain(Path(again.mount.source)) == plain(merged)
    finally:
        workspace.close()
        again.close()
