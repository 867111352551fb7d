"""Whatever is sent in whatever order, each record has one state, and what was taken once is never taken again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appliance.digests import sha256_hex
from appliance.submissions.decisions import MOST_REASONS, TIERS, WORDS, Decision, Reason
from appliance.submissions.judging import Evidence, decide
from appliance.submissions.state import ActLine, DecisionLine, PolicyStamp, Standing, parse_lines, state_of
from attest import canonical
from attest.index import MAX_LINE_BYTES

POLICY = PolicyStamp(name="example", version=1, sha256=sha256_hex(b"policy"), uri="urn:policy")
RECORDS = tuple(sha256_hex(bytes([at])) for at in range(4))

evidences = st.builds(
    Evidence,
    file=st.just("records/a.json"),
    record=st.sampled_from(RECORDS),
    bundle=st.sampled_from((None, sha256_hex(b"bundle"))),
    trials=st.sampled_from((None, sha256_hex(b"one"), sha256_hex(b"two"))),
    against=st.sampled_from(((), (Reason.of("policy", "fault"),))),
    doubts=st.sampled_from(((), (Reason.of("implausible", "doubt"),))),
    missing=st.sampled_from(((), (sha256_hex(b"blob"),))),
    reproductions=st.sampled_from(((), (sha256_hex(b"vsa"),))),
)
steps = st.lists(st.one_of(evidences, st.sampled_from(("release", "refuse"))), max_size=24)


def line_of(evidence: Evidence, decision: Decision) -> DecisionLine:
    return DecisionLine(
        submission=sha256_hex(b"submission"),
        file=evidence.file,
        record=evidence.record,
        bundle=evidence.bundle,
        trials=evidence.trials,
        plan=None,
        challenge=None,
        log=None,
        decision=decision,
        reached=None if decision.status == "excluded" else evidence.reached,
        verdict=sha256_hex(b"verdict"),
        reproductions=(),
        policy=POLICY,
        roots=(),
        received_at="2026-04-01T00:00:00Z",
    )


def acted(record: str, act: str, tier: str | None) -> ActLine:
    return ActLine.model_validate(
        {
            "act": act,
            "record": record,
            "reason": "seen",
            "statement": sha256_hex(b"statement"),
            "verdict": sha256_hex(b"verdict"),
            "tier": tier if act == "release" else None,
            "at": "2026-04-02T00:00:00Z",
        }
    )


@given(steps)
def test_no_record_and_no_trials_are_ever_taken_twice(sent: list[Evidence | str]) -> None:
    """Rows P4, P10: a record that was taken only ever rises to a higher tier, at most one signed record has the same
    trials, and at most one that nobody signed; a record that left quarantine never comes back to it."""
    lines: list[DecisionLine | ActLine] = []
    taken: list[Evidence] = []
    for step in sent:
        state = state_of(lines)
        if isinstance(step, str):
            waiting = [record for record, found in state.records.items() if found.status == "quarantined"]
            if waiting:
                lines.append(acted(waiting[0], step, state.records[waiting[0]].line.reached))
            continue
        decision = decide(step, "reported", state)
        if decision.status != "excluded":
            taken.append(step)
        before = state.records.get(step.record)
        lines.append(line_of(step, decision))
        after = state_of(lines).records[step.record]
        if before is not None and (before.status != "excluded" or before.act is not None):
            assert after == before or (before.status == after.status == "accepted" and raised(before, after))
    for signed in (True, False):
        mine = [one for one in taken if (one.bundle is not None) == signed and one.trials is not None]
        trials = {(one.record, one.trials) for one in mine}
        assert len({digest for _, digest in trials}) == len(trials)


def raised(before: Standing, after: Standing) -> bool:
    return TIERS.index(after.tier or "reported") > TIERS.index(before.tier or "verified")


@given(steps)
def test_a_state_is_read_from_the_lines_as_they_are_stored(sent: list[Evidence | str]) -> None:
    """What the index holds is all that there is to know."""
    lines = [line_of(step, decide(step, "reported", state_of(()))) for step in sent if isinstance(step, Evidence)]
    stored = [canonical.loads_canonical(canonical.dumps(line.json_value())) for line in lines]
    assert parse_lines(stored, "index") == tuple(lines)


@given(st.lists(st.tuples(st.sampled_from(sorted(WORDS)), st.text(), st.none() | st.text()), min_size=1, max_size=80))
def test_any_reasons_fit_into_a_line_of_the_index(said: list[tuple[str, str, str | None]]) -> None:
    """Whatever a stranger's file makes a check say: bounded, printable, canonical."""
    reasons = tuple(Reason.of(word, message * 50, where) for word, message, where in said)  # type: ignore[arg-type]
    evidence = Evidence("records/a.json", RECORDS[0], against=reasons)
    line = line_of(evidence, decide(evidence, "reported", state_of(())))
    assert len(line.decision.reasons) == min(len(reasons), MOST_REASONS)
    assert len(canonical.dumps(line.json_value())) < MAX_LINE_BYTES
