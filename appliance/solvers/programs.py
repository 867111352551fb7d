"""What each kind of solver executes: one exec in the trial's container, the same path for all of them."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from appliance.errors import InputRefused
from appliance.ports import DUMMY_KEY, GATEWAY_PORT, ExecSpec, Mount, SolveCall
from appliance.records.plan import PlannedBudget, PlannedTask
from appliance.solvers import placeholders
from appliance.solvers.definition import SolverDefinition

HOME: Final = "/home/bench"
WORKSPACE: Final = "/workspace"
OURS: Final = "/run/appliance"
"""Read-only in the container: the prompt, the budget, and what `reference` copies."""
BASE_URL: Final = f"http://127.0.0.1:{GATEWAY_PORT}"
_USER: Final = 1000


@dataclass(frozen=True)
class Program:
    """A solver of this version: `reference`, `noop` or a command, with the flags of this run in its argv."""

    definition: SolverDefinition
    argv: tuple[str, ...]
    """As planned: `{flags}` expanded, the other placeholders standing; empty for reference and noop."""
    model: str | None
    budget: PlannedBudget | None = None
    """What each trial may ask of the model; None: it has none."""

    @property
    def name(self) -> str:
        return self.definition.name

    def call(self, task: PlannedTask, folder: Path, scratch: Path) -> SolveCall:
        """Raises InputRefused where `reference` finds no reference of the task."""
        spec, ours = task.spec, scratch / "appliance"
        budget = spec.limits.wall_seconds
        mounts, env = laid_out(task, scratch, self.budget)
        if self.definition.kind == "noop":
            return SolveCall(_exec(("true",), env, budget), mounts)
        if self.definition.kind == "reference":
            return SolveCall(_exec(_reference_argv(folder, ours), env, budget), mounts)
        values = {
            "prompt": spec.prompt,
            "prompt_file": f"{OURS}/prompt.txt",
            "model": self.model or "",
            "home": HOME,
            "workspace": WORKSPACE,
            "budget_seconds": f"{budget:g}",
            "base_url": BASE_URL,
            "dummy_key": DUMMY_KEY,
        }
        argv = tuple(placeholders.fill(argument, values) for argument in self.argv)
        env |= {name: placeholders.fill(value, values) for name, value in self.definition.env.items()}
        stdin = spec.prompt.encode() if self.definition.stdin == "prompt" else None
        return SolveCall(
            _exec(argv, env, budget, stdin),
            mounts,
            home=_home_tar(self.definition.templates, values),
            output=self.definition.output,
            output_file=placeholders.fill(self.definition.output_file, values) if self.definition.output_file else None,
        )


def laid_out(
    task: PlannedTask, scratch: Path, budget: PlannedBudget | None = None
) -> tuple[tuple[Mount, ...], dict[str, str]]:
    """What every solver finds: the prompt and its budget in a folder of ours, and the variables that say so."""
    ours, seconds = scratch / "appliance", task.spec.limits.wall_seconds
    ours.mkdir(parents=True)
    _write(ours / "prompt.txt", task.spec.prompt.encode())
    _write(ours / "budget.json", _budget(seconds, budget))
    mounts = (Mount("bind", str(ours), OURS, read_only=True),)
    return mounts, {"HOME": HOME, "APPLIANCE_BUDGET_SECONDS": f"{seconds:g}"}


def _budget(seconds: float, asked: PlannedBudget | None) -> bytes:
    """`budget.json`: the time, and what of the model's budgets is bounded at all."""
    model = {name: value for name, value in (asked.json_value() if asked else {}).items() if value is not None}
    return json.dumps({"wallSeconds": seconds, **model}).encode() + b"\n"


def check_reference(folder: Path) -> None:
    """Row J01: a task without a reference is an error under that solver only."""
    _reference_of(folder)


def _reference_of(folder: Path) -> Path:
    for name in ("reference", "reference.patch"):
        if (folder / name).exists():
            return folder / name
    raise InputRefused(
        "has neither reference/ nor reference.patch", where=str(folder), mend="add one, or leave this solver out"
    )


def _reference_argv(folder: Path, ours: Path) -> tuple[str, ...]:
    source = _reference_of(folder)
    if source.is_dir():
        _copy_readable(source, ours / "reference")
        # -f replaces a read-only file of before/; -P keeps links; -p keeps the execute bit (an owner it may not set)
        return ("cp", "-RPfp", f"{OURS}/reference/.", WORKSPACE)
    _write(ours / "reference.patch", source.read_bytes())
    return ("git", "apply", "--whitespace=nowarn", f"{OURS}/reference.patch")


def _copy_readable(source: Path, target: Path) -> None:
    """As git would keep it, whatever umask the checkout was made under: user 1000 must be able to read it."""
    target.mkdir()
    target.chmod(0o755)
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_symlink():
            place.symlink_to(entry.readlink())
        elif entry.is_dir():
            _copy_readable(entry, place)
        else:
            shutil.copyfile(entry, place)
            place.chmod(0o755 if entry.stat().st_mode & 0o100 else 0o644)


def _exec(argv: tuple[str, ...], env: Mapping[str, str], seconds: float, stdin: bytes | None = None) -> ExecSpec:
    return ExecSpec(
        argv=argv, user=f"{_USER}:{_USER}", workdir=WORKSPACE, env=env, stdin=stdin, timeout_seconds=seconds
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)


def _home_tar(templates: Mapping[str, str], values: Mapping[str, str]) -> bytes:
    """Files and the folders above them, all of user 1000, relative to HOME; empty where there are none."""
    if not templates:
        return b""
    files = {
        PurePosixPath(placeholders.fill(target, values)).relative_to(HOME): placeholders.fill(text, values).encode()
        for target, text in templates.items()
    }
    folders = sorted({parent for path in files for parent in path.parents if parent.name}, key=str)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in folders:
            member = tarfile.TarInfo(str(folder))
            member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o755, _USER, _USER
            tar.addfile(member)
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(str(path))
            member.size, member.mode, member.uid, member.gid = len(content), 0o644, _USER, _USER
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
