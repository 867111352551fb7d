"""challenge-v1: a nonce that a receiver hands out, so that a record shows it was made afterwards, and for him.

A record names the sha256 of the document's bytes in its plan, before the first trial. The store that issued it knows
it by its file and its own signature over it.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.pins import Sha256
from appliance.reading import read_regular
from appliance.wire import Wire

MAX_BYTES: Final = 64 * 1024
_SPAN: Final = re.compile(r"([1-9][0-9]{0,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"

Moment = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class ChallengedSuite(Wire):
    name: str
    digest: Sha256


class ChallengedPolicy(Wire):
    name: str
    version: int
    sha256: Sha256
    """Of its file's bytes when the challenge was made."""


class Challenge(Wire):
    schema_: Literal["challenge-v1"] = Field(default="challenge-v1", alias="schema")
    nonce: Sha256
    """256 random bits."""
    suite: ChallengedSuite
    policy: ChallengedPolicy
    issued_at: Moment
    expires_at: Moment
    store: Sha256
    """Origin of the index of the store that issued it."""

    @property
    def sha256(self) -> str:
        """What a record's `challenge` says."""
        return sha256_hex(self.canonical())

    @property
    def expires(self) -> datetime:
        return moment(self.expires_at)


def moment(text: str) -> datetime:
    return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)


def moment_text(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_MOMENT)


def new_challenge(
    suite: ChallengedSuite, policy: ChallengedPolicy, store: str, lasts: timedelta, now: datetime
) -> Challenge:
    return Challenge(
        nonce=secrets.token_hex(32),
        suite=suite,
        policy=policy,
        issued_at=moment_text(now),
        expires_at=moment_text(now + lasts),
        store=store,
    )


def span_of(text: str, where: str = "--expires-in") -> timedelta:
    """`90m`, `36h`, `14d`. Raises UsageRefused."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageRefused(f"no span of time: {text[:40]!r}", where=where, mend="as 14d, 36h, 90m")
    span = timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if span > _LONGEST:
        raise UsageRefused(f"over {_LONGEST.days} days", where=where)
    return span


_LONGEST: Final = timedelta(days=3660)


def read_challenge(path: Path) -> tuple[Challenge, bytes]:
    """The document and its bytes. Raises InputRefused. Whose it is, only its signature says."""
    try:
        content = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    return challenge_of(content, str(path)), content


def challenge_of(content: bytes, where: str) -> Challenge:
    challenge = Challenge.from_canonical(content, where)
    for name, text in (("issuedAt", challenge.issued_at), ("expiresAt", challenge.expires_at)):
        try:
            moment(text)
        except ValueError as error:
            raise InputRefused(f"no moment: {text}", where=f"{where}: $.{name}") from error
    return challenge


def refuse_unmet(challenge: Challenge, suite_name: str, suite_digest: str, now: datetime, where: str) -> None:
    """Before a run is bound to it. Raises UsageRefused for one that no record of this run could meet."""
    if challenge.expires <= now:
        raise UsageRefused(f"expired at {challenge.expires_at}", where=where, mend="ask its issuer for a new one")
    if challenge.suite.digest != suite_digest:
        raise UsageRefused(
            f"is for suite {challenge.suite.name} ({challenge.suite.digest[:12]}),"
            f" this is {suite_name} ({suite_digest[:12]})",
            where=where,
            mend="--suite with those very tasks",
        )
