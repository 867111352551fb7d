"""The version that a solver's program says of itself, asked once a run in the container image it will run in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from appliance.errors import InputRefused
from appliance.ports import ContainerSpec, Engine, ExecSpec
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.model import Limits

_ANSWER_SECONDS = 60


def program_version(
    definition: SolverDefinition, engine: Engine, image: str, labels: Mapping[str, str], cgroup: str | None
) -> str | None:
    """None where the definition does not say how to ask. Raises InputRefused where the program gives no such answer."""
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
        asked = ExecSpec(definition.version_argv, workdir="/", timeout_seconds=_ANSWER_SECONDS, capture_bytes=65536)
        said = engine.execute(container, asked)
    finally:
        engine.remove(container)
    if said.start_error is not None:
        raise InputRefused(
            f"{definition.version_argv[0]} could not be started: {said.start_error}",
            where=where,
            mend="name the image that holds it",
        )
    words = (said.stdout.kept + b"\n" + said.stderr.kept).decode("utf-8", "replace")
    match = re.search(definition.version_pattern, words)
    if match is None:
        raise InputRefused(
            f"its answer (exit {said.exit}) does not hold {definition.version_pattern!r}",
            where=where,
            mend="mend version_pattern",
        )
    return match[0]


def refuse_other_version(definition: SolverDefinition, found: str, locked: str | None) -> None:
    """Raises InputRefused where the program is not the one that the image's lock holds."""
    if locked is not None and found != locked:
        raise InputRefused(
            f"the program says {found}, the lock of image {definition.image!r} {locked}",
            where=f"{definition.path}: version_argv",
            mend=f"appliance images build {definition.image}",
        )
