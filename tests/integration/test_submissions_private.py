"""A store whose keeper signs by a deployment: every verdict, the index and a person's act are that deployment's."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.digests import sha256_hex
from attest import statement, vsa
from attest.roots import PinnedRoot
from attest.trust.config import TrustConfig
from attest.verification import verify_statement
from tests.sigstore_twin import WORKFLOW, running
from tests.submissions_bench import Receiver, Sender, equal_walls, genuine


def test_a_keeper_signs_by_a_deployment_and_is_read_with_it_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows P1, P8, P9: accepted, quarantined, released; `show` holds the index to the pinned root, name and issuer, and
    under another name the store is a rollback."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    sender, receiver = Sender(tmp_path / "sender"), Receiver(tmp_path / "receiver", capsys)
    receiver.keeps(sender)
    folder = sender.submission(genuine(), equal_walls())
    with running(tmp_path / "twin") as twin:
        (tmp_path / "token").write_text(twin.token())
        (tmp_path / "twin.json").write_bytes(twin.trust_config())
        config = TrustConfig.parse(twin.trust_config(), "twin.json")
        signs = ("--trust", str(tmp_path / "twin.json"), "--identity-token", str(tmp_path / "token"))
        taken = receiver.json(*receiver.words("intake", folder, sender), *signs, status=7)
        assert (taken["accepted"], taken["quarantined"]) == (1, 1)
        doubtful = sha256_hex(equal_walls().canonical())
        receiver.json("submission", "release", str(receiver.store), doubtful, "--reason", "seen", *signs)
        issuer = twin.issuer
    root = PinnedRoot("lab", config.root, sha256_hex(config.root), "private")
    (tmp_path / "root.json").write_bytes(config.root)
    held = ("--trusted-root", str(tmp_path / "root.json"), "--root-sha256", root.sha256, "--issuer", issuer)
    shown = receiver.json("submission", "show", str(receiver.store), *held, "--identity", WORKFLOW)
    assert [one["status"] for one in shown["records"]] == ["accepted", "accepted"]
    for one in shown["records"]:
        bundle = Path(one["verdictPath"]).read_bytes()
        summary, record = vsa.read(verify_statement(bundle, root, WORKFLOW, issuer, statement.VSA_TYPE))
        assert (summary.passed, summary.verifier.id, record) == (True, WORKFLOW, one["record"])
    words = ("submission", "show", str(receiver.store), *held, "--identity", "https://somebody.invalid/")
    assert receiver.json(*words, status=7)["error"]["reason"] == "rollback"
    local = receiver.json(*receiver.words("intake", folder, sender), status=7)
    assert local["error"]["reason"] == "rollback"
