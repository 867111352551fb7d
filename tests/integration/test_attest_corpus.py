"""The hostile corpus: every case refused for its class, and the page that lists it (docs/hostile-corpus.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version

import pytest

from attest import REASON_CLASSES
from tests.attest_corpus import Attested, Case, page, received, refusal
from tests.attest_corpus.families import corpus
from tests.attest_corpus.workshop import Workshop, workshop

EDITED = [case for case in corpus() if not case.signed_again]


@pytest.fixture(scope="module")
def shop() -> Workshop:
    return workshop()


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", EDITED, ids=named)
def test_a_hostile_bundle_is_refused_for_its_class(case: Case, shop: Workshop) -> None:
    """One defect, one class, never `internal`, one line (rows V1-V24; 4.1; the figures of the attestation's issue)."""
    refused = refusal(shop.made(case))
    assert refused is not None, f"{case.defect}: accepted"
    assert refused.reason == case.reason, f"{case.defect}: {refused}"
    assert case.where in (None, refused.where)
    assert "\n" not in str(refused)


@pytest.mark.parametrize("name", ["earlier", "good", "later", "promised", "stamped"])
def test_what_the_bundles_were_before_somebody_edited_them_holds(name: str, shop: Workshop) -> None:
    """The premise: both log versions, with and without a timestamp, pass here and in sigstore-python alone."""
    exhibit: Attested = getattr(shop, name)
    assert refusal(exhibit) is None
    assert exhibit.alone() == "accepts"


def test_what_the_records_were_before_somebody_changed_them_holds(shop: Workshop) -> None:
    """The premise of those that are signed again: estimated and measured, nothing left unchecked."""
    for content, blobs in (
        (shop.record.canonical(), shop.blobs),
        (shop.measured.record.canonical(), shop.measured_blobs),
    ):
        assert refusal(shop.signed_again(content, blobs)) is None


@pytest.mark.parametrize("case", received.premises(), ids=named)
def test_what_a_receiver_meets_is_believed_before_somebody_changed_it(case: Case, shop: Workshop) -> None:
    """The premise of verdicts, indexes, logs and anchors; that of policies is their own tests'."""
    assert refusal(shop.made(case)) is None


def test_the_corpus_is_large_its_names_are_unique_and_it_knows_every_class_that_a_stranger_can_earn() -> None:
    """At least 150 cases (the issue's figure); every class that verify has for a bundle and a record."""
    cases = corpus()
    assert len(cases) >= 150
    assert [name for name, count in Counter(map(named, cases)).items() if count > 1] == []
    assert {case.reason for case in cases} <= set(REASON_CLASSES)
    assert {case.reason for case in cases} >= {
        "usage",
        "bundle",
        "certificate",
        "time",
        "log_proof",
        "log_entry",
        "signature",
        "identity",
        "payload_type",
        "statement",
        "predicate_type",
        "subject",
        "record",
        "trust_root",
        "blob",
        "aggregate",
        "energy",
    }


def rows_of(cases: Iterable[Case]) -> set[str]:
    return {row for case in cases for row in case.rows.split(", ")}


def test_every_row_has_a_case_and_those_about_logs_have_one_in_both_forms() -> None:
    """V1 to V22 and V24 (V23 is refused at signing, and by a test of its own); entries of Rekor v1 and of Rekor v2."""
    cases = corpus()
    assert {f"V{n}" for n in range(1, 25)} <= rows_of(cases)
    of_v1 = [case for case in cases if case.name.startswith("v1-")]
    about_logs = {"V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V24"}
    assert about_logs <= rows_of(of_v1)
    assert about_logs <= rows_of(case for case in cases if case not in of_v1)


def test_the_page_lists_the_corpus_with_what_sigstore_python_alone_says_of_it(shop: Workshop) -> None:
    """Names, classes and rows as in the code, the library's word measured now (L+ and L- of the acceptance page)."""
    assert page.PAGE.read_text() == page.text(shop), "write it again: python -m tests.attest_corpus"


def test_sigstore_python_alone_takes_what_is_ours_to_refuse(shop: Workshop) -> None:
    """Every record signed again, and the rows marked L-: V3, V9, V14 to V21 and V24 have a case that it accepts."""
    accepted = {case.name for case in corpus() if shop.made(case).alone() == "accepts"}
    assert {case.name for case in corpus() if case.signed_again} <= accepted
    rows = {
        row: [case for case in corpus() if row in case.rows.split(", ") and case.name in accepted]
        for row in ("V3", "V9", "V15", "V16", "V17", "V18", "V19", "V20", "V21", "V24")
    }
    assert [row for row, found in rows.items() if not found] == []


def test_what_verifies_here_has_the_published_fixes() -> None:
    """CVE-2026-24408 and #1652 (4.2.0), #1826 (4.5.0), CVE-2025-52556: those versions or later (4.1)."""
    installed = {name: tuple(map(int, version(name).split(".")[:3])) for name in ("sigstore", "rfc3161-client")}
    assert installed["sigstore"] >= (4, 5, 0)
    assert installed["rfc3161-client"] >= (1, 0, 3)
