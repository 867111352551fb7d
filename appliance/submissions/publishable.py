"""What a published record may not be, by its own stamps; whether it is genuine, its verification says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from appliance.errors import InputRefused
from appliance.records.plan import TrialPlan
from appliance.records.record import Record
from appliance.records.replays import REPLAY_WORDS, is_replay

_UNKNOWN_VERSION: Final = "0+unknown"
_OURS: Final = frozenset({"reference", "noop"})
"""Solvers that are part of the harness: it is the harness's stamp that says what they are."""
_TALKS: Final = frozenset({"chat", "cascade"})
"""Kinds of solver that are nothing without a model."""


def refuse_unpublishable(record: Record, where: str) -> None:
    """Raises InputRefused for the first thing that stands against it, with its JSON path."""
    for path, message, mend in _against(record):
        raise InputRefused(message, where=f"{where}: {path}", mend=mend, reason="unpublishable")


def model_of(record: Record, where: str) -> str:
    """As every row prints it: a name, or `none` where no model has a part in it. Raises InputRefused (row Z40)."""
    if record.model is None and record.plan.model is None and record.solver.kind not in _TALKS:
        return "none"
    name = record.model.name if record.model else ""
    if not name.strip() or not name.isprintable():
        raise InputRefused(
            "names no model, and a published row shows one",
            where=f"{where}: $.model",
            mend="run it with --model NAME",
            reason="unpublishable",
        )
    return name


def counterpart(record: Record, others: Mapping[str, Record], where: str) -> str | None:
    """Digest of the record that a self-correcting one is compared with; None for every other record.

    A delta without both of its records is nobody's to check: raises InputRefused where it is not among `others`, given
    by digest (row Z42).
    """
    if not record.self_correct:
        return None
    if record.auto not in ("medium", "high"):
        raise InputRefused(
            f"self-correction with autonomy {record.auto or 'unset'} is for a report only, and no half of a delta",
            where=f"{where}: $.auto",
            mend="run it with --auto medium or --auto high",
            reason="unpublishable",
        )
    wanted = _shared(record.plan)
    for digest, other in others.items():
        if not other.self_correct and _shared(other.plan) == wanted and _subject(other) == _subject(record):
            return digest
    raise InputRefused(
        "is one half of a delta, and the record without self-correction is not here",
        where=f"{where}: $.selfCorrect",
        mend="give both records; the other one is the same run without --self-correct",
        reason="unpublishable",
    )


def _against(record: Record) -> Iterator[tuple[str, str, str | None]]:
    harness, solver = record.harness, record.solver
    if record.dry_run:
        yield "$.dryRun", "a dry run is no result", "run it without --dry-run"
    if not record.complete:
        yield "$.complete", "trials of its plan are missing", "appliance run --resume"
    if is_replay(record):
        mend = "publish the record that it replays; `reproduce` signs a verdict, which goes along by --verdict"
        yield "$.trials", REPLAY_WORDS, mend
    if not record.trials:
        yield "$.trials", "holds no trials", None
    if harness.dirty or (harness.commit is not None and harness.dirty is None):
        what = "was changed" if harness.dirty else "may have been changed"
        yield "$.harness.dirty", f"the program that ran it {what} since its commit", "commit, and run it again"
    if harness.commit is None and harness.version == _UNKNOWN_VERSION:
        yield "$.harness.version", "nobody can tell which program ran it", "install a release, or run from a checkout"
    if solver.kind not in _OURS and solver.source == "unknown":
        mend = "run it with --version and --commit, or name them in the solver's TOML"
        yield "$.solver.source", "version and commit of what was tested are unknown", mend
    for path, commit in (("$.harness.commit", harness.commit), ("$.solver.commit", solver.commit)):
        if commit is not None and _is_dirty(commit):
            yield path, f"is no commit but what was made of one: {commit[:80]!r}", "commit, and run it again"


def _is_dirty(commit: str) -> bool:
    """As `git describe --dirty` marks it."""
    return commit.endswith(("-dirty", "+dirty", "-modified", "*"))


def _shared(plan: TrialPlan) -> dict[str, object]:
    """What both halves of a delta were asked alike: all but self-correction itself and the flags that it means."""
    value = plan.json_value()
    solver = {name: part for name, part in value["solver"].items() if name != "argv"}
    return {**value, "solver": solver, "selfCorrect": None, "challenge": None}


def _subject(record: Record) -> tuple[object, ...]:
    return (record.version, record.commit, record.model, record.solver.binary_sha256, record.images)
