"""Refusals of attestations: one class word each (the numbers are those of the verification list)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from attest.verification import Report

REASON_CLASSES: Final[dict[str, int]] = {
    "internal": 1,
    "usage": 2,
    "bundle": 10,
    "certificate": 11,
    "time": 12,
    "log_proof": 13,
    "log_entry": 14,
    "signature": 15,
    "identity": 16,
    "payload_type": 17,
    "statement": 18,
    "predicate_type": 19,
    "subject": 20,
    "record": 21,
    "replay": 22,
    "trust_root": 23,
    "policy": 24,
    "blob": 25,
    "aggregate": 26,
    "energy": 27,
}


SUBMISSION_WORDS: Final = frozenset(
    {
        "replayed", "stale_challenge", "blob_missing", "blob_mismatch", "schema_mismatch", "policy", "implausible",
        "revoked", "rollback",
    }
)  # fmt: skip
"""Why a receiver does not take a record (formats 6): finer than a class, and only said by checks of a policy."""


class Refused(Exception):
    """An attestation that does not hold, for exactly one reason class."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        where: str | None = None,
        mend: str | None = None,
        word: str | None = None,
    ):
        """`reason` is a key of REASON_CLASSES; `where` names a file and, where there is one, a JSON path in it; `word`
        is one of SUBMISSION_WORDS."""
        if reason not in REASON_CLASSES:
            raise ValueError(f"no such reason class: {reason}")
        if word is not None and word not in SUBMISSION_WORDS:
            raise ValueError(f"no such word of a submission: {word}")
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.where = where
        self.mend = mend
        self.word = word
        self.report: Report | None = None
        """Every check of the verification that refused, where one ran."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        mend = f" ({self.mend})" if self.mend else ""
        return f"{place}{self.message}{mend}"
