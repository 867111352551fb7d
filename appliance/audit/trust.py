"""Where trust lies on this machine, what a statement says of a record, and signing a record's file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from appliance import schemas
from appliance.audit.documents import read_record
from appliance.audit.opened import Opened
from appliance.bundle import config_home, state_home
from appliance.digests import sha256_hex, sha256_of_file
from appliance.errors import AttestationRefused, InputRefused, Refusal, UsageRefused
from appliance.files import write_atomically
from appliance.records.outline import AnyRecord, RecordOutline
from appliance.wire import NAMESPACE
from attest.checks import Check, NotRun, Verified
from attest.errors import Refused
from attest.predicate import Claims, Dependency, Run, RunnerClaim, SchemaReference, Sha256Digest, SuiteReference

if TYPE_CHECKING:
    from attest.tpm import Quoter
    from attest.trust import TrustMode
    from attest.trust.config import RekorVersion
    from attest.trust.local import LocalTrust
    from attest.trust.remote import RemoteTrust
    from attest.trust.tokens import TokenSource

LOCAL: Final = "local"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PREFIX: Final = "sha256:"


def trust_folders() -> Path:
    """A folder in it for each trust, by its name."""
    return state_home() / "trust"


def local_folder() -> Path:
    return trust_folders() / LOCAL


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


def open_or_init_local(tpm: str | None = None) -> tuple[LocalTrust, bool]:
    """This machine's own instance, known by name in roots.toml; True where it was made just now.

    Raises AttestationRefused (trust_root).
    """
    from attest.roots import KnownRoot, remember_root
    from attest.trust import local

    folder = local_folder()
    with refusals_translated():
        made = local.init(folder, tpm)
        trust = local.LocalTrust(folder)
        remember_root(roots_file(), KnownRoot(LOCAL, trust.root_path, trust.root.sha256, trust.assurance))
    return trust, made


def open_trust(
    name_or_config: str,
    token: TokenSource | None = None,
    *,
    seconds: float | None = None,
    rekor_version: RekorVersion | None = None,
    say: Callable[[str], None] | None = None,
) -> TrustMode:
    """The trust to sign with: `local` (made once), one that is known by name, or a client trust config's file.

    `token`: by default whatever the surroundings give; `local` needs none. `seconds`: what the services may take.
    `say` is told in a line what a person should know before something is signed. Raises UsageRefused,
    AttestationRefused.
    """
    if name_or_config == LOCAL:
        trust, made = open_or_init_local()
        if made and say is not None:
            say(f"made a trust of this machine's own in {trust.folder}")
        return trust
    with refusals_translated():
        remote = _remote(name_or_config, token, seconds, rekor_version)
    if say is not None and remote.whole_log is not None:
        say(f"the log {remote.whole_log} keeps the whole statement, for everybody to read who can read that log")
    return remote


def refuse_unable_to_sign(
    name_or_config: str = LOCAL, token: TokenSource | None = None, rekor_version: RekorVersion | None = None
) -> None:
    """Asked before the work that `open_trust` is to sign: nothing is made, no service is asked.

    Raises UsageRefused, AttestationRefused.
    """
    if name_or_config == LOCAL:
        _refuse_unable_to_sign_locally()
        return
    with refusals_translated():
        _remote(name_or_config, token, None, rekor_version).refuse_unready()


def _remote(
    name_or_config: str, token: TokenSource | None, seconds: float | None, rekor_version: RekorVersion | None
) -> RemoteTrust:
    from attest.roots import PinnedRoot, known_roots
    from attest.trust.known import CONFIG, read_config
    from attest.trust.remote import RemoteTrust
    from attest.trust.session import SIGN_SECONDS
    from attest.trust.tokens import TokenSource

    known = {root.name: root for root in known_roots(roots_file())}
    if name_or_config in known:
        root = known[name_or_config].pinned()
        path = known[name_or_config].path.with_name(CONFIG)
        if not path.is_file():
            raise Refused(
                "usage",
                f"{name_or_config!r} is known to verify with; where its services are is not known",
                where="--trust",
                mend=f"appliance trust init --name {name_or_config} --config FILE",
            )
        config = read_config(path)
    else:
        path = Path(name_or_config)
        if not path.is_file():
            names = ", ".join(sorted({LOCAL, *known}))
            raise Refused(
                "usage",
                f"no trust is known by this name, and no file has it: {name_or_config!r:.80}",
                where="--trust",
                mend=f"one of {names}, or a trust config's file; appliance trust init makes one known",
            )
        config = read_config(path)
        digest = sha256_hex(config.root)
        # A root that stands in roots.toml under this digest has the level that a person gave it there.
        level = {root.sha256: root.assurance for root in known.values()}.get(digest, "private")
        root = PinnedRoot(name_or_config, config.root, digest, level)
    return RemoteTrust(
        root,
        config,
        token or TokenSource(),
        where=str(path),
        seconds=seconds or SIGN_SECONDS,
        rekor_version=rekor_version,
    )


def _refuse_unable_to_sign_locally() -> None:
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


def sign_file(record: Path, trust: TrustMode, tpm: str | None = None) -> Path:
    """Signs the record's bytes as they are stored, and writes the bundle beside it, over an older one.

    `tpm`: where the TPM is that quotes the statement, too.
    Raises InputRefused where it is no record, AttestationRefused where it cannot be signed.
    """
    from attest.signing import sign_record

    read = read_record(record)
    with refusals_translated():
        bundle = sign_record(trust, read.canonical(), claims_of(read), name=record.name, quoter=_quoter(tpm))
    return _keep(bundle, record)


def sign_written(record: Path, sha256: str, outline: RecordOutline, trust: TrustMode) -> Path:
    """As `sign_file`, of a record that this program wrote just now: it is not held whole again.

    Raises InputRefused where the file is not what was written.
    """
    from attest import signing

    if sha256_of_file(record) != sha256:
        raise InputRefused("was changed since it was written", where=str(record), mend="appliance sign, if it is right")
    with refusals_translated():
        bundle = signing.sign_written(trust, sha256, claims_of(outline), name=record.name)
    return _keep(bundle, record)


def _quoter(tpm: str | None) -> Quoter | None:
    if tpm is None:
        return None
    from attest.tpm_device import TpmDevice

    return TpmDevice(tpm)


def _keep(bundle: bytes, record: Path) -> Path:
    path = bundle_path(record)
    write_atomically(path, bundle)
    return path


def claims_of(record: AnyRecord) -> Claims:
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


def agreement_check(opened: Opened | None = None) -> Check:
    """The statement says of the record what the record says: someone who reads only the statement is not misled.

    `opened`: shared with other checks of the same list.
    """
    read = opened or Opened()
    return Check("its statement repeats it rightly", lambda verified: _agrees(verified, read), "statement")


def _agrees(verified: Verified, opened: Opened) -> None:
    try:
        record = opened.record(verified)
    except Refused as error:
        raise NotRun("the record does not fit its schema") from error
    wanted = claims_of(record).model_dump(mode="json", by_alias=True)
    # Another release may ship the same schema with other words in it; which one was meant is the signer's to say.
    wanted["schema"]["digest"] = verified.predicate["schema"]["digest"]
    wanted["supersedes"] = verified.predicate["supersedes"]
    wanted["runner"]["id"] = verified.predicate["runner"]["id"]
    for key, value in wanted.items():
        if verified.predicate[key] != value:
            raise Refused("statement", "says something else than the record", where=f"payload $.predicate.{key}")


def _dependencies(record: AnyRecord) -> Iterator[Dependency]:
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


def _span(record: AnyRecord) -> tuple[str, str]:
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
