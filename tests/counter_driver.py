"""A counter in a process of its own, asked line by line: for what needs another environment (a stub library, a mount).

As a program: `python -m tests.counter_driver MODULE:CLASS [JSON of keyword arguments]`; a string argument whose name
ends in `_path` becomes a Path under the name without it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import operator
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading

_ROOT = Path(__file__).parent.parent


class CounterElsewhere:
    """A `Counter` whose every method is asked of the other process."""

    def __init__(self, program: subprocess.Popen[str]):
        self._program = program
        self.name = str(self.ask("name"))

    def ask(self, method: str, *arguments: Any) -> Any:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        assert line, f"the counter's process ended: {self._program.wait()}"
        return json.loads(line)

    @property
    def said(self) -> list[str]:
        return list(self.ask("said"))

    def zones(self) -> tuple[CounterZone, ...]:
        return tuple(CounterZone(**{**one, "flags": tuple(one["flags"])}) for one in self.ask("zones"))

    def absent(self) -> tuple[AbsentZone, ...]:
        return tuple(AbsentZone(**one) for one in self.ask("absent"))

    def read(self) -> Sequence[Reading]:
        found: list[Reading] = self.ask("read")
        return found

    def rescan(self) -> bool:
        return bool(self.ask("rescan"))

    def occupancy(self) -> Sequence[Occupancy]:
        return [Occupancy(one["zone"], frozenset(one["pids"]), one["sharing"]) for one in self.ask("occupancy")]

    def close(self) -> None:
        self.ask("close")


@contextlib.contextmanager
def counter_elsewhere(
    target: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    within: Sequence[str] = (),
) -> Iterator[CounterElsewhere]:
    """`within`: a command that runs it, as `unshare -m sh -c 'mount ...; exec "$@"' sh`."""
    program = subprocess.Popen(
        [*within, sys.executable, "-m", "tests.counter_driver", target, json.dumps(dict(arguments or {}))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield CounterElsewhere(program)
    finally:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.close()
        program.wait()
        program.stdout.close()


def _main(target: str, arguments: str) -> None:
    module, _, kind = target.partition(":")
    given = {
        name.removesuffix("_path"): Path(value) if name.endswith("_path") else value
        for name, value in json.loads(arguments).items()
    }
    said: list[str] = []
    counter = operator.attrgetter(kind)(importlib.import_module(module))(**given, say=said.append)
    for line in sys.stdin:
        method, *rest = json.loads(line)
        found = said if method == "said" else getattr(counter, method)
        sys.stdout.write(json.dumps(_plain(found(*rest) if callable(found) else found)) + "\n")
        sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    return sorted(value) if isinstance(value, frozenset) else value


if __name__ == "__main__":
    _main(*sys.argv[1:])
