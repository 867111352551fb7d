"""Checks as values: what a verification runs, and what it says of each one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from attest.canonical import Json
from attest.errors import Refused

CheckStatus = Literal["passed", "noted", "failed", "not_run"]


@dataclass(frozen=True, slots=True)
class Verified:
    """What may be believed once signature, identity, statement and subject hold: the record and who signed it when."""

    record_bytes: bytes
    """As stored; its own RFC 8785 form."""
    record: Json
    """What those bytes parse to: check values never parse them again with a laxer reader."""
    predicate: Mapping[str, Json]
    """Of the signed statement, held to its closed schema."""
    identity: str
    issuer: str
    signed_at: datetime
    """The time that the root's timestamp authority states; self-asserted where the assurance is `local`."""
    assurance: str
    root_sha256: str = ""
    """Of the pinned root; "" of a record that nobody signed."""
    certificate_serial: str = ""
    """Of the signer's certificate, in lower-case hex; "" of a record that nobody signed."""
    payload: bytes = b""
    """The statement as signed; empty of a record that nobody signed."""
    parts: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """The record's own text of all that it holds, by key: of a member, or of each element of a list."""


class NotRun(Exception):
    """Raised by a check that cannot be made; the message says why."""

    def __init__(self, why: str, *, acceptable: bool = False, mend: str | None = None, word: str | None = None):
        """`acceptable`: the caller said beforehand that this may stay unchecked (`--allow-missing-blobs`). `mend` and
        `word` are those of the refusal where it may not."""
        super().__init__(why)
        self.why = why
        self.acceptable = acceptable
        self.mend = mend
        self.word = word


class Noted(Exception):
    """Raised by a check that was made, and found what is no fault but has to be told; the message says what."""

    def __init__(self, what: str):
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Check:
    """One further check. `run` returns where it holds, and raises Refused, Noted or NotRun otherwise."""

    name: str
    """Words for a person, as "aggregates recomputed from trials"."""
    run: Callable[[Verified], None]
    reason: str = "record"
    """Class of the refusal where the check is not run although it should be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of a report; `number` is the place in the list, the same in code, docs and output."""

    number: int
    name: str
    status: CheckStatus
    why: str | None = None
    """What failed, what was found, or why it did not run; None where it passed."""
    reason: str | None = None
    """The check's class, where it failed or did not run; None else."""
    refusal: Refused | None = None
    acceptable: bool = False
