"""A solver as its TOML says it: read strictly, checked once, never half believed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.digests import digest_of_entries, sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.reading import read_regular
from appliance.records.words import SolverKind
from appliance.solvers.outputs.parsing import PARSERS
from appliance.solvers.templates import MAX_BYTES, check_text, read_templates
from appliance.tasks.toml import parse_toml, short
from appliance.wire import first_path, first_problem

Auto = Literal["low", "medium", "high"]
Wire = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]
OUTPUT_PARSERS: Final = frozenset(PARSERS)
"""Names that `output` may take; without it a solver is judged by its exit status and the oracle."""
_BUILT_IN: Final = frozenset({"reference", "noop"})
_PLAIN: Final = _BUILT_IN | {"cascade"}
"""Kinds that run a program of ours: their TOML names none."""
_NOT_YET: Final = frozenset({"chat"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"

Words = tuple[str, ...]


class _Toml(BaseModel):
    """The keys of formats 3, with their defaults."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Annotated[str, Field(pattern=_NAME)]
    kind: SolverKind
    model: Literal["required", "none"] | None = None
    image: str | None = None
    argv: Words = ()
    stdin: Literal["none", "prompt"] = "none"
    wire: Wire | None = None
    output: str | None = None
    output_file: str | None = None
    self_correct: Words | None = None
    version: str | None = None
    commit: str | None = None
    version_argv: Words | None = None
    version_pattern: Annotated[str, Field(max_length=200)] = r"\d+\.\d+\.\d+"  # a long one takes hours to compile
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    mode: dict[str, Words] = Field(default_factory=dict)
    auto: dict[Auto, Words] = Field(default_factory=dict)


@dataclass(frozen=True)
class SolverDefinition:
    """A valid solver. `digest` covers its TOML and its templates; `templates` maps a path in the container to text."""

    name: str
    kind: SolverKind
    needs_model: bool
    image: str | None
    argv: Words
    stdin: Literal["none", "prompt"]
    wire: Wire | None
    """The form in which it speaks to its model; None: it is given no gateway."""
    output: str | None
    """The parser that reads what it prints."""
    output_file: str | None
    """A path in the container, placeholders standing, that the parser reads as well."""
    self_correct: Words | None
    version: str | None
    commit: str | None
    version_argv: Words | None
    version_pattern: str
    env: Mapping[str, str]
    templates: Mapping[str, str]
    mode: Mapping[str, Words]
    auto: Mapping[Auto, Words]
    path: Path
    digest: str

    @property
    def built_in(self) -> bool:
        """What it runs is the harness's own."""
        return self.kind in _PLAIN

    def flags(self, *, mode: str | None, auto: Auto | None, self_correct: bool) -> Words:
        """What stands at `{flags}`. Raises UsageRefused naming a flag of the command line that this solver lacks."""
        found: list[str] = []
        if mode is not None:
            if mode not in self.mode:
                known = ", ".join(sorted(self.mode)) or "none"
                raise UsageRefused(
                    f"solver {self.name} has no mode {mode!r}; its modes: {known}",
                    where="--mode",
                    mend=f"add it to [mode] in {self.path}, or leave the flag out",
                )
            found.extend(self.mode[mode])
        if auto is not None:
            if auto not in self.auto:
                known = ", ".join(sorted(self.auto)) or "none"
                raise UsageRefused(
                    f"solver {self.name} has no autonomy level {auto!r}; its levels: {known}",
                    where="--auto",
                    mend=f"add it to [auto] in {self.path}, or leave the flag out",
                )
            found.extend(self.auto[auto])
        if self_correct:
            if self.self_correct is None:
                raise UsageRefused(
                    f"solver {self.name} has no self_correct flags",
                    where="--self-correct",
                    mend=f"add self_correct to {self.path}, or leave the flag out",
                )
            found.extend(self.self_correct)
        return tuple(found)

    def check_model(self, model: str | None) -> None:
        """Raises UsageRefused where a model is required and absent."""
        if self.needs_model and not model:
            raise UsageRefused(f"solver {self.name} requires a model", where="--model", mend="add --model NAME")


def read_definition(path: Path) -> SolverDefinition:
    """Raises InputRefused with file and dotted key; a syntax error also has its line and column."""
    try:
        content = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    table = parse_toml(content, str(path))
    try:
        # By way of JSON: a strict model takes a list for a tuple only from there. No key takes a number: a date is one.
        toml = _Toml.model_validate_json(json.dumps(table, default=lambda _: 0))
    except ValidationError as error:
        key = first_path(error).removeprefix("$.")
        unknown = error.errors(include_url=False)[0]["type"] == "extra_forbidden"
        raise InputRefused("unknown key" if unknown else first_problem(error), where=f"{path}: {key}") from error
    _check_kind(toml, path)
    _check_texts(toml, path)
    _check_placeholders(toml, path)
    templates = read_templates(toml.files, path, gateway=toml.wire is not None)
    return SolverDefinition(
        name=toml.name,
        kind=toml.kind,
        needs_model=toml.model == "required",
        image=toml.image,
        argv=toml.argv,
        stdin=toml.stdin,
        wire=toml.wire,
        output=toml.output,
        output_file=toml.output_file,
        self_correct=toml.self_correct,
        version=toml.version,
        commit=toml.commit,
        version_argv=toml.version_argv,
        version_pattern=toml.version_pattern,
        env=toml.env,
        templates=templates,
        mode=toml.mode,
        auto=toml.auto,
        path=path,
        digest=_digest(content, toml.files, templates),
    )


def _check_kind(toml: _Toml, path: Path) -> None:
    if toml.kind in _NOT_YET:
        raise InputRefused(
            f"kind {toml.kind!r} is not available in this version",
            where=f"{path}: kind",
            mend="use kind command, cascade, reference or noop",
        )
    if toml.kind in _PLAIN:
        given = sorted(toml.model_fields_set - {"name", "kind", "model", "version", "commit"})
        if given:
            raise InputRefused(f"kind {toml.kind!r} takes no such key", where=f"{path}: {given[0]}", mend="remove it")
        if toml.model == "required" and toml.kind in _BUILT_IN:
            raise InputRefused(f"kind {toml.kind!r} has no model", where=f"{path}: model", mend='write "none"')
        return
    if toml.model is None:
        raise InputRefused("missing", where=f"{path}: model", mend='write model = "required" or "none"')
    if not toml.argv:
        raise InputRefused("missing or empty", where=f"{path}: argv", mend="list the program and its arguments")
    if toml.output is not None and toml.output not in OUTPUT_PARSERS:
        known = ", ".join(sorted(OUTPUT_PARSERS))
        raise InputRefused(f"no output parser {toml.output!r}; known: {known}", where=f"{path}: output")
    if toml.output_file is not None and toml.output is None:
        raise InputRefused("no parser to read it", where=f"{path}: output_file", mend="name one in `output`")
    if toml.wire is not None and toml.model == "none":
        raise InputRefused(
            "a solver without a model has no wire", where=f"{path}: wire", mend='write model = "required"'
        )
    try:
        re.compile(toml.version_pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputRefused(f"not a regular expression: {error}", where=f"{path}: version_pattern") from error


def _check_texts(toml: _Toml, path: Path) -> None:
    """What no command line, environment or file system can carry is refused here, not by the engine in each trial."""
    texts: list[tuple[str, str]] = [
        *((f"argv[{index}]", word) for index, word in enumerate(toml.argv)),
        *((f"version_argv[{index}]", word) for index, word in enumerate(toml.version_argv or ())),
        *((f"env.{short(name)}", value) for name, value in toml.env.items()),
        *((key, word) for key, words in _flag_lists(toml) for word in words),
    ]
    for key, text in texts:
        if "\0" in text:
            raise InputRefused("holds a NUL, which no command line can carry", where=f"{path}: {key}")
    if toml.argv and not toml.argv[0].strip():
        raise InputRefused("names no program", where=f"{path}: argv[0]", mend="the program comes first")
    for name in toml.env:
        if not _VARIABLE.fullmatch(name):
            raise InputRefused("no name of a variable", where=f"{path}: env.{short(name)}", mend="as MY_NAME")


def _check_placeholders(toml: _Toml, path: Path) -> None:
    places: list[tuple[str, str]] = [
        *((f"argv[{index}]", argument) for index, argument in enumerate(toml.argv)),
        *((f"env.{name}", value) for name, value in toml.env.items()),
        *((f'files."{target}"', target) for target in toml.files),
        *((("output_file", toml.output_file),) if toml.output_file else ()),
    ]
    gateway = toml.wire is not None
    for key, text in places:
        check_text(text, f"{path}: {key}", whole_argument=key.startswith("argv"), gateway=gateway)
    for key, flags in _flag_lists(toml):
        for word in flags:
            check_text(word, f"{path}: {key}", whole_argument=False, gateway=gateway)
    if any(True for _ in _flag_lists(toml)) and "{flags}" not in toml.argv:
        raise InputRefused(
            "mode, auto and self_correct need a place in the command", where=f"{path}: argv", mend='add "{flags}"'
        )


def _flag_lists(toml: _Toml) -> Iterable[tuple[str, Words]]:
    if toml.self_correct is not None:
        yield "self_correct", toml.self_correct
    yield from ((f"mode.{name}", words) for name, words in toml.mode.items())
    yield from ((f"auto.{name}", words) for name, words in toml.auto.items())


def _digest(content: bytes, files: Mapping[str, str], templates: Mapping[str, str]) -> str:
    entries = [("solver.toml", "644", sha256_hex(content))]
    entries += [(f"files/{files[target]}", "644", sha256_hex(text.encode())) for target, text in templates.items()]
    return digest_of_entries(sorted(set(entries), key=lambda entry: entry[0].encode()))
