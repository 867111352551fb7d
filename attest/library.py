"""The sigstore adapter: the one place that calls sigstore-python's verifier, and translates its errors, once.

The library's verdict comes first and is taken as it is. Only a refusal is looked into again, to name the class of its
reason: what that finds can change the class, never the verdict.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from sigstore._internal.timestamp import TimestampSource, TimestampVerificationResult
from sigstore._internal.trust import KeyringPurpose
from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy
from sigstore_models.common.v1 import TimeRange
from sigstore_models.trustroot.v1 import TransparencyLogInstance
from sigstore_models.trustroot.v1 import TrustedRoot as TrustedRootModel

from attest import canonical, timestamp_form
from attest.bundle import LogEntry, ParsedBundle
from attest.errors import Refused
from attest.roots import MAX_ROOT_BYTES, PinnedRoot

_ISSUER_V2: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")

# What sigstore-python and the parsers under it raise for input that does not hold; anything else is a bug of theirs.
_FOREIGN: Final = (
    SigstoreError,
    ValueError,
    InvalidSignature,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
    CryptographyDeprecationWarning,
)


@dataclass(frozen=True, slots=True)
class Signed:
    """What sigstore-python vouches for."""

    payload_type: str
    payload: bytes
    signed_at: datetime
    """The latest of the trusted times; all of them lie within the certificate's ten minutes."""
    certificate: x509.Certificate


@lru_cache(maxsize=4)
def load_root(root: PinnedRoot) -> TrustedRoot:
    """Raises Refused (trust_root)."""
    with _translated("trust_root", root.name):
        canonical.loads(root.content, max_bytes=MAX_ROOT_BYTES)
        trusted = TrustedRoot(TrustedRootModel.from_json(root.content))
        trusted.get_fulcio_certs()
        trusted.ct_keyring(KeyringPurpose.VERIFY)
        trusted.rekor_keyring(KeyringPurpose.VERIFY)
        trusted.get_timestamp_authorities()
        return trusted


class _Clocked(Verifier):
    """The library's verifier, which keeps the times that its own verification of a bundle came to: what they are is
    asked of every record, and they are half of what it takes."""

    def __init__(self, root: TrustedRoot):
        super().__init__(trusted_root=root)
        self._times: dict[int, list[TimestampVerificationResult]] = {}

    def _establish_time(self, bundle: Bundle) -> list[TimestampVerificationResult]:
        found = super()._establish_time(bundle)
        self._times[id(bundle)] = found
        return found

    def verify_dsse_at(
        self, bundle: Bundle, signer: policy.VerificationPolicy
    ) -> tuple[str, bytes, list[TimestampVerificationResult]]:
        """`verify_dsse`, and the trusted times that it stood on."""
        self._times.pop(id(bundle), None)
        try:
            payload_type, payload = self.verify_dsse(bundle, signer)
            return payload_type, payload, self._times.get(id(bundle)) or super()._establish_time(bundle)
        finally:
            self._times.pop(id(bundle), None)


@lru_cache(maxsize=4)
def _verifier(root: PinnedRoot) -> _Clocked:
    return _Clocked(load_root(root))


class _ExactSigner:
    """The policy handed to sigstore-python: exactly this name and issuer, and no second name in the certificate."""

    def __init__(self, identity: str, issuer: str):
        self._exact = policy.Identity(identity=identity, issuer=issuer)
        self._identity = identity
        self._issuer = issuer
        self.asked = False

    def verify(self, cert: x509.Certificate) -> None:
        self.asked = True
        try:
            self._exact.verify(cert)
            self._check_newer_issuer(cert)
            names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except _FOREIGN as error:
            raise Refused("identity", _line(error)) from error
        if len(list(names)) != 1:
            raise Refused("identity", f"the certificate has other names beside {self._identity}")

    def _check_newer_issuer(self, cert: x509.Certificate) -> None:
        """The library reads the older of two fields that name the issuer; other verifiers read the newer one."""
        with suppress(x509.ExtensionNotFound):
            cert.extensions.get_extension_for_oid(_ISSUER_V2)
            policy.OIDCIssuerV2(self._issuer).verify(cert)


def load_bundle(parsed: ParsedBundle) -> Bundle:
    """The library's own reading of the same bytes. Raises Refused (bundle)."""
    with _translated("bundle"):
        return Bundle.from_json(parsed.content)


def claimed_names(parsed: ParsedBundle) -> tuple[str, ...]:
    """What its certificate says that it is for. Not verified: it may choose among pins, and vouches for nothing.

    Raises Refused (bundle).
    """
    with _translated("bundle", "bundle certificate"):
        extensions = x509.load_der_x509_certificate(parsed.certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return tuple(name.value for name in names if isinstance(name.value, str))


def verify_dsse(root: PinnedRoot, bundle: Bundle, identity: str, issuer: str) -> Signed:
    """sigstore-python's `verify_dsse`, unmodified. Raises Refused with the class of the first step that failed."""
    with _translated("certificate"):
        return _verified(_verifier(root), root, bundle, _ExactSigner(identity, issuer))


@contextmanager
def _translated(reason: str, where: str | None = None) -> Iterator[None]:
    """Foreign errors that name input become a refusal for `reason`, all others one for `internal`."""
    try:
        with warnings.catch_warnings():
            # What cryptography only warns of (a serial number below 1) it will refuse one day; a stranger's file may
            # not print to our screen either way.
            warnings.simplefilter("error", CryptographyDeprecationWarning)
            yield
    except Refused:
        raise
    except _FOREIGN as error:
        raise Refused(reason, _line(error), where=where) from error
    except Exception as error:
        raise Refused("internal", f"sigstore-python failed: {type(error).__name__}: {_line(error)}") from error


def _verified(verifier: _Clocked, root: PinnedRoot, bundle: Bundle, signer: _ExactSigner) -> Signed:
    try:
        payload_type, payload, established = verifier.verify_dsse_at(bundle, signer)
    except _FOREIGN as error:
        if signer.asked:
            raise Refused(_reason_after_identity(root, bundle), _line(error)) from error
        raise _refused_before_identity(verifier, root, bundle, _line(error)) from error
    given = bundle.verification_material.timestamp_verification_data
    stamped = [found for found in established if found.source is TimestampSource.TIMESTAMP_AUTHORITY]
    if given and len(stamped) != len(given.rfc3161_timestamps):
        # The library passes over one that does not hold as long as another clock, or a log's promise, does.
        raise Refused("time", "a timestamp that no pinned authority made of this signature")
    times = [found.time for found in established]
    return Signed(payload_type, payload, max(times), bundle.signing_certificate)


def check_key_windows(root: PinnedRoot, parsed: ParsedBundle, signed: Signed) -> None:
    """The library lets CA, CT and log keys sign outside their `validFor`; a key that was retired must not (row V15)."""
    model = load_root(root)._inner
    with _translated("certificate"):
        authorities = [
            authority.valid_for
            for authority in model.certificate_authorities
            if _issued_by(signed.certificate, authority.cert_chain.certificates[0].raw_bytes)
        ]
        _check_window("certificate", "certificate authority", authorities, signed.signed_at)
        stamps = signed.certificate.extensions.get_extension_for_class(x509.PrecertificateSignedCertificateTimestamps)
        for sct in stamps.value:
            windows = [log.public_key.valid_for for log in model.ctlogs if sct.log_id in _ids_of(log)]
            at = sct.timestamp.replace(tzinfo=UTC)  # naive in cryptography
            _check_window("certificate", "certificate log", windows, at)
    logs = [log.public_key.valid_for for log in model.tlogs if parsed.entry.key_id in _ids_of(log)]
    _check_window("log_proof", "log", logs, signed.signed_at)


def check_log_reference(root: PinnedRoot, entry: LogEntry) -> None:
    """What the library leaves unread: the entry's index, the log's id, the checkpoint's origin, size and signer."""
    logs = [log for log in load_root(root)._inner.tlogs if entry.key_id in _ids_of(log)]
    if not logs:
        raise Refused("log_proof", f"no pinned log has the id {entry.key_id.hex()}")
    host = urlsplit(logs[0].base_url).netloc
    checkpoint = entry.checkpoint
    if entry.version == "0.0.2":
        if entry.index != entry.proof_index:
            raise Refused("log_proof", f"logIndex is {entry.index}, its proof is for {entry.proof_index}")
        if checkpoint.origin != host:
            raise Refused("log_proof", f"the checkpoint is of {checkpoint.origin!r}, the pinned log is {host!r}")
    # Rekor v1 names a tree of the log, and counts its entries over all trees.
    elif checkpoint.origin.rpartition(" - ")[0] != host or not checkpoint.origin.rpartition(" - ")[2].isdecimal():
        raise Refused("log_proof", f"the checkpoint is of {checkpoint.origin!r}, the pinned log is {host!r}")
    if checkpoint.size != entry.tree_size or checkpoint.root != entry.root:
        raise Refused("log_proof", "checkpoint and proof are of different trees")
    own = [hint for name, hint, _ in checkpoint.signatures if name == host]
    if own != [entry.key_id[:4]]:
        raise Refused("log_proof", f"the checkpoint is not signed once by {host!r}")


def check_timestamp_form(root: PinnedRoot, parsed: ParsedBundle) -> None:
    """One encoding for each timestamp, and no certificate in it beside the pinned ones (row V24)."""
    chain = {
        certificate.raw_bytes
        for authority in load_root(root)._inner.timestamp_authorities
        for certificate in authority.cert_chain.certificates
    }
    for content in parsed.timestamps:
        timestamp_form.check(content, chain)


def _refused_before_identity(verifier: Verifier, root: PinnedRoot, bundle: Bundle, words: str) -> Refused:
    """Time or certificate. What none of the root's certificate authorities issued was signed under another root, or
    under none: most often nobody changed anything, and the wrong root was named."""
    try:
        reason = "certificate" if verifier._establish_time(bundle) else "time"
    except _FOREIGN:
        reason = "time"
    authorities = load_root(root)._inner.certificate_authorities
    chains = (certificate.raw_bytes for one in authorities for certificate in one.cert_chain.certificates)
    if any(_issued_by(bundle.signing_certificate, authority) for authority in chains):
        return Refused(reason, words)
    no_time = ", and no timestamp authority of it signed its time" if reason == "time" else ""
    return Refused(
        reason,
        f"no certificate authority of the root {root.name} issued its certificate{no_time} ({words})",
        mend="signed under another root? --trust NAME, of that one",
    )


def _reason_after_identity(root: PinnedRoot, bundle: Bundle) -> str:
    try:
        bundle.log_entry._verify(load_root(root).rekor_keyring(KeyringPurpose.VERIFY))
    except _FOREIGN:
        return "log_proof"
    key, envelope = bundle.signing_certificate.public_key(), bundle._dsse_envelope
    if envelope is None or not isinstance(key, ec.EllipticCurvePublicKey):
        return "signature"
    try:
        key.verify(envelope.signature, envelope.pae(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return "signature"
    return "log_entry"


def _check_window(reason: str, what: str, windows: Iterable[TimeRange | None], at: datetime) -> None:
    found = list(windows)
    if not found:
        raise Refused(reason, f"no pinned {what} has the key that signed")
    if not any(w is None or (w.start <= at and (w.end is None or at <= w.end)) for w in found):
        raise Refused(reason, f"the {what}'s key was not valid at {at:%Y-%m-%dT%H:%M:%SZ}")


def _issued_by(certificate: x509.Certificate, authority: bytes) -> bool:
    try:
        certificate.verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except (*_FOREIGN, TypeError):
        return False
    return True


def _ids_of(log: TransparencyLogInstance) -> tuple[bytes, ...]:
    return tuple(found.key_id for found in (log.log_id, log.checkpoint_key_id) if found)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
