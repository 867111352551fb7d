"""What we sign through the real services, and locally, as programs that are not ours see it; and theirs, as we do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from attest import statement
from attest.errors import Refused
from attest.predicate import Predicate
from attest.roots import PinnedRoot
from attest.signing import sign_record
from attest.trust import TrustMode
from attest.trust.config import TrustConfig
from attest.trust.local import open_or_init
from attest.trust.remote import RemoteTrust
from attest.trust.tokens import TokenSource
from attest.verification import verify
from tests.attest_forge import RECORD, claims
from tests.judges_bench import JUDGES, gh
from tests.services_bench import Services
from tests.services_build import COSIGN
from tests.services_issuer import PERSON, PIPELINE, WORKFLOW

pytestmark = pytest.mark.services

NAMES = {"email": PERSON, "github": WORKFLOW, "gitlab": PIPELINE}
MODES = ("local", *NAMES)
EACH_JUDGE = [pytest.param("cosign"), pytest.param("sigstore_js", marks=pytest.mark.node)]


@dataclass(frozen=True)
class Signed:
    record: Path
    bundle: Path
    root: PinnedRoot
    root_path: Path
    identity: str
    issuer: str

    def asked(self, judge: str, **changes: Any) -> str | None:
        one = replace(self, **changes)
        return JUDGES[judge](one.record, one.bundle, one.root_path, one.identity, one.issuer)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services")).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def signed(services: Services, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Signed]:
    """The same record by the local trust, and by the private one for each kind of token."""
    folder = tmp_path_factory.mktemp("signed")
    modes: dict[str, TrustMode] = {"local": open_or_init(folder / "trust")}
    modes |= {kind: private(services, kind, folder) for kind in NAMES}
    return {name: sign(trust, folder / name) for name, trust in modes.items()}


def private(services: Services, kind: str, folder: Path) -> RemoteTrust:
    token = folder / f"{kind}.jwt"
    token.write_text(services.token(kind))
    config = TrustConfig.parse(services.trust_config.read_bytes(), str(services.trust_config))
    return RemoteTrust(root_of(services), config, TokenSource("file", str(token)), where=str(services.trust_config))


def root_of(services: Services) -> PinnedRoot:
    content = services.trusted_root.read_bytes()
    return PinnedRoot("lab", content, hashlib.sha256(content).hexdigest(), "private")


def sign(trust: TrustMode, folder: Path) -> Signed:
    folder.mkdir()
    record, bundle, root = folder / "record.json", folder / "record.sigstore.json", folder / "trusted_root.json"
    record.write_bytes(RECORD)
    bundle.write_bytes(sign_record(trust, RECORD, claims()))
    root.write_bytes(trust.root.content)
    return Signed(record, bundle, trust.root, root, trust.identity, trust.issuer)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("judge", EACH_JUDGE)
def test_another_program_takes_our_bundle_and_no_other_record_name_or_issuer(
    judge: str, mode: str, signed: dict[str, Signed], tmp_path: Path
) -> None:
    """The issue's deliver 5; rows V2, V3 as strangers see them. No judge reaches a network."""
    one = signed[mode]
    assert one.asked(judge) is None
    changed = tmp_path / "record.json"
    changed.write_bytes(RECORD.replace(b"12", b"11"))
    assert one.asked(judge, record=changed)
    assert one.asked(judge, identity=one.identity[:-1])
    assert one.asked(judge, issuer=f"{one.issuer}x")
    assert one.asked(judge, bundle=signed["local" if mode != "local" else "email"].bundle)


@pytest.mark.parametrize("judge", EACH_JUDGE)
def test_a_bundle_whose_statement_was_changed_is_taken_by_nobody(
    judge: str, signed: dict[str, Signed], tmp_path: Path
) -> None:
    """Row V4: the judges read the signature, not only the digest."""
    one = signed["email"]
    bundle = json.loads(one.bundle.read_bytes())
    signature = bundle["dsseEnvelope"]["signatures"][0]
    other = json.loads(signed["github"].bundle.read_bytes())["dsseEnvelope"]["signatures"][0]
    signature["sig"] = other["sig"]
    edited = tmp_path / "edited.sigstore.json"
    edited.write_text(json.dumps(bundle))
    assert one.asked(judge, bundle=edited)


@pytest.mark.parametrize("kind", NAMES)
def test_we_verify_what_the_real_services_attested_as_private(kind: str, signed: dict[str, Signed]) -> None:
    """Every one of our own checks holds for real certificates, SCTs, checkpoints, timestamps (attest.md 0.1, 0.2)."""
    one = signed[kind]
    report = verify(RECORD, one.bundle.read_bytes(), one.root, NAMES[kind], one.issuer)
    assert {outcome.status for outcome in report.outcomes} == {"passed"}
    assert report.assurance == "private"
    with pytest.raises(Refused) as refused:
        verify(RECORD, one.bundle.read_bytes(), signed["local"].root, NAMES[kind], one.issuer)
    assert refused.value.reason == "time"


def test_gh_takes_what_github_actions_signed_and_asks_for_a_repository_of_all_else(
    signed: dict[str, Signed], tmp_path: Path
) -> None:
    """Deliver 4: gh reads our bundle, offline and without an account, where a workflow of GitHub signed it."""
    one = signed["github"]
    lines = tmp_path / "roots.jsonl"
    lines.write_bytes(one.root.content + b"\n")
    words = {"bundle": one.bundle, "root": lines, "identity": one.identity, "issuer": one.issuer}
    assert gh("example/agent", one.record, **words) is None  # type: ignore[arg-type]
    assert gh("example/another", one.record, **words)  # type: ignore[arg-type]
    changed = tmp_path / "record.json"
    changed.write_bytes(RECORD + b"\n")
    assert gh("example/agent", changed, **words)  # type: ignore[arg-type]
    person = signed["email"]
    said = gh("example/agent", person.record, person.bundle, lines, person.identity, person.issuer)
    assert said and "SourceRepository" in said


def cosign_attests(services: Services, folder: Path, *words: str | Path, record: Path) -> bytes:
    """What `cosign attest-blob` makes with the private services."""
    bundle = folder / "cosign.sigstore.json"
    configs = [f"--signing-config={services.signing_config}", f"--trusted-root={services.trusted_root}"]
    token = folder / "cosign.jwt"
    token.write_text(services.token())
    argv = [COSIGN.path, "attest-blob", "--yes", *configs, f"--identity-token={token}", f"--bundle={bundle}", *words]
    environment = {**os.environ, "HOME": str(folder), "TUF_ROOT": str(folder / "tuf")}
    ended = subprocess.run(
        [str(word) for word in (*argv, record)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return bundle.read_bytes()


def test_a_statement_of_ours_that_cosign_signed_is_as_good_as_one_that_we_signed(
    services: Services, signed: dict[str, Signed], tmp_path: Path
) -> None:
    """Row V18's other half: `cosign attest-blob --statement` over our own statement."""
    one = signed["email"]
    predicate = Predicate.of(claims(), PERSON, None, "private").json_value()
    stated = tmp_path / "statement.json"
    stated.write_bytes(statement.build("record.json", RECORD, predicate))
    bundle = cosign_attests(services, tmp_path, f"--statement={stated}", record=one.record)
    report = verify(RECORD, bundle, one.root, PERSON, one.issuer)
    assert {outcome.status for outcome in report.outcomes} == {"passed"}


def test_a_bare_predicate_that_cosign_signed_is_refused_with_the_mend(
    services: Services, signed: dict[str, Signed], tmp_path: Path
) -> None:
    """Row V18: cosign puts it into a Statement of v0.1; the refusal names --statement."""
    one = signed["email"]
    predicate = tmp_path / "predicate.json"
    predicate.write_text(json.dumps(Predicate.of(claims(), PERSON, None, "private").json_value()))
    words = [f"--predicate={predicate}", f"--type={statement.PREDICATE_TYPE}"]
    bundle = cosign_attests(services, tmp_path, *words, record=one.record)
    with pytest.raises(Refused) as refused:
        verify(RECORD, bundle, one.root, PERSON, one.issuer)
    payload = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
    assert payload["_type"] == "https://in-toto.io/Statement/v0.1"
    assert refused.value.reason == "statement"
    assert "--statement" in str(refused.value)
