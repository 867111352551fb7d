"""The deployment's own timestamp authority with its clock wrong: a genuine answer, its time moved, signed again."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from asn1crypto import cms, core, tsp  # type: ignore[import-untyped]
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.services_bench import DIRECTLY


def moved(address: str, key_path: Path, by: timedelta) -> Callable[[bytes], tuple[int, str, bytes]]:
    """What answers requests as the authority at `address` does, `by` later; its key lies at `key_path`."""
    key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)

    def respond(request: bytes) -> tuple[int, str, bytes]:
        asked = urllib.request.Request(address, request, {"content-type": "application/timestamp-query"})  # noqa: S310
        with DIRECTLY.open(asked) as answer:
            status, content = answer.status, answer.read()
        return status, "application/timestamp-reply", _signed_again(content, key, by)

    return respond


def _signed_again(content: bytes, key: ec.EllipticCurvePrivateKey, by: timedelta) -> bytes:
    response = tsp.TimeStampResp.load(content)
    signed = response["time_stamp_token"]["content"]
    token = signed["encap_content_info"]["content"].parsed
    at = token["gen_time"].native + by
    token["gen_time"] = at
    stated = token.dump(force=True)
    signed["encap_content_info"]["content"] = core.ParsableOctetString(stated)
    signer = signed["signer_infos"][0]
    for attribute in signer["signed_attrs"]:
        if attribute["type"].native == "message_digest":
            attribute["values"] = [hashlib.sha256(stated).digest()]
        if attribute["type"].native == "signing_time":
            attribute["values"] = [cms.Time({"utc_time": at})]
    attributes = signer["signed_attrs"].untag().dump(force=True)
    signer["signature"] = key.sign(attributes, ec.ECDSA(hashes.SHA256()))
    return bytes(response.dump(force=True))
