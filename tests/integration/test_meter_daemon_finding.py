"""Containers that nobody prepared, on this machine's own cgroups: found as the kernel tells of them, or looked for."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.cgroups import hierarchies
from appliance.meter.daemon.finding import Finder
from appliance.meter.daemon.inotify import Inotify
from tests.meter_bench import meter_daemon

pytestmark = pytest.mark.root
TREES = hierarchies()
BURN = """
import time
until = time.process_time() + 0.2
while time.process_time() < until: pass
"""
BURNT_NS = 200_000_000 - 20_000_000
"""Less what the interpreter used before it began to count."""
COUNTED = [one.mount for one in (TREES.unified, TREES.v1("cpuacct")) if one is not None]


@pytest.fixture
def tree() -> Iterator[str]:
    """A cgroup of the test's own, as an engine has one for its containers."""
    name = f"found{uuid.uuid4().hex[:8]}"
    for mount in COUNTED:
        (mount / name).mkdir()
    yield name
    for mount in COUNTED:
        for folder, below, _ in os.walk(mount / name, topdown=False):
            for one in below:
                with contextlib.suppress(OSError):
                    (Path(folder) / one).rmdir()
        with contextlib.suppress(OSError):
            (mount / name).rmdir()


def container(tree: str) -> str:
    return f"{tree}/{uuid.uuid4().hex}{uuid.uuid4().hex}"


def live(cgroup: str) -> None:
    """A container's whole life, less than a second: made, burnt in, removed."""
    folders = [mount / cgroup for mount in COUNTED]
    for folder in folders:
        folder.mkdir(parents=True)

    def join() -> None:
        for folder in folders:
            (folder / "cgroup.procs").write_text("0")

    subprocess.run([sys.executable, "-I", "-S", "-c", BURN], check=True, preexec_fn=join)
    time.sleep(0.4)  # an engine takes a moment to remove it; on a busy host the meter takes one to look
    for folder in folders:
        folder.rmdir()


def told(lines: Iterator[dict[str, Any]], cgroup: str, most: int = 6) -> list[int | None]:
    """The numbers of one container in the lines to come, till it is told of no more."""
    found: list[int | None] = []
    for _ in range(most):
        line = next(lines)
        at = {one["path"]: place for place, one in enumerate(line["cgroups"])}.get(f"/{cgroup}")
        if at is not None:
            raw = line["raw"][len(line["zones"]) + 1 + at]
            found.append(None if raw is None else int(raw))
        elif found:
            break
    return found


def test_a_container_that_lives_less_than_a_second_between_two_lines_has_a_row_with_what_it_used(
    tmp_path: Path, tree: str
) -> None:
    """From its birth, told at once, to the reading at its last exit. Rows C13, C4."""
    with meter_daemon(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        lines = client.watch()
        next(lines)
        assert other.status()["discovery"] == "inotify"
        cgroup = container(f"{tree}/made-while-watched")
        live(cgroup)
        numbers = told(lines, cgroup)
        assert len(numbers) >= 2
        assert None not in numbers
        # A busy host tells of the birth a moment later than it was.
        assert (numbers[0] or 0) < (numbers[-1] or 0)
        assert (numbers[-1] or 0) >= BURNT_NS // (1 if other.status()["cpuUnit"] == "ns" else 1000)


def test_where_the_kernel_has_no_watch_left_containers_are_looked_for_and_status_says_so(
    tmp_path: Path, tree: str
) -> None:
    """The limit of instances of this user is reached before anybody watches; one that lives on is found all the same,
    and the daemon's journal names the reason. Row C13."""
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    before = limit.read_text()
    with meter_daemon(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        assert other.status()["discovery"] == "off"
        limit.write_text("0")
        try:
            lines = client.watch()
            next(lines)
        finally:
            limit.write_text(before)
        assert other.status()["discovery"] == "looking"
        cgroup = container(tree)
        for mount in COUNTED:
            (mount / cgroup).mkdir()
        sleeper = subprocess.Popen(["sleep", "600"])
        try:
            for mount in COUNTED:
                (mount / cgroup / "cgroup.procs").write_text(str(sleeper.pid))
            assert any(f"/{cgroup}" in {one["path"] for one in next(lines)["cgroups"]} for _ in range(3))
        finally:
            sleeper.kill()
            sleeper.wait()
        assert "the kernel does not tell of them (Too many open files)" in daemon.log()


def test_when_the_last_watcher_leaves_nothing_is_watched_any_more(tmp_path: Path) -> None:
    """The daemon holds no inotify queue while nobody looks. Row C13."""

    def queues() -> int:
        folder = Path(f"/proc/{daemon.pid}/fd")
        return sum(1 for one in folder.iterdir() if "inotify" in os.fspath(one.readlink()))

    with meter_daemon(tmp_path) as daemon, daemon.client() as other:
        assert queues() == 0
        with daemon.client() as client:
            next(client.watch())
            assert queues() == 1
        while other.status()["watchers"]:
            pass
        assert (queues(), other.status()["discovery"]) == (0, "off")


class Scripted(Inotify):
    """The real queue, with something that happens between a watch and what comes after it."""

    def __init__(self, then: Callable[[str], None]):
        super().__init__()
        self._then = then

    def watch(self, folder: str) -> int:
        self._then(f"before {folder}")
        number = super().watch(folder)
        self._then(f"after {folder}")
        return number


def found(finder: Finder, root: Path) -> set[str]:
    return {os.path.relpath(one, root) for one in finder.folders(os.fspath(root))}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("root", COUNTED, ids=lambda root: root.name)
def test_a_container_made_while_its_parents_are_only_just_being_watched_is_found(
    moment: str, root: Path, tree: str
) -> None:
    """Two levels are made at once right before or after the kernel is asked to tell of the folder above. Row C13."""
    one = container(f"{tree}/above")

    def make(word: str) -> None:
        if word == f"{moment} {root / tree}":
            (root / one).mkdir(parents=True)

    finder = Finder([os.fspath(root / tree)], lambda: Scripted(make))
    finder.begin()
    finder.take()
    assert found(finder, root / tree) == {os.path.relpath(one, tree)}
    later = container(f"{tree}/above/deeper/and-deeper")
    (root / later).mkdir(parents=True)
    while finder.take():
        pass
    assert found(finder, root / tree) == {os.path.relpath(one, tree), os.path.relpath(later, tree)}
    (root / one).rmdir()
    finder.take()
    assert found(finder, root / tree) == {os.path.relpath(later, tree)}
    finder.end()


@pytest.mark.parametrize("word", [errno.ENOSYS, errno.EMFILE, errno.ENOSPC])
def test_a_kernel_that_refuses_a_queue_or_a_watch_leaves_the_look(
    word: int, tree: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """ENOSYS and EMFILE for the queue, ENOSPC for a watch half way down. Row C13."""
    root = COUNTED[0]
    below = root / tree / "below"
    below.mkdir()

    def refuse(told: str) -> None:
        if word == errno.ENOSPC and told == f"before {below}":
            raise OSError(word, os.strerror(word))

    def queue() -> Inotify:
        if word != errno.ENOSPC:
            raise OSError(word, os.strerror(word))
        return Scripted(refuse)

    finder = Finder([os.fspath(root / tree)], queue)
    finder.begin()
    assert (finder.how, finder.fd) == ("looking", None)
    assert os.strerror(word) in capfd.readouterr().err
    one = container(f"{tree}/below")
    (root / one).mkdir()
    assert found(finder, root / tree) == {os.path.relpath(one, tree)}
    finder.end()
    assert finder.how == "off"


def test_when_the_kernels_queue_runs_over_containers_are_looked_for(
    tree: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """More happens than the queue holds before it is read: IN_Q_OVERFLOW. Row C13."""
    root, limit = COUNTED[0], Path("/proc/sys/fs/inotify/max_queued_events")
    before = limit.read_text()
    limit.write_text("4")
    try:
        finder = Finder([os.fspath(root / tree)])
        finder.begin()
    finally:
        limit.write_text(before)
    assert finder.how == "inotify"
    ones = {container(tree) for _ in range(8)}
    for one in ones:
        (root / one).mkdir()
    assert finder.take()
    assert finder.how == "looking"
    assert "its queue ran over" in capfd.readouterr().err
    assert found(finder, root / tree) == {os.path.relpath(one, tree) for one in ones}
