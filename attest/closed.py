"""The base of every predicate of ours: what it does not name is refused, so nothing unread is ever signed."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from attest import canonical
from attest.errors import Refused


class Closed(BaseModel):
    """A frozen, strict part of a statement, with camelCase names in JSON."""

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


Model = TypeVar("Model", bound=Closed)


def read_closed(model: type[Model], value: canonical.Json, where: str, reason: str = "statement") -> Model:
    """`value` as `model`, by its JSON names alone. Raises Refused with the JSON path below `where`."""
    try:
        # Strict mode takes tuples from JSON only.
        return model.model_validate_json(canonical.dumps(value), by_alias=True, by_name=False)
    except canonical.NotCanonical as error:
        raise Refused(reason, error.message, where=f"{where}{error.path[1:]}") from error
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
        raise Refused(reason, problem["msg"], where=f"{where}{path}") from error
