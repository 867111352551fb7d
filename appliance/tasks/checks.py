"""What `tasks check` found for a suite: checks.json beside it, or in the data folder where that is read-only."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from appliance.bundle import state_home
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.files import write_atomically
from appliance.pins import Sha256
from appliance.reading import read_regular
from appliance.tasks.tree import CHECKS_JSON
from appliance.wire import INFORMATIVE, Wire, first_path, first_problem

MAX_BYTES: Final = 64 * 1024 * 1024
MEND: Final = "remove the file and run `appliance tasks check` again"


class CheckedSolver(Wire):
    """How often one solver resolved one task."""

    solver: Annotated[str, INFORMATIVE]
    """`reference`, `noop`, or a forger's name."""
    resolved: Annotated[int, INFORMATIVE] = Field(ge=0)
    runs: Annotated[int, INFORMATIVE] = Field(ge=0)

    @model_validator(mode="after")
    def _not_more_than_runs(self) -> CheckedSolver:
        if self.resolved > self.runs:
            raise ValueError("resolved more often than run")
        return self


class CheckedTask(Wire):
    task: Annotated[str, INFORMATIVE]
    rates: Annotated[tuple[CheckedSolver, ...], INFORMATIVE]
    findings: Annotated[tuple[str, ...], INFORMATIVE] = ()
    """What else is wrong with it, one line each: the network was reached for, history holds the fix."""


class Checks(Wire):
    """checks-v1. Not part of the suite's digest; `suite_digest` says which content was checked."""

    schema_: Annotated[Literal["checks-v1"], INFORMATIVE] = Field(default="checks-v1", alias="schema")
    suite_digest: Annotated[Sha256, INFORMATIVE]
    runs: Annotated[int, INFORMATIVE] = Field(ge=1)
    """How often each solver ran on each task (`--runs`)."""
    rates: Annotated[tuple[CheckedTask, ...], INFORMATIVE]
    quarantined: Annotated[dict[str, str], INFORMATIVE]
    """Task -> reason: the reference does not always resolve it, or doing nothing sometimes does."""
    forgeable: Annotated[dict[str, tuple[str, ...]], INFORMATIVE]
    """Task -> the forgers that resolve it."""

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Self:
        """As every wire model's, but that keys may be any Unicode: they are task names, and this is never signed."""
        if len(content) > MAX_BYTES:
            raise InputRefused(f"{len(content)} bytes, over the bound of {MAX_BYTES}", where=where, mend=MEND)
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise InputRefused(first_problem(error), where=f"{where}: {first_path(error)}", mend=MEND) from error


@dataclass(frozen=True)
class StoredChecks:
    value: Checks
    digest: str
    """sha256 of the file's bytes."""
    path: Path


def read_checks(suite: Path, suite_digest: str) -> StoredChecks | None:
    """The checks of exactly this content: beside the suite, else in the data folder.

    None where it was never checked, or changed since. Raises InputRefused for a file that is malformed or cannot be
    read: passed over, it would bring back the tasks that it quarantines.
    """
    for path in (suite / CHECKS_JSON, _in_data_folder(suite_digest)):
        try:
            content = read_regular(path, MAX_BYTES)
        except FileNotFoundError as error:
            if not path.is_symlink():
                continue
            raise InputRefused("a symbolic link that leads nowhere", where=str(path), mend=MEND) from error
        except PermissionError as error:
            raise InputRefused("permission denied", where=str(path), mend=f"make it readable, or {MEND}") from error
        except OSError as error:
            raise InputRefused(error.strerror or str(error), where=str(path), mend=MEND) from error
        value = Checks.from_json(content, str(path))
        if value.suite_digest == suite_digest:
            return StoredChecks(value=value, digest=sha256_hex(content), path=path)
    return None


def are_stale(suite: Path, suite_digest: str) -> bool:
    """Whether the checks beside the suite are of other content than it has now. Raises as `read_checks`."""
    path = suite / CHECKS_JSON
    return path.is_file() and Checks.from_json(read_regular(path, MAX_BYTES), str(path)).suite_digest != suite_digest


def write_checks(suite: Path, checks: Checks) -> Path:
    """Write checks.json beside the suite, or in the data folder where the suite is read-only; the path is returned."""
    content = json.dumps(checks.json_value(), indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"
    beside = suite / CHECKS_JSON
    if os.access(suite, os.W_OK):
        try:
            write_atomically(beside, content)
            return beside
        except OSError:
            pass  # a file system mounted read-only says so only when written to
    path = _in_data_folder(checks.suite_digest)
    write_atomically(path, content)
    return path


def _in_data_folder(suite_digest: str) -> Path:
    return state_home() / "checks" / f"{suite_digest}.json"
