"""A challenge, signed and remembered by the store that issues it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.audit.trust import refusals_translated
from appliance.submissions.challenge import Challenge
from appliance.submissions.store import Store
from attest import statement

if TYPE_CHECKING:
    from attest.trust import TrustMode


def issue(store: Store, challenge: Challenge, signer: TrustMode) -> bytes:
    """The bundle over the document's bytes; both are in the store when it returns. Called within `store.alone`."""
    from attest.signing import sign_statement

    content = challenge.canonical()
    kind = statement.CHALLENGE_TYPE
    with refusals_translated():
        about = statement.build(f"{challenge.sha256}.json", content, challenge.json_value(), kind)
        bundle = sign_statement(signer, about, kind)
    store.keep_challenge(content, bundle)
    return bundle
