"""Trust configs, checkpoints and proofs as a stranger may have damaged them: a refusal, never another error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest import Refused
from attest.checkpoints import check_consistency, check_note, prove, read_note
from attest.signing import sign_record
from attest.trust.config import TrustConfig
from attest.trust.local import LocalTrust, open_or_init
from tests.attest_forge import RECORD, claims
from tests.sigstore_twin import running

JUNK = st.sampled_from([None, True, 0, -1, 1.5, "", "é", "\u0000", [], {}, [1], "https://[::1", "http://a", "9" * 400])
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Whole:
    """Undamaged documents, of a log that grew from three entries to five."""

    def __init__(self, folder: Path):
        self.local: LocalTrust = open_or_init(folder / "local")
        for _ in range(3):
            sign_record(self.local, RECORD, claims())
        self.note = self.local.log.head().checkpoint.encode()
        for _ in range(2):
            sign_record(self.local, RECORD, claims())
        self.proof = prove(self.local.log, self.note, self.local.root, "note").content()
        with running(folder / "twin") as twin:
            self.config = twin.trust_config()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("whole"))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, (*path, key))


def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """One part replaced, left out, or one bit of the text turned over."""
    if draw(st.booleans()):
        at = draw(st.integers(0, len(content) * 8 - 1))
        return content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :]
    value = json.loads(content)
    *above, last = draw(st.sampled_from(list(_places(value))))
    place = value
    for key in above:
        place = place[key]
    if draw(st.booleans()):
        del place[last]
    else:
        place[last] = draw(JUNK)
    return json.dumps(value).encode()


@quick
@given(data=st.data())
def test_a_damaged_config_is_refused_or_means_what_it_says(whole: Whole, data: st.DataObject) -> None:
    """What is taken has a root and services over https or on this machine (V14)."""
    content = data.draw(st.composite(damaged)(whole.config))
    try:
        config = TrustConfig.parse(content, "lab.json")
    except Refused as refused:
        assert refused.reason == "trust_root"
        return
    assert config.holds(json.dumps(json.loads(content)["trustedRoot"]).encode())
    for service in config.services:
        place = urlsplit(service.url)
        assert place.scheme == "https" or ip_address(place.hostname or "").is_loopback


@quick
@given(data=st.data())
def test_a_damaged_proof_is_refused(whole: Whole, data: st.DataObject) -> None:
    """No part of it can be changed and still show what it showed, but for spaces between its words (V8)."""
    content = data.draw(st.composite(damaged)(whole.proof))
    if content == whole.proof:
        return
    try:
        later = check_consistency(content, whole.note, whole.local.root, "proof")
    except Refused as refused:
        assert refused.reason in ("log_proof", "replay")
        return
    assert json.loads(content) == json.loads(whole.proof)
    assert later.size == 5


@quick
@given(at=st.integers(0, 8 * 400), cut=st.booleans())
def test_a_damaged_checkpoint_is_refused(whole: Whole, at: int, cut: bool) -> None:
    """One bit, or the end of it: the log's key signed no such note (V8)."""
    at %= len(whole.note) * 8
    flipped = bytes([whole.note[at // 8] ^ 1 << at % 8])
    content = whole.note[: at // 8] + (b"" if cut else flipped + whole.note[at // 8 + 1 :])
    with pytest.raises(Refused) as refused:
        check_note(*read_note(content, "note"), whole.local.root, "note")
    assert refused.value.reason == "log_proof"
