"""What a person does with a record in quarantine: release or refuse it, with a reason, and sign for that."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from appliance.audit.trust import refusals_translated
from appliance.errors import UsageRefused
from appliance.submissions.challenge import moment_text
from appliance.submissions.decisions import Decision
from appliance.submissions.state import ActLine, Standing
from appliance.submissions.store import Store
from appliance.submissions.verdicts import sign_verdict
from attest import statement
from attest.closed import Closed
from attest.predicate import MOST_CHARACTERS, Moment, Sha256, Text

if TYPE_CHECKING:
    from attest.trust import TrustMode

Act = Literal["release", "refuse"]


class ActPredicate(Closed):
    """Of a statement about the record."""

    act: Act
    reason: Text
    verdict: Sha256
    """Of the bundle of the verdict that put it into quarantine."""
    store: Sha256
    """Origin of the store's index."""
    at: Moment


def act_on(store: Store, record: str, act: Act, reason: str, *, signer: TrustMode, now: datetime) -> ActLine:
    """`record`: its sha256, or the beginning of it. The verdict that holds from now on is signed as well.

    Raises UsageRefused where no such record waits.
    """
    _refuse_unsayable(reason)
    found(store, record)  # before anything is written
    with store.alone(signer):
        sha256, stands = found(store, record)
        content, bundle = store.record_bytes(sha256, "quarantine")
        line = stands.line
        tier = (line.reached or "reported") if act == "release" else None
        decision = Decision.accepted(tier) if tier else Decision.against("excluded", line.decision.reasons)
        at = moment_text(now)
        said = ActPredicate(act=act, reason=reason, verdict=line.verdict, store=store.origin, at=at)
        from attest.signing import sign_statement

        with refusals_translated():
            kind = statement.SUBMISSION_ACT_TYPE
            about = statement.build_about(f"{sha256}.json", sha256, said.model_dump(mode="json", by_alias=True), kind)
            signed = sign_statement(signer, about, kind)
            verdict = sign_verdict(
                decision,
                record=sha256,
                bundle=line.bundle,
                submission=line.submission,
                policy=line.policy,
                signer=signer,
                now=now,
            )
        if act == "release":
            store.keep_record(content, bundle, quarantined=False)
        acted = ActLine(
            act=act,
            record=sha256,
            reason=reason,
            statement=store.keep_verdict(signed),
            verdict=store.keep_verdict(verdict),
            tier=tier,
            at=at,
        )
        store.append([acted], signer)
        store.drop("quarantine", sha256)
        return acted


def _refuse_unsayable(reason: str) -> None:
    if not reason.strip():
        raise UsageRefused("is empty", where="--reason", mend="say why: it is signed, and kept")
    if len(reason) > MOST_CHARACTERS:
        words = f"{len(reason)} characters, over the bound of {MOST_CHARACTERS}"
        raise UsageRefused(words, where="--reason", mend="say it shorter, and where the rest can be read")
    try:
        reason.encode()
    except UnicodeEncodeError as error:
        raise UsageRefused("is not UTF-8", where="--reason") from error


def found(store: Store, record: str) -> tuple[str, Standing]:
    """The one record in quarantine whose digest begins so."""
    wanted = record.strip().lower().removeprefix("sha256:")
    matching = [(sha256, stands) for sha256, stands in store.state.records.items() if sha256.startswith(wanted)]
    if not wanted or len(matching) != 1:
        words = "no record of this store" if not matching else f"{len(matching)} records begin so"
        raise UsageRefused(f"{words}: {record[:80]!r}", mend=f"appliance submission show {store.root}")
    sha256, stands = matching[0]
    if stands.status != "quarantined":
        acted = f" ({stands.act.act}d at {stands.act.at})" if stands.act else ""
        raise UsageRefused(f"record {sha256[:12]} is {stands.status}{acted}, not in quarantine")
    return sha256, stands
