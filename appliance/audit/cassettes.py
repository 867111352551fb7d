"""Tokens and dollars, made again from the answers that a trial's cassette holds (rows M14, M15).

Trial by trial: the blob is read, bounded, and its form is the writer's; it holds as many exchanges as the record says;
the usage of each answer is counted anew from its bytes, by the reader that counted it; the sums are the trial's, to the
token; their price, by the list of the cassette's day, is the trial's, to the last digit; and what the record says of
budgets, divergences and levels of a replay stands in it. A record of a replay is one throughout, and is called that.

What an answer says of its own tokens is the provider's word, kept by whoever ran the trial: that it was said is shown
here, that it is true is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from appliance.audit import dollars
from appliance.audit.exchanges import Counting, counting, words_of
from appliance.errors import InputRefused
from appliance.gateway.cassette import opened
from appliance.gateway.cassette_shapes import CassetteHead, RecordedExchange
from appliance.gateway.matching import LEVELS
from appliance.gateway.unpacking import unpacked
from appliance.gateway.usage import total
from appliance.records.record import Record
from appliance.records.replays import REPLAY_WORDS, asked_its_model, is_replay
from appliance.records.trial import TrialResult, Usage
from attest.checks import Noted, NotRun
from attest.errors import Refused

_NOTHING: Final = Usage(**dict.fromkeys(Usage.model_fields, 0))
_DAY: Final = timedelta(days=1)


def bear_out(record: Record, folder: Path | None, allow_missing: bool) -> None:
    """Raises Refused (aggregate; blob where a cassette is none). NotRun where one is not there. Noted for a record of a
    replay, and for dollars of another release of the prices that ours does not give.
    """
    _none_is_left_out(record)
    _is_of_one_kind(record)
    dollars.list_is_named(record)
    missing: list[str] = []
    unlike: list[str] = []
    for at, trial in enumerate(record.trials):
        if trial.cassette is None:
            continue
        here = f"$.trials[{at}]"
        found = None if folder is None else _counted(record, trial, folder, here)
        if found is None:
            missing.append(f"{here}.cassette")
            continue
        _tells(trial, found, here)
        _is_replayed_throughout(trial, found, here)
        _of_its_day(trial, found, here)
        unlike += dollars.cost(record, trial, found.head, found.answers, here)
    notes = [REPLAY_WORDS] if is_replay(record) else []
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        why = "no folder of blobs" if folder is None else f"not there: {missing[0]}{more}"
        raise NotRun("; ".join([why, *notes]), acceptable=allow_missing)
    notes += [dollars.unlike(record, unlike)] if unlike else []
    if notes:
        raise Noted("; ".join(notes))


@dataclass(frozen=True)
class _Found:
    head: CassetteHead
    told: tuple[RecordedExchange, ...]
    answers: tuple[Counting, ...]
    """Of the model."""


def _none_is_left_out(record: Record) -> None:
    """Every trial that asked through the gateway has its cassette: to name none is no way around this check; nor is to
    have no gateway in the plan.
    """
    for at, trial in enumerate(record.trials):
        here = f"$.trials[{at}]"
        if record.plan.upstream is None:
            for name, stated in (
                ("exchanges", trial.exchanges),
                ("cassette", trial.cassette),
                ("replayLevel", trial.replay_level),
                ("usage.subject", trial.usage.subject),
                ("costUsd.subject", trial.cost_usd.subject),
            ):
                if stated is not None and stated != 0:
                    words = "it is stated, and the plan has no model's gateway"
                    raise Refused("aggregate", words, where=f"{here}.{name}")
        elif trial.exchanges and trial.cassette is None:
            words = f"{trial.exchanges} exchanges through the gateway, and no cassette"
            raise Refused("aggregate", words, where=f"{here}.cassette")
        elif trial.cassette is None:
            _asked_nothing(record, trial, here)


def _asked_nothing(record: Record, trial: TrialResult, here: str) -> None:
    """Where a trial never began, nothing was counted either: null, not none."""
    for name, stated, nothing in (
        ("replayLevel", trial.replay_level, None),
        ("usage.subject", trial.usage.subject, _NOTHING),
        ("costUsd.subject", trial.cost_usd.subject, dollars.of_nothing(record)),
    ):
        if stated is not None and stated != nothing:
            raise Refused("aggregate", "it is stated, and no exchange with a model is", where=f"{here}.{name}")


def _is_of_one_kind(record: Record) -> None:
    """A run replays all of its trials or none: a record of both would lend a replay's dollars to live outcomes."""
    if not is_replay(record):
        return
    for at, trial in enumerate(record.trials):
        if trial.replay_level is None and asked_its_model(trial):
            words = "it asked its model, and others of this record replay what was recorded"
            raise Refused("aggregate", words, where=f"$.trials[{at}].replayLevel")


def _counted(record: Record, trial: TrialResult, folder: Path, here: str) -> _Found | None:
    """None where the blob is not there. That it has its digest is a check of its own."""
    if trial.cassette is None:
        return None
    path = folder / "sha256" / trial.cassette.sha256
    if not path.is_symlink() and not path.exists():
        return None
    told: list[RecordedExchange] = []
    answers: list[Counting] = []
    try:
        with opened(path) as stream:
            head, exchanges = unpacked(stream, f"{here}.cassette")
            for one in exchanges:
                told.append(one.told)
                answer = counting(one, record.plan.model, here)
                if answer is not None:
                    answers.append(answer)
    except InputRefused as error:
        raise Refused("blob", error.message, where=error.where or f"{here}.cassette", word="blob_mismatch") from error
    return _Found(head, tuple(sorted(told, key=lambda one: one.order)), tuple(answers))


def _tells(trial: TrialResult, found: _Found, here: str) -> None:
    """Everything but dollars."""
    told = found.told
    levels = [one.replay_level for one in told if one.replay_level is not None]
    counted = total(answer.usage for answer in found.answers) if found.answers else _NOTHING
    over_budget = any(one.refused in {"budget", "run_budget"} for one in told)
    diverged = any(one.refused == "diverged" for one in told)
    for name, stated, seen in (
        ("exchanges", trial.exchanges, len(told)),
        ("usage.subject", trial.usage.subject, counted),
        ("replayLevel", trial.replay_level, max(levels, key=LEVELS.index, default=None)),
        ("reason", trial.reason == "replay_diverged", diverged and trial.outcome == "errored"),
    ):
        if stated != seen:
            shown = (words_of(one) if isinstance(one, Usage) else str(one) for one in (stated, seen))
            raise Refused("aggregate", "{} stated, {} in its cassette".format(*shown), where=f"{here}.{name}")
    if trial.cause == "budget" and not over_budget:
        raise Refused("aggregate", "budget, and nothing was refused for one", where=f"{here}.cause")


def _is_replayed_throughout(trial: TrialResult, found: _Found, here: str) -> None:
    """Each answer of a replay says which recorded one it is, none twice, and no upstream was tried for it."""
    given: set[int] = set()
    for one in found.told:
        place = f"{here}.cassette: {one.order:05d}"
        if (one.replay_level is None) != (one.replay_of is None):
            raise Refused("aggregate", "a replay's level and what it is of are there together", where=place)
        if one.replay_of is None:
            continue
        if one.replay_of in given:
            raise Refused("aggregate", f"answered by {one.replay_of:05d}, as another was", where=place)
        if one.tries:
            raise Refused("aggregate", "a replay, and its upstream was tried", where=place)
        given.add(one.replay_of)
    if trial.replay_level is None:
        return
    for answer in found.answers:
        if answer.told.replay_of is None:
            words = "an answer that was not recorded before, in a replay"
            raise Refused("aggregate", words, where=f"{here}.cassette: {answer.told.order:05d}")


def _of_its_day(trial: TrialResult, found: _Found, here: str) -> None:
    """A replay is priced by the day of what it replays, which was before it."""
    if not found.answers:
        return
    priced, began = (datetime.fromisoformat(one) for one in (found.head.prices_at, trial.started_at))
    late = priced - began > _DAY
    if late or (trial.replay_level is None and began - priced > _DAY):
        words = f"priced by {found.head.prices_at}, and it ran at {trial.started_at}"
        raise Refused("aggregate", words, where=f"{here}.costUsd.subject")
