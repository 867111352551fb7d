"""What `appliance submission` opens, and how it says what it decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from appliance.cli.output import counted, line, note
from appliance.errors import AttestationRefused

if TYPE_CHECKING:
    from appliance.submissions.decisions import Decision
    from appliance.submissions.examining import Terms
    from appliance.submissions.state import DecisionLine, RootStamp, Standing
    from appliance.submissions.store import Store
    from appliance.submissions.tree import TreeBounds
    from attest.trust import TrustMode
    from attest.trust.tokens import TokenSource

_SHOWN: Final = 10


def terms_of(policy: Path, roots: Sequence[Path] | None) -> tuple[Terms, tuple[RootStamp, ...]]:
    """The policy, and the roots that it names as far as they are here."""
    from datetime import UTC, datetime

    from appliance.audit.policy import read_policy
    from appliance.submissions.examining import Terms
    from appliance.submissions.roots import roots_of

    found = read_policy(policy)
    known, stamps = roots_of(found, roots or ())
    return Terms(found, known, datetime.now(UTC)), stamps


def opened(folder: Path, trust: str, token: TokenSource, seconds: float | None) -> tuple[Store, TrustMode]:
    """The store, and what its keeper signs with: that alone is what its index is held to."""
    from appliance.audit.trust import open_trust
    from appliance.submissions.store import Store

    signer = open_trust(trust, token, seconds=seconds, say=note)
    return Store(folder, (signer.root, signer.identity, signer.issuer)), signer


def bounds(files: int, mib: int) -> TreeBounds:
    from appliance.submissions.tree import TreeBounds

    return TreeBounds(files=files, total_mib=mib)


def verdict_path(store: Store, sha256: str) -> str:
    return str(store.root / "verdicts" / f"{sha256}.sigstore.json")


def decided_value(file: str, record: str, decision: Decision) -> dict[str, Any]:
    return {"file": file, "record": record, **decision.json_value()}


def line_value(one: DecisionLine, store: Store) -> dict[str, Any]:
    value = one.json_value()
    decision = value.pop("decision")
    return {**value, **decision, "verdictPath": verdict_path(store, one.verdict)}


def standing_value(sha256: str, one: Standing, store: Store) -> dict[str, Any]:
    return {
        "record": sha256,
        "status": one.status,
        "tier": one.tier,
        "reasons": [reason.json_value() for reason in one.line.decision.reasons],
        "act": one.act.json_value() if one.act else None,
        "receivedAt": one.line.received_at,
        "verdictPath": verdict_path(store, one.act.verdict if one.act else one.line.verdict),
    }


def show_standing(sha256: str, one: Standing) -> None:
    acted = f"  {one.act.act}d {one.act.at}: {one.act.reason}" if one.act else ""
    line(f"{one.status:<12}{one.tier or '-':<10}{sha256}{acted}")
    for reason in one.line.decision.reasons:
        line(f"  {reason}")


def say_decision(file: str, record: str, decision: Decision) -> None:
    line(f"{decision.status:<12}{decision.tier or '-':<10}{record}  {file}")
    for reason in decision.reasons:
        line(f"  {reason}")
    if decision.more_reasons:
        line(f"  and {decision.more_reasons} more")


def counts(decisions: Sequence[Decision]) -> dict[str, int]:
    return {
        status: sum(one.status == status for one in decisions) for status in ("accepted", "excluded", "quarantined")
    }


def end_by(decisions: Sequence[Decision]) -> None:
    refused = [one for one in decisions if one.status != "accepted"]
    if refused:
        note(f"appliance: {len(refused)} of {len(decisions)} records not accepted: {refused[0].reasons[0].word}")
        raise typer.Exit(AttestationRefused.status)


def note_passed_over(paths: Sequence[str]) -> None:
    for path in paths[:_SHOWN]:
        note(f"passed over: {path}")
    if len(paths) > _SHOWN:
        note(f"passed over: {len(paths) - _SHOWN} more")


def note_unheard(paths: Sequence[str], terms: Terms) -> None:
    """Verdicts that came along, and count for nothing."""
    from appliance.submissions.roots import unknown

    for path in paths[:_SHOWN]:
        note(f"passed over: {path}: no verdict of a verifier of the policy about one of these records, as it is signed")
    if len(paths) > _SHOWN:
        note(f"passed over: {counted(len(paths) - _SHOWN, 'more verdict')}")
    if paths:
        for entry in terms.policy.verifiers:
            if entry.root_sha256 not in terms.roots:
                note(f"perhaps because {unknown(terms.policy, entry)}")
