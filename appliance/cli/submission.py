"""`appliance submission`: records packed for a receiver, and a stranger's records received, judged and signed for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.output import counted, emit_json, line, note
from appliance.cli.signer_options import (
    LOCAL,
    IdentityToken,
    OidcInteractive,
    SignTimeout,
    TokenEnv,
    TrustOption,
    token_of,
)
from appliance.cli.submitted import (
    bounds,
    counts,
    decided_value,
    end_by,
    line_value,
    note_passed_over,
    note_unheard,
    opened,
    say_decision,
    show_standing,
    standing_value,
    terms_of,
    verdict_path,
)

if TYPE_CHECKING:
    from appliance.submissions.acts import Act
    from appliance.submissions.store import Store
    from attest.trust import TrustMode

app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
PolicyFile = Annotated[Path, typer.Option(metavar="FILE", help="The policy to judge by.")]
Roots = Annotated[
    list[Path] | None,
    typer.Option(
        "--trusted-root", metavar="FILE", help="A root that the policy names by digest, besides those known here."
    ),
]
MaxFiles = Annotated[int, typer.Option(min=1, metavar="N", help="Files that a submission may have at most.")]
MaxMib = Annotated[int, typer.Option(min=1, metavar="N", help="MiB that all its files may have at most.")]
StoreFolder = Annotated[Path, typer.Argument(metavar="STORE", help="A receiver's store.", show_default=False)]
Why = Annotated[str, typer.Option("--reason", help="Why; signed and kept.")]
_FILES = 8192
_MIB = 4096


@app.command()
def pack(  # noqa: PLR0917 - a command's options
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="Records, or the run folders of them.")],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    blobs: Annotated[Path | None, typer.Option(help="Their blobs; by default ../blobs, seen from each record.")] = None,
    verdict: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A reproducer's signed verdict, to go along.")
    ] = None,
    challenge: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A challenge's document, where the run kept none.")
    ] = None,
    with_suite: Annotated[
        bool | None,
        typer.Option(
            "--with-suite/--without-suite",
            help="Let the suite's archive go along, with its reference solutions and hidden tests, or leave it out.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Put records, their bundles, blobs and challenges into one folder, and say what it reveals."""
    from appliance.submissions.pack import Ask, pack

    packed = pack(Ask(tuple(records), to, blobs, tuple(verdict or ()), tuple(challenge or ()), with_suite))
    for one in packed.revealed:
        for text in one.lines():
            note(text)
    for sha256 in packed.unsigned:
        note(f"record {sha256[:12]} is unsigned: a receiver takes it as reported, if at all (appliance sign RECORD)")
    if packed.missing:
        missing = counted(len(packed.missing), "blob")
        note(f"{missing} not here, so not sent along, the first {packed.missing[0]}")
    if json:
        emit_json(
            {
                "folder": str(packed.folder),
                "records": list(packed.records),
                "unsigned": list(packed.unsigned),
                "blobs": packed.blobs,
                "missing": list(packed.missing),
                "challenges": list(packed.challenges),
                "verdicts": list(packed.verdicts),
                "reveals": [
                    {
                        "record": one.record,
                        "references": list(one.references),
                        "hiddenTests": list(one.hidden_tests),
                        "transcripts": one.transcripts,
                        "diffs": one.diffs,
                        "referenceDiffs": one.reference_diffs,
                        "testOutputs": one.test_outputs,
                    }
                    for one in packed.revealed
                ],
            }
        )
        return
    line(str(packed.folder))
    parts = f"{counted(len(packed.records), 'record')}, {counted(packed.blobs, 'blob')}"
    note(f"{parts}; look first: appliance submission check {to} --policy F")


@app.command()
def check(  # noqa: PLR0917 - a command's options
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A submission.", show_default=False)],
    policy: PolicyFile,
    trusted_root: Roots = None,
    max_files: MaxFiles = _FILES,
    max_mib: MaxMib = _MIB,
    json: Json = False,
) -> None:
    """What a receiver with this policy would make of DIR, but for what only his store knows. Nothing is written.

    Status 7 where a record would not be accepted.
    """
    from appliance.submissions.intake import check_submission

    terms, _ = terms_of(policy, trusted_root)
    found = check_submission(folder, terms, bounds(max_files, max_mib))
    rows = [(one.evidence.file, one.evidence.record, one.decision) for one in found.records]
    note_unheard(found.unheard, terms)
    if json:
        value = {**counts([one for *_, one in rows]), "records": [decided_value(*row) for row in rows]}
        emit_json({**value, "verdictsPassedOver": list(found.unheard)})
    else:
        for file, record, decision in rows:
            say_decision(file, record, decision)
    end_by([decision for *_, decision in rows])


@app.command()
def intake(  # noqa: PLR0917 - a command's options
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A submission.", show_default=False)],
    into: Annotated[Path, typer.Option(metavar="STORE", help="The store to receive it; made if need be.")],
    policy: PolicyFile,
    trusted_root: Roots = None,
    max_files: MaxFiles = _FILES,
    max_mib: MaxMib = _MIB,
    trust: TrustOption = LOCAL,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Json = False,
) -> None:
    """Receive DIR: each of its records is accepted, excluded or quarantined, with a signed verdict.

    Status 7 where a record was not accepted. Interrupted, the same command finishes the work.
    """
    from appliance.submissions.intake import take_in

    terms, stamps = terms_of(policy, trusted_root)
    token = token_of(identity_token, token_env, oidc_interactive)
    store, signer = opened(into, trust, token, sign_timeout)
    taken = take_in(folder, store, terms, stamps, signer, bounds=bounds(max_files, max_mib), report=note)
    if taken.finished:
        note("an earlier intake of this submission had been cut off: finished")
    note_passed_over(taken.passed_over)
    note_unheard(taken.unheard, terms)
    if json:
        checkpoint = store.checkpoint.json_value() if store.checkpoint else None
        emit_json(
            {
                **counts([one.decision for one in taken.lines]),
                "submission": taken.submission,
                "finished": taken.finished,
                "records": [line_value(one, store) for one in taken.lines],
                "passedOver": list(taken.passed_over),
                "verdictsPassedOver": list(taken.unheard),
                "checkpoint": checkpoint,
            }
        )
    else:
        for one in taken.lines:
            say_decision(one.file, one.record, one.decision)
            line(f"  verdict {verdict_path(store, one.verdict)}")
    end_by([one.decision for one in taken.lines])


@app.command()
def show(  # noqa: PLR0917 - a command's options
    folder: StoreFolder,
    trust: Annotated[str | None, typer.Option(help="The root that the store's keeper signs under.")] = None,
    trusted_root: Annotated[Path | None, typer.Option(help="A root in a file; needs --root-sha256.")] = None,
    root_sha256: Annotated[str | None, typer.Option(help="The sha256 that this file must have.")] = None,
    identity: Annotated[str, typer.Option(help="The keeper's exact name; --trust local implies it.")] = "",
    issuer: Annotated[str, typer.Option(help="The exact issuer of that name; --trust local implies it.")] = "",
    json: Json = False,
) -> None:
    """Every record of STORE, where it stands and why, after its index was checked."""
    from appliance.audit.trust import refusals_translated
    from appliance.cli.trusting import TrustWords
    from appliance.submissions.store import Store

    by_default = LOCAL if trust is None and trusted_root is None else trust
    words = TrustWords(by_default, trusted_root, root_sha256, identity, issuer)
    with refusals_translated():
        held_to = words.held_to()
    store = Store(folder, held_to)
    origin = store.origin
    standing = store.state.records
    if json:
        emit_json(
            {
                "store": origin,
                "checkpoint": store.checkpoint.json_value() if store.checkpoint else None,
                "records": [standing_value(sha256, one, store) for sha256, one in standing.items()],
                "decisions": [line_value(one, store) for found in store.state.submissions.values() for one in found],
            }
        )
        return
    # What is reported only never stands among what somebody answers for.
    for tier in ("verified", "auditable", "reported", None):
        for sha256, one in standing.items():
            if one.tier == tier:
                show_standing(sha256, one)
    note(f"store {origin[:12]}, {store.index.size} entries, under {held_to[1]}")


@app.command()
def release(  # noqa: PLR0917 - a command's options
    folder: StoreFolder,
    record: Annotated[str, typer.Argument(help="Its sha256, or how that begins.", show_default=False)],
    reason: Why,
    trust: TrustOption = LOCAL,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Json = False,
) -> None:
    """Take a record out of quarantine and accept it. The act is signed."""
    token = token_of(identity_token, token_env, oidc_interactive)
    _act("release", record, reason, opened(folder, trust, token, sign_timeout), json)


@app.command()
def refuse(  # noqa: PLR0917 - a command's options
    folder: StoreFolder,
    record: Annotated[str, typer.Argument(help="Its sha256, or how that begins.", show_default=False)],
    reason: Why,
    trust: TrustOption = LOCAL,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Json = False,
) -> None:
    """Take a record out of quarantine and exclude it. The act is signed."""
    token = token_of(identity_token, token_env, oidc_interactive)
    _act("refuse", record, reason, opened(folder, trust, token, sign_timeout), json)


def _act(act: Act, record: str, reason: str, opened: tuple[Store, TrustMode], json: bool) -> None:
    from datetime import UTC, datetime

    from appliance.submissions.acts import act_on

    store, signer = opened
    acted = act_on(store, record, act, reason, signer=signer, now=datetime.now(UTC))
    if json:
        emit_json({**acted.json_value(), "statementPath": verdict_path(store, acted.statement)})
        return
    line(f"{acted.record} {act}d")
    note(f"signed: {verdict_path(store, acted.statement)}")
