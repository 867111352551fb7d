"""A tag of a registry that moves while a run on its image is interrupted, resumed and reproduced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from appliance.records import journal
from appliance.records.journal import TrialLine
from appliance.records.record import Record
from tests.grading_bench import image as image_of_ours
from tests.images_registry import Registry, docker, registry_on_loopback
from tests.trials_bench import left_of, lines
from tests.trials_suites import write_solver, write_suite

pytestmark = pytest.mark.docker
_PATIENCE_SECONDS = 120
TASKS = ("a", "b", "c")
MEND = "grep -q first /which && printf 'exit 0\\n' > program.sh; sleep 2"
CHECK = "grep -q first /which && sh ./program.sh\n"
"""Solver and grader both look which image they are in."""
T = TypeVar("T")


class Moving:
    """A repository whose `latest` is one image, and then another; its images are gone from the engine in the end."""

    def __init__(self, registry: Registry, home: Path) -> None:
        self.registry = registry
        self.home = home
        self._made: list[str] = []

    def push(self, which: str) -> tuple[str, str]:
        """`(reference by digest, image id)` of an image whose /which says `which`; `latest` means it from now on."""
        base, _ = image_of_ours("base")
        container = docker("create", "--label", "test=moved-tag", base.config)
        try:
            (self.home / "which").write_text(f"{which} {os.urandom(8).hex()}\n")
            docker("cp", str(self.home / "which"), f"{container}:/which")
            image = docker("commit", container)
        finally:
            docker("rm", "-f", container)
        self._made.append(image)
        return self.registry.push(image, "users/moving"), image

    def latest(self) -> str:
        """What the engine takes the tag for."""
        tag = f"{self.registry.address}/users/moving:latest"
        docker("pull", "-q", tag)
        return docker("image", "inspect", "-f", "{{.Id}}", tag)

    def forget(self, image: str) -> None:
        """Neither the engine nor the cache has it: who wants it must ask the registry."""
        docker("image", "rm", "-f", image)
        shutil.rmtree(self.home / "cache", ignore_errors=True)

    def close(self) -> None:
        for image in self._made:
            subprocess.run(["docker", "image", "rm", "-f", image], capture_output=True, check=False)


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moving]:
    for kind in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    with registry_on_loopback() as registry:
        moving = Moving(registry, tmp_path)
        yield moving
        moving.close()


def started(home: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "appliance.cli.main", *words],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def appliance(home: Path, *words: str) -> str:
    """What it says, once it has ended with status 0."""
    ending = started(home, *words)
    out, err = ending.communicate()
    assert ending.returncode == 0, f"{words}: {ending.returncode}\n{out}\n{err}"
    return out + err


def test_a_tag_that_moves_changes_no_image_of_a_resumed_or_reproduced_run(moving: Moving) -> None:
    """Killed after its first trial, resumed, reproduced by a stranger, each time with the tag at another image and the
    pinned one to be pulled anew: solver and grader run in the pinned one, and plan and record say which (H11)."""
    home = moving.home
    reference, first = moving.push("first")
    write_suite(home / "tasks/small", TASKS, image=reference, check=CHECK)
    write_solver(home / "solvers", "mender", f'model = "none"\nargv = ["sh", "-c", {json.dumps(MEND)}]\n')
    moving.forget(first)

    running = started(home, "run", "--suite", "small", "--solver", "mender", "--out", "r", "--no-sign")
    _until(lambda: _finished(home / "r"), running)
    running.kill()
    running.communicate()
    assert len(_finished(home / "r")) < len(TASKS)
    run = journal.decode((home / "r/journal.jsonl").read_bytes(), "journal").header.run_id
    _until(lambda: not left_of(run))

    other_reference, other = moving.push("second")
    moving.forget(first)
    assert other_reference != reference
    assert moving.latest() == other

    said = appliance(home, "run", "--resume", "r", "--no-sign")
    assert f"pulling {reference}" in said
    record = Record.read(home / "r/records/mender.json")
    assert _images_of(record) == {(reference, first, reference.partition("@")[2])}
    assert [trial.outcome for trial in record.trials] == ["resolved"] * len(TASKS)
    assert [(stamp.role, stamp.pin.config) for stamp in record.images] == [(f"task:{reference}", first)]

    moving.forget(first)
    assert moving.latest() == other
    stranger = home / "stranger"
    shutil.copytree(home / "r", stranger / "got")
    words = ("got/records/mender.json", "--solver", str(home / "solvers/mender.toml"), "--out", "again")
    said = appliance(stranger, "reproduce", *words)
    assert f"pulling {reference}" in said
    again = Record.read(stranger / "again/records/mender.json")
    assert _images_of(again) == _images_of(record)
    assert again.images == record.images
    assert [trial.outcome for trial in again.trials] == ["resolved"] * len(TASKS)
    assert moving.latest() == other


def test_a_run_on_what_the_tag_means_now_is_another_experiment(moving: Moving) -> None:
    """The pair of the test above: the second image is one in which nothing is resolved, under another plan digest."""
    home = moving.home
    for which in ("first", "second"):
        reference, _ = moving.push(which)
        write_suite(home / "tasks/small", TASKS[:1], image=reference, check=CHECK)
        appliance(home, "run", "--suite", "small", "--solver", "reference", "--out", which, "--no-sign")
    records = [Record.read(home / which / "records/reference.json") for which in ("first", "second")]
    assert [record.trials[0].outcome for record in records] == ["resolved", "unresolved"]
    assert records[0].plan_digest != records[1].plan_digest


def _images_of(record: Record) -> set[tuple[str, str, str]]:
    """`(what the task asks for, configuration, manifest)` of every task of its plan."""
    return {
        (planned.spec.image, planned.images.composed.config, planned.images.task.manifest)
        for planned in record.plan.tasks
    }


def _finished(folder: Path) -> list[int]:
    path = folder / "journal.jsonl"
    if not path.exists() or b"\n" not in path.read_bytes():
        return []
    return [line.trial for line in lines(folder) if isinstance(line, TrialLine)]


def _until(look: Callable[[], T], running: subprocess.Popen[str] | None = None) -> T:
    """What `look` finds in the end; a test that waits longer has failed."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        assert running is None or running.poll() is None, running.communicate()
        time.sleep(0.1)
    raise AssertionError("it never came to be")
