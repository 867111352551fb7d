"""`appliance verify`: every check of a record and its bundle, by number, and what it comes to; or of many records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from appliance.cli.output import counted, emit_json, line, note
from appliance.errors import AttestationRefused, Refusal, UsageRefused

if TYPE_CHECKING:
    from appliance.cli.verify_many import Item
    from appliance.cli.verifying import Asked, Terms

app = typer.Typer()
_LONG_WORK: Final = 40
"""Records, from which on progress is told."""


@app.command()
def verify(  # noqa: PLR0917  the options of a verb
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Records; or run folders, submissions, published folders: all that is in their `records`; or the"
            " bundle of a verdict, a challenge, a checkpoint.",
            show_default=False,
        ),
    ],
    bundle: Annotated[Path | None, typer.Option(help="Its bundle; by default X.sigstore.json beside X.json.")] = None,
    blobs: Annotated[Path | None, typer.Option(help="Its blobs; by default ../blobs, seen from the record.")] = None,
    trust: Annotated[str | None, typer.Option(help="A root known here by this name.")] = None,
    trusted_root: Annotated[
        Path | None, typer.Option(help="A root in a file; needs --root-sha256, or a --policy that names its digest.")
    ] = None,
    root_sha256: Annotated[str | None, typer.Option(help="The sha256 that this file must have.")] = None,
    identity: Annotated[str, typer.Option(help="The exact name of the signer; --trust local implies it.")] = "",
    issuer: Annotated[str, typer.Option(help="The exact issuer of that name; --trust local implies it.")] = "",
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A receiver's policy.toml; its signers stand for the four options before, if left out."
        ),
    ] = None,
    challenge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The challenge that the record answers; goes with --policy.")
    ] = None,
    challenge_trust: Annotated[
        str | None, typer.Option(metavar="NAME", help="The root that the challenge is signed under, by name.")
    ] = None,
    challenge_identity: Annotated[
        str, typer.Option(metavar="NAME", help="The exact name of who issued the challenge; its bundle lies beside it.")
    ] = "",
    challenge_issuer: Annotated[str, typer.Option(metavar="URL", help="The exact issuer of that name.")] = "",
    anchor: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An anchor of the local log: when the record was there already.")
    ] = None,
    anchor_trust: Annotated[str | None, typer.Option(help="The root that the anchor is signed under, by name.")] = None,
    anchor_identity: Annotated[str, typer.Option(help="The exact name of the anchor's signer.")] = "",
    anchor_issuer: Annotated[str, typer.Option(help="The exact issuer of that name.")] = "",
    tpm_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of the TPMs' keys that you have enrolled, one a line.")
    ] = None,
    index_trust: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The known root of a published index, if not the records'."),
    ] = None,
    index_trusted_root: Annotated[
        Path | None, typer.Option(metavar="FILE", help="That root in a file; needs --index-root-sha256.")
    ] = None,
    index_root_sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="The sha256 that this file must have.")
    ] = None,
    index_identity: Annotated[str, typer.Option(metavar="NAME", help="The exact name of who signed this index.")] = "",
    index_issuer: Annotated[str, typer.Option(metavar="URL", help="The exact issuer of that name.")] = "",
    allow_missing_blobs: Annotated[bool, typer.Option(help="A blob that is not there may stay unchecked.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check records and their bundles without trusting whoever sent them. Status 7 with a reason class where one fails.

    One record is told check by check, several in one line each and a sum.
    """
    from appliance.cli.trusting import TrustWords

    words = TrustWords(trust, trusted_root, root_sha256, identity, issuer)
    index_words = TrustWords(
        index_trust, index_trusted_root, index_root_sha256, index_identity, index_issuer, of="index-"
    )
    challenge_words = TrustWords(challenge_trust, None, None, challenge_identity, challenge_issuer, of="challenge-")
    from appliance.audit.found import is_folder

    if len(paths) == 1 and bundle is None and not is_folder(paths[0]):
        from appliance.cli.stating import verify_stated

        if verify_stated(paths[0], words, json):
            return
    items = _items(paths)
    one = len(paths) == 1 and not items[0].in_folder
    if len(items) > 1 and (bundle is not None or anchor is not None):
        raise UsageRefused(
            f"--{'bundle' if bundle else 'anchor'} is of one record, and these are {len(items)}", reason="usage"
        )
    from appliance.cli.verify_site import indexes_checked
    from appliance.cli.verifying import Asked, Terms

    asked = Asked(
        trust=words,
        bundle=bundle,
        blobs=blobs,
        allow_missing_blobs=allow_missing_blobs,
        policy=policy,
        challenge=challenge,
        challenge_trust=challenge_words,
        anchor=anchor,
        anchor_trust=TrustWords(anchor_trust, None, None, anchor_identity, anchor_issuer, of="anchor-"),
        tpm_keys=tpm_keys,
    )
    terms = Terms.of(asked)
    if challenge is not None and not challenge_words.given:
        note(f"{challenge} is taken on your word: nobody checked who issued it (--challenge-trust NAME)")
    if one:
        _verify_one(items[0], asked, terms, json)
    else:
        unread = {item.record for item in items if item.refusal is not None}
        folders = [path for path in paths if path not in unread]
        indexes = indexes_checked(folders, index_words if index_words.given else words)
        _verify_several(indexes.placed(items), asked, terms, json, indexes.documents)


def _items(paths: Sequence[Path]) -> list[Item]:
    """Of all paths, each record once, whichever way it was named; a bundle whose record is named too is read with it.
    Where there are several, one that leads to no record is refused in its place; raises Refusal where it is alone."""
    from appliance.audit.found import Found, record_beside, records_of
    from appliance.cli.verify_many import Item

    items: dict[Path, Item] = {}
    real = cache(os.path.realpath)

    def add(item: Item) -> None:
        # By where its bundle is looked for: a link in another folder has a bundle of its own.
        place = Path(real(item.record.parent)) / item.record.name
        # Of a folder it is held to more: to the folder's index, and to be no link.
        if item.in_folder or place not in items:
            items[place] = item

    named = set(paths)
    for path in paths:
        if record_beside(path) in named:
            continue
        try:
            found = records_of(path)
        except Refusal as refusal:
            if len(paths) == 1:
                raise
            add(Item(path, in_folder=False, refusal=refusal))
            found = Found(())
        for record in found.records:
            add(Item(record, in_folder=found.in_folder))
        for bundle in found.unrecorded:
            alone = AttestationRefused("a bundle without its record", where=str(bundle), reason="record")
            add(Item(bundle, in_folder=True, refusal=alone))
    return list(items.values())


def _verify_one(item: Item, asked: Asked, terms: Terms, json: bool) -> None:
    from appliance.cli.verify_words import checks_one_a_line, told
    from appliance.cli.verifying import judge

    verdict = judge(item.record, asked, terms)
    report, refusal = verdict.report, verdict.refusal
    standing = verdict.standing if terms.policy is not None else None
    if report is not None and json:
        emit_json(told(item.record, report, refusal, standing))
    # Of a command line that asks for nothing there is no list to show.
    elif report is not None and (refusal is None or refusal.reason != "usage"):
        for words in checks_one_a_line(report, refusal, standing):
            line(words)
    if refusal is not None:
        raise refusal from refusal.__cause__


def _verify_several(
    items: Sequence[Item], asked: Asked, terms: Terms, json: bool, indexes: list[dict[str, Any]]
) -> None:
    from appliance.cli.verify_many import verify_all
    from appliance.cli.verify_words import one_line, unseen_blobs

    documents: list[dict[str, Any]] = []
    count: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    unseen = 0
    with _progress(len(items)) as ended:
        for document in verify_all(items, asked, terms, ended):
            count[document.get("standing") or ("verified" if document["verified"] else "refused")] += 1
            if not document["verified"]:
                classes[document["error"]["reason"] or "unread"] += 1
            elif unseen_blobs(document):
                unseen += 1
            if json:
                documents.append(document)
            else:
                line(one_line(document))
    refused = sum(classes.values())
    why = ", ".join(f"{number} {name}" for name, number in classes.most_common())
    total = counted(len(items), "record")
    words = f"{refused} of {total} refused ({why})"
    kind = UsageRefused if set(classes) == {"usage"} else AttestationRefused
    failure = kind(words, reason=classes.most_common(1)[0][0]) if refused else None
    if json:
        emit_json({**_sum(documents, count, classes, failure), "indexes": indexes})
    else:
        line()
        lack = f" ({unseen} without all blobs)" if unseen else ""
        line(", ".join(f"{number} {name}" for name, number in sorted(count.items())) + f" of {total}{lack}")
    if failure is not None:
        raise failure


def _sum(
    documents: list[dict[str, Any]], count: Counter[str], classes: Counter[str], failure: Refusal | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "verified": failure is None,
        "count": dict(sorted(count.items())),
        "refusedBy": dict(sorted(classes.items())),
        "records": documents,
    }
    if failure is not None:
        document["error"] = {"status": failure.status, "reason": failure.reason, "message": failure.message}
    return document


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """On standard error: a bar on a terminal, a line a tenth elsewhere."""
    import sys

    if total < _LONG_WORK:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        step = -(-total // 10)
        yield lambda done: note(f"{done} of {total} records") if done % step == 0 or done == total else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        bar = progress.add_task("records", total=total)

        def ended(done: int) -> None:
            progress.update(bar, completed=done, refresh=done % 16 == 0 or done == total)

        yield ended
