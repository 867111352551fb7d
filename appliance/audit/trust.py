"""Where trust lies on this machine, what a statement says of a record, and signing a record's file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pydantic import ValidationError

from appliance import schemas
from appliance.audit.documents import read_record
from appliance.bundle import config_home, state_home
from appliance.errors import AttestationRefused, Refusal, UsageRefused
from appliance.files import write_atomically
from appliance.records.record import Record
from appliance.wire import NAMESPACE
from attest.checks import Check, NotRun, Verified
from attest.errors import Refused
from attest.predicate import Claims, Dependency, Run, RunnerClaim, SchemaReference, Sha256Digest, SuiteReference

if TYPE_CHECKING:
    from attest.trust.local import LocalTrust

LOCAL: Final = "local"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PREFIX: Final = "sha256:"


def local_folder() -> Path:
    return state_home() / "trust" / LOCAL


def roots_file() -> Path:
    return config_home() / "roots.toml"


def bundle_path(record: Path) -> Path:
    """`X.sigstore.json` beside `X.json`."""
    return record.with_name(f"{record.name.removesuffix('.json')}.sigstore.json")


@contextmanager
def refusals_translated() -> Iterator[None]:
    """attest knows no exit statuses: `usage` is the command line's fault (2), all else an attestation refused (7)."""
    try:
        yield
    except Refused as refused:
        raise translated(refused) from refused


def translated(refused: Refused) -> Refusal:
    kind = UsageRefused if refused.reason == "usage" else AttestationRefused
    return kind(refused.message, where=refused.where, mend=refused.mend, reason=refused.reason)


def open_or_init_local() -> tuple[LocalTrust, bool]:
    """This machine's own instance, known by name in roots.toml; True where it was made just now.

    Raises AttestationRefused (trust_root).
    """
    from attest.roots import KnownRoot, remember_root
    from attest.trust import local

    folder = local_folder()
    with refusals_translated():
        made = local.init(folder)
        trust = local.LocalTrust(folder)
        remember_root(roots_file(), KnownRoot(LOCAL, trust.root_path, trust.root.sha256, trust.assurance))
    return trust, made


def refuse_unable_to_sign() -> None:
    """Asked before the work that `open_or_init_local` is to sign; nothing is made. Raises AttestationRefused."""
    from attest.roots import is_remembered
    from attest.trust import local

    folder = local_folder()
    with refusals_translated():
        if local.is_made(folder):
            trust = local.LocalTrust(folder)
            trust.refuse_unready()
            is_remembered(roots_file(), LOCAL, trust.root.sha256)
            return
        is_remembered(roots_file(), LOCAL, None)
        there = next(path for path in folder.absolute().parents if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise Refused("trust_root", "no trust can be made here", where=str(there), mend="--no-sign")


def sign_file(record: Path, trust: LocalTrust) -> Path:
    """Signs the record's bytes as they are stored, and writes the bundle beside it, over an older one.

    Raises InputRefused where it is no record, AttestationRefused where it cannot be signed.
    """
    from attest.signing import sign_record

    read = read_record(record)
    with refusals_translated():
        bundle = sign_record(trust, read.canonical(), claims_of(read), name=record.name)
    path = bundle_path(record)
    write_atomically(path, bundle)
    return path


def claims_of(record: Record) -> Claims:
    """What the statement repeats of the record, so that it can be read without it. Raises Refused (statement)."""
    started, finished = _span(record)
    try:
        return Claims(
            schema_=SchemaReference(
                uri=schemas.schema_id(record.schema_),
                digest=Sha256Digest(sha256=schemas.schema_digest(record.schema_)),
            ),
            suite=SuiteReference(
                uri=f"{NAMESPACE}suites/{quote(record.suite.name)}",
                digest=Sha256Digest(sha256=record.suite.digest),
                version=record.suite.version,
            ),
            runner=RunnerClaim(version=record.harness.version, digest=Sha256Digest(sha256=record.harness.digest)),
            resolved_dependencies=tuple(_dependencies(record)),
            run=Run(invocation_id=record.record_id, started_on=started, finished_on=finished),
            challenge=record.challenge,
            supersedes=None,
        )
    except ValueError as error:
        raise Refused("statement", f"the record cannot be stated: {' '.join(str(error).split())[:200]}") from error


def agreement_check() -> Check:
    """The statement says of the record what the record says: someone who reads only the statement is not misled."""
    return Check("its statement repeats it rightly", _agrees, "statement")


def _agrees(verified: Verified) -> None:
    try:
        record = Record.model_validate_json(verified.record_bytes)
    except ValidationError as error:
        raise NotRun("the record does not fit its schema") from error
    wanted = claims_of(record).model_dump(mode="json", by_alias=True)
    # Another release may ship the same schema with other words in it; which one was meant is the signer's to say.
    wanted["schema"]["digest"] = verified.predicate["schema"]["digest"]
    wanted["supersedes"] = verified.predicate["supersedes"]
    wanted["runner"]["id"] = verified.predicate["runner"]["id"]
    for key, value in wanted.items():
        if verified.predicate[key] != value:
            raise Refused("statement", "says something else than the record", where=f"payload $.predicate.{key}")


def _dependencies(record: Record) -> Iterator[Dependency]:
    for image in record.images:
        yield Dependency(name=f"image/{image.role}", digest={"sha256": image.pin.config.removeprefix(_PREFIX)})
    if record.harness.commit and _COMMIT.fullmatch(record.harness.commit):
        yield Dependency(name="source/harness", digest={"gitCommit": record.harness.commit})
    if record.commit and _COMMIT.fullmatch(record.commit):
        yield Dependency(name="source/solver", digest={"gitCommit": record.commit})
    if record.solver.binary_sha256:
        yield Dependency(name="binary/solver", digest={"sha256": record.solver.binary_sha256})
    if record.model and record.model.digest:
        yield Dependency(name=f"model/{record.model.name}", digest={"sha256": record.model.digest})


def _span(record: Record) -> tuple[str, str]:
    """From the first trial's start to the last one's end; the record's date where no trial ran."""
    if not record.trials:
        return record.date, record.date
    try:
        ends = [
            datetime.fromisoformat(trial.started_at) + timedelta(seconds=trial.wall_seconds or 0)
            for trial in record.trials
        ]
        finished = f"{max(ends):%Y-%m-%dT%H:%M:%S.%f}Z"
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused("statement", f"a trial starts at no moment: {error}", where="$.trials") from error
    # RFC 3339 moments with Z sort as text; the statement's schema refuses any other.
    return min(trial.started_at for trial in record.trials), finished
