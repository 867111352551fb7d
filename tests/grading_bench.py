"""What tests of grading share: small tasks on disk, a grader over the real engine, changes as a solver makes them."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from appliance.pins import Pin
from appliance.ports import LOCK_LABEL, RUN_LABEL, Changes, TreeEntry
from appliance.records.plan import PlannedImages, PlannedTask
from appliance.tasks.model import Task
from appliance.tasks.reader import read_suite
from appliance.trials.grading.grader import Graded, Grader

PYTEST = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=/grade/result.xml")

SUBJECT_TEST = """
import subprocess

def double(number):
    driver = "import sys; sys.path.insert(0, '.'); from double import double; print(double(int(sys.argv[1])))"
    done = subprocess.run(["/run/appliance/subject", "python3", "-c", driver, str(number)], capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout

def test_of_two():
    assert double(2) == b"4\\n"

def test_of_zero():
    assert double(0) == b"0\\n"
"""
BROKEN = "def double(number):\n    return 0\n"
FIXED = "def double(number):\n    return number * 2\n"
OPEN_TEST = "from double import double\n\ndef test_of_two():\n    assert double(2) == 4\n"


def write_task(
    folder: Path,
    *,
    before: Mapping[str, str] | None = None,
    tests: Mapping[str, str] | None = None,
    reference: Mapping[str, str] | None = None,
    test_cmd: tuple[str, ...] | str = (*PYTEST, "test_double.py"),
    oracle: str = 'path = "/grade/result.xml"\nisolation = "user"\nfail_to_pass = ["test_double.py::test_of_two"]\n'
    'pass_to_pass = ["test_double.py::test_of_zero"]\n',
    more: str = "",
    limits: str = "memory_mib = 256\ndisk_mib = 16\ntest_seconds = 30\npids = 64\n",
    image: str = "base",
    test_files: tuple[str, ...] | None = None,
) -> Task:
    task = folder / "suite" / "double"
    tests = tests if tests is not None else {"test_double.py": SUBJECT_TEST}
    write_files(task / "before", before if before is not None else {"double.py": BROKEN})
    write_files(task / "tests", tests)
    write_files(task / "reference", reference if reference is not None else {"double.py": FIXED})
    names = json.dumps(list(test_files if test_files is not None else tests))
    (task / "task.toml").write_text(
        f'name = "double"\nprompt = "mend it"\nimage = "{image}"\ntest_cmd = {json.dumps(test_cmd)}\n'
        f"test_files = {names}\n{more}\n[limits]\n{limits}\n[oracle]\n{oracle}"
    )
    return read_suite(folder / "suite").tasks[0]


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def changed(**files: str | bytes | None) -> Changes:
    """`changed(**{"a/b.py": "text"})`; None deletes."""
    return Changes(tuple(_entry(name, text) for name, text in files.items()), ())


def _entry(name: str, text: str | bytes | None) -> TreeEntry:
    if text is None:
        return TreeEntry(name.encode(), "deleted")
    return TreeEntry(name.encode(), "file", False, text.encode() if isinstance(text, str) else text)


FIX = changed(**{"double.py": FIXED})
NOTHING = Changes((), ())


@cache
def image(name: str) -> tuple[Pin, str]:
    """The pin of one of our images, and the engine's id of it."""
    from appliance.engine.docker import connect
    from appliance.images.library import ImageLibrary

    library = ImageLibrary(connect())
    pin, _ = library.pin(name)
    return pin, library.ensure([pin])[pin.config]


def planned(task: Task) -> PlannedTask:
    pin, _ = image(task.spec.image)
    return PlannedTask(spec=task.spec, images=PlannedImages(task=pin, solver=None, composed=pin, rebuildable=True))


@contextmanager
def real_grader(scratch: Path, *, bind_tests: bool = True) -> Iterator[Grader]:
    """Under a lock of its own, so that no other run reaps it; leaves no container, mount or file behind."""
    from appliance.engine.docker import connect
    from appliance.engine.locks import RunLocks
    from appliance.engine.workspaces import HostWorkspaces

    engine = connect()
    run = f"gradingtests_{secrets.token_hex(4)}"
    with RunLocks().hold(run) as lock:
        labels = {RUN_LABEL: run, LOCK_LABEL: str(lock)}
        yield Grader(engine, HostWorkspaces(engine), labels, lambda: None, scratch, bind_tests=bind_tests)
        left = subprocess.run(
            ["docker", "ps", "-aq", "--filter", f"label={RUN_LABEL}={run}"], capture_output=True, check=True
        )
        assert left.stdout == b""
        assert run not in Path("/proc/self/mounts").read_text()
        assert {path.name for path in scratch.iterdir()} <= {"guest"}


def graded(grader: Grader, task: Task, changes: Changes) -> Graded:
    wanted = planned(task)
    return grader.grade(grader.ready(task, wanted, image(task.spec.image)[1]), changes)
