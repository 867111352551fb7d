"""The files that people and other programs write beside records: what is written is read back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import schemas
from appliance.images.definition import Definition
from appliance.images.lock import ImageLock, LockedBase, LockedPackage, LockedSuite, read_lock
from appliance.pins import Pin
from appliance.tasks.checks import CheckedSolver, CheckedTask, Checks
from attest import canonical
from tests.wire_strategies import wire_values

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
_HEX = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
_WORD = st.from_regex(r"[a-z][a-z0-9.+-]{1,8}", fullmatch=True)
_MOMENT = st.datetimes().map(lambda at: f"{at:%Y}".zfill(4) + f"{at:-%m-%dT%H:%M:%SZ}")


def _made(model: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """By the fields' Python names; hypothesis would take the aliases of the signature for them."""
    return st.fixed_dictionaries(fields).map(lambda values: model(**values))


_PINS: st.SearchStrategy[Pin] = wire_values(Pin)


def _packages() -> st.SearchStrategy[tuple[LockedPackage, ...]]:
    one = _made(
        LockedPackage,
        kind=st.sampled_from(("deb", "wheel", "npm", "sdist", "built", "file")),
        name=_WORD,
        version=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9),
        sha256=_HEX,
        bytes=st.integers(0, 2**53 - 1),
        path=st.lists(_WORD, min_size=1, max_size=3).map("/".join),
    )
    listed = st.lists(one, max_size=5, unique_by=lambda entry: entry.key)
    return listed.map(lambda found: tuple(sorted(found, key=lambda entry: entry.key)))


def _suites() -> st.SearchStrategy[LockedSuite]:
    return _made(
        LockedSuite,
        archive=_WORD,
        suite=_WORD,
        components=st.lists(_WORD, max_size=2).map(tuple),
        version=st.none() | _WORD,
        date=_MOMENT,
        in_release_sha256=_HEX,
        snapshot=st.from_regex(r"[0-9]{8}T[0-9]{6}Z", fullmatch=True),
    )


LOCKS = _made(
    ImageLock,
    schema_=st.just("image-lock-v1"),
    platform=st.just("linux/amd64"),
    spec_sha256=_HEX,
    builder=_HEX,
    source_date_epoch=st.integers(0, 0o77777777777),
    suites=st.lists(_suites(), max_size=2).map(tuple),
    base=st.none() | _made(LockedBase, name=_WORD, pin=_PINS),
    tools=st.lists(_made(LockedBase, name=_WORD, pin=_PINS), max_size=2).map(tuple),
    entries=_packages(),
    pin=_PINS,
)


@settings(max_examples=60)
@given(lock=LOCKS)
def test_an_image_lock_is_read_back_as_it_was_written(
    lock: ImageLock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through its file, whose layout is for people; what the model takes, its schema takes (issue 3, Bad input)."""
    folder: Path = tmp_path_factory.mktemp("lock")
    lock.write(folder)
    assert read_lock(folder) == lock
    assert schemas.first_problem("image-lock-v1", canonical.loads(lock.canonical())) is None


@settings(max_examples=60)
@given(
    packages=st.lists(_WORD, unique=True, max_size=3).map(tuple),
    env=st.dictionaries(
        st.from_regex(r"[A-Z][A-Z_]{0,6}", fullmatch=True), st.from_regex(r"[ -~]{0,8}", fullmatch=True)
    ),
    links=st.dictionaries(st.lists(_WORD, min_size=1, max_size=2).map("/".join), _WORD, max_size=2),
)
def test_an_image_definition_is_read_back_as_it_was_written(packages: Any, env: Any, links: Any) -> None:
    """The canonical bytes, whose digest is `specSha256`, give the value again."""
    value = Definition(base="base", packages=packages, env=env, links=links)
    assert Definition.from_canonical(value.canonical(), "x") == value
    assert schemas.first_problem("image-v1", canonical.loads(value.canonical())) is None


def _solvers() -> st.SearchStrategy[CheckedSolver]:
    counts = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted)
    return st.builds(lambda name, both: CheckedSolver(solver=name, resolved=both[0], runs=both[1]), _NAMES, counts)


@settings(max_examples=60)
@given(
    value=_made(
        Checks,
        schema_=st.just("checks-v1"),
        suite_digest=_HEX,
        runs=st.integers(1, 50),
        rates=st.lists(
            _made(
                CheckedTask,
                task=_NAMES,
                rates=st.lists(_solvers(), max_size=3).map(tuple),
                findings=st.lists(_NAMES, max_size=2).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        quarantined=st.dictionaries(_NAMES, _NAMES, max_size=2),
        forgeable=st.dictionaries(_NAMES, st.lists(_NAMES, max_size=2).map(tuple), max_size=2),
    )
)
def test_checks_are_read_back_as_they_were_written(value: Checks) -> None:
    """Task names in any language, as keys too: this file is never signed (H8, H25)."""
    content = value.model_dump_json(by_alias=True).encode()
    assert Checks.from_json(content, "x") == value
