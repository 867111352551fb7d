"""A client trust config: the root of a deployment, and where its services are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from attest import canonical
from attest.canonical import Json
from attest.errors import Refused
from attest.roots import MAX_ROOT_BYTES
from attest.trust.services import Role, printable

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig

CONFIG_TYPE: Final = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
MAX_CONFIG_BYTES: Final = 2 * MAX_ROOT_BYTES
RekorVersion = Literal[1, 2]


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    role: Role
    url: str
    version: int


@dataclass(frozen=True, slots=True)
class TrustConfig:
    """Read strictly and found usable; `parse` is the way to one."""

    content: bytes
    root: bytes
    """The trusted root in it, as canonical JSON."""
    services: tuple[ServiceUrl, ...]
    """Every one that is named for now, not only those that a signature would use."""

    @classmethod
    def parse(cls, content: bytes, where: str) -> TrustConfig:
        """Raises Refused (trust_root) with file and place."""
        try:
            value = canonical.loads(content, max_bytes=MAX_CONFIG_BYTES)
        except canonical.NotCanonical as error:
            raise Refused("trust_root", error.message, where=f"{where} {error.path}") from error
        if not isinstance(value, dict) or value.get("mediaType") != CONFIG_TYPE:
            raise Refused(
                "trust_root",
                "not a client trust config",
                where=where,
                mend=f"a JSON document of mediaType {CONFIG_TYPE}; a bare trusted root goes into roots.toml",
            )
        if set(value) != {"mediaType", "trustedRoot", "signingConfig"}:
            raise Refused("trust_root", "has exactly mediaType, trustedRoot, signingConfig", where=f"{where} $")
        _refuse_floating_times(value, f"{where} $")
        root = canonical.dumps(value["trustedRoot"])
        return cls(content, root, _services(client_config(content, where), where))

    @classmethod
    def of(cls, root: bytes, signing_config: bytes, where: str) -> TrustConfig:
        """Of the two files that a TUF repository has. Raises Refused (trust_root)."""
        try:
            parts: dict[str, Json] = {
                "trustedRoot": canonical.loads(root, max_bytes=MAX_ROOT_BYTES),
                "signingConfig": canonical.loads(signing_config, max_bytes=MAX_ROOT_BYTES),
            }
        except canonical.NotCanonical as error:
            raise Refused("trust_root", error.message, where=where) from error
        return cls.parse(canonical.dumps({"mediaType": CONFIG_TYPE, **parts}), where)

    def holds(self, root: bytes) -> bool:
        """Whether this root is the one in it, whatever the spaces between its words."""
        return canonical.dumps(canonical.loads(root, max_bytes=MAX_ROOT_BYTES)) == self.root

    def whole_log(self, rekor_version: RekorVersion | None = None) -> str | None:
        """The log that would keep the whole statement, for everybody who can read that log; None where it would keep
        a digest (Rekor v2)."""
        logs = [one for one in self.services if one.role == "rekor" and rekor_version in (None, one.version)]
        used = max(logs, key=lambda one: one.version, default=None)
        return used.url if used is not None and used.version == 1 else None


def client_config(content: bytes, where: str, rekor_version: RekorVersion | None = None) -> ClientTrustConfig:
    """sigstore-python's own reading, held to its rules for choosing services. Raises Refused (trust_root)."""
    from pydantic import ValidationError
    from sigstore.errors import Error as SigstoreError
    from sigstore.models import ClientTrustConfig

    try:
        config = ClientTrustConfig.from_json(content.decode())
        config.force_tlog_version = rekor_version
        _ = config.trusted_root, config.signing_config
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
        raise Refused("trust_root", printable(problem["msg"]), where=f"{where} ${path}") from error
    except (SigstoreError, ValueError) as error:
        mend = "leave --rekor-version out, or take a version that it names" if rekor_version else None
        raise Refused("trust_root", printable(str(error), 300), where=where, mend=mend) from error
    return config


def _refuse_floating_times(value: Json, where: str) -> None:
    """Of every `validFor`: a moment without its zone is none, and the library cannot compare it."""
    if isinstance(value, list):
        for at, one in enumerate(value):
            _refuse_floating_times(one, f"{where}[{at}]")
    if not isinstance(value, dict):
        return
    valid = value.get("validFor")
    for key, moment in valid.items() if isinstance(valid, dict) else ():
        with suppress(ValueError):  # no moment at all: the library says so
            if isinstance(moment, str) and datetime.fromisoformat(moment).tzinfo is None:
                place = f"{where}.validFor.{key}"
                raise Refused("trust_root", "a moment without its zone", where=place, mend=f"{moment[:40]}Z")
    for key, one in value.items():
        _refuse_floating_times(one, f"{where}.{key}")


def _services(config: ClientTrustConfig, where: str) -> tuple[ServiceUrl, ...]:
    inner = config.signing_config._inner
    named: tuple[tuple[Role, list[object]], ...] = (
        ("fulcio", list(inner.ca_urls)),
        ("oidc", list(inner.oidc_urls or ())),
        ("rekor", list(inner.rekor_tlog_urls)),
        ("tsa", list(inner.tsa_urls or ())),
    )
    found = tuple(
        ServiceUrl(role, _safe(service.url, where), service.major_api_version)  # type: ignore[attr-defined]
        for role, services in named
        for service in services
    )
    if not any(one.role == "tsa" for one in found) and not any(
        one.role == "rekor" and one.version == 1 for one in found
    ):
        raise Refused(
            "trust_root", "names no timestamp authority, and no log that gives times of its own (Rekor v1)", where=where
        )
    return found


def _safe(url: str, where: str) -> str:
    """Identity tokens and statements go there: over TLS, or not over a network at all."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise Refused("trust_root", f"not a URL: {url[:120]!r}", where=where) from error
    if parts.scheme == "https" and host:
        return url
    if parts.scheme != "http" or not (host == "localhost" or _is_loopback(host)):
        raise Refused("trust_root", f"a service that is not reached over https: {url[:120]!r}", where=where)
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
