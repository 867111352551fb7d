"""Whatever bytes a stranger sends, attest answers with a refusal of a named class, or believes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from attest import REASON_CLASSES, Refused, bundle, canonical, roots, statement, verify
from attest.predicate import Predicate
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests.attest_forge import RECORD, Forge, claims

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=10), children, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("property") / "local")


@pytest.fixture(scope="module")
def good(trust: LocalTrust) -> bytes:
    sign_record(trust, RECORD, claims())
    return sign_record(trust, RECORD, claims())


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("forge") / "local")


@pytest.fixture(scope="module")
def of_v1(forge: Forge) -> dict[bool, bytes]:
    """By whether it has a timestamp beside its promise."""
    return {stamped: forge.bundle(context=forge.context_of_v1(stamped=stamped)) for stamped in (False, True)}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a JSON value, the value's own first."""
    found = [path]
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places(value[key], (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def ends_in_a_class(trust: LocalTrust, content: bytes) -> str | None:
    try:
        verify(RECORD, content, trust.root, trust.identity, ISSUER)
    except Refused as refused:
        assert refused.reason in REASON_CLASSES
        assert "\n" not in str(refused)
        return refused.reason
    return None


@given(content=st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
@example(content=b'{"mediaType":"\\ud800"}')
@example(content=b"[" * 1_000_000)
def test_any_bytes_are_a_bundle_or_refused(content: bytes) -> None:
    """The parser never raises anything but a refusal (attest 6)."""
    with pytest.raises(Refused):
        bundle.parse(content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(drawn=st.data())
def test_a_bundle_with_any_field_exchanged_is_refused_for_a_class(
    trust: LocalTrust, good: bytes, drawn: st.DataObject
) -> None:
    """Each field, and each nested one, replaced by any JSON: a class, and never `internal` (V7, V8, V24)."""
    value = json.loads(good)
    path = drawn.draw(st.sampled_from(places(value)))
    other = drawn.draw(JSON)
    changed = json.dumps(replaced(value, path, other)).encode()
    assert json.loads(changed) == value or ends_in_a_class(trust, changed) not in {None, "internal"}


def _but_for_timestamps(value: Any) -> Any:
    """Where a log has a clock of its own, the timestamps beside it may be taken away, not changed."""
    if not isinstance(value, dict) or not isinstance(value.get("verificationMaterial"), dict):
        return value
    material = dict(value["verificationMaterial"])
    if material.pop("timestampVerificationData", None) in (None, {}, {"rfc3161Timestamps": []}):
        return {**value, "verificationMaterial": material}
    return value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(drawn=st.data(), stamped=st.booleans())
def test_a_bundle_of_rekor_v1_with_any_field_exchanged_is_refused_for_a_class(
    forge: Forge, of_v1: dict[bool, bytes], drawn: st.DataObject, stamped: bool
) -> None:
    """The other form of entries; its promise is a clock too, so it holds without its timestamps (V7, V8, V9, V24)."""
    value = json.loads(of_v1[stamped])
    changed = replaced(value, drawn.draw(st.sampled_from(places(value))), drawn.draw(JSON))
    without = _but_for_timestamps(json.loads(of_v1[False]) if not stamped else _stripped(value))
    found = ends_in_a_class(forge.trust, json.dumps(changed).encode())
    assert found != "internal"
    assert found is not None or changed == value or _but_for_timestamps(changed) == without


def _stripped(value: Any) -> Any:
    return {
        **value,
        "verificationMaterial": {
            key: part for key, part in value["verificationMaterial"].items() if key != "timestampVerificationData"
        },
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(drawn=st.data())
def test_a_bundle_with_any_bytes_exchanged_is_refused_for_a_class(
    trust: LocalTrust, good: bytes, drawn: st.DataObject
) -> None:
    """A run of bytes overwritten, cut out or put in, anywhere (V7, V24)."""
    start = drawn.draw(st.integers(0, len(good)))
    end = drawn.draw(st.integers(start, min(len(good), start + 40)))
    changed = good[:start] + drawn.draw(st.binary(max_size=40)) + good[end:]
    try:
        same = json.loads(changed) == json.loads(good)  # white space between tokens says nothing
    except ValueError:
        same = False
    assert same or ends_in_a_class(trust, changed) not in {None, "internal"}


@given(payload=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_statement_or_refused(payload: bytes) -> None:
    """Statement and predicate are read strictly too (V18)."""
    with pytest.raises(Refused) as caught:
        statement.parse(payload)
    assert caught.value.reason == "statement"


@given(value=JSON)
def test_any_json_is_a_predicate_or_refused(value: Any) -> None:
    """The closed schema names what it misses; what JSON cannot hold is refused like it."""
    with pytest.raises(Refused) as caught:
        Predicate.parse(value)
    assert caught.value.reason == "statement"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_any_bytes_in_roots_toml_are_read_or_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that a person writes: a refusal with its place, never a traceback."""
    path: Path = tmp_path_factory.getbasetemp() / "roots.toml"
    path.write_bytes(content)
    try:
        roots.known_roots(path)
    except Refused as refused:
        assert refused.reason == "trust_root"
        assert refused.where is not None


@given(value=JSON)
def test_what_is_canonical_reads_back_as_itself(value: Any) -> None:
    """Bytes that `dumps` gives are their own canonical form; all else is refused by it (V21)."""
    try:
        form = canonical.dumps(value)
    except canonical.NotCanonical:
        return
    assert canonical.dumps(canonical.loads_canonical(form)) == form
