"""A published folder as cosign reads it: index, record, twin and verdict, each by its own type."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from appliance.audit.trust import bundle_path, sign_file
from appliance.audit.twin import sign_twin, twin_path
from appliance.digests import sha256_hex
from attest import statement, vsa
from attest.roots import PinnedRoot
from attest.signing import sign_statement
from attest.trust.config import TrustConfig
from attest.trust.remote import RemoteTrust
from attest.trust.tokens import TokenSource
from tests import record_builder as build
from tests.judges_bench import offline
from tests.publish_bench import Home
from tests.services_bench import Services
from tests.services_build import COSIGN, GH
from tests.services_build import build as build_programs

pytestmark = pytest.mark.services


def _cosign(home: Home, kind: str, bundle: Path, about: Path, cwd: Path) -> bool:
    """Whether cosign takes it; with the folder's own root, and no way to a network."""
    build_programs((COSIGN,))
    trust = home.trust()
    words = [
        *(str(COSIGN.path), "verify-blob-attestation", f"--bundle={bundle}"),
        f"--trusted-root={home.folder / 'site/trusted_root.json'}",
        *(f"--certificate-identity={trust.identity}", f"--certificate-oidc-issuer={trust.issuer}"),
        *(f"--type={kind}", str(about)),
    ]
    ended = subprocess.run(words, env=offline(cwd), capture_output=True, text=True, check=False)
    said = f"{ended.stdout}{ended.stderr}"
    assert (ended.returncode == 0) == ("Verified OK" in said), said
    return ended.returncode == 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """With a record published, its twin and a verdict by the publisher herself."""
    home = Home(tmp_path / "publisher", monkeypatch)
    record = build.record()
    path = home.folder / home.signed(record)
    trust = home.trust()
    twin_path(path).write_bytes(sign_twin(record, record.canonical(), path.name, trust))
    said = vsa.summary(
        trust.identity,
        {"bench-appliance": "0.2.0"},
        "urn:submission",
        ("urn:policy", "b" * 64),
        (),
        vsa.Judged(status="accepted", tier="auditable"),
    )
    stated = vsa.build(said, path.name, sha256_hex(record.canonical()))
    (home.folder / "v.sigstore.json").write_bytes(sign_statement(trust, stated, statement.VSA_TYPE))
    home(
        "publish", str(path), "--to", "site", "--with-suite", "--verdict", "v.sigstore.json", "--verdict-trust", "local"
    )
    return home


def test_cosign_takes_every_statement_of_a_published_folder(home: Home, tmp_path: Path) -> None:
    """Record, SLSA provenance, SLSA verdict, the index itself; and none of them about other bytes or by another type
    (issue 5, 4: exports that cosign can read)."""
    site = home.folder / "site"
    [record] = (site / "records").glob(f"{'?' * 64}.json")
    [verdict] = (site / "verdicts").iterdir()
    signed = {
        statement.PREDICATE_TYPE: (record.with_suffix(".sigstore.json"), record),
        statement.PROVENANCE_TYPE: (record.with_suffix(".provenance.sigstore.json"), record),
        statement.VSA_TYPE: (verdict, record),
        statement.INDEX_CHECKPOINT_TYPE: (site / "checkpoint.sigstore.json", site / "index.jsonl"),
    }
    changed = tmp_path / "changed"
    for kind, (bundle, about) in signed.items():
        changed.write_bytes(about.read_bytes() + b" ")
        assert _cosign(home, kind, bundle, about, tmp_path), kind
        assert not _cosign(home, kind, bundle, changed, tmp_path), kind
        other = next(name for name in signed if name != kind)
        assert not _cosign(home, other, bundle, about, tmp_path), kind


def test_gh_takes_the_slsa_twin_without_being_told_of_a_type(tmp_path: Path) -> None:
    """What gh asks for by itself is SLSA provenance: the twin that a workflow signed is taken by its default line, the
    record's own statement is not, and neither is another record (issue 5, 4: exports that gh can read)."""
    record = build.record()
    path, changed = tmp_path / "record.json", tmp_path / "changed.json"
    path.write_bytes(record.canonical())
    changed.write_bytes(record.canonical() + b"\n")
    services = Services(tmp_path / "services").start()
    try:
        (tmp_path / "token").write_text(services.token("github"))
        content = services.trusted_root.read_bytes()
        trust = RemoteTrust(
            PinnedRoot("lab", content, sha256_hex(content), "private"),
            TrustConfig.parse(services.trust_config.read_bytes(), str(services.trust_config)),
            TokenSource("file", str(tmp_path / "token")),
            where=str(services.trust_config),
        )
        twin_path(path).write_bytes(sign_twin(record, record.canonical(), path.name, trust))
        sign_file(path, trust)
        issuer = trust.issuer
    finally:
        services.stop()
    (tmp_path / "roots.jsonl").write_bytes(content + b"\n")
    build_programs((GH,))

    def taken(about: Path, bundle: Path) -> bool:
        words = [
            *(str(GH.path), "attestation", "verify", str(about), f"--bundle={bundle}", "--repo=example/agent"),
            *(f"--custom-trusted-root={tmp_path / 'roots.jsonl'}", f"--cert-oidc-issuer={issuer}", "--format=json"),
        ]
        ended = subprocess.run(words, env=offline(tmp_path), capture_output=True, text=True, check=False)
        assert (ended.returncode == 0) == ('"verificationResult":' in ended.stdout), ended.stderr
        return ended.returncode == 0

    assert taken(path, twin_path(path))
    assert not taken(changed, twin_path(path))
    assert not taken(path, bundle_path(path))
