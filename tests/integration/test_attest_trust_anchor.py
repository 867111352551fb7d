"""Anchors: a deployment's clock over the local log, and what a stranger makes of the document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.documents import check_file
from appliance.errors import InputRefused
from attest import Refused, canonical, statement, verify
from attest.anchor import Anchor, anchor, anchor_check, document, kept_anchors, read_anchor
from attest.checkpoints import check_consistency, prove
from attest.roots import PinnedRoot
from attest.signing import sign_record, sign_statement
from attest.statement import LOG_CHECKPOINT_TYPE
from attest.trust.config import TrustConfig
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from attest.trust.remote import RemoteTrust
from attest.trust.tokens import TokenSource
from tests.attest_forge import RECORD, claims
from tests.sigstore_twin import WORKFLOW, running


class Scene:
    """A local log of five records, anchored by a deployment after the third, which is gone again."""

    def __init__(self, folder: Path):
        self.local: LocalTrust = open_or_init(folder / "local")
        self.bundles = [sign_record(self.local, RECORD, claims()) for _ in range(3)]
        with running(folder / "twin") as twin:
            (folder / "token").write_text(twin.token())
            config = TrustConfig.parse(twin.trust_config(), "twin.json")
            self.root = PinnedRoot("lab", config.root, hashlib.sha256(config.root).hexdigest(), "private")
            self.issuer = twin.issuer
            token = TokenSource("file", str(folder / "token"))
            self.remote = RemoteTrust(self.root, config, token, where="twin.json")
            self.kept = anchor(self.local, self.remote)
            self.other_claim = self._said_otherwise()
            self.other_type = sign_record(self.remote, RECORD, claims())
        self.bundles += [sign_record(self.local, RECORD, claims()) for _ in range(2)]

    def _said_otherwise(self) -> bytes:
        """A genuine signature of the deployment's over the right note, with another size in its predicate."""
        note = self.kept.checkpoint.read_bytes()
        said = {"origin": self.local.log.origin, "size": 99, "root": self.local.log.head().frontier.root.hex()}
        stated = statement.build("checkpoint", note, said, LOG_CHECKPOINT_TYPE)
        return sign_statement(self.remote, stated, LOG_CHECKPOINT_TYPE)

    def document(self, index: int) -> bytes:
        return document(self.local, self.kept, self.bundles[index])

    def read(self, content: bytes) -> Anchor:
        return read_anchor(content, self.root, WORKFLOW, self.issuer)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield Scene(tmp_path_factory.mktemp("scene"))


def test_a_record_before_the_anchor_is_shown_to_be_older_than_the_deployments_clock_says(scene: Scene) -> None:
    """Inclusion under a checkpoint that the deployment signed; the check's name is the claim (attest 3)."""
    for index in range(3):
        found = scene.read(scene.document(index))
        check = anchor_check(found, scene.bundles[index])
        report = verify(RECORD, scene.bundles[index], scene.local.root, scene.local.identity, ISSUER, [check])
        assert report.outcomes[-1].status == "passed"
        assert report.outcomes[-1].name.startswith(f"its log was anchored: signed before {found.signed_at:%Y-%m-%dT}")
        assert report.outcomes[-1].name.endswith("by the clock of lab (private)")
        assert report.signed_at is not None
        assert report.signed_at <= found.signed_at
    assert [kept.size for kept in kept_anchors(scene.local)] == [3]


def test_a_record_after_the_anchor_has_no_document(scene: Scene) -> None:
    """What came later is not bounded by it."""
    with pytest.raises(Refused, match="came after the anchor") as refused:
        scene.document(3)
    assert refused.value.reason == "log_proof"


def test_a_document_of_another_record_or_log_does_not_hold(scene: Scene, tmp_path: Path) -> None:
    """Class log_proof: another entry of the same log, the same entry of another log (V6, V8)."""
    found = scene.read(scene.document(0))
    stranger = open_or_init(tmp_path / "other")
    foreign = sign_record(stranger, RECORD, claims())
    cases = [(scene.local, scene.bundles[1], "for entry 0, the record is 1"), (stranger, foreign, "of the log")]
    for local, bundle, words in cases:
        with pytest.raises(Refused, match=words) as refused:
            verify(RECORD, bundle, local.root, local.identity, ISSUER, [anchor_check(found, bundle)])
        assert refused.value.reason == "log_proof"
    with pytest.raises(Refused, match="not signed by this machine's own trust"):
        document(scene.local, scene.kept, foreign)


def _first_hash_twice(value: dict[str, Any]) -> None:
    value["hashes"] = [value["hashes"][0], *value["hashes"]]


def _another_index(value: dict[str, Any]) -> None:
    value["index"] = 1


@pytest.mark.parametrize("change", [_first_hash_twice, _another_index])
def test_a_path_that_was_edited_proves_nothing(scene: Scene, change: Callable[[dict[str, Any]], None]) -> None:
    """The path is anybody's to write; the root under the deployment's signature is not (V8)."""
    value = json.loads(scene.document(0))
    change(value)
    found = scene.read(canonical.dumps(value))
    with pytest.raises(Refused) as refused:
        verify(
            RECORD,
            scene.bundles[0],
            scene.local.root,
            scene.local.identity,
            ISSUER,
            [anchor_check(found, scene.bundles[0])],
        )
    assert refused.value.reason == "log_proof"


def test_an_anchor_is_held_to_its_own_root_name_and_issuer(scene: Scene, tmp_path: Path) -> None:
    """A local root vouches for no time, and nobody's signature stands for the deployment's (V2, V13)."""
    content = scene.document(0)
    with running(tmp_path / "other") as other:
        root = TrustConfig.parse(other.trust_config(), "other.json").root
    foreign = PinnedRoot("other", root, hashlib.sha256(root).hexdigest(), "private")
    cases = [
        (foreign, WORKFLOW, scene.issuer, {"time", "log_proof", "certificate"}),
        (scene.root, "somebody", scene.issuer, {"identity"}),
        (scene.root, WORKFLOW, "https://other.example", {"identity"}),
        (scene.root, "", scene.issuer, {"usage"}),
    ]
    for held_to, identity, issuer, reasons in cases:
        with pytest.raises(Refused) as refused:
            read_anchor(content, held_to, identity, issuer)
        assert refused.value.reason in reasons


def test_a_clock_that_is_its_signers_own_bounds_nothing(tmp_path: Path) -> None:
    """A genuine anchor by somebody's local trust is refused for its root's level: anybody can set their own clock."""
    local, other = open_or_init(tmp_path / "local"), open_or_init(tmp_path / "other")
    bundle = sign_record(local, RECORD, claims())
    content = document(local, anchor(local, other), bundle)
    with pytest.raises(Refused, match="bounds nothing") as refused:
        read_anchor(content, other.root, other.identity, ISSUER)
    assert refused.value.reason == "time"


def test_a_document_that_is_none_or_says_two_things_is_refused(scene: Scene) -> None:
    """Bounded, closed, and the note must be the one that was signed (V18, V20)."""
    value = json.loads(scene.document(0))
    record = scene.bundles[0].decode()
    note = value["checkpoint"]
    cases: list[tuple[bytes, str]] = [
        (b"", "bundle"),
        (b"[]", "bundle"),
        (b'{"schema":"anchor-v1","schema":"anchor-v1"}', "bundle"),
        (canonical.dumps({**value, "more": 1}), "bundle"),
        (canonical.dumps({**value, "hashes": ["x"]}), "bundle"),
        (canonical.dumps({**value, "hashes": value["hashes"] * 40}), "bundle"),
        (b" " * (10 * 1024 * 1024), "bundle"),
        (canonical.dumps({**value, "bundle": record}), "time"),
        (canonical.dumps({**value, "checkpoint": note.replace("\n3\n", "\n2\n")}), "subject"),
        (canonical.dumps({**value, "checkpoint": "not a note"}), "log_proof"),
        (canonical.dumps({**value, "bundle": scene.other_claim.decode()}), "statement"),
    ]
    for content, reason in cases:
        with pytest.raises(Refused) as refused:
            scene.read(content)
        assert refused.value.reason == reason, content[:200]


def test_another_statement_of_the_deployment_is_no_anchor(scene: Scene) -> None:
    """A record's bundle by the same signer is of another type (V17)."""
    with pytest.raises(Refused) as refused:
        scene.read(canonical.dumps({**json.loads(scene.document(0)), "bundle": scene.other_type.decode()}))
    assert refused.value.reason == "predicate_type"


def test_an_anchored_checkpoint_is_also_one_that_the_log_can_be_held_to(scene: Scene) -> None:
    """The note that was anchored is an ordinary checkpoint: later growth is proven from it."""
    earlier = scene.kept.checkpoint.read_bytes()
    proof = prove(scene.local.log, earlier, scene.local.root, "kept")
    later = check_consistency(proof.content(), earlier, scene.local.root, "proof")
    assert later.size == 5
    assert later.root == scene.local.log.head().frontier.root


def test_both_documents_fit_their_published_schemas(scene: Scene, tmp_path: Path) -> None:
    """`schema check` knows them by their own word, and says where one does not fit (row V21)."""
    earlier = scene.kept.checkpoint.read_bytes()
    proof = prove(scene.local.log, earlier, scene.local.root, "kept").content()
    for content, name in ((scene.document(0), "anchor-v1"), (proof, "log-consistency-v1")):
        path = tmp_path / f"{name}.json"
        path.write_bytes(content)
        assert check_file(path) == name
        value = json.loads(content)
        for field in value:
            path.write_bytes(canonical.dumps({**value, field: None, "schema": name}))
            if field != "schema":
                with pytest.raises(InputRefused, match=f"[$].{field}"):
                    check_file(path)
        path.write_bytes(canonical.dumps({**value, "more": 1}))
        with pytest.raises(InputRefused, match="more"):
            check_file(path)
