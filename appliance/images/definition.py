"""image.toml: what a person asks an image to hold."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.images.builder.recipe import USER
from appliance.reading import read_regular
from appliance.tasks.toml import parse_toml
from appliance.wire import Wire, first_problem

DEFINITION: Final = "image.toml"
_MAX_BYTES: Final = 1024 * 1024
NAME = r"^[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
DebianName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
Requirement = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+$")]
"""`NAME==VERSION`: a lock is made of exact versions, its definition may as well say which."""
NpmRequirement = Annotated[str, StringConstraints(pattern=r"^(@[a-z0-9._-]+/)?[a-z0-9._-]+@[0-9A-Za-z.+-]+$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _inside(path: str) -> str:
    if path != posixpath.normpath(path) or path.startswith(("/", "..")) or path == "." or "\0" in path:
        raise ValueError("must be a plain path relative to the image's root, without a leading / or ..")
    return path


class FileSource(Wire):
    """A file of the image's own folder."""

    source: str
    target: str
    executable: bool = False

    _inside = field_validator("source", "target")(_inside)


class BuildFromSource(Wire):
    """A program built from a source archive. Shaped in; `lock` refuses it until a build of that kind exists."""

    source: str
    version: str
    command: tuple[str, ...]
    env: dict[Variable, str] = Field(default_factory=dict)


class Definition(Wire):
    """One image: tools and dependencies, never a workspace (a volume is mounted at /workspace)."""

    kind: Literal["task", "solver", "model"] = "task"
    base: Name | None = None
    """Another image: this one adds one layer to it."""
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = "bookworm"
    packages: tuple[DebianName, ...] = ()
    wheels: tuple[Requirement, ...] = ()
    npm: tuple[NpmRequirement, ...] = ()
    files: tuple[FileSource, ...] = ()
    build: tuple[BuildFromSource, ...] = ()
    links: dict[str, str] = Field(default_factory=dict)
    """Symbolic links: path in the image -> target."""
    env: dict[Variable, str] = Field(default_factory=dict)
    user: Annotated[str, StringConstraints(pattern=r"^[0-9]+:[0-9]+$")] = USER

    @field_validator("links")
    @classmethod
    def _links_inside(cls, links: dict[str, str]) -> dict[str, str]:
        for path, target in links.items():
            _inside(path)
            if not target or "\0" in target:
                raise ValueError(f"{path} links to nothing")
        return links

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.kind == "solver" and (self.base or self.packages):
            raise ValueError(
                "a solver's image is a tree of its own under /opt/solvers: it has neither base nor packages"
            )
        if self.kind != "solver" and not (self.base or self.packages):
            raise ValueError("an image without a base needs packages")
        for listed in (self.packages, self.wheels, self.npm):
            if len(set(listed)) != len(listed):
                raise ValueError("a package is listed twice")
        return self

    @property
    def digest(self) -> str:
        """`specSha256`: comments and layout don't count."""
        return sha256_hex(self.canonical())


def read_definition(folder: Path) -> Definition:
    """Raises InputRefused with file and line or dotted key."""
    path = folder / DEFINITION
    content = _parsed(path)
    try:
        definition = Definition.model_validate(_tuples(content))
    except ValidationError as error:
        raise InputRefused(first_problem(error), where=f"{path}: {_dotted(error)}") from error
    for file in definition.files:
        if definition.kind == "solver" and not file.target.startswith(f"opt/solvers/{folder.name}/"):
            raise InputRefused(f"a solver's files lie under opt/solvers/{folder.name}/", where=f"{path}: files")
    return definition


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_regular(path, _MAX_BYTES), str(path))
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def _dotted(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"]) or "(whole file)"


def _tuples(value: Any) -> Any:
    """TOML has lists; strict models of frozen values want tuples."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
