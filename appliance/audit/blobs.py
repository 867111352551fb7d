"""The artifacts of a record: found by digest, never by a name that the record chooses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel

from appliance.digests import sha256_of_stream
from appliance.errors import InputRefused
from appliance.reading import open_regular, read_regular
from appliance.records import journal
from appliance.records.blob import BlobRef
from appliance.records.record import Record
from appliance.records.trial import Stream, TrialResult
from appliance.trials.outcomes import worth_another_try
from attest.checks import NotRun
from attest.errors import Refused


def hold(record: Record, folder: Path | None, allow_missing: bool) -> None:
    """Every blob that is there has its size and digest. Raises NotRun where one is not there at all."""
    parts = _found(record)
    for path, stream in parts:
        if isinstance(stream, BlobRef) or stream.blob is None or stream.truncated:
            continue
        if (stream.blob.bytes, stream.blob.sha256) != (stream.bytes, stream.sha256):
            raise Refused(
                "blob", "the whole stream, and its blob is another", where=f"{path}.blob", word="blob_mismatch"
            )
    if folder is None:
        raise NotRun("no folder of blobs", acceptable=allow_missing)
    missing: list[str] = []
    checked: set[str] = set()
    for path, ref in parts:
        if isinstance(ref, Stream) or ref.sha256 in checked:
            continue
        checked.add(ref.sha256)
        problem = _problem(folder, ref)
        if problem == "missing":
            missing.append(path)
        elif problem:
            raise Refused("blob", problem, where=path, word="blob_mismatch")
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotRun(f"not there: {missing[0]}{more}", acceptable=allow_missing)


def journal_agrees(record: Record, folder: Path | None, allow_missing: bool, *, parts: Parts | None = None) -> None:
    """The journal that the record was folded from holds these very trials, baselines, hosts and looks at rest.

    A trial's joules of a counter were not known for good when its line was written, for idle is measured once more
    after the last one: of these the journal has the readings, and another check makes the joules of them.

    `parts`: the record's own text of its trials and baselines; a line that says one of them is not read again.
    """
    if folder is None:
        raise NotRun("no journal among the blobs", acceptable=allow_missing)
    try:
        content = read_regular(folder / "sha256" / record.journal.sha256, journal.MAX_BYTES, follow=False)
        told = journal.decode(content, "journal") if parts is None else _decoded(content, record, parts)
    except FileNotFoundError as error:
        raise NotRun("no journal among the blobs", acceptable=allow_missing) from error
    except OSError as error:
        raise Refused("blob", error.strerror or str(error), where="$.journal") from error
    except InputRefused as error:
        raise Refused("aggregate", str(error), where="$.journal") from error
    if record.plan_digest not in told.header.plan_digests:
        raise Refused("aggregate", "the journal is of other plans", where="$.journal")
    for before in told.replaced(record.plan_digest):
        if not worth_another_try(before.outcome, before.reason):
            words = f"trial {before.key.task}, pass {before.key.pass_}, rollout {before.key.rollout}"
            raise Refused("aggregate", f"{words} had ended {before.outcome}, and was run again", where="$.journal")
    by_key = {result.key: result for result in told.results(record.plan_digest)}
    for at, trial in enumerate(record.trials):
        told_so = by_key.pop(trial.key, None)
        if told_so is None or (told_so is not trial and _but_joules(told_so) != _but_joules(trial)):
            raise Refused("aggregate", "the journal tells it otherwise", where=f"$.trials[{at}]")
    if by_key:
        raise Refused("aggregate", f"the journal has {len(by_key)} trials more", where="$.trials")
    _stamps_agree(record, told)
    by_task = {(one.task, one.image): one for one in told.baselines()}
    for at, baseline in enumerate(record.baselines):
        line = by_task.get((baseline.task, baseline.image))
        if line is not baseline and line != baseline:
            raise Refused("aggregate", "the journal tells it otherwise", where=f"$.baselines[{at}]")


def _decoded(content: bytes, record: Record, parts: Parts) -> journal.Journal:
    """As `journal.decode`, but a line that has the very bytes of one of the record's trials or baselines is not parsed
    again.

    Raises InputRefused.
    """
    head = b'{"kind":"trial","planDigest":"%s","result":' % record.plan_digest.encode()
    # Of a metered one the line has other joules, and so other bytes.
    trials = {
        text.encode(): trial
        for text, trial in zip(parts["trials"], record.trials, strict=True)
        if trial.energy is None or trial.energy.readings is None
    }
    baselines = {
        b'{"baseline":%b,"kind":"baseline"}' % text.encode(): baseline
        for text, baseline in zip(parts["baselines"], record.baselines, strict=True)
    }
    kept = content.rfind(b"\n") + 1
    lines: list[journal.Line] = []
    for number, raw in enumerate(content[:kept].split(b"\n")[:-1], start=1):
        if (baseline := baselines.get(raw)) is not None:
            lines.append(journal.BaselineLine.model_construct(baseline=baseline))
            continue
        result, _, end = raw.removeprefix(head).rpartition(b',"trial":')
        trial = trials.get(result) if _INDEX.fullmatch(end) and raw.startswith(head) else None
        if trial is None:
            lines.append(journal.decode_line(raw, f"journal:{number}"))
        else:
            lines.append(
                journal.TrialLine.model_construct(plan_digest=record.plan_digest, trial=int(end[:-1]), result=trial)
            )
    header = journal.header_of(lines, "journal")
    return journal.Journal(header=header, lines=tuple(lines[1:]), kept_bytes=kept, dropped_bytes=len(content) - kept)


Parts = Mapping[str, str | tuple[str, ...]]
_INDEX: Final = re.compile(rb"(0|[1-9][0-9]{0,8})\}")


def _stamps_agree(record: Record, told: journal.Journal) -> None:
    """Hosts with what was found of them on both sides of the trials; the machine at rest, look by look."""
    looks = told.idle()
    for where, stated, told_so in (
        ("$.hosts", record.hosts, told.hosts_after()),
        ("$.meter.idle", record.meter.idle or (), looks),
        ("$.meter.calibration", record.meter.calibration, told.calibration() if looks else None),
    ):
        if stated != told_so:
            raise Refused("aggregate", "the journal tells it otherwise", where=where)


def _but_joules(trial: TrialResult) -> tuple[TrialResult, str | None]:
    """The trial, and the readings that stand for its joules where it has any."""
    readings = trial.energy.readings if trial.energy else None
    return (trial, None) if readings is None else (trial.model_copy(update={"energy": None}), readings.sha256)


def _problem(folder: Path, ref: BlobRef) -> str | None:
    """None where it holds; `missing`, or what is wrong. A link is not followed: it may lead out of the folder."""
    try:
        with open_regular(folder / "sha256" / ref.sha256, follow=False) as content:
            size = os.fstat(content.fileno()).st_size
            if size != ref.bytes:
                return f"blob has {size} bytes, not {ref.bytes}"
            return None if sha256_of_stream(content) == ref.sha256 else "blob has another digest"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"blob cannot be read: {error.strerror}"


def _found(record: BaseModel) -> list[tuple[str, BlobRef | Stream]]:
    """Every blob and every stream in a model, with its JSON path, in the order of the fields."""
    found: list[tuple[str, BlobRef | Stream]] = []
    _look(record, "$", found)
    return found


def _look(value: BaseModel, path: str, found: list[tuple[str, BlobRef | Stream]]) -> None:
    model = type(value)
    if model is BlobRef or model is Stream:
        found.append((path, value))  # type: ignore[arg-type]
    held = value.__dict__
    for name, step in _ways(model):
        inner = held[name]
        if inner is None:
            continue
        if isinstance(inner, BaseModel):
            _look(inner, path + step, found)
        else:
            _look_into(inner, path + step, found)


def _look_into(several: object, path: str, found: list[tuple[str, BlobRef | Stream]]) -> None:
    if isinstance(several, BaseModel):
        _look(several, path, found)
    elif isinstance(several, tuple):
        for at, item in enumerate(several):
            _look_into(item, f"{path}[{at}]", found)
    elif isinstance(several, dict):
        for key, item in several.items():
            _look_into(item, f"{path}.{key}", found)


@cache
def _ways(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """The fields under which a blob can stand, by their types, each with its step in a JSON path."""
    return tuple(
        (name, f".{field.alias or name}") for name, field in model.model_fields.items() if _leads(field.annotation)
    )


def _leads(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return issubclass(annotation, BlobRef) or bool(_ways(annotation))
    return any(_leads(inner) for inner in get_args(annotation))
