"""An own corpus of hostile bundles and records: built when it is asked for, of genuine instances, never stored.

Each case's name says its defect; each states the class that we refuse it for. What sigstore-python alone says of the
same bytes is measured, not written down. `python -m tests.attest_corpus` writes the table of docs/hostile-corpus.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy
from sigstore_models.trustroot.v1 import TrustedRoot as TrustedRootModel

from attest import verify
from attest.checks import Check
from attest.errors import Refused
from attest.roots import PinnedRoot
from attest.trust.local import ISSUER
from tests.attest_forge import RECORD

if TYPE_CHECKING:
    from tests.attest_corpus.workshop import Workshop

UNSPOILT = ""
"""Instead of a class: nothing is wrong with it, and it is believed."""
NOT_ASKED = "not asked"
"""Where there is no bundle that sigstore-python could say something of."""


class Exhibit(Protocol):
    """Something hostile, ready to be judged."""

    def judge(self) -> object:
        """Ours: returns where it is believed. Raises Refused."""
        ...

    def alone(self) -> str:
        """What sigstore-python says without us: `refuses`, `accepts`, or how it breaks."""
        ...


@dataclass(frozen=True)
class Attested:
    """A record and its bundle, and what a verifier holds them to."""

    record: bytes
    bundle: bytes
    root: bytes
    identity: str
    issuer: str = ISSUER
    pin: str | None = None
    """Digest that the verifier pinned; None: that of `root`."""
    checks: Sequence[Check] = field(default=(), repr=False)

    def judge(self) -> object:
        pinned = PinnedRoot("corpus", self.root, self.pin or hashlib.sha256(self.root).hexdigest(), "local")
        return verify(self.record, self.bundle, pinned, self.identity, self.issuer, self.checks)

    def alone(self) -> str:
        return sigstore_alone(self.bundle, self.root, self.identity, self.issuer)

    def but(self, **changes: object) -> Attested:
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Paper:
    """What no bundle is part of, or where the bundle is not what is wrong: `read` judges it."""

    read: Callable[[], object]
    bundle: bytes | None = None
    root: bytes = b""
    identity: str = ""

    def judge(self) -> object:
        return self.read()

    def alone(self) -> str:
        return NOT_ASKED if self.bundle is None else sigstore_alone(self.bundle, self.root, self.identity, ISSUER)


@dataclass(frozen=True)
class Case:
    name: str
    """Says the defect; unique."""
    defect: str
    """The same in words."""
    reason: str
    """Class that we refuse it for."""
    rows: str
    """Of the acceptance page, or the published bug that it mirrors."""
    make: Callable[[Workshop], Exhibit]
    where: str | None = None
    """Where the refusal points; None: anywhere."""
    signed_again: bool = False
    """The genuine key signed these very bytes: all checks of signature and statement pass (1 to 18)."""


def sigstore_alone(bundle: bytes, root: bytes, identity: str, issuer: str) -> str:
    """`Verifier.verify_dsse`, as its documentation shows it, and nothing of ours."""
    held_to: policy.VerificationPolicy = policy.UnsafeNoOp()
    if identity:
        held_to = policy.Identity(identity=identity, issuer=issuer or None)
    elif issuer:
        held_to = policy.OIDCIssuer(issuer)
    try:
        trusted = TrustedRoot(TrustedRootModel.from_json(root))
        Verifier(trusted_root=trusted).verify_dsse(Bundle.from_json(bundle), held_to)
    except SigstoreError:
        return "refuses"
    except Exception as error:  # noqa: BLE001  that is the finding
        return f"breaks: {type(error).__name__}"
    return "accepts"


def refusal(exhibit: Exhibit) -> Refused | None:
    try:
        exhibit.judge()
    except Refused as refused:
        return refused
    return None


def slug(words: str) -> str:
    """`a key twice, deep inside` as a name."""
    kept = "".join(letter if letter.isalnum() else " " for letter in words.lower())
    return "-".join(kept.split())


__all__ = ["NOT_ASKED", "RECORD", "Attested", "Case", "Exhibit", "Paper", "refusal", "sigstore_alone", "slug"]
