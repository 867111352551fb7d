"""Judges one function of /workspace/solution.py by a `check(candidate)` written for the same process.

    check.py ENTRY_POINT      prompt.py and checks.py lie beside this file; TAP on standard output, one test, `check`

The importer copies this file into every task that it generates. It runs as the judge, who alone may read it; the
solution runs as another user, behind /run/appliance/subject. Only literals cross, so no object of the solution's can
answer for itself: `candidate` here is a proxy, and what it returns was rebuilt from text. Helpers that the prompt
defines are the prompt's own, never the solution's. Standard library only.
"""

from __future__ import annotations

import ast
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUBJECT = "/run/appliance/subject"
SECONDS = 30
"""For all calls of one process of the solution's."""

DRIVER = r"""
import json, os, sys

def plain(value):
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int):
        if isinstance(value, kind):
            return kind.__add__(value, kind())
    if isinstance(value, float):
        return ["float", float.__repr__(value)]
    if isinstance(value, complex):
        return ["complex", plain(value.real), plain(value.imag)]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", bytes(value).hex()]
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return [kind.__name__, [plain(item) for item in kind.__iter__(value)]]
    if isinstance(value, dict):
        return ["dict", [[plain(key), plain(item)] for key, item in dict.items(value)]]
    raise TypeError("a " + type(value).__name__ + " is no literal")

def value_of(form):
    if not isinstance(form, list):
        return form
    kind, *held = form
    if kind == "float":
        return float(held[0])
    if kind == "complex":
        return complex(value_of(held[0]), value_of(held[1]))
    if kind == "bytes":
        return bytes.fromhex(held[0])
    if kind == "dict":
        return {value_of(key): value_of(item) for key, item in held[0]}
    return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(value_of, held[0]))

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
asked = json.load(sys.stdin)
import solution
function = getattr(solution, asked["function"])
for arguments, named in asked["calls"]:
    try:
        said = json.dumps([plain(function(*value_of(arguments), **value_of(named)))])
    except Exception as error:
        said = json.dumps([type(error).__name__ + ": " + ascii(error)[:500], None])
    answers.write(said + "\n")
    answers.flush()
"""
"""Runs as the solution's user: one line an answer, `[value]` or `[what was raised, null]`.

What the solution prints goes to standard error. Nothing in here knows what is expected.
"""


class Failed(Exception):
    """The solution gave no answer, or none that can be one."""


def plain(value: Any) -> Any:
    """The JSON form of a literal, kinds tagged. Raises TypeError for anything else."""
    if value is None or type(value) in (bool, int, str):
        return value
    kind = type(value).__name__
    if type(value) is float:
        return [kind, repr(value)]
    if type(value) is complex:
        return [kind, plain(value.real), plain(value.imag)]
    if type(value) is bytes:
        return [kind, value.hex()]
    if type(value) in (list, tuple, set, frozenset):
        return [kind, [plain(item) for item in value]]
    if type(value) is dict:
        return [kind, [[plain(key), plain(item)] for key, item in value.items()]]
    raise TypeError(f"a {kind} is no literal")


def value_of(form: Any) -> Any:
    """The literal of a JSON form. Raises Failed for a form that `plain` does not make."""
    if form is None or type(form) in (bool, int, str):
        return form
    try:
        kind, *held = form
        if kind in ("list", "tuple", "set", "frozenset"):
            (items,) = held
            of_kind: Callable[[Any], Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return of_kind([value_of(item) for item in items])
        if kind == "float":
            return float(*held)
        if kind == "complex":
            return complex(value_of(held[0]), value_of(held[1]))
        if kind == "bytes":
            return bytes.fromhex(*held)
        if kind == "dict":
            return {value_of(key): value_of(item) for key, item in held[0]}
    except (TypeError, ValueError, IndexError, RecursionError) as error:
        raise Failed(f"not a literal: {error}") from error
    raise Failed(f"not a literal: {str(form)[:80]}")


def ask(function: str, calls: list[str]) -> list[Any]:
    """The answers to the first of `calls`; fewer than asked where the solution ended its process."""
    asked = f'{{"function": {json.dumps(function)}, "calls": [{", ".join(calls)}]}}'
    done = subprocess.run(
        [SUBJECT, "--timeout", str(SECONDS), "python3", "-I", "-c", DRIVER],
        input=asked.encode(),
        capture_output=True,
        timeout=SECONDS + 10,
        check=False,
    )
    answers = answers_in(done.stdout, len(calls))
    if not answers:
        said = done.stderr[-2000:].decode(errors="backslashreplace")
        raise Failed(f"no answer, exit {done.returncode}\n{said}")
    return answers


def answers_in(written: bytes, asked: int) -> list[Any]:
    """A line an answer. Raises Failed for half a line, for more answers than were asked for, for what is not JSON."""
    lines = written.split(b"\n")
    if lines.pop() or len(lines) > asked:
        raise Failed("more was written than answers")
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise Failed(f"an answer that is not JSON: {error}") from error


class Candidate:
    """Stands for the solution's function in `check`; answers that were fetched ahead are used once each."""

    def __init__(self, function: str):
        self._function = function
        self._ready: dict[str, list[Any]] = {}

    def fetch(self, calls: list[str]) -> None:
        for call, answer in zip(calls, ask(self._function, calls), strict=False):
            self._ready.setdefault(call, []).append(answer)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        call = call_form(arguments, named)
        ready = self._ready.get(call)
        answer = ready.pop(0) if ready else ask(self._function, [call])[0]
        if type(answer) is not list or len(answer) not in (1, 2):
            raise Failed("an answer of another shape")
        if len(answer) == 2:
            raise Failed(f"raised {str(answer[0])[:600]}")
        return value_of(answer[0])


def call_form(arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    return json.dumps([plain(list(arguments)), plain(named)])


def calls_of(prompt: str, checks: str, function: str) -> list[str]:
    """The calls that `check` makes, as far as they can be known without answers.

    Only saves processes: whatever is missing or wrong here is asked again by the real run.
    """
    calls: list[str] = []

    def note(*arguments: Any, **named: Any) -> None:
        calls.append(call_form(arguments, named))

    tree = ast.fix_missing_locations(_Lenient().visit(ast.parse(checks)))
    with contextlib.suppress(Exception):  # an answer was needed to go on: the rest is asked for one by one
        run_check(prompt, compile(tree, "checks.py", "exec"), function, note)
    return calls


class _Lenient(ast.NodeTransformer):
    """`assert X` becomes `try: X`, `except Exception: pass`."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        handler = ast.ExceptHandler(type=ast.Name("Exception", ast.Load()), name=None, body=[ast.Pass()])
        attempt = ast.Try(body=[ast.Expr(node.test)], handlers=[handler], orelse=[], finalbody=[])
        return ast.copy_location(attempt, node)


def run_check(prompt: str, checks: Any, function: str, candidate: Callable[..., Any]) -> None:
    """Raises whatever `check` raises. Checks that draw numbers draw the same ones every time."""
    names: dict[str, Any] = {"__name__": "checks"}
    exec(compile(prompt, "prompt.py", "exec"), names)  # noqa: S102 - the task's own text, in the judge's container
    names[function] = candidate
    exec(checks, names)  # noqa: S102 - as above
    random.seed(0)
    names["check"](candidate)


def main(function: str) -> None:
    here = Path(__file__).parent
    prompt, checks = ((here / name).read_text(encoding="utf-8") for name in ("prompt.py", "checks.py"))
    candidate = Candidate(function)
    passed = False
    try:
        calls = calls_of(prompt, checks, function)
        if calls:
            candidate.fetch(calls)
        run_check(prompt, compile(checks, "checks.py", "exec"), function, candidate)
        passed = True
    finally:  # what was raised goes on its way, to standard error and status 1
        sys.stdout.write(f"TAP version 13\n1..1\n{'ok' if passed else 'not ok'} 1 - check\n")


if __name__ == "__main__":
    main(sys.argv[1])
