"""Row P6: the blobs that a policy requires, by what of a record they are: named by it, and there."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from appliance.audit.policy import Policy
from appliance.audit.policy_shapes import BlobKind
from appliance.records.blob import BlobRef
from appliance.records.record import Record
from attest.errors import Refused

Found = Iterator[tuple[str, BlobRef | None]]
"""JSON path and reference; None where there should be one."""


def required_are_there(policy: Policy, record: Record, blobs: Path | None) -> None:
    """Size and kind of file only: that every blob has its digest is a check of its own. Raises Refused (blob)."""
    for kind in policy.blobs.required:
        for path, ref in _KINDS[kind](record):
            if ref is None:
                words = f"names none, and the policy requires the {kind}"
                raise Refused("blob", words, where=path, mend=_MENDS.get(kind), word="blob_missing")
            _is_there(blobs, ref, path)


def _is_there(blobs: Path | None, ref: BlobRef, path: str) -> None:
    shown = f"{ref.sha256[:12]} of {ref.bytes} bytes"
    if blobs is None:
        raise Refused("blob", f"no folder of blobs: {shown} is missing", where=path, word="blob_missing")
    try:
        found = (blobs / "sha256" / ref.sha256).lstat()
    except OSError as error:
        raise Refused("blob", f"{shown} is missing", where=path, word="blob_missing") from error
    if not stat.S_ISREG(found.st_mode):
        raise Refused("blob", f"{shown} is no regular file", where=path, word="blob_mismatch")
    if found.st_size != ref.bytes:
        raise Refused("blob", f"{shown} has {found.st_size} bytes", where=path, word="blob_mismatch")


def _suite(record: Record) -> Found:
    yield "$.suite.archive", record.suite.archive


def _journal(record: Record) -> Found:
    yield "$.journal", record.journal


def _readings(record: Record) -> Found:
    """Of everything that came from a counter; an estimate has none."""
    for at, look in enumerate(record.meter.idle or ()):
        yield f"$.meter.idle[{at}].readings", look.readings
    if record.meter.calibration is not None:
        yield "$.meter.calibration.readings", record.meter.calibration.readings
    for at, trial in enumerate(record.trials):
        if trial.energy is not None and (
            trial.energy.readings or (trial.energy.local or trial.energy.total).basis != _MODELLED
        ):
            yield f"$.trials[{at}].energy.readings", trial.energy.readings


def _diff(record: Record) -> Found:
    for at, trial in enumerate(record.trials):
        if trial.harvest is not None and (trial.harvest.diff or trial.harvest.changed):
            yield f"$.trials[{at}].harvest.diff", trial.harvest.diff


def _streams(record: Record) -> Found:
    for at, trial in enumerate(record.trials):
        for name in ("stdout", "stderr") if trial.streams else ():
            stream = getattr(trial.streams, name)
            if stream.bytes:
                yield f"$.trials[{at}].streams.{name}.blob", stream.blob


def _baselines(record: Record) -> Found:
    """One that printed nothing has none."""
    for at, baseline in enumerate(record.baselines):
        if baseline.output is not None:
            yield f"$.baselines[{at}].output", baseline.output


def _cassette(record: Record) -> Found:
    """Of every trial that asked a model."""
    for at, trial in enumerate(record.trials):
        if trial.cassette is not None or trial.exchanges:
            yield f"$.trials[{at}].cassette", trial.cassette


def _artifacts(record: Record) -> Found:
    for at, trial in enumerate(record.trials):
        for number, artifact in enumerate(trial.artifacts):
            yield f"$.trials[{at}].artifacts[{number}].blob", artifact.blob


_MODELLED: Final = "modelled"
_KINDS: Final[dict[BlobKind, Callable[[Record], Found]]] = {
    "suite": _suite,
    "journal": _journal,
    "readings": _readings,
    "diff": _diff,
    "streams": _streams,
    "baselines": _baselines,
    "cassette": _cassette,
    "artifacts": _artifacts,
}
_MENDS: Final[dict[BlobKind, str]] = {"suite": "run without --no-suite-blob"}
