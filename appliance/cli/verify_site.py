"""What `appliance verify` asks of a published folder beside its records: that its index is the one that was signed, and
that what lies there is what the index names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.cli.output import counted, note
from appliance.cli.trusting import TrustWords
from appliance.errors import AttestationRefused

if TYPE_CHECKING:
    from appliance.cli.verify_many import Item
    from appliance.submissions.published import Listed, Site
    from attest.roots import PinnedRoot


@dataclass
class Indexes:
    """Those of the folders of one command line that were held."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    """One a published folder, for `--json`."""
    _listed: dict[Path, Mapping[Path, Listed | None]] = field(default_factory=dict)
    """By the folder of its records."""

    def placed(self, items: Iterable[Item]) -> list[Item]:
        """Each record with what its folder's index says of it, or that it says nothing."""
        return [self._placed(item) for item in items]

    def hold(self, folder: Path, listed: Mapping[Path, Listed | None]) -> None:
        self._listed[folder / "records"] = listed

    def _placed(self, item: Item) -> Item:
        listed = self._listed.get(item.record.parent)
        if listed is None or item.refusal is not None:
            return item
        return replace(item, unlisted=item.record not in listed, listed=listed.get(item.record))


def indexes_checked(paths: Sequence[Path], words: TrustWords) -> Indexes:
    """Of each folder among `paths` that has one. Raises AttestationRefused: `replay` for an index that is not what it
    was, or that was asked for and is not there; `record`, `bundle` or `blob` for a file that is not the one that it
    names.

    Under a policy alone nobody says who signs an index; then it is not looked at, and that is said.
    """
    from appliance.audit.trust import refusals_translated
    from appliance.submissions.published import has_index, read_site
    from appliance.submissions.store import is_store

    found = Indexes()
    for path in paths:
        if not path.is_dir():
            continue
        if not has_index(path):
            if words.of:  # --index-trust and its like were typed
                mend = "fetch it again, whole; a folder without an index is verified without --index-..."
                raise AttestationRefused("has no signed index", where=str(path), mend=mend, reason="replay")
            continue
        if not words.names_signer:
            note(f"{path}: its index was not checked; --index-trust says whom it is held to")
            continue
        with refusals_translated():
            held_to = words.held_to()
            if is_store(path):
                found.hold(path, _accepted(path, held_to))
                continue
            site = read_site(path, *held_to)
        found.hold(path, {one.path: one for one in site.records})
        found.documents.append(_told(path, site))
    return found


def _accepted(path: Path, held_to: tuple[PinnedRoot, str, str]) -> Mapping[Path, Listed | None]:
    """Of a receiver's store: his index says what he accepted, and nothing of what a record holds."""
    from appliance.submissions.store import Store

    store = Store(path, held_to)
    standing = (record for record, found in store.state.records.items() if found.status == "accepted")
    accepted = {path / "records" / f"{record}.json" for record in standing}
    for lost in sorted(record for record in accepted if not record.exists()):
        raise AttestationRefused("the index names it, and it is not there", where=str(lost), reason="record")
    note(f"{path}: a receiver's store, an index of {counted(store.index.size, 'line')}")
    return dict.fromkeys(accepted)


def _told(path: Path, site: Site) -> dict[str, Any]:
    entries = f"{site.checkpoint.size} entr{'y' if site.checkpoint.size == 1 else 'ies'}"
    parts = f"{counted(len(site.records), 'record')}, {counted(len(site.verdicts), 'verdict')}"
    note(f"{path}: an index of {entries}, {parts}")
    if site.unremembered is not None:
        note(f"{path}: its checkpoint is not remembered, so an older index would pass here: {site.unremembered}")
    return {
        "folder": str(path),
        "checkpoint": site.checkpoint.json_value(),
        "records": len(site.records),
        "remembered": site.unremembered is None,
        "verdicts": [line.json_value() for line in site.verdicts],
        "withheld": {one.line.record: list(one.line.withheld) for one in site.records if one.line.withheld},
    }
