"""A receiver's policy: read strictly, once; every bad file is one refusal with its line and key."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable
from datetime import date, time
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from appliance.audit.policy_shapes import PolicyToml, Revoked, SuiteRule
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.pins import Sha256
from appliance.reading import read_regular
from appliance.tasks.toml import parse_toml, short
from appliance.wire import NAMESPACE
from attest import toml

MAX_BYTES: Final = 256 * 1024
_MEND: Final = "appliance schema show policy-v1"
_LINES_TRIED: Final = 64

Key = tuple[str | int, ...]


class Policy(PolicyToml):
    """A policy that was read: at least one record could fit it."""

    digest: Sha256
    """sha256 of the file's bytes."""
    where: str
    """The file, for refusals."""

    @property
    def published_at(self) -> str:
        """What verdicts name as its URI."""
        return self.uri or f"{NAMESPACE}policies/{quote(self.name)}/{self.version}"

    def suite(self, digest: str) -> SuiteRule | None:
        return next((rule for rule in self.suites if rule.digest == digest), None)


def read_policy(path: Path) -> Policy:
    """Raises InputRefused with file, line and dotted key."""
    try:
        content = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path), mend=_MEND) from error
    return policy_of(content, str(path))


def policy_of(content: bytes, where: str) -> Policy:
    values = parse_toml(content, where)
    _refuse_dates(values, content, where)
    try:
        # By way of JSON: a strict model takes a list for a tuple only from there.
        shape = PolicyToml.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise _refusal(error, content, where) from error
    for key, words in (*_doubles(shape), *_takes_nothing(shape), *_contradictions(shape)):
        raise InputRefused(words, where=_place(content, where, key), mend=_MEND)
    return Policy.model_construct(**dict(shape), digest=sha256_hex(content), where=where)


# ------------------------------------------------------------------------------------ what is wrong with a whole file


def _takes_nothing(shape: PolicyToml) -> Iterable[tuple[Key, str]]:
    """A verification over nothing is a refusal: a policy that no record can meet is one, and says so at once."""
    if shape.least_tier == "auditable" and not shape.signers:
        yield ("signers",), "no signer is listed, and unsigned records are not taken: no record can ever be accepted"
    if shape.least_tier == "verified" and not shape.signers:
        yield ("signers",), "no signer is listed, and what is unsigned is never verified: no record can be accepted"
    if shape.least_tier == "verified" and not shape.verifiers:
        yield ("verifiers",), "least_tier is verified, and no verifier is listed: no record can ever be accepted"


def _doubles(shape: PolicyToml) -> Iterable[tuple[Key, str]]:
    """Two entries for one thing, of which nobody knows which one is meant."""
    keyed: tuple[tuple[str, Iterable[Hashable]], ...] = (
        ("signers", [(one.root_sha256, one.identity, one.issuer) for one in shape.signers]),
        ("verifiers", [(one.root_sha256, one.identity, one.issuer, one.id) for one in shape.verifiers]),
        ("suites", [one.digest for one in shape.suites]),
        ("revoked", [(one.identity, one.serial_number, one.root_sha256) for one in shape.revoked]),
    )
    for name, entries in keyed:
        seen: set[Hashable] = set()
        for at, entry in enumerate(entries):
            if entry in seen:
                yield (name, at), "this one stands there already"
            seen.add(entry)


def _contradictions(shape: PolicyToml) -> Iterable[tuple[Key, str]]:
    for at, revoked in enumerate(shape.revoked):
        if sum(one is not None for one in (revoked.identity, revoked.serial, revoked.root_sha256)) != 1:
            yield ("revoked", at), "names exactly one of identity, serial and root_sha256"
        yield from _without_effect(shape, at, revoked)
    for at, suite in enumerate(shape.suites):
        pinned = bool(suite.images) or (bool(suite.tasks) and all(task.image for task in suite.tasks.values()))
        if not pinned and not suite.any_image:
            words = "pins no image: name them in `images`, or say any_image = true"
            yield ("suites", at), words
        if pinned and suite.any_image:
            yield ("suites", at, "any_image"), "true, and images are pinned"
        if suite.composed_images and (suite.any_image or suite.any_composed_image):
            yield ("suites", at, "composed_images"), "pinned, and any image is taken"
        all_tasks = "suite" in shape.blobs.required or _by_digest(suite)
        if not all_tasks and not suite.any_tasks:
            words = "pins no task: require the blob `suite`, give each of `tasks` its digest, or say any_tasks = true"
            yield ("suites", at), words
        if all_tasks and suite.any_tasks:
            yield ("suites", at, "any_tasks"), "true, and tasks are pinned"
        limits = suite.limits.pinned or (bool(suite.tasks) and all(t.limits.pinned for t in suite.tasks.values()))
        if not limits and "suite" not in shape.blobs.required:
            words = "nothing to hold its limits to: pin `limits`, or require the blob `suite`"
            yield ("suites", at), words
    if shape.completeness.complete and shape.completeness.most_missing_share:
        yield ("completeness", "most_missing_share"), "is never looked at, for complete is true"


def _without_effect(shape: PolicyToml, at: int, revoked: Revoked) -> Iterable[tuple[Key, str]]:
    """A cut-off that nobody is held to is one that somebody is thought to be held to."""
    believed = (*shape.signers, *shape.verifiers)
    if revoked.identity is not None and revoked.identity not in {one.identity for one in believed}:
        yield ("revoked", at, "identity"), "no signer or verifier of this policy has exactly this name"
    if revoked.root_sha256 is not None and revoked.root_sha256 not in {one.root_sha256 for one in believed}:
        yield ("revoked", at, "root_sha256"), "no signer or verifier of this policy has this root"


def _by_digest(suite: SuiteRule) -> bool:
    return bool(suite.tasks) and all(task.digest is not None for task in suite.tasks.values())


# ------------------------------------------------------------------------------------------------- words and places


def _refuse_dates(value: object, content: bytes, where: str, key: Key = ()) -> None:
    """JSON, by which the shapes are filled, has no dates; a moment is a text here."""
    if isinstance(value, dict | list):
        for part, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_dates(inner, content, where, (*key, part))
    elif isinstance(value, date | time):
        raise InputRefused(
            "a date or time where a text belongs",
            where=_place(content, where, key),
            mend='put it between quotes, as "2026-11-30T12:00:00Z"',
        )


def _refusal(error: ValidationError, content: bytes, where: str) -> InputRefused:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    words = f"{_WORDS.get(first['type'], first['msg'])}{more}"
    *table, key = first["loc"]
    # TOML puts what follows a [[table]] into it, wherever its writer meant it to be.
    astray = first["type"] == "extra_forbidden" and table and key in PolicyToml.model_fields
    mend = "a key of the whole policy: it stands above the first [table]" if astray else _MEND
    return InputRefused(words, where=_place(content, where, first["loc"]), mend=mend)


_WORDS: Final = {"extra_forbidden": "unknown key", "missing": "required key is missing"}


def _place(content: bytes, where: str, key: Key) -> str:
    line = _line(content.decode(), key)
    return f"{where}{f':{line}' if line else ''}: {_dotted(key)}"


def _dotted(key: Key) -> str:
    shown = ""
    for part in key:
        if isinstance(part, int):
            shown += f"[{part}]"
            continue
        bare = part if _BARE.fullmatch(part) else short(part)
        shown += f".{bare}" if shown else bare
    return shown


_BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


def _line(text: str, key: Key) -> int | None:
    """Where a key stands, or the innermost of its tables that is written out; None where that is not found soon.

    TOML itself decides: a line that may be the key's, or its table's, is put behind all that stands before it, and
    what that parses to has the key, or has not.
    """
    lines = text.split("\n")
    for length in range(len(key), 0, -1):
        wanted = key[:length]
        word = next((part for part in reversed(wanted) if isinstance(part, str)), "")
        candidates = (number for number, line in enumerate(lines) if word in line)
        for number in islice(candidates, _LINES_TRIED):
            line = lines[number]
            start = line if line.lstrip().startswith("[") else f"{line.partition('=')[0]}= 0"
            if _holds("\n".join([*lines[:number], start]), wanted):
                return number + 1
    return None


def _holds(text: str, key: Key) -> bool:
    try:
        value: Any = toml.loads(text)
        for part in key:
            value = value[part]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return False
    return True
