"""What a receiver makes of one record: accepted, excluded or quarantined, why, and how far it can be checked."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from appliance.wire import Wire

Status = Literal["accepted", "excluded", "quarantined"]
Tier = Literal["reported", "auditable", "verified"]
Word = Literal[
    "replayed",
    "stale_challenge",
    "blob_missing",
    "blob_mismatch",
    "schema_mismatch",
    "policy",
    "implausible",
    "revoked",
    "rollback",
]
WORDS: Final[frozenset[str]] = frozenset(Word.__args__)  # type: ignore[attr-defined]  # typing's own way to list them
TIERS: Final[tuple[Tier, ...]] = ("reported", "auditable", "verified")
"""Each includes what the one before it asks."""
MOST_REASONS: Final = 32
_LONGEST_MESSAGE: Final = 240
_LONGEST_PLACE: Final = 100


class Reason(Wire):
    word: Word
    message: str
    where: str | None = None
    """A JSON path of the record, or a file of the submission."""

    @classmethod
    def of(cls, word: Word, message: str, where: str | None = None) -> Self:
        """Cut to what a line of the index has room for; what could drive a terminal is replaced."""
        place = _plain(where, _LONGEST_PLACE) if where else None
        return cls(word=word, message=_plain(message, _LONGEST_MESSAGE) or word, where=place)

    def __str__(self) -> str:
        return f"{self.word}: {f'{self.where}: ' if self.where else ''}{self.message}"


class Decision(Wire):
    """An accepted one has a tier and no reason, any other one reasons and no tier."""

    status: Status
    tier: Tier | None
    reasons: tuple[Reason, ...]
    """The first MOST_REASONS; the first of all is why."""
    more_reasons: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.status == "accepted") != (self.tier is not None) or (self.status == "accepted") == bool(self.reasons):
            raise ValueError("accepted: a tier and no reasons; else reasons and no tier")
        return self

    @classmethod
    def against(cls, status: Literal["excluded", "quarantined"], reasons: tuple[Reason, ...]) -> Self:
        kept = reasons[:MOST_REASONS]
        return cls(status=status, tier=None, reasons=kept, more_reasons=len(reasons) - len(kept))

    @classmethod
    def accepted(cls, tier: Tier) -> Self:
        return cls(status="accepted", tier=tier, reasons=())


def _plain(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(char if char.isprintable() else "\ufffd" for char in cut)
