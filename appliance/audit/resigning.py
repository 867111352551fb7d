"""What lies beside a record before it is signed: a signature that somebody may count on is not replaced unasked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.audit.trust import bundle_path
from appliance.digests import sha256_of_file
from appliance.errors import UsageRefused
from attest.errors import Refused

_MEND = "--replace puts yours in its place"


@dataclass(frozen=True)
class Kept:
    """A bundle over the record as it is now; whether it holds, only `verify` says."""

    path: Path
    names: tuple[str, ...]
    """Those that its certificate claims."""
    anchor: Path | None
    """The anchor of its entry, which no other bundle has."""

    def refuse_loss(self, signer: str) -> None:
        """Raises UsageRefused where a signature by `signer` in its place loses another's, or an anchor."""
        if signer not in self.names:
            raise UsageRefused(f"is signed already, by {' '.join(self.names)}", where=str(self.path), mend=_MEND)
        if self.anchor is not None:
            raise UsageRefused(
                f"is anchored already: {self.anchor} is of this signature alone", where=str(self.path), mend=_MEND
            )


def kept_bundle(record: Path) -> Kept | None:
    """None where no bundle of ours is there, or one over other bytes: of those nothing is lost."""
    from attest import bundle, library, statement
    from attest.local.files import read_bounded

    path = bundle_path(record)
    try:
        parsed = bundle.parse(read_bounded(path, bundle.MAX_BUNDLE_BYTES))
        if statement.subject_sha256(statement.parse(parsed.payload)) != sha256_of_file(record):
            return None
        names = library.claimed_names(parsed)
    except (OSError, Refused):
        return None
    anchor = record.with_name(f"{record.name.removesuffix('.json')}.anchor.json")
    return Kept(path, names, anchor if anchor.exists() else None)
