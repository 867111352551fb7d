"""What a line of a published index says of its record: made from the record, and held to it again by its readers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.audit.documents import read_bytes, record_of
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.records.record import Record
from appliance.submissions.named import blobs_named
from appliance.submissions.publishable import counterpart, model_of
from appliance.submissions.published import Listed, PublishedSuite, RecordLine, Signer
from attest.checks import Check
from attest.errors import Refused

if TYPE_CHECKING:
    from appliance.audit.opened import Opened
    from attest.checks import Verified


def line_of(
    record: Record,
    sha256: str,
    *,
    bundle: str,
    signer: Signer,
    model: str,
    baseline: str | None,
    withheld: tuple[str, ...],
) -> RecordLine:
    return RecordLine(
        record=sha256,
        bundle=bundle,
        signer=signer,
        suite=PublishedSuite(name=record.suite.name, version=record.suite.version, digest=record.suite.digest),
        solver=record.solver.name,
        model=model,
        version=record.version,
        commit=record.commit,
        self_correct=record.self_correct,
        baseline=baseline,
        withheld=withheld,
    )


def listed_check(listed: Listed, blobs: Path | None, opened: Opened) -> Check:
    """That its line is of this record, and that no blob lacks but those that the line withholds, whatever else a
    reader lets be missing."""

    def look(verified: Verified) -> None:
        record = opened.record(verified)
        _hold_line(listed, record, verified)
        _hold_blobs(listed.line, record, blobs)

    return Check("its line in the index is of this record", look, "record")


def _hold_line(listed: Listed, record: Record, verified: Verified) -> None:
    """Raises Refused (record). One CA stands in several roots: by which of them a reader holds it, is his to say."""
    line = listed.line
    signer = Signer(root=line.signer.root, identity=verified.identity, issuer=verified.issuer)
    where = f"index.jsonl: record {line.record[:12]}"
    try:
        model = model_of(record, where)
        baseline = counterpart(record, _other(listed), where)
    except InputRefused as refused:
        raise Refused("record", refused.message, where=refused.where) from refused
    named = {ref.sha256 for ref in blobs_named(record)}
    withheld = tuple(sha for sha in line.withheld if sha in named)
    made = line_of(
        record, line.record, bundle=line.bundle, signer=signer, model=model, baseline=baseline, withheld=withheld
    )
    said = line.json_value()
    for name, value in made.json_value().items():
        if said[name] != value:
            raise Refused(
                "record", f"the index says {said[name]!r:.80}, the record {value!r:.80}", where=f"{where}: $.{name}"
            )


def _other(listed: Listed) -> dict[str, Record]:
    """The other half of a delta, by its digest. Raises InputRefused, Refused (record)."""
    sha256 = listed.line.baseline
    if sha256 is None:
        return {}
    path = listed.path.with_name(f"{sha256}.json")
    content = read_bytes(path)
    if sha256_hex(content) != sha256:
        raise Refused("record", "not the bytes that the index names", where=str(path))
    return {sha256: record_of(content, str(path))}


def _hold_blobs(line: RecordLine, record: Record, blobs: Path | None) -> None:
    """Raises Refused (blob). That one which is there is the right one, another check says."""
    withheld = frozenset(line.withheld)
    for ref in blobs_named(record):
        if ref.sha256 in withheld or (blobs is not None and os.path.lexists(blobs / "sha256" / ref.sha256)):
            continue
        raise Refused(
            "blob",
            f"{ref.sha256} is not there, and the index does not withhold it",
            where=str(blobs) if blobs is not None else None,
            mend="fetch it again",
            word="blob_missing",
        )
