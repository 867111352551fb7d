"""Signed summaries, read back: a signature over another shape, subject or type is nobody's verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attest import canonical, statement, vsa
from attest.errors import Refused
from attest.signing import sign_statement
from attest.trust.local import LocalTrust, open_or_init
from attest.verification import verify_statement

_RECORD, _B, _C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("home") / "trust")


def _summary() -> vsa.Vsa:
    return vsa.summary(
        "https://lab.example/verifier",
        {"bench-appliance": "0.2.0"},
        "https://lab.example/submissions/1",
        ("https://lab.example/policy", _B),
        (("https://lab.example/bundle", _C),),
        vsa.Judged(status="accepted", tier="auditable"),
    )


def _read(trust: LocalTrust, bundle: bytes) -> tuple[vsa.Vsa, str]:
    signed = verify_statement(bundle, trust.root, trust.identity, trust.issuer, statement.VSA_TYPE)
    return vsa.read(signed)


def test_a_signed_summary_names_record_bundle_policy_and_verifier(trust: LocalTrust) -> None:
    """Row P1: all four by digest or exact name, under the signer's signature."""
    made = _summary()
    bundle = sign_statement(trust, vsa.build(made, "r.json", _RECORD), statement.VSA_TYPE)
    found, record = _read(trust, bundle)
    assert (found, record) == (made, _RECORD)
    assert (found.bundles, found.policy.digest.sha256, found.verifier.id) == ((_C,), _B, "https://lab.example/verifier")


def test_a_summary_is_not_taken_for_another_statement_nor_another_for_it(trust: LocalTrust) -> None:
    """Class `predicate_type` (row V17), whichever way round."""
    bundle = sign_statement(trust, vsa.build(_summary(), "r.json", _RECORD), statement.VSA_TYPE)
    with pytest.raises(Refused) as refused:
        verify_statement(bundle, trust.root, trust.identity, trust.issuer, statement.INDEX_CHECKPOINT_TYPE)
    assert refused.value.reason == "predicate_type"
    other = statement.build_about("r.json", _RECORD, _summary().json_value(), statement.INDEX_CHECKPOINT_TYPE)
    signed_as_other = sign_statement(trust, other, statement.INDEX_CHECKPOINT_TYPE)
    with pytest.raises(Refused) as refused:
        _read(trust, signed_as_other)
    assert refused.value.reason == "predicate_type"
    signed = verify_statement(
        signed_as_other, trust.root, trust.identity, trust.issuer, statement.INDEX_CHECKPOINT_TYPE
    )
    with pytest.raises(Refused) as refused:
        vsa.read(signed)
    assert refused.value.reason == "predicate_type"


def _raw(change: Callable[[dict[str, Any]], Any]) -> bytes:
    value = canonical.loads(vsa.build(_summary(), "r.json", _RECORD))
    change(value)
    return canonical.dumps(value)


_GENUINE_YET_WRONG: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "two subjects": ("subject", lambda v: v["subject"].append(v["subject"][0])),
    "a subject by sha512 too": ("subject", lambda v: v["subject"][0]["digest"].update(sha512="x")),
    "an upper-case subject": ("subject", lambda v: v["subject"][0]["digest"].update(sha256="A" * 64)),
    "a field more": ("statement", lambda v: v["predicate"].update(note="x")),
    "tier and level that differ": (
        "statement",
        lambda v: v["predicate"]["benchAppliance_details"].update(tier="verified"),
    ),
    "a part left out as null": ("statement", lambda v: v["predicate"].update(inputAttestations=None)),
    "a default left out": ("statement", lambda v: v["predicate"]["benchAppliance_details"].pop("reasons")),
}


@pytest.mark.parametrize("name", list(_GENUINE_YET_WRONG))
def test_a_genuine_signature_over_what_is_no_summary_of_ours_is_refused(trust: LocalTrust, name: str) -> None:
    """Signed with the genuine key, so it is the reading that refuses (attest.md 6: rows V18, V19)."""
    reason, change = _GENUINE_YET_WRONG[name]
    with pytest.raises(Refused) as refused:
        _read(trust, trust.sign(_raw(change)))
    assert refused.value.reason == reason
