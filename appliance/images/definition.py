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
from attest import canonical

DEFINITION: Final = "image.toml"
_MAX_BYTES: Final = 1024 * 1024
NAME = r"^[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
DebianName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
Requirement = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+$")]
"""`NAME==VERSION`: a lock is made of exact versions, its definition may as well say which."""
NpmRequirement = Annotated[str, StringConstraints(pattern=r"^(@[a-z0-9._-]+/)?[a-z0-9._-]+@[0-9A-Za-z.+-]+$")]
Program = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

_LATER: Final = ("starters", "omit", "python", "needs", "redistributable")
"""Keys of image.toml that the first locks knew nothing of."""


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
    """Programs built from a source archive, in a container of another image and without a network."""

    source: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """A project of the Python index; its sdist is taken."""
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.!+_-]+$")]
    image: Name
    """Where `command` runs: as user 1000, in the unpacked archive, with the image's tools alone."""
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    env: dict[Variable, str] = Field(default_factory=dict)
    install: Annotated[dict[str, str], Field(min_length=1)]
    """Path under the unpacked archive -> path in the image, of each program that the build makes."""

    @field_validator("install")
    @classmethod
    def _install_inside(cls, install: dict[str, str]) -> dict[str, str]:
        for paths in install.items():
            for path in paths:
                _inside(path)
        return install


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
    starters: dict[Program, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Programs that start others: name in the image's folder of programs -> words before the caller's own."""
    omit: tuple[str, ...] = ()
    """Packages of npm's tree that are left out, by name: optional ones that the program does without."""
    python: Name | None = None
    """The image whose Python a solver's wheels are for: it compiles their byte code."""
    needs: tuple[str, ...] = ()
    """What a task's image must hold for a solver to run on it: Debian packages, or absolute paths."""
    redistributable: bool = True
    """False: a package's licence forbids passing it on. The recipe and the lock may be, the image may not."""

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
        if self.kind != "solver" and (self.needs or self.python):
            raise ValueError("`needs` and `python` are for a solver's image: others hold what they need")
        for listed in (self.packages, self.wheels, self.npm):
            if len(set(listed)) != len(listed):
                raise ValueError("a package is listed twice")
        return self

    @property
    def tools(self) -> tuple[str, ...]:
        """Images that it is made with and that are not in it."""
        return tuple(sorted({build.image for build in self.build} | ({self.python} if self.python else set())))

    @property
    def digest(self) -> str:
        """`specSha256`: comments and layout don't count, nor do keys that came later where they are not used, so that
        locks made before stay fresh.
        """
        fields = type(self).model_fields
        unused = {name for name in _LATER if getattr(self, name) == fields[name].get_default(call_default_factory=True)}
        return sha256_hex(canonical.dumps(self.model_dump(mode="json", by_alias=True, exclude=unused)))


def read_definition(folder: Path) -> Definition:
    """Raises InputRefused with file and line or dotted key."""
    path = folder / DEFINITION
    content = _parsed(path)
    try:
        definition = Definition.model_validate(_tuples(content))
    except ValidationError as error:
        raise InputRefused(first_problem(error), where=f"{path}: {_dotted(error)}") from error
    if definition.kind == "solver":
        installed = [target for build in definition.build for target in build.install.values()]
        targets = {"files": [file.target for file in definition.files], "links": definition.links, "build": installed}
        for key, paths in targets.items():
            if not all(target.startswith(f"opt/solvers/{folder.name}/") for target in paths):
                raise InputRefused(f"a solver's {key} lie under opt/solvers/{folder.name}/", where=f"{path}: {key}")
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
