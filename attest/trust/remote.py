"""A deployment of Sigstore's services as a trust mode: an organisation's own, or the public-good instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from attest.errors import Refused
from attest.roots import Assurance, PinnedRoot
from attest.signable import refuse_unsignable
from attest.trust.config import RekorVersion, TrustConfig, client_config
from attest.trust.session import SIGN_SECONDS, Issued, Session
from attest.trust.tokens import TokenSource

if TYPE_CHECKING:
    from attest.predicate import LogReference

_SPARE: Final = timedelta(minutes=1)
"""A certificate that runs out sooner is not begun with."""


class RemoteTrust:
    """Its name is the one in the certificate that its services issue; asking for it is what gets the certificate.

    One certificate signs for as long as it holds; a later signature gets another one, and needs a token for it.
    """

    def __init__(
        self,
        root: PinnedRoot,
        config: TrustConfig,
        token: TokenSource,
        *,
        where: str,
        seconds: float = SIGN_SECONDS,
        rekor_version: RekorVersion | None = None,
    ):
        """`where`: the config's file. Raises Refused (trust_root) where the config is not that of the root."""
        if not config.holds(root.content):
            raise Refused(
                "trust_root",
                f"holds another root than the pinned one, {root.sha256}",
                where=where,
                mend="the config and the root must come from one deployment",
            )
        self.root = root
        self.config = config
        self._token = token
        self._where = where
        self._seconds = seconds
        self._rekor_version = rekor_version
        self._session: Session | None = None
        self._signed = False

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def assurance(self) -> Assurance:
        return self.root.assurance

    @property
    def identity(self) -> str:
        return self._issued().identity

    @property
    def issuer(self) -> str:
        return self._issued().issuer

    @property
    def whole_log(self) -> str | None:
        """The log that keeps every statement whole, for its readers to read; None where it keeps digests only."""
        return self.config.whole_log(self._rekor_version)

    def last_checkpoint(self) -> LogReference | None:
        """None: the log is not the signer's own."""
        return None

    def refuse_unready(self) -> None:
        """Raises Refused where `sign` could not, as far as that can be told without asking anybody."""
        from attest.library import load_root

        load_root(self.root)
        client_config(self.config.content, self._where, self._rekor_version)
        self._token.refuse_unready()

    def sign(self, statement: bytes) -> bytes:
        """Raises Refused with the class of the service that failed; within the bound, whatever the service does."""
        refuse_unsignable(statement)
        # Never one that has not signed yet: its name may stand in this statement, and where clocks differ the next one
        # would be as old.
        if self._session is not None and self._signed and self._session.issued.until - datetime.now(UTC) < _SPARE:
            self._session.close()
            self._session = None
        bundle = self._opened().sign(statement)
        self._signed = True
        return bundle

    def _issued(self) -> Issued:
        return self._opened().issued

    def _opened(self) -> Session:
        if self._session is None:
            self._signed = False
            self._session = Session(self.config, self._where, self._token, self._seconds, self._rekor_version)
        return self._session
