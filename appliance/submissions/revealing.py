"""What a record's blobs show to whoever gets them: reference solutions, hidden tests, what solvers wrote and said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.errors import InputRefused, UsageRefused
from appliance.reading import read_regular
from appliance.records.record import Record
from appliance.submissions.named import blobs_named
from appliance.tasks.archive import MAX_BYTES
from appliance.tasks.tar_reader import members_of

WITH_SUITE = "--with-suite reveals it, --without-suite leaves it out"
ORACLE_ARTIFACTS: Final = "oracle-"
"""How the names of those artifacts of a trial begin that its tests wrote."""


@dataclass(frozen=True)
class Revealed:
    """Of one record; counts are of blobs, names are of tasks, sorted."""

    record: str
    """Its sha256."""
    references: tuple[str, ...]
    """Tasks whose reference solution the suite's archive holds."""
    hidden_tests: tuple[str, ...]
    """Tasks whose tests no solver was shown, and the archive holds."""
    transcripts: int
    """What solvers printed, and what models answered."""
    diffs: int
    """What solvers wrote."""
    reference_diffs: int = 0
    """What the solver `reference` put in place: the suite's own solutions, though its archive stays away."""

    test_outputs: int = 0
    """What tests printed that no solver was shown, or may not have been: failures quote them."""

    @property
    def answers(self) -> bool:
        """Whether whoever reads the archive can solve a task without being able to."""
        return bool(self.references or self.hidden_tests)

    @property
    def answers_outside(self) -> bool:
        """Whether whoever reads the rest can."""
        return bool(self.reference_diffs or self.test_outputs)

    def lines(self) -> tuple[str, ...]:
        counted = (
            (len(self.references), "reference solutions", self.references),
            (len(self.hidden_tests), "hidden tests", self.hidden_tests),
            (self.transcripts, "transcripts", ()),
            (self.diffs, "solvers' diffs", ()),
            (self.reference_diffs, "diffs of the solver reference, which are reference solutions", ()),
            (self.test_outputs, "outputs of tests that solvers may not have been shown", ()),
        )
        return tuple(
            f"{self.record[:12]} reveals {what}: {count}{_some(names)}" for count, what, names in counted if count
        )


def revealed(record: Record, sha256: str, archive: bytes | None, *, answers: bool = True) -> Revealed:
    """`archive`: the suite's, as the record's blobs have it; None where it does not go along, or is not known: then
    its tests may be hidden ones. `answers`: whether `answer_blobs` go along.

    Raises InputRefused for an archive that is none of ours.
    """
    references: set[str] = set()
    hidden: set[str] = set()
    for member in members_of(archive, "the suite's archive") if archive is not None else ():
        task, _, rest = member.path.partition("/")
        if rest == "reference.patch" or rest.startswith("reference/"):
            references.add(task)
        elif rest.startswith("tests/"):
            hidden.add(task)
    streams = (
        stream for trial in record.trials if trial.streams for stream in (trial.streams.stdout, trial.streams.stderr)
    )
    said = {stream.blob.sha256 for stream in streams if stream.blob is not None and stream.blob.bytes}
    said |= {trial.cassette.sha256 for trial in record.trials if trial.cassette is not None}
    diffs = {trial.harvest.diff.sha256 for trial in record.trials if trial.harvest and trial.harvest.diff}
    own = record.solver.kind == "reference"
    printed = _test_outputs(record) if archive is None or hidden else frozenset[str]()
    return Revealed(
        record=sha256,
        references=tuple(sorted(references)),
        hidden_tests=tuple(sorted(hidden)),
        transcripts=len(said),
        diffs=0 if own else len(diffs),
        reference_diffs=len(diffs) if own and answers else 0,
        test_outputs=len(printed) if answers else 0,
    )


def answer_blobs(record: Record) -> frozenset[str]:
    """Digests of what shows a suite's answers, its archive among them: what the reference solver put in place is a
    solution, and what a test printed quotes the test."""
    found = set(_test_outputs(record))
    if record.suite.archive is not None:
        found.add(record.suite.archive.sha256)
    if record.solver.kind == "reference":
        found |= {trial.harvest.diff.sha256 for trial in record.trials if trial.harvest and trial.harvest.diff}
    return frozenset(found)


def _test_outputs(record: Record) -> frozenset[str]:
    """Of baselines and of trials."""
    printed = {one.output for one in record.baselines if one.output is not None}
    printed |= {one.blob for trial in record.trials for one in trial.artifacts if one.name.startswith(ORACLE_ARTIFACTS)}
    return frozenset(ref.sha256 for ref in printed if ref.bytes)


def refuse_unasked(found: Iterable[Revealed], *, to_everybody: bool = False) -> None:
    """For whoever did not say `--with-suite`. Raises UsageRefused where answers would go out; nothing else is asked.

    `to_everybody`: of what is published any answer is asked about; one receiver, who holds the suite or asked for it,
    is only not sent its archive unasked.
    """
    found = tuple(found)
    answering = [one for one in found if one.answers]
    if answering:
        tasks = sorted({*answering[0].references, *answering[0].hidden_tests})
        raise UsageRefused(
            f"its suite's archive holds reference solutions or hidden tests of {len(tasks)} tasks{_some(tasks)}",
            where=f"record {answering[0].record[:12]}",
            mend=WITH_SUITE,
        )
    for one in found if to_everybody else ():
        if one.answers_outside:
            raise UsageRefused(
                f"its blobs show answers: {one.reference_diffs} diffs of the solver reference, {one.test_outputs}"
                " outputs of tests that solvers may not have been shown",
                where=f"record {one.record[:12]}",
                mend=WITH_SUITE,
            )


def suite_archive(record: Record, blobs: Path | None) -> bytes | None:
    """The archive that the record names, None where it names none or it is not there. Raises InputRefused."""
    if record.suite.archive is None or blobs is None:
        return None
    path = blobs / "sha256" / record.suite.archive.sha256
    try:
        return read_regular(path, MAX_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def blobs_to_go(record: Record, *, with_suite: bool) -> tuple[str, ...]:
    """Digests of the blobs that a record takes along, sorted: all of them, the suite's archive only where asked."""
    named = {ref.sha256 for ref in blobs_named(record)}
    if not with_suite and record.suite.archive is not None:
        named.discard(record.suite.archive.sha256)
    return tuple(sorted(named))


def _some(names: Sequence[str], most: int = 3) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > most else ""
    return f" ({', '.join(names[:most])}{more})"
