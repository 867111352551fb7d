"""A journal that stays on the disk: its trials are read again one at a time, so that thousands of them fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import InputRefused
from appliance.reading import open_regular
from appliance.records import journal
from appliance.records.journal import InterruptedLine, Line, TrialLine, TrialPlace
from appliance.records.outline import TrialOutline
from appliance.records.trial import TrialResult

_MIB = 1024 * 1024


@dataclass(frozen=True)
class JournalFile(journal.Told):
    """One of which nothing is held that grows with what a trial says of itself."""

    path: Path

    def results(self, plan_digest: str) -> Iterator[TrialResult]:
        """As `Journal.results`, each whole from the file. Raises InputRefused where that was changed meanwhile."""
        with open_regular(self.path) as stream:
            for place in journal.last_words(self.lines, plan_digest):
                if not isinstance(place, TrialPlace):
                    continue
                stream.seek(place.at)
                line = journal.decode_line(stream.read(place.bytes)[:-1], f"{self.path}, byte {place.at}")
                if not isinstance(line, TrialLine | InterruptedLine) or line.trial != place.trial:
                    raise InputRefused("was changed while it was read", where=str(self.path))
                yield line.result


def read_journal(path: Path) -> JournalFile | None:
    """None where no line of it is whole. Raises InputRefused, naming the line, for what no crash of ours explains, and
    OSError where it cannot be read."""
    lines: list[Line | TrialPlace] = []
    at = 0
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > journal.MAX_BYTES:
            raise InputRefused(f"over the bound of {journal.MAX_BYTES // _MIB} MiB", where=str(path))
        for number, raw in enumerate(stream, start=1):
            if not raw.endswith(b"\n"):
                break
            line = journal.decode_line(raw[:-1], f"{path}:{number}")
            lines.append(_placed(line, at, len(raw)) if isinstance(line, TrialLine | InterruptedLine) else line)
            at += len(raw)
    if not lines:
        return None
    header = journal.header_of(lines, str(path))
    return JournalFile(header=header, lines=tuple(lines[1:]), kept_bytes=at, dropped_bytes=max(size - at, 0), path=path)


def _placed(line: TrialLine | InterruptedLine, at: int, size: int) -> TrialPlace:
    return TrialPlace(
        plan_digest=line.plan_digest,
        trial=line.trial,
        ended=isinstance(line, TrialLine),
        result=TrialOutline.of(line.result),
        at=at,
        bytes=size,
    )
