"""image.lock.json: every package of an image by digest, and the pin that they build to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from appliance.errors import InputRefused
from appliance.files import write_atomically
from appliance.images.builder.oci import Identity
from appliance.images.builder.recipe import PLATFORM, Locked
from appliance.pins import Pin, Sha256
from appliance.reading import read_regular
from appliance.wire import Wire

LOCK: Final = "image.lock.json"
_LATEST_EPOCH: Final = 0o77777777777
MAX_BYTES: Final = 64 * 1024 * 1024
_REPACKED: Final = re.compile(r"[+~.](?:dfsg|ds|repack)[0-9.]*$")
Moment = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class LockedPackage(Wire):
    """One package; `path` never names a host: in the archive for a deb, the place in npm's tree for an npm package,
    in the folder of the build for what was built, a file's name for the others.
    """

    kind: Literal["deb", "wheel", "npm", "sdist", "built", "file"]
    name: Annotated[str, StringConstraints(min_length=1)]
    version: str
    sha256: Sha256
    bytes: int = Field(ge=0)
    path: Annotated[str, StringConstraints(min_length=1)]

    @model_validator(mode="after")
    def _path_is_relative(self) -> Self:
        if self.path.startswith("/") or ".." in self.path.split("/") or "://" in self.path:
            raise ValueError("path is relative and names no host")
        return self

    @property
    def key(self) -> tuple[str, str]:
        """What a lock holds once: npm's tree may have a package at several places, in several versions."""
        return self.kind, self.path if self.kind == "npm" else self.name

    @property
    def upstream_version(self) -> str:
        """As its authors count: Debian's `[epoch:]upstream[-revision]` without either, nor a mark of repacking."""
        if self.kind != "deb":
            return self.version
        _, colon, rest = self.version.partition(":")
        upstream = rest if colon else self.version
        return _REPACKED.sub("", upstream.rpartition("-")[0] or upstream)

    @property
    def locked(self) -> Locked:
        return Locked(self.kind, self.name, self.version, self.sha256, self.bytes, self.path)


class LockedSuite(Wire):
    """The state of a Debian suite that the packages were resolved in."""

    archive: str
    """`debian`: the archive's folder on any mirror."""
    suite: str
    components: tuple[str, ...]
    version: str | None
    date: Moment
    in_release_sha256: Sha256
    snapshot: Annotated[str, StringConstraints(pattern=r"^[0-9]{8}T[0-9]{6}Z$")]
    """A moment at which a snapshot archive, whichever, shows this state."""


class LockedBase(Wire):
    name: str
    pin: Pin


class ImageLock(Wire):
    schema_: Literal["image-lock-v1"] = Field(default="image-lock-v1", alias="schema")
    platform: Literal["linux/amd64"] = PLATFORM
    spec_sha256: Sha256
    builder: Sha256
    """Digest of the builder that made the pin: another one need not, but may, make another."""
    source_date_epoch: int = Field(ge=0)
    suites: tuple[LockedSuite, ...]
    base: LockedBase | None
    entries: tuple[LockedPackage, ...]
    """This image's own, without its base's; sorted by `key`."""
    pin: Pin
    tools: tuple[LockedBase, ...] = ()
    """Images that had a hand in it and are not in it: whose Python compiled its modules, in which its programs were
    built; by name.
    """

    @model_validator(mode="after")
    def _is_sorted_and_unique(self) -> Self:
        if self.source_date_epoch > _LATEST_EPOCH:
            raise ValueError(f"sourceDateEpoch is after {_LATEST_EPOCH}, the last that a tar archive can hold")
        keys = [entry.key for entry in self.entries]
        if keys != sorted(set(keys)):
            raise ValueError("entries are sorted by kind and name (npm's: place), each once")
        return self

    def write(self, folder: Path) -> None:
        content = json.dumps(self.json_value(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_atomically(folder / LOCK, content.encode())


def read_lock(folder: Path) -> ImageLock:
    """Raises InputRefused with file and JSON path."""
    path = folder / LOCK
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise InputRefused("no lock", where=str(path), mend=f"appliance images lock {folder.name}") from error
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    return ImageLock.from_json(content, str(path))


def pin_of(identity: Identity) -> Pin:
    return Pin(config=identity.config, manifest=identity.manifest, diff_ids=identity.diff_ids)


def version_changes(old: Iterable[LockedPackage], new: Iterable[LockedPackage]) -> list[str]:
    """One line a package that comes, goes, or changes; for people, and empty where nothing does."""
    before = {entry.key: entry for entry in old}
    after = {entry.key: entry for entry in new}
    lines = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was and now and was != now:
            lines.append(f"~ {now.kind} {now.name} {was.version} -> {now.version} sha256:{now.sha256[:12]}")
        elif was and not now:
            lines.append(f"- {was.kind} {was.name} {was.version}")
        elif now and not was:
            lines.append(f"+ {now.kind} {now.name} {now.version} sha256:{now.sha256[:12]}")
    return lines
