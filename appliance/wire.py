"""What crosses a boundary: frozen, strict models with camelCase names, and their canonical bytes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from appliance.errors import InputRefused
from appliance.moments import MOMENT
from appliance.reading import read_regular
from attest import canonical

NAMESPACE: Final = "https://bench-appliance.invalid/"
"""The root of every schema's `$id` and of the predicate type, until the project has a domain of its own."""


Parsed = TypeVar("Parsed")


def _of_the_calendar(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Moment = Annotated[str, StringConstraints(pattern=f"^{MOMENT}$"), AfterValidator(_of_the_calendar)]
"""Of RFC 3339, in UTC, as a text: `"2026-11-30T12:00:00Z"`. A day that no month has is refused by the model alone: no
pattern knows a calendar."""


class Wire(BaseModel):  # noqa: PLW1641 - frozen, so pydantic gives each model the hash of its fields
    """A value of the wire form: stored and signed as the RFC 8785 bytes of itself."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    def __eq__(self, other: object) -> bool:
        # The same answer as pydantic's own at a quarter of its time, where they are equal.
        return (type(self) is type(other) and self.__dict__ == other.__dict__) or super().__eq__(other)

    def json_value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return value

    def canonical(self) -> bytes:
        return canonical.dumps(self.json_value())

    @classmethod
    def from_canonical(cls, content: bytes, where: str) -> Self:
        """Raises InputRefused with file and JSON path, also where the bytes are not their own canonical form."""
        return parsed(content, where, cls._validated)

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Self:
        """As `from_canonical`, for JSON that a person may have written: any layout, still strict."""
        return parsed(content, where, cls._validated, canonical_only=False)

    @classmethod
    def _validated(cls, content: bytes) -> Self:
        # On disk a field has one name; `wall_seconds` is for our own constructors.
        return cls.model_validate_json(content, by_alias=True, by_name=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            content = read_regular(path, canonical.MAX_BYTES)
        except OSError as error:
            raise InputRefused(error.strerror or str(error), where=str(path)) from error
        return cls.from_canonical(content, str(path))


def parsed(content: bytes, where: str, validate: Callable[[bytes], Parsed], *, canonical_only: bool = True) -> Parsed:
    """Strict JSON, then `validate`; whatever is wrong is an InputRefused with file and JSON path."""
    try:
        (canonical.loads_canonical if canonical_only else canonical.loads)(content)
        return validate(content)
    except canonical.NotCanonical as error:
        raise InputRefused(error.message, where=f"{where}: {error.path}") from error
    except ValidationError as error:
        raise InputRefused(first_problem(error), where=f"{where}: {first_path(error)}") from error


def first_path(error: ValidationError) -> str:
    """`$.trials[3].energy` of the first problem."""
    parts = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]['msg']}{more}"


Comparison = Literal["exact", "rate", "informative", "energy_band", "cost_band", "wall_band"]
"""How `reproduce` compares a field; bands and rate are its tolerances, named in the verdict."""


def compared(deterministic: Comparison, live: Comparison | None = None) -> Any:
    """Annotation of every field of a record: how it is compared, for deterministic solvers and for live ones."""
    return Field(json_schema_extra={"x-compare": {"deterministic": deterministic, "live": live or deterministic}})


EXACT: Final = compared("exact")
"""Equal whatever the solver: what was asked."""
OUTCOME: Final = compared("exact", "rate")
"""Equal where the solver is deterministic; as a rate where a live model answers."""
TOKENS: Final = compared("exact", "informative")
"""Equal where recorded answers are given again; what a live model takes is shown side by side."""
INFORMATIVE: Final = compared("informative")
"""Shown side by side, never judged: clocks, hosts, paths."""
ENERGY_BAND: Final = compared("energy_band")
COST_BAND: Final = compared("exact", "cost_band")
