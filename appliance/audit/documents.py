"""Files at the door: strict JSON, their schema, their model, before anything else looks at them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

from appliance import schemas
from appliance.audit.found import records_of
from appliance.audit.policy import policy_of
from appliance.errors import InputRefused, Refusal, UsageRefused
from appliance.reading import read_regular
from appliance.records import journal
from appliance.records.record import Record
from appliance.tasks.toml import parse_toml, short
from appliance.wire import parsed
from attest import canonical

MAX_BYTES: Final = 256 * 1024 * 1024
_SOME: Final = 3


def read_bytes(path: Path) -> bytes:
    """Raises InputRefused also for what is no file, or over the bound of any document of ours."""
    try:
        return read_regular(path, MAX_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path), mend=_records_in(path)) from error


def _records_in(path: Path) -> str | None:
    """What to name instead of a folder."""
    try:
        found = records_of(path).records if path.is_dir() else ()
    except Refusal:
        return None
    if not found:
        return None
    named = [shlex.quote(str(record)) for record in found[:_SOME]] + ["…"] * (len(found) > _SOME)
    return f"name a record in it: {', '.join(named)}"


def read_record(path: Path) -> Record:
    """A record that fits schema and model; whether it is genuine, only `verify` says."""
    return record_of(read_bytes(path), str(path))


def record_of(content: bytes, where: str) -> Record:
    value = parsed(content, where, canonical.loads, canonical_only=False)
    _refuse_bundle(value, where)
    parsed(content, where, canonical.loads_canonical)
    if not isinstance(value, dict) or value.get("schema") != "record-v1":
        named = value.get("schema") if isinstance(value, dict) else None
        raise InputRefused(
            f"not a record-v1, but {short(named)}", where=f"{where}: $.schema", mend="appliance schema list"
        )
    schemas.require("record-v1", value, where)
    return Record.from_canonical(content, where)


def _refuse_bundle(value: object, where: str) -> None:
    """Its bundle lies beside a record and has nearly its name. Raises InputRefused."""
    if isinstance(value, dict) and "dsseEnvelope" in value:
        raise InputRefused("a bundle, not a record", where=where, mend="name the record beside it")


def check_file(path: Path, name: str | None = None) -> str:
    """The schema that this file holds to: the named one, or the one that it names itself. Raises InputRefused."""
    content = read_bytes(path)
    if name is None and path.suffix == ".jsonl":
        name = "journal-v1"
    if name == "journal-v1":
        _check_journal(content, str(path))
        return name
    toml = path.suffix == ".toml"
    value = (
        parse_toml(content, str(path)) if toml else parsed(content, str(path), canonical.loads, canonical_only=False)
    )
    name = name or (_name_of_toml(path, value) if toml else _own_name(value, path))
    if name not in schemas.names():
        raise UsageRefused(
            f"no such schema: {short(name)}", where=str(path), mend=f"one of {', '.join(schemas.names())}"
        )
    if name == "policy-v1" and toml:
        policy_of(content, str(path))  # it also knows what contradicts itself, and the lines
    if schemas.ROOTS[name].canonical:
        parsed(content, str(path), canonical.loads_canonical)
    schemas.require(name, value, str(path))
    if name == "record-v1":
        Record.from_canonical(content, str(path))
    return name


def _name_of_toml(path: Path, value: dict[str, Any]) -> str:
    if value.get("schema") == "policy-v1":
        return "policy-v1"
    known = {"task.toml": "task-v1", "suite.toml": "suite-v1", "image.toml": "image-v1"}
    if path.name in known:
        return known[path.name]
    if path.resolve().parent.name == "solvers":
        return "solver-v1"
    raise InputRefused("a TOML file of no known name", where=str(path), mend="say --schema NAME")


def _own_name(value: object, path: Path) -> str:
    named = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(named, str):
        raise InputRefused("names no schema", where=f"{path}: $.schema", mend="say --schema NAME")
    return named


def _check_journal(content: bytes, where: str) -> None:
    found = journal.decode(content, where)
    for number, line in enumerate((found.header, *found.lines), start=1):
        schemas.require("journal-v1", line.json_value(), f"{where}:{number}")
