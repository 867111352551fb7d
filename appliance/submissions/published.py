"""A published folder as anyone reads it: a signed index, and the files that its lines name by digest.

```
SITE/index.jsonl  checkpoint.sigstore.json       one line a thing that was published; who signed for the whole of them
SITE/records/SHA.json  SHA.sigstore.json         a record and its bundle      SHA.provenance.sigstore.json   its twin
SITE/verdicts/SHA.sigstore.json                  of those who ran it again, or judged it
SITE/blobs/sha256/HEX                            what records and verdicts name
SITE/roots/SHA.json                              the trusted roots that any of it is signed under
SITE/trusted_root.json                           the one of the index, again
```
All of it is static, and every name but those of the index follows from the content: any web server can carry it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from appliance.bundle import state_home
from appliance.digests import sha256_hex
from appliance.pins import Sha256
from appliance.reading import read_regular
from appliance.wire import Wire
from attest import canonical, statement, vsa
from attest.bundle import MAX_BUNDLE_BYTES, parse
from attest.errors import Refused
from attest.index import CHECKPOINT, LINES, Checkpoint, SignedIndex, recall, remember

if TYPE_CHECKING:
    from attest.roots import PinnedRoot

ROOT: Final = "trusted_root.json"


class Signer(Wire):
    """Whom the publisher held a signature to."""

    root: Sha256
    """In roots/."""
    identity: str
    issuer: str


class PublishedSuite(Wire):
    name: str
    version: str
    digest: Sha256


class RecordLine(Wire):
    """A record. A later line of the same record replaces an earlier one: then less of it is withheld."""

    schema_: Literal["published-v1"] = Field(default="published-v1", alias="schema")
    kind: Literal["record"] = "record"
    record: Sha256
    bundle: Sha256
    """Of the bundle's bytes: no other one over the same statement passes for it."""
    signer: Signer
    suite: PublishedSuite
    solver: str
    model: str
    """`none` where no model has a part in it."""
    version: str | None
    commit: str | None
    self_correct: bool
    baseline: Sha256 | None
    """The record without self-correction that this one is compared with; published as well."""
    withheld: tuple[Sha256, ...]
    """Blobs that the record names and this folder does not hold, sorted."""


class VerdictLine(Wire):
    """A verification summary about a record that stands here."""

    schema_: Literal["published-v1"] = Field(default="published-v1", alias="schema")
    kind: Literal["verdict"] = "verdict"
    record: Sha256
    bundle: Sha256
    signer: Signer
    verifier: str
    passed: bool
    levels: tuple[str, ...]
    verdict: Sha256 | None
    """verdict.json, a blob; None where the summary is a receiver's."""


class TwinLine(Wire):
    """A record's SLSA provenance."""

    schema_: Literal["published-v1"] = Field(default="published-v1", alias="schema")
    kind: Literal["provenance"] = "provenance"
    record: Sha256
    bundle: Sha256
    signer: Signer


Line = RecordLine | VerdictLine | TwinLine
PUBLISHED: Final[TypeAdapter[Line]] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


@dataclass(frozen=True)
class Listed:
    """A record of the site; its files have the digests of its line, and nothing else of it is checked."""

    line: RecordLine
    path: Path
    bundle: Path


@dataclass(frozen=True)
class Site:
    folder: Path
    checkpoint: Checkpoint
    records: tuple[Listed, ...]
    """In the order they were published."""
    verdicts: tuple[VerdictLine, ...]
    twins: tuple[TwinLine, ...]
    unremembered: str | None = None
    """Why this machine could not keep its checkpoint: an older one will pass here."""


def record_path(folder: Path, sha256: str) -> Path:
    return folder / "records" / f"{sha256}.json"


def bundle_path(folder: Path, sha256: str) -> Path:
    """Of a record."""
    return folder / "records" / f"{sha256}.sigstore.json"


def twin_path(folder: Path, sha256: str) -> Path:
    return folder / "records" / f"{sha256}.provenance.sigstore.json"


def verdict_path(folder: Path, bundle_sha256: str) -> Path:
    return folder / "verdicts" / f"{bundle_sha256}.sigstore.json"


def root_path(folder: Path, sha256: str) -> Path:
    return folder / "roots" / f"{sha256}.json"


def has_index(path: Path) -> bool:
    """Whether anything there is of an index, or says that there was one: whoever takes one file away, or two, gets no
    folder that is looked at less closely."""
    return any(os.path.lexists(path / name) for name in (LINES, CHECKPOINT, ROOT))


def read_site(folder: Path, root: PinnedRoot, identity: str, issuer: str) -> Site:
    """The index is held to this root, name and issuer, and to the newest checkpoint that was seen here of it before;
    every file that it names, to its digest. The checkpoint is kept, if this machine can keep it.

    Raises Refused: `replay` where the index is not what it was, or not all of it is signed; `record`, `bundle` or
    `blob` for a file that is not what its line says; `usage` where nothing is published there.
    """
    index = SignedIndex.open(folder, root, identity, issuer)
    checkpoint = index.checkpoint
    if checkpoint is None and has_index(folder):
        raise Refused("replay", "has no signed index", where=str(folder), mend="fetch it again, whole")
    if checkpoint is None or not index.entries:
        raise Refused("usage", "nothing is published here", where=str(folder), mend="appliance publish RECORD --to DIR")
    place = memory(checkpoint.origin)
    seen = recall(place)
    if seen is not None:
        index.hold_to(seen)
    if index.uncounted_bytes:
        raise Refused(
            "replay",
            f"goes on for {index.uncounted_bytes} B behind what its checkpoint counts: nobody signed for that",
            where=str(folder / LINES),
            mend="fetch it again; its publisher, where publishing was cut off: the same appliance publish once more",
        )
    site = _site(folder, checkpoint, lines_of(index))
    _check_files(site)
    if checkpoint != seen:
        try:
            remember(place, checkpoint)
        except OSError as error:  # nothing that was checked depends on it
            return replace(site, unremembered=f"{place.parent}: {(error.strerror or str(error)).lower()}")
    return site


def memory(name: str | bytes) -> Path:
    """Where this machine keeps the newest checkpoint that it saw of an index, by its origin or its folder."""
    return state_home() / "published" / f"{sha256_hex(name.encode() if isinstance(name, str) else name)}.json"


def memory_of(folder: Path) -> Path:
    """By its folder; a name need not be UTF-8."""
    return memory(os.fsencode(folder.resolve()))


def lines_of(index: SignedIndex) -> tuple[Line, ...]:
    """Raises Refused (replay) for a line that no publisher of ours writes."""
    return parse_lines(index.entries, str(index.folder / LINES))


def parse_lines(entries: Iterable[canonical.Json], where: str) -> tuple[Line, ...]:
    found = []
    for number, entry in enumerate(entries, start=1):
        try:
            found.append(PUBLISHED.validate_json(canonical.dumps(entry), by_alias=True, by_name=False))
        except ValidationError as error:
            words = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise Refused("replay", f"no line of a published index: {words}", where=f"{where}:{number}") from error
    return tuple(found)


def _site(folder: Path, checkpoint: Checkpoint, lines: tuple[Line, ...]) -> Site:
    records: dict[str, Listed] = {}
    for line in lines:
        if isinstance(line, RecordLine):
            records[line.record] = Listed(line, record_path(folder, line.record), bundle_path(folder, line.record))
    return Site(
        folder=folder,
        checkpoint=checkpoint,
        records=tuple(records.values()),
        verdicts=tuple({line.bundle: line for line in lines if isinstance(line, VerdictLine)}.values()),
        twins=tuple({line.record: line for line in lines if isinstance(line, TwinLine)}.values()),
    )


def _check_files(site: Site) -> None:
    folder = site.folder
    listed = {found.line.record for found in site.records}
    for found in site.records:
        line = found.line
        _check(found.path, line.record, "record", canonical.MAX_BYTES)
        _check(found.bundle, line.bundle, "bundle", MAX_BUNDLE_BYTES)
        if line.baseline is not None and line.baseline not in listed:
            raise Refused("record", "one half of a delta, and the other is not here", where=str(found.path))
    for verdict in site.verdicts:
        path = verdict_path(folder, verdict.bundle)
        _hold_verdict(verdict, _check(path, verdict.bundle, "bundle", MAX_BUNDLE_BYTES), str(path))
        if verdict.verdict is not None:
            _check(folder / "blobs" / "sha256" / verdict.verdict, verdict.verdict, "blob", canonical.MAX_BYTES)
    for twin in site.twins:
        _check(twin_path(folder, twin.record), twin.bundle, "bundle", MAX_BUNDLE_BYTES)


def _hold_verdict(line: VerdictLine, bundle: bytes, where: str) -> None:
    """To what the verdict says; whose word it is, is for whoever lists its signer. Raises Refused."""
    summary, record = vsa.read_stated(statement.parse(parse(bundle).payload))
    verdict = summary.details.verdict if isinstance(summary.details, vsa.Reproduced) else None
    says = (record, summary.verifier.id, summary.passed, tuple(summary.verified_levels), verdict)
    if says != (line.record, line.verifier, line.passed, line.levels, line.verdict):
        raise Refused("record", "the index says of this verdict what it does not say", where=where)


def _check(path: Path, sha256: str, reason: str, most: int) -> bytes:
    try:
        content = read_regular(path, most, follow=False)
    except OSError as error:
        raise Refused(reason, error.strerror or str(error), where=str(path)) from error
    if sha256_hex(content) != sha256:
        raise Refused(reason, f"not the bytes that the index names, {sha256}", where=str(path))
    return content


def known_records(lines: Iterable[Line]) -> Mapping[str, RecordLine]:
    """The line that holds of each record, by its digest."""
    return {line.record: line for line in lines if isinstance(line, RecordLine)}
