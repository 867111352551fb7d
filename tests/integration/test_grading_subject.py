"""The subject's server and its clients, in a real grader's container (formats 7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.grading_bench import NOTHING, graded, real_grader, write_task

pytestmark = pytest.mark.docker
HEAD = """
import json, os, subprocess, sys, threading, time
sys.path.append("/run/appliance/lib")
from subject import Subject
def client(*argv, stdin=b""):
    done = subprocess.run(["/run/appliance/subject", *argv], input=stdin, capture_output=True)
    return [done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")]
subject = Subject()
"""


@pytest.fixture
def said(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """What a judge's program prints as JSON, when it is the test command."""

    def run(program: str) -> Any:
        task = write_task(
            tmp_path, test_cmd=("python3", "-c", HEAD + program), oracle='isolation = "user"\n',
            before={"answer.sh": "#!/bin/sh\necho here: $(pwd) $(id -u)\n"},
        )  # fmt: skip
        with real_grader(tmp_path / "scratch") as grader:
            seen = graded(grader, task, NOTHING)
        assert seen.stderr.kept == b""
        return json.loads(seen.stdout.kept)

    return run


def test_a_call_is_a_process_of_the_solutions_user(said: Callable[[str], Any]) -> None:
    """Output, input and status go through; what cannot start says so with 127 or 126 (formats 7)."""
    assert said(
        'print(json.dumps([client("sh", "answer.sh"), client("cat", stdin=bytes(range(256))),'
        ' client("sh", "-c", "echo no >&2; exit 3"), client("sh", "-c", "kill -9 $$"), client("no-such"),'
        ' client("./answer.sh"), client("--timeout", "20", "--", "echo", "x")]))'
    ) == [
        [0, "here: /workspace 1000\n", ""],
        [0, bytes(range(256)).decode("latin-1"), ""],
        [3, "", "no\n"],
        [137, "", ""],
        [127, "", "no-such: No such file or directory\n"],
        [126, "", "./answer.sh: Permission denied\n"],
        [0, "x\n", ""],
    ]


def test_one_connection_answers_many_calls_in_order(said: Callable[[str], Any]) -> None:
    """Repeated calls on one connection, several connections at once, and a bad line among them (formats 7)."""
    assert said(
        "lines = []\n"
        "def many(): lines.append([Subject().run(['echo', str(n)])['stdout'].decode() for n in range(20)])\n"
        "threads = [threading.Thread(target=many) for _ in range(4)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "import socket\nraw = socket.socket(socket.AF_UNIX); raw.connect('/run/appliance/subject.sock')\n"
        "file = raw.makefile('rw')\n"
        'file.write(\'rubbish\\n{"argv": []}\\n[1]\\n{"argv": ["true"], "stdin": "%%%"}\\n{"argv": ["true"]}\\n\')\n'
        "file.flush()\nanswers = [json.loads(file.readline()) for _ in range(5)]\n"
        "print(json.dumps([lines == [[f'{n}\\n' for n in range(20)]] * 4,"
        " [sorted(answer) == ['error'] for answer in answers], answers[4]['exit']]))"
    ) == [True, [True, True, True, False, False], 0]


def test_a_call_ends_at_its_limit_and_within_its_caps(said: Callable[[str], Any]) -> None:
    """A hanging program is killed, a flood is cut, and both answers say so (formats 7)."""
    assert said(
        "slow = subject.run(['sh', '-c', 'echo began; sleep 60'], timeout=0.5)\n"
        "flood = subject.run(['sh', '-c', 'head -c 30000000 /dev/zero; echo end >&2'])\n"
        "print(json.dumps([slow['signal'], slow['timedOut'], slow['stdout'].decode(), flood['exit'],"
        " flood['truncated'], len(flood['stdout']), flood['stderr'].decode()]))"
    ) == [9, True, "began\n", 0, True, 8 * 1024 * 1024, "end\n"]


def test_nothing_that_a_call_started_outlives_it(said: Callable[[str], Any]) -> None:
    """Another session, a double fork, a kept pipe: the call ends with its program, and the rest is dead (H6)."""
    assert said(
        "subject.run(['sh', '-c', 'setsid sh -c \"sleep 300 & sleep 301\" & (sleep 302 &) & exit 0'])\n"
        "left = subprocess.run(['sh', '-c', 'cat /proc/[0-9]*/cmdline'], capture_output=True).stdout\n"
        "print(json.dumps([b'sleep\\x0030' in left, subject.run(['true'])['exit']]))"
    ) == [False, 0]


def test_without_a_server_only_a_solver_runs_its_words(tmp_path: Path) -> None:
    """In a solver's container the program simply runs; the judge never lends its own rights (formats 7)."""
    from appliance.ports import ExecSpec
    from tests.grading_bench import image, planned

    task = write_task(tmp_path, oracle='isolation = "user"\n')
    with real_grader(tmp_path / "scratch") as grader:
        ready = grader.ready(task, planned(task), image("base")[1])
        outcomes = []
        wait = "until [ -S $s ]; do sleep 0.01; done; rm $s; exec /run/appliance/subject echo own"
        for user, script in (("1000:1000", wait), ("1001:1001", "exec /run/appliance/subject echo own")):
            argv = ("sh", "-c", "s=/run/appliance/subject.sock; " + script)
            seen = grader.look(ready, ExecSpec(argv, user, "/", timeout_seconds=20))
            outcomes.append((seen.exit, seen.stdout.kept))
        grader.discard(ready)
    assert outcomes == [(0, b"own\n"), (125, b"")]
