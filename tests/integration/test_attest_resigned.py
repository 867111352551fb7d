"""Records that a cheat changed and signed again with the genuine key: the signature holds, the record does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from appliance.audit.checks import record_checks
from appliance.audit.trust import agreement_check, claims_of
from appliance.files import store_blob
from appliance.records.record import Record
from attest import Refused, Report, canonical, verify
from attest.predicate import Claims
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests import record_builder as build
from tests.property.test_audit_mutations import CASES, genuine

OWN = 18


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("resigned") / "local")


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blobs")
    for digest, content in build.blobs(genuine()).items():
        store_blob(folder, content, digest)
    return folder


def stated(content: bytes) -> Claims:
    """What a cheat's tool would state of these bytes; of the genuine record where they are no record at all."""
    try:
        return claims_of(Record.model_validate_json(content))
    except (ValidationError, Refused):
        return claims_of(genuine())


def verified(trust: LocalTrust, content: bytes, blobs: Path) -> Report:
    bundle = sign_record(trust, content, stated(content))
    checks = [*record_checks(blobs, allow_missing=True), agreement_check()]
    return verify(content, bundle, trust.root, trust.identity, ISSUER, checks)


def test_the_genuine_record_holds_signed_with_every_check_run(trust: LocalTrust, blobs: Path) -> None:
    """The premise: nothing changed, nothing refused, nothing left unchecked."""
    report = verified(trust, genuine().canonical(), blobs)
    assert {outcome.status for outcome in report.outcomes} == {"passed"}


@pytest.mark.parametrize("name", CASES)
def test_a_changed_record_signed_again_is_refused_for_its_reason(name: str, trust: LocalTrust, blobs: Path) -> None:
    """The first 18 checks pass, and the one that knows better names class and place (issue 3: fuzz; attest 6)."""
    reason, where, mutate = CASES[name]
    value = genuine().json_value()
    mutate(value)
    with pytest.raises(Refused) as caught:
        verified(trust, canonical.dumps(value), blobs)
    assert (caught.value.reason, caught.value.where) == (reason, where)
    assert caught.value.report is not None
    assert {outcome.status for outcome in caught.value.report.outcomes[:OWN]} == {"passed"}
