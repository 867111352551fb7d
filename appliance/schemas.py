"""The published JSON Schemas: generated from the models, committed under schemas/, and the validators of every door.

What is validated against is the committed file, the same bytes that a stranger reads; a test keeps it equal to what
the models say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, Final, Literal

from appliance.bundle import shipped
from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.files import write_atomically
from appliance.wire import NAMESPACE

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Root:
    """Where a schema comes from; its module is imported only when the schema is made anew."""

    where: str
    """`module:attribute` of a model or a type adapter."""
    what: str
    """Which file it is the shape of, for the version table."""
    stored: bool = True
    """Written by us, with every field in place: all are required. False: a person may leave defaults out."""
    canonical: bool = True
    """Its bytes are their own RFC 8785 form."""


ROOTS: Final[dict[str, Root]] = {
    "record-v1": Root("appliance.records.record:Record", "records/<solver>.json: one solver's results, signed"),
    "plan-v1": Root("appliance.records.plan:TrialPlan", "one solver's plan; `planDigest` is of its bytes"),
    "run-plan-v1": Root("appliance.records.plan:RunPlan", "plan.json of a run folder"),
    "journal-v1": Root("appliance.records.journal:JournalLine", "one line of journal.jsonl"),
    "cassette-v1": Root(
        "appliance.gateway.cassette_shapes:CassetteHead", "cassette.json, the first member of a trial's cassette"
    ),
    "cassette-exchange-v1": Root(
        "appliance.gateway.cassette_shapes:RecordedExchange", "NNNNN/exchange.json, beside each exchange's two bodies"
    ),
    "cascade-v1": Root(
        "appliance.solvers.cascade.messages:MESSAGES",
        "one line of a cascade's control socket, or one body over HTTP, asked or answered",
        stored=False,
        canonical=False,
    ),
    "verdict-v1": Root("appliance.records.verdict:Verdict", "what `reproduce --json` says"),
    "checks-v1": Root("appliance.tasks.checks:Checks", "checks.json beside a suite", canonical=False),
    "image-lock-v1": Root("appliance.images.lock:ImageLock", "image.lock.json of an image", canonical=False),
    "image-v1": Root("appliance.images.definition:Definition", "image.toml", stored=False, canonical=False),
    "task-v1": Root("appliance.tasks.shapes:TaskToml", "task.toml", stored=False, canonical=False),
    "suite-v1": Root("appliance.tasks.shapes:SuiteToml", "suite.toml", stored=False, canonical=False),
    "solver-v1": Root("appliance.solvers.definition:_Toml", "solvers/<name>.toml", stored=False, canonical=False),
    "meter-messages-v1": Root(
        "appliance.meter.message_schema:MESSAGES",
        "one line of the meter's socket, asked or answered",
        stored=False,
        canonical=False,
    ),
    "readings-v1": Root(
        "appliance.records.readings_schema:HEADER",
        "the header of a window's readings, and of what lines follow it",
        stored=False,
        canonical=False,
    ),
    "policy-v1": Root(
        "appliance.audit.policy_shapes:PolicyToml", "a receiver's policy.toml", stored=False, canonical=False
    ),
    "challenge-v1": Root("appliance.submissions.challenge:Challenge", "a receiver's challenge, for `run --challenge`"),
    "benchmark-result-v1": Root(
        "attest.predicate:Predicate",
        "the predicate of a record's signed statement",
        stored=False,  # `tpm` alone is left out where there is none
    ),
    "verification-summary-v1": Root(
        "attest.vsa:Vsa", "the predicate of a signed verdict: SLSA's, narrower, with our details", stored=False
    ),
    "provenance-v1": Root(
        "attest.provenance:Provenance", "the predicate of a record's SLSA provenance, narrower", stored=False
    ),
    "index-checkpoint-v1": Root("attest.index:Checkpoint", "the predicate over a signed index"),
    "anchor-v1": Root("attest.anchor:AnchorDocument", "X.anchor.json: a record's log, signed by a deployment's clock"),
    "log-consistency-v1": Root(
        "attest.checkpoints:ConsistencyProof", "`trust checkpoint --verify --out`: a log grew out of an earlier one"
    ),
    "published-v1": Root("appliance.submissions.published:PUBLISHED", "one line of a published folder's index.jsonl"),
}


def generated(name: str) -> bytes:
    """The schema that the models say today, as the bytes of its file: sorted, indented, with a final line feed."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    stored = ROOTS[name].stored

    class Ours(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # the base class's signature
            return False  # "Wallseconds" tells nobody anything that wallSeconds does not

        def field_is_required(self, field: Any, total: bool) -> bool:
            # What is not written while it has its default came later than the first records.
            always = stored and "serialization_exclude_if" not in field
            return always or super().field_is_required(field, total)

    module, _, attribute = ROOTS[name].where.partition(":")
    root = getattr(import_module(module), attribute)
    adapter = root if isinstance(root, TypeAdapter) else TypeAdapter(root)
    mode: Literal["serialization", "validation"] = "serialization" if stored else "validation"
    body = adapter.json_schema(mode=mode, by_alias=True, schema_generator=Ours)
    schema = {**body, "$schema": DIALECT, "$id": schema_id(name), "title": name}
    return (json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def version_table() -> str:
    """schemas/README.md: every schema with the digest of its bytes."""
    rows = "".join(
        f"| `{name}` | {ROOTS[name].what} | `{sha256_hex(generated(name))[:16]}` |\n" for name in sorted(ROOTS)
    )
    return f"{_TABLE_HEAD}{rows}"


def compare_table() -> str:
    """How `reproduce` compares each field of a record, as the table of docs/record.md: from the schema alone."""
    schema = json.loads(generated("record-v1"))
    rows = [("", {"properties": schema["properties"]}), *sorted(schema["$defs"].items())]
    lines = ["| of | field | deterministic and replays | live models |", "|---|---|---|---|"]
    for owner, definition in rows:
        by_rule: dict[tuple[str, str], list[str]] = {}
        for field, about in definition.get("properties", {}).items():
            rule = about["x-compare"]
            by_rule.setdefault((rule["deterministic"], rule["live"]), []).append(f"`{field}`")
        for (deterministic, live), fields in sorted(by_rule.items()):
            lines.append(f"| {owner or 'the record'} | {' '.join(sorted(fields))} | {deterministic} | {live} |")
    return "\n".join(lines) + "\n"


def names() -> tuple[str, ...]:
    """Names of the committed schemas, sorted."""
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in shipped("schemas").glob(f"*{_SUFFIX}")))


def schema_id(name: str) -> str:
    return f"{NAMESPACE}schemas/{name}{_SUFFIX}"


@cache
def committed(name: str) -> bytes:
    """The bytes of schemas/<name>.schema.json. Raises UsageRefused, naming the known ones."""
    if name not in names():
        raise UsageRefused(f"no such schema: {name[:80]!r}", mend=f"one of {', '.join(names())}")
    return (shipped("schemas") / f"{name}{_SUFFIX}").read_bytes()


def schema_digest(name: str) -> str:
    return sha256_hex(committed(name))


def first_problem(name: str, value: Any) -> tuple[str, str] | None:
    """JSON path and words of what a parsed value breaks of the schema; None where it holds.

    Whether it holds, the compiled validator says, which reads patterns as the schema's own standard does; the other one
    finds the words, and is asked only where it does not, for the first of its many findings: in a list of a stranger's
    each of a million elements may break a dozen rules.
    """
    try:
        if _compiled(name).is_valid(value):
            return None
        is_json = True
    except ValueError:  # what no JSON holds, as a date of TOML
        is_json = False
    from jsonschema.exceptions import best_match

    error = best_match(islice(_validator(name).iter_errors(value), _MOST_PROBLEMS))
    if error is not None:
        return error.json_path, _short(error.message)
    if not is_json:
        return None
    # Python's `$` also matches before a last line feed, for one.
    strict = next(iter(_compiled(name).iter_errors(value)))
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in strict.instance_path)
    return f"${path}", _short(strict.message)


def require(name: str, value: Any, where: str) -> None:
    """Raises InputRefused with file and JSON path."""
    problem = first_problem(name, value)
    if problem:
        path, words = problem
        raise InputRefused(words, where=f"{where}: {path}", mend=f"appliance schema show {name}")


_SUFFIX: Final = ".schema.json"
_TABLE_HEAD: Final = f"""# Schemas

JSON Schema draft 2020-12, generated from the models: `python -m appliance.schemas` writes them and this table anew,
and a test holds them equal to the code. Every door validates against these files: what we write, what we read, what
a stranger sends. `appliance schema list|show|check` prints them and checks a file against its own.

A shape that is in a release changes only with its number: what `record-v1` admits never changes, anything else is
`record-v2`, beside it. Each `$id` is `{NAMESPACE}schemas/<name>.schema.json`.

`x-compare` on a field says how `reproduce` compares it, for deterministic solvers and replays, and for live models:
`exact`, `rate`, `energy_band`, `cost_band`, `wall_band`, `informative`.

| schema | of what | sha256, first 16 digits |
|---|---|---|
"""
_MOST_PROBLEMS: Final = 1000
"""Of which the best to tell is chosen."""
_LONGEST: Final = 300
"""Validators quote the whole offending value."""


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


@cache
def _compiled(name: str) -> Any:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(json.loads(committed(name)))


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    # Making one costs more than a small record's validation, and the schema is ours: it is not checked again here.
    return Draft202012Validator(json.loads(committed(name)))


def with_table(page: str) -> str:
    """docs/record.md with its table made anew between the two marks."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{compare_table()}{_END}{after}"


_BEGIN: Final = "<!-- table: made by `python -m appliance.schemas` -->"
_END: Final = "<!-- end of table -->"


def write_all() -> None:
    """Make the committed files anew."""
    folder = shipped("schemas")
    for name in ROOTS:
        write_atomically(folder / f"{name}{_SUFFIX}", generated(name))
    write_atomically(folder / "README.md", version_table().encode())
    page = folder.parent / "docs" / "record.md"
    if page.exists():
        write_atomically(page, with_table(page.read_text()).encode())


if __name__ == "__main__":
    write_all()
