"""Records that a cheat changed and signed again with the genuine key: the signature holds, the record does not."""

from __future__ import annotations

import pytest

from tests.attest_corpus import Case, refusal
from tests.attest_corpus.families import corpus
from tests.attest_corpus.workshop import Workshop, workshop

OWN = 18
RESIGNED = [case for case in corpus() if case.signed_again]


@pytest.fixture(scope="module")
def shop() -> Workshop:
    return workshop()


@pytest.mark.parametrize("case", RESIGNED, ids=lambda case: case.name)
def test_a_changed_record_signed_again_is_refused_for_its_reason(case: Case, shop: Workshop) -> None:
    """The first 18 checks pass, and the one that knows better names class and place (issue 3: fuzz; attest 6; J44)."""
    refused = refusal(shop.made(case))
    assert refused is not None, f"{case.defect}: accepted"
    assert refused.reason == case.reason, f"{case.defect}: {refused}"
    assert case.where in (None, refused.where), str(refused)
    assert refused.report is not None
    assert {outcome.status for outcome in refused.report.outcomes[:OWN]} == {"passed"}
    assert "\n" not in str(refused)
