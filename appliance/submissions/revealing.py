"""What a record's blobs show to whoever gets them: reference solutions, hidden tests, what solvers wrote and said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import InputRefused, UsageRefused
from appliance.reading import read_regular
from appliance.records.record import Record
from appliance.submissions.named import blobs_named
from appliance.tasks.archive import MAX_BYTES
from appliance.tasks.tar_reader import members_of

WITH_SUITE = "--with-suite reveals it, --without-suite leaves it out"


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

    @property
    def answers(self) -> bool:
        """Whether whoever reads the archive can solve a task without being able to."""
        return bool(self.references or self.hidden_tests)

    def lines(self) -> tuple[str, ...]:
        counted = (
            (len(self.references), "reference solutions", self.references),
            (len(self.hidden_tests), "hidden tests", self.hidden_tests),
            (self.transcripts, "transcripts", ()),
            (self.diffs, "solvers' diffs", ()),
        )
        return tuple(
            f"{self.record[:12]} reveals {what}: {count}{_some(names)}" for count, what, names in counted if count
        )


def revealed(record: Record, sha256: str, archive: bytes | None) -> Revealed:
    """`archive`: the suite's, as the record's blobs have it; None where it does not go along.

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
    return Revealed(
        record=sha256,
        references=tuple(sorted(references)),
        hidden_tests=tuple(sorted(hidden)),
        transcripts=len(said),
        diffs=len(diffs),
    )


def refuse_unasked(found: Iterable[Revealed]) -> None:
    """For whoever did not say `--with-suite`. Raises UsageRefused where answers would go out; nothing else is asked."""
    answering = [one for one in found if one.answers]
    if answering:
        tasks = sorted({*answering[0].references, *answering[0].hidden_tests})
        raise UsageRefused(
            f"its suite's archive holds reference solutions or hidden tests of {len(tasks)} tasks{_some(tasks)}",
            where=f"record {answering[0].record[:12]}",
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
