"""Suites, solvers and plans that tests of trials write to disk: small, real, and each fact settable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from appliance.pins import Pin
from appliance.records.plan import PlannedEnergy, PlannedImages
from appliance.solvers.definition import SolverDefinition, read_definition
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite
from appliance.trials.planning import PlanOptions

BROKEN = "#!/bin/sh\nexit 1\n"
FIXED = "#!/bin/sh\nexit 0\n"


def write_suite(
    folder: Path,
    tasks: tuple[str, ...] = ("fix",),
    *,
    before: Mapping[str, str] | None = None,
    reference: Mapping[str, str] | None = None,
    test_cmd: str = '["sh", "check.sh"]',
    test_files: str = '["check.sh"]',
    check: str = "sh ./program.sh\n",
    more: str = "",
    suite_toml: str = "",
    image: str = "base",
) -> Path:
    """Tasks whose oracle is `check.sh`: it runs `program.sh`, which fails before and passes with the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    if suite_toml:
        (folder / "suite.toml").write_text(suite_toml)
    for name in tasks:
        task = folder / name
        _write(task / "before", before or {"program.sh": BROKEN})
        _write(task / "tests", {"check.sh": check})
        if reference is None or reference:
            _write(task / "reference", reference or {"program.sh": FIXED})
        head = f"name = {json.dumps(name)}\nprompt = {json.dumps(f'mend {name}')}\nimage = {json.dumps(image)}\n"
        (task / "task.toml").write_text(f"{head}test_cmd = {test_cmd}\ntest_files = {test_files}\n{more}")
    return folder


def small_suite(folder: Path, *tasks: str, **options: object) -> Suite:
    return read_suite(write_suite(folder, tasks or ("fix",), **options))  # type: ignore[arg-type]


def write_solver(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nkind = "command"\n{text}')
    return path


def command(folder: Path, name: str, script: str, more: str = "") -> SolverDefinition:
    """A command solver that runs a line of shell."""
    return read_definition(
        write_solver(folder, name, f'model = "none"\nargv = ["sh", "-c", {json.dumps(script)}]\n{more}')
    )


def pin(seed: int = 0) -> Pin:
    digest = f"sha256:{seed:064x}"
    return Pin(config=digest, manifest=digest, diff_ids=(digest,))


def images(seed: int = 0, name: str = "base") -> dict[str, PlannedImages]:
    return {name: PlannedImages(task=pin(seed), solver=None, composed=pin(seed), rebuildable=False)}


def options(**changes: object) -> PlanOptions:
    energy = PlannedEnergy(mode="auto", active_watts=None, scheduling="shared")
    return PlanOptions(**({"energy": energy, "harness_version": "0.1.0"} | changes))  # type: ignore[arg-type]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
