"""Whose signatures count, and until when: real bundles, real certificates, roots of every level."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from appliance.audit.policy import Policy, policy_of
from appliance.audit.policy_checks import policy_checks
from appliance.audit.policy_signers import candidates, refuse_revoked
from appliance.audit.trust import claims_of
from attest import Refused, Report, verify
from attest.checks import Check
from attest.roots import Assurance
from attest.signing import sign_record, sign_statement
from attest.statement import VSA_TYPE, build_about
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from attest.verification import verify_statement
from tests.policy_builder import believable, policy, tables, toml

REVOKED = "nothing of its signature is revoked"
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("signers") / "local")


@pytest.fixture(scope="module")
def bundle(trust: LocalTrust) -> bytes:
    made = believable()
    return sign_record(trust, made.record.canonical(), claims_of(made.record))


def at_level(check: Check, level: Assurance) -> Check:
    """Of a record whose root has this level here; all else of a deployment is as of our own instance."""
    return replace(check, run=lambda verified: check.run(replace(verified, assurance=level)))


def judged(
    trust: LocalTrust,
    bundle: bytes,
    by: Policy,
    level: Assurance = "local",
    existed_by: datetime | None = None,
    *,
    now: datetime | None = None,
) -> Report:
    looked_at = now or datetime.now(UTC)
    checks = policy_checks(by, now=looked_at, blobs=None, challenge=None, existed_by=existed_by)[:3]
    assert checks[-1].name == REVOKED
    content = believable().record.canonical()
    levelled = [at_level(check, level) for check in checks]
    return verify(content, bundle, trust.root, trust.identity, ISSUER, levelled)


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def revoking(trust: LocalTrust, after: datetime, **whom: str) -> Policy:
    """Of two signers: the one of this trust, and a stranger of almost his name."""
    entry = {**(whom or {"identity": trust.identity}), "after": at(after), "reason": "the key was on a stolen disk"}
    [own] = tables(trust)["signers"]
    stranger = {**own, "root_sha256": "a" * 64, "identity": f"{trust.identity}0"}
    return policy(trust, signers=[own, stranger], revoked=[entry])


def test_under_somebody_else_s_clock_what_was_signed_before_the_cut_off_stands(
    trust: LocalTrust, bundle: bytes
) -> None:
    """By the root's time, of a private or a public root (row P12)."""
    later = datetime.now(UTC) + HOUR
    for level in ("private", "public"):
        judged(trust, bundle, revoking(trust, later), level)


def test_under_somebody_else_s_clock_what_was_signed_after_the_cut_off_is_refused(
    trust: LocalTrust, bundle: bytes
) -> None:
    """Row P12; the refusal says since when, why, and when it was signed."""
    earlier = datetime.now(UTC) - HOUR
    with pytest.raises(Refused) as refused:
        judged(trust, bundle, revoking(trust, earlier), "public")
    assert (refused.value.reason, refused.value.word, refused.value.where) == ("policy", "revoked", "revoked[0]")
    assert f"revoked from {at(earlier)} on (the key was on a stolen disk), signed 20" in refused.value.message


def test_under_a_local_clock_no_cut_off_saves_a_record(trust: LocalTrust, bundle: bytes) -> None:
    """Whoever has the key has the clock, and would sign for last year: all of it is refused (row P12)."""
    later = datetime.now(UTC) + HOUR
    with pytest.raises(Refused) as refused:
        judged(trust, bundle, revoking(trust, later), now=later + HOUR)
    assert refused.value.word == "revoked"
    assert "by its own clock, which proves nothing" in refused.value.message


@pytest.mark.parametrize("level", ["local", "private", "public"])
def test_a_cut_off_that_is_not_reached_yet_revokes_nothing(level: Assurance, trust: LocalTrust, bundle: bytes) -> None:
    """What lies here now was signed before it: the verifier's own clock says so, whatever the level (row P12)."""
    later = datetime.now(UTC) + HOUR
    judged(trust, bundle, revoking(trust, later), level, existed_by=later + HOUR)


def test_under_a_local_clock_a_record_stands_that_another_clock_saw_before_the_cut_off(
    trust: LocalTrust, bundle: bytes
) -> None:
    """An anchored log, or a store's receipt: the time of somebody else (row P12)."""
    now = datetime.now(UTC)
    judged(trust, bundle, revoking(trust, now), existed_by=now - HOUR)
    with pytest.raises(Refused) as refused:
        judged(trust, bundle, revoking(trust, now - 2 * HOUR), existed_by=now - HOUR)
    assert refused.value.word == "revoked"


def test_one_certificate_or_a_whole_root_may_be_revoked(trust: LocalTrust, bundle: bytes) -> None:
    """By serial number, by root; neither touches what has another (row P12)."""
    report = judged(trust, bundle, policy(trust))
    assert report.verified is not None
    serial = report.verified.certificate_serial
    earlier = datetime.now(UTC) - HOUR
    for whom in (
        {"serial": serial},
        {"serial": f"{int(serial, 16):040x}"},  # one number, as other programs print it
        {"serial": f"0{int(serial, 16):X}"},
        {"root_sha256": trust.root.sha256},
    ):
        with pytest.raises(Refused, match="revoked from"):
            judged(trust, bundle, revoking(trust, earlier, **whom), "public")
    for whom in ({"serial": f"{int(serial, 16) + 1:x}"}, {"root_sha256": "a" * 64}, {"identity": f"{trust.identity}0"}):
        judged(trust, bundle, revoking(trust, earlier, **whom), "public")


def test_a_verifier_s_word_is_revoked_as_a_signer_s_is(trust: LocalTrust) -> None:
    """The same question to any statement that was verified (rows P3, P12)."""
    payload = build_about("record.json", "a" * 64, {"verifier": {"id": "x"}}, VSA_TYPE)
    signed = sign_statement(trust, payload, VSA_TYPE)
    held = replace(verify_statement(signed, trust.root, trust.identity, ISSUER, VSA_TYPE), assurance="public")
    now = datetime.now(UTC)
    refuse_revoked(revoking(trust, now + HOUR), held, now + 2 * HOUR)
    with pytest.raises(Refused, match="revoked from"):
        refuse_revoked(revoking(trust, now - HOUR), held, now)
    with pytest.raises(Refused, match="revoked from"):
        refuse_revoked(revoking(trust, now - HOUR, serial=held.certificate_serial), held, now)


def two_signers(trust: LocalTrust, **other: Any) -> Policy:
    values = tables(trust)
    values["signers"] = [{**values["signers"][0], **other}, values["signers"][0]]
    return policy_of(toml(values).encode(), "policy.toml")


def test_a_bundle_is_held_to_each_entry_of_its_own_name_and_to_no_other(trust: LocalTrust, bundle: bytes) -> None:
    """What the certificate claims chooses among pins, and makes none (V2, V14)."""
    found = candidates(two_signers(trust, identity=f"{trust.identity}0"), bundle)
    assert [(one.identity, one.root_sha256) for one in found] == [(trust.identity, trust.root.sha256)]
    found = candidates(two_signers(trust, root_sha256="b" * 64), bundle)
    assert [one.root_sha256 for one in found] == ["b" * 64, trust.root.sha256]


def test_a_bundle_in_nobody_s_listed_name_is_refused_by_that_name(trust: LocalTrust, bundle: bytes) -> None:
    """Row P1's other side: whom the policy does not list."""
    with pytest.raises(Refused) as refused:
        candidates(policy(trust, signers={"identity": "https://appliance.local.invalid/else"}), bundle)
    assert (refused.value.reason, refused.value.word) == ("identity", "policy")
    assert trust.identity in refused.value.message
    assert refused.value.mend == "[[signers]] in policy.toml"


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"mediaType": 1}'])
def test_what_is_no_bundle_names_nobody(content: bytes, trust: LocalTrust) -> None:
    """One class, whatever is wrong (V7)."""
    with pytest.raises(Refused) as refused:
        candidates(policy(trust), content)
    assert refused.value.reason == "bundle"
