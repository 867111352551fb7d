"""One bit flipped anywhere in a record or its bundle (row V24)."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from appliance.audit.checks import record_checks
from appliance.audit.trust import agreement_check, claims_of
from attest import Refused, verify
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests.attest_forge import RECORD, Forge, edited, entry, stamps
from tests.record_builder import record

EXCEPTIONS: Final[frozenset[int]] = frozenset()
"""Places in a bundle where a flipped bit goes unseen: none is known (docs/threat-model.md, What stays malleable)."""


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("flips") / "local")


@pytest.fixture(scope="module")
def signed(trust: LocalTrust) -> tuple[bytes, bytes]:
    """A real record of one trial, and its bundle, in a log that has other entries."""
    one_trial = record()
    content = one_trial.canonical()
    for _ in range(3):
        bundle = sign_record(trust, content, claims_of(one_trial))
    return content, bundle


def reason(trust: LocalTrust, content: bytes, bundle: bytes) -> str | None:
    checks = [*record_checks(None, allow_missing=True), agreement_check()]
    try:
        verify(content, bundle, trust.root, trust.identity, ISSUER, checks)
    except Refused as refused:
        return refused.reason
    return None


def flips(content: bytes, bits: range) -> Iterator[tuple[int, bytes]]:
    """`bits` are counted on from the byte's own place, so that one bit a byte is not always the same one."""
    for place, byte in enumerate(content):
        for bit in bits:
            yield place, content[:place] + bytes([byte ^ 1 << (bit + place) % 8]) + content[place + 1 :]


def test_the_unchanged_record_holds(trust: LocalTrust, signed: tuple[bytes, bytes]) -> None:
    """The premise of what follows: every check of ours passes on what was signed."""
    assert reason(trust, *signed) is None


@pytest.mark.slow
def test_a_bit_flipped_in_any_byte_of_the_record_is_refused_as_another_subject(
    trust: LocalTrust, signed: tuple[bytes, bytes]
) -> None:
    """The digest speaks before anything is parsed (V3, V24)."""
    content, bundle = signed
    found = Counter(reason(trust, changed, bundle) for _, changed in flips(content, range(1)))
    assert found == {"subject": len(content)}


def test_a_bit_flipped_in_any_byte_of_the_bundle_is_refused_for_a_named_reason(
    trust: LocalTrust, signed: tuple[bytes, bytes]
) -> None:
    """Never accepted outside the listed places, and never an error of ours (V24)."""
    content, bundle = signed
    found = [(place, reason(trust, content, changed)) for place, changed in flips(bundle, range(1))]
    assert {place for place, why in found if why is None} <= EXCEPTIONS
    assert {why for _, why in found} <= {
        "bundle", "certificate", "time", "log_proof", "log_entry", "signature", "identity", "payload_type", None,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("stamped", [False, True], ids=["promise alone", "promise and timestamp"])
def test_a_bit_flipped_in_any_byte_of_a_bundle_of_rekor_v1_is_refused_for_a_named_reason(
    stamped: bool, tmp_path: Path
) -> None:
    """The other form of entries: index, time and promise are signed, and never unread (V9, V24)."""
    forge = Forge(tmp_path / "local")
    for _ in range(4):
        bundle = forge.bundle(context=forge.context_of_v1(stamped=stamped))
    held_to = (forge.trust.root, forge.identity, ISSUER)
    verify(RECORD, bundle, *held_to)
    unseen, classes = [], set()
    for place, changed in flips(bundle, range(1)):
        try:
            verify(RECORD, changed, *held_to)
        except Refused as refused:
            classes.add(refused.reason)
        else:
            unseen.append(place)
    assert unseen == []
    assert "internal" not in classes


@pytest.mark.fuzz
def test_every_bit_of_the_bundle_flipped_is_refused(trust: LocalTrust, signed: tuple[bytes, bytes]) -> None:
    """As above, all eight bits of every byte (V24)."""
    content, bundle = signed
    found = [(place, reason(trust, content, changed)) for place, changed in flips(bundle, range(8))]
    assert {place for place, why in found if why is None} <= EXCEPTIONS
    assert "internal" not in {why for _, why in found}


def test_the_kind_of_a_string_in_a_timestamps_names_cannot_be_changed_unseen(tmp_path: Path) -> None:
    """Its signer is named in the bytes of its certificate: UTF8String is not TeletexString of the same text (V24)."""
    forge = Forge(tmp_path / "local")
    bundle = forge.bundle()
    held_to = (forge.trust.root, forge.identity, ISSUER)
    verify(RECORD, bundle, *held_to)
    stamp = base64.b64decode(stamps(json.loads(bundle))[0]["signedTimestamp"])
    name = b"\x0c\x14bench local TSA root"
    places = [at for at in range(len(stamp)) if stamp.startswith(name, at)]
    assert places
    for at in places:
        changed = base64.b64encode(stamp[:at] + b"\x14" + stamp[at + 1 :]).decode()
        with pytest.raises(Refused) as refused:
            verify(RECORD, edited(bundle, lambda b, c=changed: stamps(b)[0].update(signedTimestamp=c)), *held_to)
        assert refused.value.reason == "time"


def test_the_second_form_of_a_signature_is_what_stays_malleable(trust: LocalTrust, signed: tuple[bytes, bytes]) -> None:
    """(r, n - s) is as good an ECDSA signature as (r, s): another bundle that says the same of the same record.

    Known and listed; an index that keeps the bundle's sha256 closes it (V24).
    """
    content, bundle = signed
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

    def negate(parsed: dict[str, object]) -> None:
        checkpoint = entry(parsed)["inclusionProof"]["checkpoint"]
        before, _, signature = checkpoint["envelope"].rstrip("\n").rpartition(" ")
        raw = base64.b64decode(signature)
        r, s = decode_dss_signature(raw[4:])
        other = raw[:4] + encode_dss_signature(r, order - s)
        checkpoint["envelope"] = f"{before} {base64.b64encode(other).decode()}\n"

    twin = edited(bundle, negate)
    reports = [verify(content, each, trust.root, trust.identity, ISSUER) for each in (bundle, twin)]
    assert reports[0].record_sha256 == reports[1].record_sha256
    assert reports[0].bundle_sha256 != reports[1].bundle_sha256
