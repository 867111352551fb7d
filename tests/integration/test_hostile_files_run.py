"""Hostile solvers, flags and environments: `appliance run` refuses each before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import refused

_GOOD = 'name = "x"\nkind = "command"\nmodel = "none"\nargv = ["a"]\n'
SOLVERS = {
    "a date": (_GOOD + "version = 2020-01-01", "version: "),
    "a NUL in the command": (_GOOD.replace('["a"]', '["a", "b\\u0000"]'), "argv[1]: holds a NUL"),
    "a NUL in a variable": (_GOOD + '[env]\nA = "\\u0000"', "env.'A': holds a NUL"),
    "a variable of no name": (_GOOD + '[env]\n"A=B" = "x"', "no name of a variable"),
    "no program": (_GOOD.replace('["a"]', '[""]'), "argv[0]: names no program"),
    "digits without end": (_GOOD + "version = 0x" + "f" * 9000, "a whole number of more than 64 bits"),
    "brackets": ("a = " + "[" * 9000, "nested too deeply"),
    "a pattern without bounds": (_GOOD + 'version_pattern = "a{99999999999}"', "not a regular expression"),
    "a pattern too deep": (_GOOD + f'version_pattern = "{"(" * 3000}{")" * 3000}"', "at most 200 characters"),
    "a template elsewhere": (_GOOD + '[files]\n"{home}/a" = "link"', "a symbolic link that leads elsewhere"),
    "a template that blocks": (_GOOD + '[files]\n"{home}/a" = "pipe"', "a named pipe"),
    "a template without a name": (_GOOD + '[files]\n"{home}/a" = "b\\u0000"', "no name that a file can have"),
    "a template for a folder": (_GOOD + '[files]\n"{home}/" = "text"', "a path that is empty"),
    "a template under a template": (_GOOD + '[files]\n"{home}/a" = "text"\n"{home}/a/b" = "text"', "the folder of"),
    "a target without end": (_GOOD + f'[files]\n"{{home}}/{"a" * 300}" = "text"', "is too long"),
}
FLAGS = {
    "no rollouts": (("--rollouts", "0"), {}, "'--rollouts'"),
    "rollouts without end": (
        ("--rollouts", "99999999999999999999999"),
        {},
        "--rollouts: over 100000 trials: 8 tasks, 1 passes",
    ),
    "passes without end": (("--passes", "1000000000"), {}, "--passes: over 100000 trials: 8 tasks, 1000000000 passes"),
    "no jobs": (("--jobs", "0"), {}, "'--jobs'"),
    "no number of seconds": (("--limit-wall-seconds", "nan"), {}, "--limit-wall-seconds: "),
    "infinite CPUs": (("--limit-cpus", "inf"), {}, "--limit-cpus: "),
    "no such task": (("--tasks", "nothing"), {}, "no task matches 'nothing'"),
    "no such folder to go on with": (("--resume", "nowhere"), {}, "--resume nowhere: holds no run"),
    "no number of watts": ((), {"JOULE_BENCH_ACTIVE_WATTS": "abc"}, "WATTS: 'abc' is no number of watts"),
    "watts that are empty": ((), {"JOULE_BENCH_ACTIVE_WATTS": ""}, "WATTS: '' is no number of watts"),
}
ENGINES = [
    "http://[::",
    "tcp://127.0.0.1:99999",
    "tcp://127.0.0.1:1",
    "unix://",
    "unix:///nowhere",
    "garbage",
    "ssh://h",
]


@pytest.mark.parametrize(("content", "words"), SOLVERS.values(), ids=SOLVERS)
def test_a_malformed_solver_is_one_line_with_file_and_key(tmp_path: Path, content: str, words: str) -> None:
    """Status 3, before an engine is asked for anything (issue 3, Bad input)."""
    (tmp_path / "x.toml").write_text(content)
    (tmp_path / "text").write_text("x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    found = refused(tmp_path, "run", "--suite", "smoke", "--solver", "./x.toml", "--dry-run", "--json", status=3)
    assert "x.toml" in found.line
    assert words in found.line


@pytest.mark.parametrize(("flags", "environment", "said"), FLAGS.values(), ids=FLAGS)
def test_a_word_that_does_not_fit_is_refused_before_anything_starts(
    tmp_path: Path, flags: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    """Status 2, with the word (J05); no plan is listed that nobody could run."""
    words = ("run", "--suite", "smoke", "--solver", "noop", *flags, "--dry-run", "--json")
    assert said in refused(tmp_path, *words, status=2, environment=environment).line


@pytest.mark.parametrize("address", ENGINES)
def test_an_engine_that_cannot_be_reached_is_one_line(tmp_path: Path, address: str) -> None:
    """Status 4, whatever stands in DOCKER_HOST; an empty path never means another engine than the one named."""
    words = ("run", "--suite", "smoke", "--solver", "noop", "--json")
    refused(tmp_path, *words, status=4, environment={"DOCKER_HOST": address})
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_challenge_or_a_plan_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Neither waits for a writer nor reads without end."""
    make(tmp_path / "plan.json")
    words = ("run", "--suite", "smoke", "--solver", "noop", "--json")
    refused(tmp_path, *words, "--challenge", "plan.json", "--dry-run", status=3)
    refused(tmp_path, "run", "--resume", ".", "--json", status=(2, 3))
