"""One record in full: its trials in a list, one trial with every field, and its artifacts by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appliance.digests import sha256_hex
from appliance.errors import AttestationRefused, InputRefused, UsageRefused
from appliance.reading import open_regular
from appliance.records.blob import BlobRef
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.report import words
from appliance.report.table import table
from appliance.report.words import cell

_HEADS = ("trial", "task", "pass", "rollout", "outcome", "reason", "ended by", "wall", "joules")


def trial_list(record: Record) -> str:
    rows = [
        (
            str(at),
            trial.key.task if trial.key.case is None else f"{trial.key.task} {trial.key.case}",
            str(trial.key.pass_),
            str(trial.key.rollout),
            trial.outcome,
            trial.reason or words.NONE,
            trial.cause or words.NONE,
            words.seconds(trial.wall_seconds),
            _joules(trial),
        )
        for at, trial in enumerate(record.trials)
    ]
    return "\n".join(table(_HEADS, rows, right=frozenset({0, 2, 3, 7}))) + "\n"


def _joules(trial: TrialResult) -> str:
    if trial.energy is None:
        return words.NONE
    total = trial.energy.total
    if total.net_uj is None:
        return f"missing: {total.missing}"
    floor = "~" if total.below_floor else ""
    label = " (estimated)" if total.basis == "modelled" else " (simulated)" if total.provenance == "simulated" else ""
    span = f" [{total.interval[0] / 1e6:.3f}, {total.interval[1] / 1e6:.3f}]" if total.interval else ""
    return f"{floor}{total.net_uj / 1e6:.3f} J{label}{span}"


def trial_at(record: Record, at: int) -> TrialResult:
    if not 0 <= at < len(record.trials):
        raise UsageRefused(
            f"there is no trial {at}", mend=f"0 to {len(record.trials) - 1}; see `appliance show RECORD`"
        )
    return record.trials[at]


def trial_text(trial: TrialResult, artifacts: dict[str, BlobRef]) -> str:
    """Every field that is set, one a line, by its wire name; then what `--artifact` takes."""
    lines = [f"{path}: {cell(value)}" for path, value in _leaves(trial.json_value(), "")]
    lines += ["", "artifacts:", *(f"  {cell(name)}  {blob.bytes} bytes" for name, blob in artifacts.items())]
    return "\n".join(lines) + "\n"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{cell(key)}" if path else cell(key))
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]")
    elif value not in (None, [], {}):
        yield path, str(value)


def artifacts_of(trial: TrialResult) -> dict[str, BlobRef]:
    """By the names that `--artifact` takes."""
    found: dict[str, BlobRef | None] = {
        "diff": trial.harvest.diff if trial.harvest else None,
        "stdout": trial.streams.stdout.blob if trial.streams else None,
        "stderr": trial.streams.stderr.blob if trial.streams else None,
        "readings": trial.energy.readings if trial.energy else None,
        "cassette": trial.cassette,
    }
    found |= {artifact.name: artifact.blob for artifact in trial.artifacts}
    return {name: blob for name, blob in found.items() if blob is not None}


def record_artifacts(record: Record) -> dict[str, BlobRef]:
    """Those that are of no trial: the journal, the suite's archive, each baseline's output."""
    found: dict[str, BlobRef | None] = {"journal": record.journal, "suite": record.suite.archive}
    found |= {f"baseline:{baseline.task}": baseline.output for baseline in record.baselines}
    return {name: blob for name, blob in found.items() if blob is not None}


def artifact(known: dict[str, BlobRef], name: str, folder: Path | None) -> bytes:
    """The bytes of a blob, whose digest was checked. Raises AttestationRefused (class blob) where it is another."""
    if name not in known:
        raise UsageRefused(f"no artifact {name!r} here", mend=f"one of: {', '.join(sorted(known)) or 'there are none'}")
    blob = known[name]
    if folder is None:
        raise InputRefused("no folder of blobs beside the record", mend="--blobs DIR")
    path = folder / "sha256" / blob.sha256
    try:
        with open_regular(path, follow=False) as stream:
            content = stream.read(blob.bytes + 1) if os.fstat(stream.fileno()).st_size == blob.bytes else b""
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path), mend="--blobs DIR") from error
    if len(content) != blob.bytes or sha256_hex(content) != blob.sha256:
        raise AttestationRefused("not the bytes that the record names", where=str(path), reason="blob")
    return content
