"""The local trust mode: an embedded instance in one folder, which vouches for nothing but its own key.

`keys/` (0600), certificates, `trusted_root.json` and `log/`, all in a folder of mode 0700 that appears whole or not at
all.
"""

from __future__ import annotations

import base64
import shlex
import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attest import canonical
from attest.errors import Refused
from attest.local import certificates
from attest.local.files import locked, read_bounded, sync_folder, write_atomically
from attest.local.keys import KEY_ROLES, KeyFolder, Keys, open_keys
from attest.local.log import LocalLog
from attest.roots import MAX_ROOT_BYTES, Assurance, PinnedRoot, signer_of_local
from attest.signable import refuse_unsignable

if TYPE_CHECKING:
    from sigstore.sign import SigningContext

    from attest.predicate import LogReference

NAME: Final = "local"
ISSUER: Final = "https://oidc.local.invalid"
"""The only issuer of every embedded instance; `--trust local` implies it."""
_ROOT: Final = "trusted_root.json"
_SLACK: Final = timedelta(hours=1)  # a host whose clock is set back a little can still sign


class LocalTrust:
    """An instance that exists. Several processes may sign with one folder at once."""

    name: str = NAME
    assurance: Assurance = "local"
    issuer: str = ISSUER

    def __init__(self, folder: Path):
        """Raises Refused (trust_root) where there is no instance, or others may look into it."""
        self.folder = folder
        try:
            mode = folder.stat().st_mode
            self._root_bytes = read_bounded(folder / _ROOT, MAX_ROOT_BYTES)
        except OSError as error:
            raise Refused(
                "trust_root", error.strerror or str(error), where=str(folder), mend="appliance trust init"
            ) from error
        if mode & 0o077:
            raise Refused(
                "trust_root",
                f"others may look into it (mode {mode & 0o777:04o})",
                where=str(folder),
                mend=f"chmod 700 {shlex.quote(str(folder))}",
            )
        self._keys: Keys = open_keys(folder / "keys")
        self.log = LocalLog(folder / "log", self._keys)

    @cached_property
    def root(self) -> PinnedRoot:
        """Pinned by holding it: for signing, and for `trust init` to write the pin down."""
        return PinnedRoot(self.name, self._root_bytes, sha256(self._root_bytes).hexdigest(), self.assurance)

    @property
    def root_path(self) -> Path:
        return self.folder / _ROOT

    @cached_property
    def identity(self) -> str:
        return signer_of_local(self.root)

    def last_checkpoint(self) -> LogReference | None:
        from attest.predicate import LogReference

        frontier = self.log.head().frontier
        return LogReference(size=frontier.size, root=frontier.root.hex())

    def refuse_unready(self) -> None:
        """Raises Refused where `sign` could not: a key or the log's head that cannot be read, a log that cannot grow.

        For whoever signs at the end of hours of work.
        """
        for role in KEY_ROLES:
            self._keys.public(role)
        self.log.refuse_unready()
        _ = self._context

    def sign(self, statement: bytes) -> bytes:
        refuse_unsignable(statement)
        from sigstore.dsse import Statement
        from sigstore.errors import Error as SigstoreError

        from attest.local.instance import mint_token

        try:
            with self._context.signer(mint_token(self._keys, self.identity)) as signer:
                return signer.sign_dsse(Statement(statement)).to_json().encode()
        except SigstoreError as error:
            raise Refused("internal", f"sigstore-python failed: {error}") from error
        except OSError as error:
            where = str(error.filename or self.folder)
            raise Refused("trust_root", error.strerror or str(error), where=where) from error

    @cached_property
    def _context(self) -> SigningContext:
        from attest.library import load_root
        from attest.local.instance import signing_context

        authorities = canonical.loads(self._root_bytes)
        return signing_context(
            self._keys,
            self.log,
            _first_certificate(authorities["certificateAuthorities"]),
            _first_certificate(authorities["timestampAuthorities"]),
            load_root(self.root),
        )


def is_made(folder: Path) -> bool:
    return (folder / _ROOT).exists()


def open_or_init(folder: Path) -> LocalTrust:
    """The instance in `folder`; made there if there is none yet, once, whoever else tries at the same time."""
    if not is_made(folder):
        init(folder)
    return LocalTrust(folder)


def init(folder: Path, tpm: str | None = None) -> bool:
    """Makes an instance; `tpm`: where the TPM is that keeps its CA's key. True if it was made now, False if it was
    there. A killed init leaves nothing that counts."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folder.parent / f".{folder.name}.lock"):
            _remove_drafts(folder)
            if is_made(folder):
                return False
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.draft.", dir=folder.parent))  # mode 0700
            try:
                _fill(draft, tpm)
                draft.rename(folder)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            sync_folder(folder.parent)
    except OSError as error:
        raise Refused("trust_root", error.strerror or str(error), where=str(error.filename or folder)) from error
    return True


def _fill(folder: Path, tpm: str | None) -> None:
    from attest.local.instance import CA_NAME, trusted_root

    keys: Keys = KeyFolder.create(folder / "keys")
    if tpm is not None:
        from attest.tpm_device import TpmKeys

        keys = TpmKeys.create(folder / "keys", tpm)
    log = LocalLog.create(folder / "log", keys)
    start = datetime.now(UTC).replace(microsecond=0) - _SLACK
    ca = certificates.authority(keys, "ca", "ca", (CA_NAME, CA_NAME), start)
    tsa_root_name, tsa_name = "bench local TSA root", "bench local TSA"
    tsa_root = certificates.authority(keys, "tsaroot", "tsaroot", (tsa_root_name, tsa_root_name), start)
    tsa = certificates.authority(keys, "tsa", "tsaroot", (tsa_name, tsa_root_name), start)
    for name in ("keys", "log"):
        sync_folder(folder / name)
    write_atomically(folder / _ROOT, trusted_root(keys, log.origin, start, ca, (tsa, tsa_root)), 0o644)


def _remove_drafts(folder: Path) -> None:
    """Called under the lock: a draft that lies here belongs to an init that was killed."""
    for draft in folder.parent.glob(f".{folder.name}.draft.*"):
        shutil.rmtree(draft, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()  # an empty folder that somebody made beforehand


def _first_certificate(authorities: canonical.Json) -> bytes:
    return base64.b64decode(authorities[0]["certChain"]["certificates"][0]["rawBytes"])
