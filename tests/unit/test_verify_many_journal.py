"""A journal's lines that say a record's trials and baselines byte by byte are not parsed again, and every answer stays
the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.audit.blobs import journal_agrees
from appliance.digests import sha256_hex
from appliance.records import journal
from appliance.records.record import Record
from attest import canonical
from attest.errors import Refused
from tests import record_builder as build

Lines = list[bytes]
Change = Callable[[Lines], Lines]
GENUINE = build.record(build.plan(["t1", "t2", "t3"]), [build.trial("t1"), build.trial("t2", "unresolved"), build.trial("t3", wall=0.00002)])  # fmt: skip  # noqa: E501
FIRST = next(
    at for at, line in enumerate(build.journal_bytes(GENUINE.plan, GENUINE.baselines, GENUINE.trials).splitlines())
    if line.startswith(b'{"kind":"trial"')
)  # fmt: skip
BASELINE = next(
    at for at, line in enumerate(build.journal_bytes(GENUINE.plan, GENUINE.baselines, GENUINE.trials).splitlines())
    if line.startswith(b'{"baseline"')
)  # fmt: skip


def on(at: int, old: bytes, new: bytes) -> Change:
    return lambda lines: [line.replace(old, new) if n == at else line for n, line in enumerate(lines)]


CHANGES: dict[str, Change] = {
    "as it was": lambda lines: lines,
    "an outcome": on(FIRST, b'"outcome":"resolved"', b'"outcome":"unresolved"'),
    "a wall": on(FIRST, b'"wallSeconds":1', b'"wallSeconds":2'),
    "an index with a zero before it": on(FIRST, b',"trial":0}', b',"trial":00}'),
    "an index that is none": on(FIRST, b',"trial":0}', b',"trial":-1}'),
    "an index with a space": on(FIRST, b',"trial":0}', b',"trial": 0}'),
    "a number too many": on(FIRST, b',"trial":0}', b',"trial":12345678901}'),
    "another plan's digest": on(FIRST, GENUINE.plan_digest.encode(), b"0" * 64),
    "another kind": on(FIRST, b'"kind":"trial"', b'"kind":"interrupted"'),
    "a key more": on(FIRST, b',"trial":0}', b',"trial":0,"x":1}'),
    "a baseline's verdict": on(BASELINE, b'"verdict":"failed"', b'"verdict":"passed"'),
    "a baseline with a space": on(BASELINE, b',"kind"', b', "kind"'),
    "a baseline with a key more": on(BASELINE, b'"kind":"baseline"', b'"kind":"baseline","x":1'),
    "a baseline less": lambda lines: [line for at, line in enumerate(lines) if at != BASELINE],
    "a baseline twice": lambda lines: [*lines, lines[BASELINE]],
    "a trial less": lambda lines: [line for at, line in enumerate(lines) if at != FIRST],
    "a trial twice": lambda lines: [*lines, lines[FIRST]],
    "a trial in another's place": on(FIRST + 1, b',"trial":1}', b',"trial":0}'),
    "a line that is none": lambda lines: [*lines, b"{"],
    "no header": lambda lines: lines[1:],
    "two headers": lambda lines: [lines[0], *lines],
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_journal_is_told_the_same_whether_its_lines_are_parsed_or_compared(case: str, tmp_path: Path) -> None:
    """Row by row of what a journal may hold: the same refusal, with the same words and place."""
    lines = build.journal_bytes(GENUINE.plan, GENUINE.baselines, GENUINE.trials).splitlines()
    content = b"".join(line + b"\n" for line in CHANGES[case](lines))
    record = GENUINE.model_copy(update={"journal": build.blob(content)})
    (tmp_path / "sha256").mkdir()
    (tmp_path / "sha256" / sha256_hex(content)).write_bytes(content)
    parts = canonical.loads_canonical_parts(record.canonical())[1]

    def told(record: Record, parts: canonical.Parts | None) -> str:
        try:
            journal_agrees(record, tmp_path, False, parts=parts)
        except Refused as refused:
            return f"{refused.reason}: {refused}"
        return "agrees"

    assert told(record, parts) == told(record, None)
    # What it comes to is the older tests' to say; that something comes to something else is this one's.
    assert (told(record, None) == "agrees") == (
        case in {"as it was", "a number too many", "another kind", "a baseline twice"}
    )


def test_lines_of_the_record_itself_are_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those that only a parser can tell: the header, the host."""
    content = build.journal_bytes(GENUINE.plan, GENUINE.baselines, GENUINE.trials)
    (tmp_path / "sha256").mkdir()
    (tmp_path / "sha256" / sha256_hex(content)).write_bytes(content)
    parsed: list[bytes] = []
    genuine = journal.decode_line
    monkeypatch.setattr(journal, "decode_line", lambda raw, where: (parsed.append(raw), genuine(raw, where))[1])
    record = GENUINE.model_copy(update={"journal": build.blob(content)})
    journal_agrees(record, tmp_path, False, parts=canonical.loads_canonical_parts(record.canonical())[1])
    assert [line[:24] for line in parsed] == [line[:24] for line in content.splitlines()[:2]]
    assert len(content.splitlines()) == 2 + len(GENUINE.baselines) + len(GENUINE.trials)
