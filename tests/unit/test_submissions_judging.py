"""From evidence and a store's past to a decision: pure, so every case is a line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.digests import sha256_hex
from appliance.submissions.challenge import Challenge, ChallengedPolicy, ChallengedSuite, new_challenge
from appliance.submissions.decisions import MOST_REASONS, Decision, Reason
from appliance.submissions.judging import (
    Asked,
    Evidence,
    Past,
    as_far_as_seen,
    challenge_status,
    decide,
    reached_in,
    reason_of,
)
from appliance.submissions.state import ActLine, DecisionLine, LogEntry, PolicyStamp, RootStamp, rolled_back, state_of
from attest.errors import Refused

NOW = datetime(2026, 5, 1, tzinfo=UTC)
POLICY = PolicyStamp(name="example", version=2, sha256=sha256_hex(b"policy"), uri="urn:policy")


def sha(word: str) -> str:
    return sha256_hex(word.encode())


def evidence(**changes: Any) -> Evidence:
    usual = Evidence(
        file="records/a.json", record=sha("a"), bundle=sha("bundle"), trials=sha("trials"), plan=sha("plan")
    )
    return replace(usual, **changes)


def line(decision: Decision | None = None, **changes: Any) -> DecisionLine:
    fields: dict[str, Any] = {
        "submission": sha("submission"),
        "file": "records/a.json",
        "record": sha("a"),
        "bundle": sha("bundle"),
        "trials": sha("trials"),
        "plan": sha("plan"),
        "challenge": None,
        "log": None,
        "decision": decision or Decision.accepted("auditable"),
        "reached": "auditable",
        "verdict": sha("verdict"),
        "reproductions": (),
        "policy": POLICY,
        "roots": (),
        "received_at": "2026-04-01T00:00:00Z",
    }
    return DecisionLine(**{**fields, **changes})


def act(word: str = "release") -> ActLine:
    return ActLine(
        act=word,  # type: ignore[arg-type]  # one of the two, as a test says
        record=sha("a"),
        reason="seen",
        statement=sha("statement"),
        verdict=sha("second verdict"),
        tier="auditable" if word == "release" else None,
        at="2026-04-02T00:00:00Z",
    )


DOUBT = Reason.of("implausible", "too fast")
FAULT = Reason.of("policy", "another image")
EXCLUDED = Decision.against("excluded", (FAULT,))
QUARANTINED = Decision.against("quarantined", (DOUBT,))
EMPTY = state_of(())


@pytest.mark.parametrize(
    ("changes", "tier"),
    [
        ({}, "auditable"),
        ({"bundle": None}, "reported"),
        ({"missing": (sha("blob"),)}, "reported"),
        ({"reproductions": (sha("vsa"),)}, "verified"),
        ({"reproductions": (sha("vsa"),), "missing": (sha("blob"),)}, "reported"),
        ({"reproductions": (sha("vsa"),), "bundle": None}, "reported"),
    ],
)
def test_a_tier_is_what_the_evidence_reaches_and_each_includes_the_one_below(
    changes: dict[str, Any], tier: str
) -> None:
    """Rows P1, P2, P3, A55."""
    assert decide(evidence(**changes), "reported", EMPTY).tier == tier


@pytest.mark.parametrize(
    ("changes", "least", "word"),
    [
        ({"bundle": None}, "auditable", "policy"),
        ({"missing": (sha("blob"),)}, "auditable", "blob_missing"),
        ({}, "verified", "policy"),
        ({"bundle": None}, "verified", "policy"),
    ],
)
def test_what_does_not_reach_the_least_tier_is_excluded(changes: dict[str, Any], least: Any, word: str) -> None:
    """Rows P2, P6."""
    decision = decide(evidence(**changes), least, EMPTY)
    assert (decision.status, [reason.word for reason in decision.reasons]) == ("excluded", [word])


def test_a_fault_excludes_and_a_doubt_alone_quarantines() -> None:
    """Row P8: a doubt beside a fault adds nothing; every doubt is kept."""
    assert decide(evidence(against=(FAULT,), doubts=(DOUBT,)), "reported", EMPTY) == EXCLUDED
    assert decide(evidence(doubts=(DOUBT, DOUBT)), "reported", EMPTY).reasons == (DOUBT, DOUBT)


def test_a_decision_that_says_two_things_cannot_be_made() -> None:
    """An invalid one cannot exist."""
    for status, tier, reasons in (
        ("accepted", None, ()),
        ("accepted", "reported", (FAULT,)),
        ("excluded", "reported", (FAULT,)),
        ("excluded", None, ()),
    ):
        with pytest.raises(ValidationError):
            Decision(status=status, tier=tier, reasons=reasons)  # type: ignore[arg-type]  # what a test tries


def test_more_reasons_than_a_line_holds_are_counted() -> None:
    """The index's lines are bounded, whatever a stranger sends."""
    decision = Decision.against("excluded", (FAULT,) * (MOST_REASONS + 5))
    assert (len(decision.reasons), decision.more_reasons) == (MOST_REASONS, 5)
    long = Reason.of("policy", "x\x1b[2J" * 10_000, "$." + "y" * 10_000)
    assert len(long.message) <= 240
    assert "\x1b" not in long.message
    assert long.where is not None
    assert len(long.where) <= 100


@pytest.mark.parametrize("status", [Decision.accepted("auditable"), QUARANTINED])
def test_a_record_or_its_trials_that_were_taken_once_are_replayed(status: Decision) -> None:
    """Row P4."""
    state = state_of((line(status),))
    for again in (evidence(), evidence(record=sha("b"))):
        decision = decide(again, "reported", state)
        assert (decision.status, decision.reasons[0].word) == ("excluded", "replayed")
    assert decide(evidence(record=sha("b"), trials=sha("others")), "reported", state).status == "accepted"


def test_what_was_accepted_comes_again_only_with_better_evidence() -> None:
    """Rows P3, P4: a summary that arrives later makes it verified; whoever sends a record unsigned keeps nobody from
    signing it. A doubt, a quarantine or a person's act are not raised over."""
    signed, reported = state_of((line(),)), state_of((line(Decision.accepted("reported"), bundle=None),))
    verified = evidence(reproductions=(sha("vsa"),))
    assert decide(verified, "reported", signed).tier == "verified"
    assert decide(evidence(), "reported", reported).tier == "auditable"
    assert decide(evidence(bundle=None), "reported", signed).reasons[0].word == "replayed"
    assert decide(evidence(bundle=None), "reported", reported).reasons[0].word == "replayed"
    assert decide(replace(verified, doubts=(DOUBT,)), "reported", signed).reasons[0].word == "replayed"
    for state in (state_of((line(QUARANTINED),)), state_of((line(QUARANTINED), act("refuse")))):
        assert decide(verified, "reported", state).reasons[0].word == "replayed"


def test_what_nobody_signed_does_not_hold_trials_against_whoever_signs_them() -> None:
    """Row P4: the other way round it does, and between two that are signed."""
    unsigned, signed = line(Decision.accepted("reported"), bundle=None), line()
    other = evidence(record=sha("b"))
    assert decide(other, "reported", state_of((unsigned,))).tier == "auditable"
    assert decide(replace(other, bundle=None), "reported", state_of((unsigned,))).reasons[0].word == "replayed"
    for lines in ((signed,), (unsigned, signed.model_copy(update={"record": sha("c")}))):
        assert decide(other, "reported", state_of(lines)).reasons[0].word == "replayed"
    taken = state_of((unsigned, signed.model_copy(update={"record": sha("c")})))
    assert decide(evidence(), "reported", taken).reasons[0].where == "$.trials"


def test_a_record_that_was_excluded_may_come_again_unless_a_person_excluded_it() -> None:
    """Rows P4, P6, P8."""
    assert decide(evidence(), "reported", state_of((line(EXCLUDED),))).status == "accepted"
    refused = state_of((line(QUARANTINED), act("refuse")))
    assert decide(evidence(), "reported", refused).reasons[0].word == "replayed"


def test_the_same_signature_written_down_otherwise_is_no_other_entry_of_its_log() -> None:
    """Row P9 the other way round: whoever has a record and its bundle adds white space, leaves a blob out, sends that
    first, and keeps nobody out."""
    place = LogEntry(root=sha("root"), index=7)
    spaced = line(EXCLUDED, bundle=sha("bundle and white space"), log=place)
    assert decide(evidence(log=place), "reported", state_of((spaced,))).status == "accepted"


def test_what_was_accepted_and_a_listed_verifier_saw_fail_comes_to_a_person_once() -> None:
    """Rows P3, P8: by whoever brings it, at the tier that was shown before; what a person decided stays decided, and
    what is a replay but for any other doubt stays one."""
    contested = evidence(doubts=(DOUBT,), contested=True)
    accepted = line(Decision.accepted("verified"), reproductions=(sha("vsa"),))
    assert decide(contested, "verified", state_of((accepted,))) == QUARANTINED
    assert reached_in(contested, state_of((accepted,))) == "verified"
    assert reached_in(replace(contested, bundle=sha("other")), state_of((accepted,))) == "auditable"
    acted = (accepted, line(QUARANTINED, reached="verified"), act())
    for state, again, beside in (
        (state_of(acted), contested, ()),
        (state_of((accepted,)), replace(contested, contested=False), ()),
        (state_of((accepted,)), replace(contested, missing=(sha("blob"),)), ()),
        (state_of((accepted,)), replace(contested, against=(FAULT,)), ()),
        (state_of((accepted,)), contested, (contested,)),
    ):
        assert decide(again, "reported", state, beside).reasons[0].word == "replayed"


def test_two_records_in_one_place_of_a_signers_log_are_a_log_written_anew() -> None:
    """Attest.md 3, P9: shrunk, rewritten or forked, as far as what is sent shows it."""
    place = LogEntry(root=sha("root"), index=7)
    other = evidence(record=sha("b"), trials=sha("others"), bundle=sha("other bundle"), log=place)
    decision = decide(other, "reported", state_of((line(log=place),)))
    assert (decision.status, [reason.word for reason in decision.reasons]) == ("excluded", ["rollback"])
    assert decide(other, "reported", EMPTY, [evidence(log=place)]).reasons[0].word == "rollback"
    assert decide(evidence(log=place), "reported", state_of((line(EXCLUDED, log=place),))).status == "accepted"
    elsewhere = replace(other, log=LogEntry(root=sha("root"), index=8))
    assert decide(elsewhere, "reported", state_of((line(log=place),))).status == "accepted"


def test_records_of_one_submission_are_held_against_each_other() -> None:
    """Row P4: the first of two that are the same counts."""
    before = evidence(file="records/0.json")
    assert decide(evidence(), "reported", EMPTY, [before]).reasons[0].word == "replayed"
    assert decide(evidence(record=sha("b")), "reported", EMPTY, [before]).reasons[0].word == "replayed"
    assert decide(evidence(record=sha("b"), trials=None), "reported", EMPTY, [before]).status == "accepted"


@pytest.mark.parametrize(
    ("refused", "missing", "word"),
    [
        (Refused("record", "no schema"), False, "schema_mismatch"),
        (Refused("aggregate", "sum"), False, "schema_mismatch"),
        (Refused("energy", "joules"), False, "schema_mismatch"),
        (Refused("blob", "digest"), False, "blob_mismatch"),
        (Refused("blob", "not checked"), True, "blob_missing"),
        (Refused("identity", "another"), False, "policy"),
        (Refused("signature", "broken"), False, "policy"),
        (Refused("policy", "image"), False, "policy"),
        (Refused("policy", "key lost", word="revoked"), False, "revoked"),
        (Refused("replay", "expired", word="stale_challenge"), False, "stale_challenge"),
    ],
)
def test_each_class_of_a_refusal_has_its_word(refused: Refused, missing: bool, word: str) -> None:
    """Formats 6: nine words; the class is said where the word does not say it."""
    reason = reason_of(refused, missing=missing)
    assert reason.word == word
    if refused.word is None and refused.reason not in ("policy", "blob"):
        assert reason.message.endswith(f"(class {refused.reason})")


# ---------------------------------------------------------------------------------------------------- challenges

STORE = sha("store")
CHALLENGE = new_challenge(
    ChallengedSuite(name="smoke", digest=sha("suite")),
    ChallengedPolicy(name="example", version=1, sha256=sha("policy")),
    STORE,
    timedelta(hours=1),
    NOW,
)


def asked(**changes: Any) -> Asked:
    usual = Asked(
        challenge=CHALLENGE.sha256,
        record=sha("a"),
        suite=sha("suite"),
        contender=("noop", None),
        run="first",
        policy="example",
        submission=sha("submission"),
        at=NOW + timedelta(minutes=5),
    )
    return replace(usual, **changes)


def status_of(asks: Asked, issued: Challenge | None = CHALLENGE, *met: DecisionLine, **more: Any) -> str:
    return challenge_status(asks, Past(STORE, issued, met), more.get("shown"), more.get("beside", ())).state


def test_a_challenge_is_good_until_it_ends_and_for_what_it_was_issued() -> None:
    """Row P5: expired, foreign, unknown; the last second counts."""
    assert status_of(asked()) == "good"
    assert status_of(asked(at=NOW + timedelta(hours=1))) == "good"
    assert status_of(asked(at=NOW + timedelta(hours=1, seconds=1))) == "expired"
    assert status_of(asked(suite=sha("another"))) == "foreign"
    assert status_of(asked(policy="another")) == "foreign"
    assert status_of(asked(), None) == "unknown"
    assert status_of(asked(), None, shown=CHALLENGE.model_copy(update={"store": sha("other")})) == "foreign"
    assert status_of(asked(), None, shown=CHALLENGE) == "unknown"


def test_a_challenge_is_met_by_one_submission_and_there_by_one_run_with_one_record_a_solver() -> None:
    """Row P5, reused: by another submission at all, within one by the same solver and model, or by another run."""
    met = line(challenge=CHALLENGE.sha256, submission=sha("earlier"), record=sha("b"))
    assert status_of(asked(), CHALLENGE, met) == "used"
    assert status_of(asked(record=sha("b")), CHALLENGE, met) == "good"
    assert status_of(asked(submission=sha("earlier")), CHALLENGE, met) == "good"
    same = evidence(challenge=CHALLENGE.sha256, contender=("noop", None), run="first")
    assert status_of(asked(), beside=(same,)) == "used"
    assert status_of(asked(contender=("another", None)), beside=(same,)) == "good"
    assert status_of(asked(contender=("noop", "a model")), beside=(same,)) == "good"
    assert status_of(asked(contender=("another", None), run="second"), beside=(same,)) == "used"
    assert status_of(asked(), beside=(replace(same, challenge=sha("another")),)) == "good"


def test_a_submitter_sees_of_a_challenge_what_its_document_says() -> None:
    """A dry run has no store to look into."""
    assert as_far_as_seen(asked(), CHALLENGE).state == "good"
    assert as_far_as_seen(asked(at=NOW + timedelta(days=1)), CHALLENGE).state == "expired"
    assert as_far_as_seen(asked(suite=sha("another")), CHALLENGE).state == "foreign"


# ----------------------------------------------------------------------------------------------------- rollback


def test_a_policy_never_goes_back_and_never_changes_under_its_version() -> None:
    """Row P9; another policy has versions of its own."""
    state = state_of((line(),))
    assert rolled_back(state, POLICY, ()) is None
    assert rolled_back(state, POLICY.model_copy(update={"version": 3, "sha256": sha("newer")}), ()) is None
    assert rolled_back(state, POLICY.model_copy(update={"name": "other", "version": 1}), ()) is None
    assert "version 2 was seen" in (rolled_back(state, POLICY.model_copy(update={"version": 1}), ()) or "")
    assert "raise its version" in (rolled_back(state, POLICY.model_copy(update={"sha256": sha("other")}), ()) or "")


def test_a_name_that_stood_for_a_later_root_never_stands_for_the_earlier_one() -> None:
    """Row P9."""
    first, second = (RootStamp(name="board", sha256=sha(word)) for word in ("first", "second"))
    state = state_of((line(roots=(first,)), line(record=sha("b"), trials=None, roots=(second,))))
    assert rolled_back(state, POLICY, (second,)) is None
    assert rolled_back(state, POLICY, (RootStamp(name="board", sha256=sha("third")),)) is None
    assert rolled_back(state, POLICY, (RootStamp(name="other", sha256=sha("first")),)) is None
    assert "came after it" in (rolled_back(state, POLICY, (first,)) or "")


def test_of_a_bundle_its_first_receipt_counts_and_of_a_record_its_own() -> None:
    """Row P12: a record that was here unsigned says nothing of when somebody signed it."""
    later = "2026-04-03T00:00:00Z"
    state = state_of((line(EXCLUDED, bundle=None), line(received_at=later), line(received_at="2026-04-04T00:00:00Z")))
    assert state.first_seen == {sha("a"): "2026-04-01T00:00:00Z"}
    assert state.first_signed == {sha("bundle"): later}
