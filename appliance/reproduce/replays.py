"""The cassettes that a record's trials are replayed from, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from appliance.digests import sha256_of_stream
from appliance.errors import InputRefused, UsageRefused
from appliance.gateway.cassette import CassetteWriter, opened, told_of
from appliance.gateway.cassette_shapes import RecordedExchange
from appliance.gateway.divergence import MAX_DIFF
from appliance.gateway.matching import LEVELS, answerable
from appliance.records.blob import BlobRef
from appliance.records.comparison import NO_EVIDENCE, is_live
from appliance.records.plan import TrialKey
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.records.verdict import Replay, ReplayedTrial, ReplayLevel

_MAX_DIFFERENCES: Final = 1024 * 1024
_SHOWN: Final = 3


@dataclass(frozen=True)
class Cassettes:
    """What answers each trial."""

    paths: Mapping[TrialKey, Path]
    recorded: Mapping[TrialKey, int]
    """How many exchanges with a model each of them holds."""
    left_out: tuple[TrialKey, ...]
    """Trials that never were: excluded, skipped or cancelled before anything was asked. Nothing replays them."""


Mode = Literal["replay", "live", "plain"]
"""`plain`: no model answers in this record."""


def mode_of(record: Record, keys: Sequence[TrialKey], asked: bool | None) -> Mode:
    """How it is run again (row R3). `asked`: True for --replay, False for --live, None for neither.

    Raises UsageRefused where a model answered, its answers were not recorded, and it is not to be asked again.
    """
    wanted = set(keys)
    recorded = any(_replayable(record, trial) for trial in record.trials if trial.key in wanted)
    if asked and not recorded:
        mend = "--live" if is_live(record) else "leave it away: no model was asked, and it is run again"
        raise UsageRefused("this record has no recorded model responses to replay", where="--replay", mend=mend)
    if not is_live(record):
        return "plain"
    if asked is None and not recorded and record.plan.solver.kind == "cascade":
        raise UsageRefused(
            "a cascade answered here, and its answers are not played back",
            mend="--live --cascade-socket PATH asks it again, and compares rates",
        )
    if asked is None and not recorded:
        raise UsageRefused(
            f"{record.plan.model or record.plan.solver.name} answered here, and its responses were not recorded",
            mend="--live runs the model again, and compares rates",
        )
    return "live" if asked is False else "replay"


def cassettes_of(record: Record, keys: Sequence[TrialKey], blobs: Path | None, where: str, scratch: Path) -> Cassettes:
    """Each found by its digest, read through and held to it before anything runs. Raises InputRefused naming every
    trial whose cassette is not there, or the first that is not what it says.

    A trial that asked its model nothing gets an empty one, below `scratch`: if it asks now, it diverges.
    """
    wanted = set(keys)
    paths: dict[TrialKey, Path] = {}
    recorded: dict[TrialKey, int] = {}
    left_out: list[TrialKey] = []
    missing: list[str] = []
    empty = scratch / "nothing.tar.gz"
    for at, trial in enumerate(record.trials):
        if trial.key not in wanted:
            continue
        if trial.cassette is None and trial.outcome in NO_EVIDENCE:
            left_out.append(trial.key)
        elif trial.cassette is not None:
            path = _blob(blobs, trial.cassette)
            if path is None:
                missing.append(f"$.trials[{at}].cassette")
                continue
            _, told = told_of(path)
            if len(told) != trial.exchanges:
                words = f"says {trial.exchanges} of exchanges, and its cassette holds {len(told)}"
                raise InputRefused(words, where=f"{where}: $.trials[{at}].exchanges")
            paths[trial.key], recorded[trial.key] = path, sum(map(answerable, told))
        elif _replayable(record, trial):
            if not empty.exists():
                CassetteWriter(empty, datetime.now(UTC)).close()
            paths[trial.key], recorded[trial.key] = empty, 0
        else:
            missing.append(f"$.trials[{at}].cassette")
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise InputRefused(
            f"no cassette for {len(missing)} of the trials: {', '.join(missing[:_SHOWN])}{more}",
            where=where,
            mend="--blobs DIR with all of the record's blobs; --task or --trials for those that are there; or --live",
        )
    if not paths:
        raise InputRefused("no trial of it ever ran, so there is nothing to replay", where=f"{where}: $.trials")
    return Cassettes(paths, recorded, tuple(left_out))


def replay_of(cassettes: Cassettes, again: Record, blobs: Path) -> Replay:
    """From the new record and the blobs beside it: levels, differences and divergences are recorded there."""
    by_key = {trial.key: trial for trial in again.trials}
    trials = tuple(
        _replayed(key, cassettes.recorded[key], by_key[key], blobs) for key in cassettes.paths if key in by_key
    )
    levels = [one.level for one in trials if one.level is not None]
    apart = next((by_key[one.key] for one in trials if one.diverged), None)
    return Replay(
        level=max(levels, key=LEVELS.index, default=None),
        unused=sum(one.unused for one in trials),
        divergences=sum(one.diverged for one in trials),
        first_divergence=None if apart is None else _artifact(apart, "divergence", blobs, 4 * MAX_DIFF),
        trials=trials,
    )


def _replayed(key: TrialKey, recorded: int, trial: TrialResult, blobs: Path) -> ReplayedTrial:
    path = None if trial.cassette is None else _blob(blobs, trial.cassette)
    told: tuple[RecordedExchange, ...] = told_of(path)[1] if path is not None else ()
    differences = _artifact(trial, "differences", blobs, _MAX_DIFFERENCES)
    level: ReplayLevel | None = trial.replay_level
    return ReplayedTrial(
        key=key,
        level=level,
        recorded=recorded,
        unused=recorded - len({one.replay_of for one in told if one.replay_of is not None}),
        diverged=trial.reason == "replay_diverged",
        differences=tuple(differences.splitlines()) if differences else (),
    )


def _replayable(record: Record, trial: TrialResult) -> bool:
    """Its cassette is named, or the gateway saw that it asked nothing."""
    return trial.cassette is not None or (record.plan.upstream is not None and trial.exchanges == 0)


def _blob(blobs: Path | None, ref: BlobRef) -> Path | None:
    """None where it is not there. Raises InputRefused where it is not what its name says."""
    path = None if blobs is None else blobs / "sha256" / ref.sha256
    if path is None or not path.exists():
        return None
    with opened(path) as stream:
        if sha256_of_stream(stream) != ref.sha256:
            raise InputRefused("a cassette that is not what its name says", where=str(path), mend="fetch it again")
    return path


def _artifact(trial: TrialResult, name: str, blobs: Path, most: int) -> str | None:
    """Its first `most` bytes: the whole of it stays among the blobs."""
    ref = next((one.blob for one in trial.artifacts if one.name == name), None)
    if ref is None:
        return None
    with opened(blobs / "sha256" / ref.sha256) as stream:
        return stream.read(most).decode(errors="replace")
