"""journal.jsonl: what a run has done so far, a canonical line each, in the order it happened.

A header comes first, then lines of the other kinds. A later line of the same trial stands in for an earlier one, so
a retried or resumed trial needs no line taken back. Only the bytes after the last line feed can be half-written: they
are dropped, and whoever appends next first cuts the file to `kept_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeGuard

from pydantic import Field, TypeAdapter

from appliance.errors import InputRefused
from appliance.pins import Sha256
from appliance.records.outline import AnyTrial, TrialOutline
from appliance.records.record import CalibrationStamp, Check, HarnessStamp, HostStamp, IdleStamp
from appliance.records.trial import Baseline, TrialResult
from appliance.records.words import NOISE
from appliance.wire import EXACT, INFORMATIVE, Moment, Wire, parsed

MAX_BYTES: Final = 1024 * 1024 * 1024
"""Of a whole journal; whoever reads one holds it to this."""


class HeaderLine(Wire):
    """The first line, and nowhere else: what `--resume` compares before it goes on."""

    schema_: Annotated[Literal["journal-v1"], EXACT] = Field(default="journal-v1", alias="schema")
    kind: Annotated[Literal["header"], EXACT] = "header"
    run_id: Annotated[str, INFORMATIVE]
    plan_digests: Annotated[tuple[Sha256, ...], EXACT]
    """One a solver, in the order of plan.json."""
    harness: Annotated[HarnessStamp, EXACT]
    started_at: Annotated[Moment, INFORMATIVE]
    idle_seconds: Annotated[float | None, INFORMATIVE] = None
    """Asked length of a look at the machine at rest, which a resumed start keeps; None where joules come from no
    counter."""


class HostLine(Wire):
    """One at each start and resume; equal stamps are one host, numbered by their first appearance."""

    kind: Annotated[Literal["host"], EXACT] = "host"
    host: Annotated[HostStamp, INFORMATIVE]
    at: Annotated[Moment, INFORMATIVE]


class CalibrationLine(Wire):
    """The stored calibration that this start stands on: a short look has found that it still holds."""

    kind: Annotated[Literal["calibration"], EXACT] = "calibration"
    calibration: Annotated[CalibrationStamp, INFORMATIVE]


class IdleLine(Wire):
    """A look at the machine at rest: before the first trial of a start and after its last, where joules come from
    counters. A start that was killed has none after it."""

    kind: Annotated[Literal["idle"], EXACT] = "idle"
    idle: Annotated[IdleStamp, INFORMATIVE]


class FitnessLine(Wire):
    """The host's checks after the last trial of a measured start; those before it stand in its host line."""

    kind: Annotated[Literal["fitness"], EXACT] = "fitness"
    host: Annotated[int, INFORMATIVE] = Field(ge=0)
    """Number of the host among the journal's."""
    checks: Annotated[tuple[Check, ...], INFORMATIVE]
    at: Annotated[Moment, INFORMATIVE]


class BaselineLine(Wire):
    """Shared by the plans of a run: once per task and image."""

    kind: Annotated[Literal["baseline"], EXACT] = "baseline"
    baseline: Annotated[Baseline, EXACT]


class TrialLine(Wire):
    """A trial that ended by itself; it is not run again, unless it is asked for (`--retry`).

    Joules from counters are provisional here: only the machine's rest before the run was known. The record's are
    computed again from the same readings, with the rest after it.
    """

    kind: Annotated[Literal["trial"], EXACT] = "trial"
    plan_digest: Annotated[Sha256, EXACT]
    trial: Annotated[int, EXACT] = Field(ge=0)
    """Its index over all plans of plan.json, as in its cgroup's path."""
    result: Annotated[TrialResult, EXACT]


class InterruptedLine(Wire):
    """A trial that we broke off: its logs are kept, `--resume` runs it again."""

    kind: Annotated[Literal["interrupted"], EXACT] = "interrupted"
    plan_digest: Annotated[Sha256, EXACT]
    trial: Annotated[int, EXACT] = Field(ge=0)
    result: Annotated[TrialResult, EXACT]
    """`cancelled: interrupted`."""


Line = HeaderLine | HostLine | CalibrationLine | IdleLine | FitnessLine | BaselineLine | TrialLine | InterruptedLine


JournalLine: Final[TypeAdapter[Line]] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])
"""Any one line; the root of the schema journal-v1."""


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """A line about a trial that was read and checked, of which the outline is kept and the rest stays in the file."""

    plan_digest: str
    trial: int
    ended: bool
    """A TrialLine; else an InterruptedLine."""
    result: TrialOutline
    at: int
    bytes: int
    """With its line feed."""


AboutTrial = TrialLine | InterruptedLine | TrialPlace


@dataclass(frozen=True)
class Told:
    """What a journal tells, whether its trials are at hand or on the disk; `kept_bytes` is where the next line goes,
    `dropped_bytes` what was half-written after it."""

    header: HeaderLine
    lines: tuple[Line | TrialPlace, ...]
    kept_bytes: int
    dropped_bytes: int

    def finished(self) -> dict[int, AnyTrial]:
        """Index over all plans -> the result of every trial that needs no further run."""
        return {line.trial: line.result for line in self.lines if is_ended(line)}

    def replaced(self, plan_digest: str) -> Iterator[AnyTrial]:
        """How trials of one plan had ended which a later line is about once more."""
        ended: dict[int, AnyTrial] = {}
        for line in self.lines:
            if not isinstance(line, AboutTrial) or line.plan_digest != plan_digest:
                continue
            if line.trial in ended:
                yield ended.pop(line.trial)
            if is_ended(line):
                ended[line.trial] = line.result

    def baselines(self) -> tuple[Baseline, ...]:
        """The last one of each task and image, in the order of their first appearance."""
        last: dict[tuple[str, str], Baseline] = {}
        for line in self.lines:
            if isinstance(line, BaselineLine):
                last[line.baseline.task, line.baseline.image] = line.baseline
        return tuple(last.values())

    def hosts(self) -> tuple[HostStamp, ...]:
        """Distinct hosts in the order of their first appearance: what `TrialResult.host` counts over."""
        found: list[HostStamp] = []
        for line in self.lines:
            if isinstance(line, HostLine) and line.host not in found:
                found.append(line.host)
        return tuple(found)

    def hosts_after(self) -> tuple[HostStamp, ...]:
        """`hosts()` with the checks after their last trials; noisy where either look says so."""
        last = {line.host: line.checks for line in self.lines if isinstance(line, FitnessLine)}
        return tuple(
            host if number not in last else _checked_after(host, last[number])
            for number, host in enumerate(self.hosts())
        )

    def idle(self) -> tuple[IdleStamp, ...]:
        return tuple(line.idle for line in self.lines if isinstance(line, IdleLine))

    def lacks_rest(self) -> bool:
        """Whether nobody has looked at the machine at rest since the last metered trial ended: its start did not live
        to, or was stopped."""
        for line in reversed(self.lines):
            if isinstance(line, IdleLine):
                return False
            if is_ended(line) and _is_metered(line):
                return True
        return False

    def rests_on_one_side(self) -> bool:
        """Whether a metered trial has no look after it in the boot of the one before it: no line leads over a boot."""
        last = {line.trial: at for at, line in enumerate(self.lines) if is_ended(line)}
        looks = [(at, line.idle.boot_id) for at, line in enumerate(self.lines) if isinstance(line, IdleLine)]
        for at in last.values():
            line = self.lines[at]
            before = [boot for place, boot in looks if place < at]
            after = {boot for place, boot in looks if place > at}
            if is_ended(line) and _is_metered(line) and before and before[-1] not in after:
                return True
        return False

    def calibration(self) -> CalibrationStamp | None:
        """The stored calibration that every measured start stood on; None where one had none, or another."""
        starts: list[CalibrationStamp | None] = []
        pending: CalibrationStamp | None = None
        measured = False
        for line in (*self.lines, None):
            if line is None or isinstance(line, HostLine):
                starts += [pending] if measured else []
                pending, measured = None, False
            elif isinstance(line, CalibrationLine):
                pending = line.calibration
            elif isinstance(line, IdleLine):
                measured = True
        first = starts[0] if starts else None
        return first if all(one == first for one in starts) else None


@dataclass(frozen=True)
class Journal(Told):
    """One that is held whole."""

    lines: tuple[Line, ...]

    def results(self, plan_digest: str) -> tuple[TrialResult, ...]:
        """The last word on every trial of one plan, in the order of their index."""
        return tuple(line.result for line in last_words(self.lines, plan_digest) if not isinstance(line, TrialPlace))


def last_words(lines: Iterable[Line | TrialPlace], plan_digest: str) -> tuple[AboutTrial, ...]:
    """The last line about every trial of one plan, in the order of their index; one that says it was interrupted only
    where no later or earlier one says how it ended."""
    last: dict[int, AboutTrial] = {}
    for line in lines:
        if not isinstance(line, AboutTrial) or line.plan_digest != plan_digest:
            continue
        if not is_ended(line) and line.trial in last and is_ended(last[line.trial]):
            continue
        last[line.trial] = line
    return tuple(last[index] for index in sorted(last))


def is_ended(line: Line | TrialPlace) -> TypeGuard[TrialLine | TrialPlace]:
    """It says how a trial ended by itself."""
    return isinstance(line, TrialLine) or (isinstance(line, TrialPlace) and line.ended)


def _is_metered(line: TrialLine | TrialPlace) -> bool:
    return line.result.energy is not None and line.result.energy.metered


def _checked_after(host: HostStamp, checks: tuple[Check, ...]) -> HostStamp:
    noisy = any(check.name in NOISE and check.level != "info" for check in checks)
    return host.model_copy(update={"fitness_after": checks, "noisy": host.noisy or noisy})


def encode(line: Line) -> bytes:
    """Canonical bytes and the line feed that makes them count."""
    return line.canonical() + b"\n"


def decode(content: bytes, where: str) -> Journal:
    """Raises InputRefused, naming the line, for anything that no crash of ours explains."""
    kept = content.rfind(b"\n") + 1
    lines = [
        decode_line(raw, f"{where}:{number}") for number, raw in enumerate(content[:kept].split(b"\n")[:-1], start=1)
    ]
    header = header_of(lines, where)
    return Journal(header=header, lines=tuple(lines[1:]), kept_bytes=kept, dropped_bytes=len(content) - kept)


def decode_line(raw: bytes, where: str) -> Line:
    """Without its line feed. Raises InputRefused."""
    return parsed(raw, where, lambda content: JournalLine.validate_json(content, by_alias=True, by_name=False))


def header_of(lines: Sequence[Line | TrialPlace], where: str) -> HeaderLine:
    """The first of them. Raises InputRefused where it is none, or a line does not go with it."""
    if not lines or not isinstance(lines[0], HeaderLine):
        raise InputRefused("does not begin with its header", where=f"{where}:1", mend="start a new run")
    header = lines[0]
    for number, line in enumerate(lines[1:], start=2):
        if isinstance(line, HeaderLine):
            raise InputRefused("a second header", where=f"{where}:{number}", mend="start a new run")
        if isinstance(line, AboutTrial) and line.plan_digest not in header.plan_digests:
            raise InputRefused("a trial of a plan that is not in the header", where=f"{where}:{number}: $.planDigest")
    return header
