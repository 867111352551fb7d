"""The trust options that `verify` and `reproduce` share, and a record's companions: its bundle and its blobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import InputRefused, UsageRefused
from appliance.reading import read_regular

if TYPE_CHECKING:
    from attest.roots import PinnedRoot
    from attest.verification import Report


@dataclass(frozen=True)
class TrustWords:
    """Which root, which name, which issuer; `--trust local` implies the latter two."""

    trust: str | None
    trusted_root: Path | None
    root_sha256: str | None
    identity: str
    issuer: str
    of: str = ""
    """What the names of its options begin with: `anchor-` of `--anchor-identity`."""

    @property
    def given(self) -> bool:
        return any((self.trust, self.trusted_root, self.root_sha256, self.identity, self.issuer))

    @property
    def names_signer(self) -> bool:
        """Whom to believe is said here, and not left to a policy: more than a file with a root's bytes."""
        return any((self.trust, self.root_sha256, self.identity, self.issuer))

    def held_to(self) -> tuple[PinnedRoot, str, str]:
        """The root, the name and the issuer to hold a signature to. Raises UsageRefused, attest's Refused."""
        root, identity, issuer = self._held_to()
        for flag, value in (("identity", identity), ("issuer", issuer)):
            if not value:
                words = f"no {flag} to hold the signature to"
                raise UsageRefused(words, mend=f"--{self.of}identity NAME --{self.of}issuer URL", reason="usage")
        return root, identity, issuer

    def _held_to(self) -> tuple[PinnedRoot, str, str]:
        from appliance.audit.trust import LOCAL, roots_file
        from attest.roots import PinnedRoot, find_root, known_roots, signer_of_local
        from attest.trust.local import ISSUER

        if (self.trust is None) == (self.trusted_root is None):
            raise UsageRefused(
                "a signature is checked against one root",
                mend=f"--{self.of}trust NAME, or --{self.of}trusted-root FILE --{self.of}root-sha256 HEX"
                + ("" if self.of else ", or --policy FILE"),
                reason="usage",
            )
        if self.trusted_root is not None:
            # A root that stands in roots.toml under this digest has the level that a person gave it there.
            levels = {root.sha256: root.assurance for root in known_roots(roots_file())}
            level = levels.get(self.root_sha256 or "", "local")
            return PinnedRoot.read(self.trusted_root, self.root_sha256, assurance=level), self.identity, self.issuer
        if self.root_sha256 is not None:
            raise UsageRefused(
                f"--{self.of}root-sha256 goes with --{self.of}trusted-root",
                mend="leave it out: roots.toml holds the pin",
            )
        root = find_root(roots_file(), self.trust or "")
        if self.trust == LOCAL:
            return root, self.identity or signer_of_local(root), self.issuer or ISSUER
        return root, self.identity, self.issuer


def blobs_of(record: Path, given: Path | None, *, follow: bool = True) -> Path | None:
    """`--blobs`, else `../blobs` seen from the record, None where there is no such folder. `follow`: whether it may be
    a symbolic link, as in a folder of one's own. Raises UsageRefused, InputRefused."""
    if given is not None:
        if not given.is_dir():
            raise UsageRefused("no such folder", where=str(given), mend="--blobs DIR")
        return given
    beside = record.resolve().parent.parent / "blobs"
    for link in (beside, beside / "sha256"):
        if not follow and link.is_symlink():
            raise InputRefused("a symbolic link, not a folder", where=str(link), mend="--blobs DIR")
    return beside if beside.is_dir() else None


def read_bounded_record(path: Path, *, follow: bool = True) -> bytes:
    from attest.canonical import MAX_BYTES

    try:
        content = read_regular(path, MAX_BYTES, follow=follow)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    if not content:
        raise InputRefused("is empty", where=str(path), mend="fetch it again")
    return content


def read_bounded_bundle(path: Path, *, follow: bool = True) -> bytes:
    from attest.bundle import MAX_BUNDLE_BYTES
    from attest.errors import Refused

    mend = "--bundle FILE, from whoever signed it; a record that you made yourself: appliance sign RECORD"
    try:
        content = read_regular(path, MAX_BUNDLE_BYTES, follow=follow)
    except OSError as error:
        raise Refused("bundle", error.strerror or str(error), where=str(path), mend=mend) from error
    if not content:
        raise Refused("bundle", "is empty", where=str(path), mend=mend)
    return content


def verify_record(
    record: Path,
    content: bytes,
    bundle: Path | None,
    blobs: Path | None,
    words: TrustWords,
    *,
    allow_missing_blobs: bool,
) -> Report:
    """Every check on bytes that were read already. Raises AttestationRefused, UsageRefused."""
    from appliance.audit.trust import bundle_path, refusals_translated
    from appliance.cli.verifying import Terms

    with refusals_translated():
        terms = Terms(signer=words.held_to(), blobs=blobs, allow_missing_blobs=allow_missing_blobs)
        return terms.verify(content, read_bounded_bundle(bundle or bundle_path(record)), blobs_of(record, blobs))
