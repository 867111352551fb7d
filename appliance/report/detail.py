"""One record in full: its trials in a list, one trial with every field, and its artifacts by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appliance.digests import sha256_hex
from appliance.energy.uncertainty import REFERENCE
from appliance.errors import AttestationRefused, InputRefused, UsageRefused
from appliance.reading import open_regular
from appliance.records.blob import BlobRef
from appliance.records.energy import EnergyFigure, EnergyPart, TrialEnergy
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.report import joules, words
from appliance.report.table import table
from appliance.report.words import cell

_HEADS = ("trial", "task", "pass", "rollout", "outcome", "reason", "ended by", "wall")
_ENERGY_HEADS = ("trial", "net", "gross", "from", "flags")
_SPLIT = frozenset({2, 3, 4, 5})


def trial_list(record: Record) -> str:
    """What became of each trial, and its joules in a table of their own."""
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
        )
        for at, trial in enumerate(record.trials)
    ]
    lines = table(_HEADS, rows, right=frozenset({0, 2, 3, 7}))
    spent = [
        (
            str(at),
            joules.of_trial(trial.energy.total),
            joules.of_trial(trial.energy.total, "gross"),
            joules.source(trial.energy.total),
            ", ".join(trial.energy.total.flags) or words.NONE,
        )
        for at, trial in enumerate(record.trials)
        if trial.energy
    ]
    if spent:
        lines += ["", *table(_ENERGY_HEADS, spent, right=frozenset({0}))]
    return "\n".join(lines) + "\n"


def trial_at(record: Record, at: int) -> TrialResult:
    if not 0 <= at < len(record.trials):
        raise UsageRefused(
            f"there is no trial {at}", mend=f"0 to {len(record.trials) - 1}; see `appliance show RECORD`"
        )
    return record.trials[at]


def trial_text(trial: TrialResult, artifacts: dict[str, BlobRef]) -> str:
    """Every field that is set, one a line, by its wire name; its joules by zone and role; what `--artifact` takes."""
    lines = [f"{path}: {cell(value)}" for path, value in _leaves(trial.json_value(), "")]
    lines += _energy_lines(trial.energy) if trial.energy else []
    lines += ["", "artifacts:", *(f"  {cell(name)}  {blob.bytes} bytes" for name, blob in artifacts.items())]
    return "\n".join(lines) + "\n"


def _energy_lines(energy: TrialEnergy) -> Iterator[str]:
    """One line a part: gross = idle + system + others + net wherever the zone was read and idle is known."""
    near = energy.local or energy.total
    parts: list[tuple[str, EnergyFigure]] = [("total", energy.total)]
    parts += [(name, side) for name, side in (("here", energy.local), ("the provider", energy.cloud)) if side]
    parts += [(f"role {role}", _shared_out(figure, near)) for role, figure in energy.by_role.items()]
    for key, zone in energy.zones.items():
        parts.append((f"zone {key}" if zone.summed else f"zone {key} (not summed)", zone))
    parts += [(_part_name(part), _shared_out(part, near)) for part in energy.parts]
    rows = [
        (
            name,
            joules.of_trial(figure),
            *(words.NONE if uj is None else f"{joules.amount(uj)} J{joules.label(figure)}" for uj in _split(figure)),
            joules.source(figure),
        )
        for name, figure in parts
    ]
    yield ""
    yield from table(("energy of", "net", "gross", "idle", "system", "others", "from"), rows, right=_SPLIT)
    for key, zone in energy.zones.items():
        if zone.by_role_uj and not zone.below_lod:
            shares = ", ".join(f"{role} {joules.amount(uj)} J" for role, uj in zone.by_role_uj.items())
            yield cell(f"zone {key} by role: {shares}")
    for name, figure in parts:
        if figure.bounds is not None:
            yield cell(
                f"{name}: between {joules.amount(figure.bounds[0])} and {joules.amount(figure.bounds[1])} J gross"
            )
    if energy.total.flags:
        yield f"flags: {', '.join(energy.total.flags)}"
    if energy.total.budget_uj:
        terms = ", ".join(f"{name} {joules.amount(uj)} J" for name, uj in energy.total.budget_uj.items())
        yield cell(f"uncertainty (k=1): {terms}; reference: {REFERENCE}")


def _part_name(part: EnergyPart) -> str:
    return f"part {part.label}" if part.pooled is None else f"stage {part.label} ({part.pooled} short ones)"


def _shared_out(share: EnergyFigure, whole: EnergyFigure) -> EnergyFigure:
    """A share of what is not told from nothing is told from nothing still less."""
    return share.model_copy(update={"lod_uj": whole.lod_uj}) if whole.below_lod and share.lod_uj is None else share


def _split(figure: EnergyFigure) -> tuple[int | None, ...]:
    return figure.gross_uj, figure.idle_uj, figure.system_uj, figure.others_uj


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
    found |= {f"idle:{at}": look.readings for at, look in enumerate(record.meter.idle or ())}
    found |= {"calibration": record.meter.calibration.readings if record.meter.calibration else None}
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
