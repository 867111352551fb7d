"""One encoding for a timestamp: what RFC 3161 leaves outside the signature may not be changed unseen.

A verifier needs of a TimeStampResp only the signed part; version numbers, algorithm names, further certificates and
unsigned attributes around it could be edited in a bundle that still verifies (row V24).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from asn1crypto import tsp, x509  # type: ignore[import-untyped]

from attest.errors import Refused

_KEY_KINDS: Final = {"ec": "ecdsa", "rsa": "rsassa_pkcs1v15"}


def check(content: bytes, chain: Collection[bytes]) -> None:
    """`content` is a TimeStampResp that the library took, so it is DER; `chain` the certificates of the pinned
    authorities, DER. Raises Refused (time).
    """
    try:
        problem = next(_problems(tsp.TimeStampResp.load(content, strict=True), chain), None)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        # asn1crypto reads fields when they are asked for, and has no error class of its own.
        raise Refused("time", f"not a timestamp response: {' '.join(str(error).split())[:120]}") from error
    if problem:
        raise Refused("time", f"a timestamp with {problem}")


def _problems(response: Any, chain: Collection[bytes]) -> Iterator[str]:
    status, token = response["status"], response["time_stamp_token"]
    signed = token["content"]
    signers, certificates = signed["signer_infos"], signed["certificates"]
    if status["status"].native != "granted" or status["status_string"].native or status["fail_info"].native:
        yield "remarks beside its status"
    if token["content_type"].native != "signed_data" or signed["version"].native != "v3" or len(signers) != 1:
        yield "another envelope than RFC 3161 asks for"
    signer = signers[0]
    if [algorithm.dump() for algorithm in signed["digest_algorithms"]] != [signer["digest_algorithm"].dump()]:
        yield "digest algorithms that its signer did not use"
    if signer["sid"].name != "issuer_and_serial_number" or signer["version"].native != "v1":
        yield "a signer named in another way than RFC 3161 asks for"
    # Names are compared by what they say, not by their bytes: the kind of a string in one can be changed (row V24).
    if _name_of(signer["sid"].chosen) not in {_name_of(_tbs(certificate)) for certificate in chain}:
        yield "a signer named in other bytes than its certificate"
    if signer["unsigned_attrs"].native or signed["crls"].native:
        yield "unsigned attributes"
    if any(certificate.chosen.dump() not in chain for certificate in certificates):
        yield "a certificate that is not pinned"
    if not _names_its_algorithm(signer, certificates):
        yield "a signature algorithm that its signer did not use"


def _tbs(certificate: bytes) -> Any:
    return x509.Certificate.load(certificate)["tbs_certificate"]


def _name_of(part: Any) -> tuple[bytes, int]:
    """Issuer as encoded, and serial number."""
    return part["issuer"].dump(), part["serial_number"].native


def _names_its_algorithm(signer: Any, certificates: Any) -> bool:
    """The signature's algorithm must be the one that was used: the key's kind, over the signer's digest."""
    named = signer["signature_algorithm"]
    serial = signer["sid"].chosen["serial_number"].native
    for certificate in certificates:
        if certificate.chosen.serial_number != serial:
            continue
        kind = _KEY_KINDS.get(certificate.chosen.public_key.algorithm)
        plain_rsa = kind == "rsassa_pkcs1v15" and named["algorithm"].native == "rsassa_pkcs1v15"
        digest = signer["digest_algorithm"]["algorithm"].native
        if named.signature_algo != kind or not (plain_rsa or named.hash_algo == digest):
            return False
    return True
