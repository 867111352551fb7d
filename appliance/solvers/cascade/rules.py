"""The rule stage: a TOML file of patterns, each with the patch or the text that answers prompts in which it is found.

[[rule]]
pattern = "off.by.one"          # a regular expression, looked for in the prompt; upper and lower case are alike
patch = "off-by-one.patch"      # a file beside the TOML

[[rule]]
pattern = "capital of France"
response = "Paris"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.errors import InputRefused
from appliance.reading import read_regular
from appliance.solvers.cascade.staged import Said
from appliance.tasks.toml import parse_toml
from appliance.wire import first_path, first_problem

_MAX_BYTES: Final = 1024 * 1024
_MAX_ANSWER: Final = 128 * 1024
"""Of a rule's answer: as JSON it fits into a message, whatever stands in it."""


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]
    patch: str | None = None
    response: Annotated[str, Field(max_length=_MAX_ANSWER)] | None = None


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    rule: Annotated[list[_Rule], Field(min_length=1, max_length=10_000)]


@dataclass(frozen=True)
class RuleStage:
    """Patterns in the order of their file; the first that is found answers."""

    rules: tuple[tuple[re.Pattern[str], str], ...]
    name: str = "rule"

    def answer(self, prompt: str) -> Said | None:
        return next((Said(response) for pattern, response in self.rules if pattern.search(prompt)), None)


def read_rules(path: Path) -> RuleStage:
    """Raises InputRefused with file and key."""
    try:
        content = read_regular(path, _MAX_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    try:
        toml = _Rules.model_validate(parse_toml(content, str(path)))
    except ValidationError as error:
        where = f"{path}: {first_path(error).removeprefix('$.')}"
        raise InputRefused(first_problem(error), where=where) from error
    return RuleStage(tuple(_read(rule, at, path) for at, rule in enumerate(toml.rule)))


def _read(rule: _Rule, at: int, path: Path) -> tuple[re.Pattern[str], str]:
    where = f"{path}: rule[{at}]"
    if (rule.patch is None) == (rule.response is None):
        raise InputRefused("has both or neither of patch and response", where=where, mend="write one of them")
    try:
        pattern = re.compile(rule.pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputRefused(f"not a regular expression: {error}", where=f"{where}.pattern") from error
    return pattern, rule.response if rule.response is not None else _patch(rule.patch or "", path, f"{where}.patch")


def _patch(name: str, path: Path, where: str) -> str:
    if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputRefused("a patch lies beside the TOML", where=where)
    try:
        return read_regular(path.parent / name, _MAX_ANSWER).decode()
    except OSError as error:
        raise InputRefused(f"{name}: {error.strerror or error}", where=where) from error
    except UnicodeDecodeError as error:
        raise InputRefused(f"{name}: not UTF-8 at byte {error.start}", where=where) from error
