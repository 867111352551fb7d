"""The version that a solver's program says of itself, asked once a run in the container image it will run in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from appliance.errors import InputRefused
from appliance.ports import ContainerSpec, Engine, ExecSpec
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.model import Limits

_ANSWER_SECONDS = 60
_ANSWER_BYTES: Final = 8192
"""Of each stream, half from its beginning and half from its end: a version is no long story."""
_SEARCH_SECONDS = 5.0
_SEARCH: Final = """
import json, re, sys
pattern, text = json.load(sys.stdin)
found = re.search(pattern, text)
print(json.dumps(found and found[0]))
"""


def program_version(
    definition: SolverDefinition, engine: Engine, image: str, labels: Mapping[str, str], cgroup: str | None
) -> str | None:
    """None where the definition does not say how to ask, or the program is not there.

    Raises InputRefused where the program gives no such answer.
    """
    if definition.version_argv is None:
        return None
    where = f"{definition.path}: version_argv"
    spec = ContainerSpec(
        image=image,
        role="harness",
        labels=labels,
        limits=Limits(),
        network="none",
        cgroup_parent=cgroup,
        workdir="/",
    )
    container = engine.create(spec)
    try:
        engine.start(container)
        asked = ExecSpec(
            definition.version_argv, workdir="/", timeout_seconds=_ANSWER_SECONDS, capture_bytes=_ANSWER_BYTES
        )
        said = engine.execute(container, asked)
    finally:
        engine.remove(container)
    if said.start_error is not None:
        return None  # nor will its trials start: each is errored and names the program (row J15)
    words = (said.stdout.kept + b"\n" + said.stderr.kept).decode("utf-8", "replace")
    try:
        found = first_match(definition.version_pattern, words)
    except subprocess.TimeoutExpired as error:
        raise InputRefused(
            f"no end after {_SEARCH_SECONDS:g} s of looking for it in the program's answer: it backtracks",
            where=f"{definition.path}: version_pattern",
            mend="no repeat inside a repeat, as in (a+)+",
        ) from error
    if found is None:
        raise InputRefused(
            f"its answer (exit {said.exit}) does not hold {definition.version_pattern!r}",
            where=where,
            mend="mend version_pattern",
        )
    return found


def first_match(pattern: str, text: str) -> str | None:
    """Raises TimeoutExpired. In a Python of its own: while `re` looks, nothing in this one ends it."""
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SEARCH],
        input=json.dumps([pattern, text]).encode(),
        capture_output=True,
        check=True,
        timeout=_SEARCH_SECONDS,
    )
    found: str | None = json.loads(ended.stdout)
    return found


def refuse_other_version(definition: SolverDefinition, found: str, locked: str | None) -> None:
    """Raises InputRefused where the program is not the one that the image's lock holds."""
    if locked is not None and found != locked:
        raise InputRefused(
            f"the program says {found}, the lock of image {definition.image!r} {locked}",
            where=f"{definition.path}: version_argv",
            mend=f"appliance images build {definition.image}",
        )
