"""A deployment's services, asked in turn by sigstore-python's own clients and `Signer`; in the child only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cryptography import x509
from rfc3161_client import TimeStampResponse
from sigstore._internal.fulcio.client import ExpiredCertificate, FulcioCertificateSigningResponse, FulcioClient
from sigstore._internal.rekor import EntryRequestBody, RekorLogSubmitter
from sigstore._internal.timestamp import TimestampAuthorityClient
from sigstore.dsse import Envelope, Statement
from sigstore.errors import Error as SigstoreError
from sigstore.models import TransparencyLogEntry
from sigstore.oidc import ExpiredIdentity, IdentityError, IdentityToken, Issuer, detect_credential
from sigstore.sign import Signer, SigningContext

from attest import signable
from attest.errors import Refused
from attest.trust.config import RekorVersion, client_config
from attest.trust.services import Role, asking, bound_memory, followed_nowhere, printable
from attest.trust.tokens import WAYS

if TYPE_CHECKING:
    from sigstore.models import SigningConfig

Tell = Callable[[Role, str], None]
_ISSUER_V1: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"
_CLOCKS: Final = "compare this host's clock with the deployment's"


class Asked:
    """A certificate that was issued, its key, and the services that make a bundle of a signature by it."""

    def __init__(
        self,
        config: bytes,
        *,
        where: str,
        rekor_version: RekorVersion | None,
        token: str | None,
        source: str,
        tell: Tell,
        hold: Callable[[str], None],
    ):
        """`hold` gets the token as soon as there is one. Raises Refused with the class of the service that failed."""
        trust = client_config(config, where, rekor_version)
        services = trust.signing_config
        identity = _identity_token(token, source, services, tell, hold)
        bound_memory()  # not before: a browser that is opened, an agent that is asked, would inherit it
        fulcio, log, clocks = services.get_fulcio(), services.get_tlogs()[0], services.get_tsas()
        for session in (fulcio.session, log._session, *(one._session for one in clocks)):  # type: ignore[attr-defined]
            followed_nowhere(session)
        self._fulcio = _Fulcio(fulcio, tell)
        context = SigningContext(
            fulcio=self._fulcio,  # type: ignore[arg-type]  # the same method, and the client behind it
            rekor=_Rekor(log, tell),
            trusted_root=trust.trusted_root,
            tsa_clients=[_Timestamps(one, self._fulcio, tell) for one in clocks],  # type: ignore[misc]
        )
        try:
            self._signer = Signer(identity, context)
        except ExpiredIdentity as error:
            raise Refused(
                "identity", "the identity token is out of its time", mend=f"a fresh one, or {_CLOCKS}"
            ) from error
        except (SigstoreError, ValueError) as error:
            # The client got a certificate, and its proof that a log of certificates has it does not hold.
            why = printable(str(error))
            raise Refused(
                "certificate", f"the certificate that it gave does not hold: {why}", where=self._fulcio.url
            ) from error

    @property
    def signer(self) -> dict[str, str]:
        certificate = self._fulcio.certificate
        identity, issuer = _named_in(certificate, self._fulcio.url)
        return {"identity": identity, "issuer": issuer, "until": certificate.not_valid_after_utc.isoformat()}

    def sign(self, statement: bytes) -> bytes:
        """The bundle, JSON. Only statements are ever signed (row V23)."""
        signable.refuse_unsignable(statement)
        try:
            return self._signer.sign_dsse(Statement(statement)).to_json().encode()
        except ExpiredCertificate as error:
            raise Refused(
                "certificate", "the certificate has run out already", where=self._fulcio.url, mend=_CLOCKS
            ) from error
        except (SigstoreError, ValueError) as error:
            raise Refused("internal", f"sigstore-python failed: {printable(str(error))}") from error


def _identity_token(
    token: str | None, source: str, services: SigningConfig, tell: Tell, hold: Callable[[str], None]
) -> IdentityToken:
    if token is None and source == "interactive":
        given = _interactive(services, tell)
        hold(str(given))
        return given
    if token is None:
        tell("oidc", "the surroundings")
        try:
            token = detect_credential()
        except IdentityError as error:
            raise Refused("identity", printable(str(error), 300), mend=WAYS) from error
        if token is None:
            raise Refused("identity", "no identity token: nothing here gives one by itself", mend=WAYS)
    hold(token)
    try:
        return IdentityToken(token)
    except IdentityError as error:
        why = printable(str(error.__cause__ or error))
        raise Refused(
            "identity", f"no identity token that can be used: {why}", mend=f"a fresh one; {_CLOCKS}"
        ) from error


def _interactive(services: SigningConfig, tell: Tell) -> IdentityToken:
    """Authorisation code with PKCE, by sigstore-python. It takes the token endpoint's `access_token` for the identity,
    as Sigstore's own provider means it; another provider must put a JWT there."""
    try:
        url = services.get_oidc_url()
    except SigstoreError as error:
        raise Refused("identity", "the trust config names no identity provider", mend=WAYS) from error
    with asking("oidc", url, tell):
        issuer = Issuer(url)
        tell("person", url)
        return issuer.identity_token()


def _named_in(certificate: x509.Certificate, url: str) -> tuple[str, str]:
    """Name and issuer, as they will be verified. Raises Refused (certificate) for names of another kind."""
    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        issuer = certificate.extensions.get_extension_for_oid(_ISSUER_V1).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise Refused("certificate", "the certificate that it gave has no name or no issuer", where=url) from error
    if len(names) != 1 or not isinstance(names[0], (x509.RFC822Name, x509.UniformResourceIdentifier)):
        raise Refused("certificate", "the certificate that it gave names not one address or URL", where=url)
    if not isinstance(issuer, x509.UnrecognizedExtension):
        raise Refused("certificate", "the certificate that it gave has no issuer", where=url)
    return names[0].value, issuer.value.decode("utf-8", "replace")


class _Fulcio:
    def __init__(self, client: FulcioClient, tell: Tell):
        self._client = client
        self._tell = tell
        self.url = client.url
        self.certificate: x509.Certificate

    @property
    def signing_cert(self) -> _Fulcio:
        return self

    def post(self, req: x509.CertificateSigningRequest, identity: IdentityToken) -> FulcioCertificateSigningResponse:
        with asking("fulcio", self.url, self._tell):
            answer = self._client.signing_cert.post(req, identity)
        self.certificate = answer.cert
        return answer


class _Timestamps:
    """sigstore-python goes on without a timestamp where its authority fails; we do not."""

    def __init__(self, client: TimestampAuthorityClient, fulcio: _Fulcio, tell: Tell):
        self._client = client
        self._fulcio = fulcio
        self._tell = tell
        self.url = client.url

    def request_timestamp(self, signature: bytes) -> TimeStampResponse:
        with asking("tsa", self.url, self._tell):
            response = self._client.request_timestamp(signature)
            at = response.tst_info.gen_time
        self._refuse_wrong_clock(at)
        return response

    def _refuse_wrong_clock(self, at: datetime) -> None:
        """Before anything is logged: nobody would ever take this time for one of the certificate's."""
        certificate = self._fulcio.certificate
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not first <= at <= last:
            raise Refused(
                "time",
                f"the timestamp authority's clock is wrong: it says {at:{_MOMENT}}, the certificate holds from "
                f"{first:{_MOMENT}} to {last:{_MOMENT}}",
                where=self.url,
                mend="whoever runs it has to set it right",
            )


class _Rekor(RekorLogSubmitter):
    def __init__(self, client: Any, tell: Tell):
        self._client = client
        self._tell = tell
        self.url: str = client.url

    def create_entry(self, request: EntryRequestBody) -> TransparencyLogEntry:
        with asking("rekor", self.url, self._tell):
            entry: TransparencyLogEntry = self._client.create_entry(request)
            return entry

    def _build_dsse_request(self, envelope: Envelope, certificate: x509.Certificate) -> EntryRequestBody:  # type: ignore[override]
        request: EntryRequestBody = self._client._build_dsse_request(envelope=envelope, certificate=certificate)
        return request

    @classmethod
    def _build_hashed_rekord_request(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        # A blob that begins with "DSSEv1 " would be a statement to a Rekor v2 log (row V23), so no blob is ever signed.
        raise Refused("usage", "this identity signs in-toto statements only, never a blob")
