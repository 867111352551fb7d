"""Where images are defined, and what a definition and its lock say together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance import bundle
from appliance.errors import InputRefused, UsageRefused
from appliance.images.builder.recipe import Recipe
from appliance.images.definition import DEFINITION, Definition, read_definition
from appliance.images.lock import LOCK, ImageLock, LockedSuite, read_lock


@dataclass(frozen=True)
class Catalog:
    """Folders that hold `NAME/image.toml`; the first that has a name wins."""

    roots: tuple[Path, ...]

    @classmethod
    def default(cls) -> Catalog:
        """`./images`, then what ships with the program."""
        own, shipped = Path("images"), bundle.shipped("images")
        roots = [root for root in (own, shipped) if root.is_dir()]
        return cls(tuple(roots[:1] if len(roots) == 2 and own.samefile(shipped) else roots))

    def names(self) -> tuple[str, ...]:
        folders = [path for root in self.roots for path in root.glob("*")]
        found = {path.name for path in folders if os.path.lexists(path / DEFINITION)}
        return tuple(sorted(found))

    def folder(self, name: str) -> Path:
        """Raises UsageRefused with the names that there are."""
        if name in self.names():
            return next(root / name for root in self.roots if os.path.lexists(root / name / DEFINITION))
        known = ", ".join(self.names()) or "none"
        raise UsageRefused(f"no image is named {name!r}", mend=f"known: {known}")

    def definition(self, name: str) -> Definition:
        return read_definition(self.folder(name))

    def chain(self, name: str) -> Iterator[str]:
        """The bases of an image, lowest first, then itself. Raises InputRefused for a circle or an unknown base."""
        above: list[str] = []
        at: str | None = name
        while at is not None:
            if at in above:
                raise InputRefused(f"{' -> '.join([*above, at])} goes in a circle", where=f"{self._file(name)}: base")
            if above and at not in self.names():
                raise InputRefused(f"no image is named {at!r}", where=f"{self._file(above[-1])}: base")
            above.append(at)
            at = self.definition(at).base
        return reversed(above)

    def lock(self, name: str) -> ImageLock:
        """The lock, which belongs to the definition as it is. Raises InputRefused where it is stale (row I9)."""
        folder = self.folder(name)
        definition, lock = read_definition(folder), read_lock(folder)
        if lock.spec_sha256 != definition.digest:
            raise InputRefused(
                "stale lock: image.toml has changed since",
                where=str(folder / LOCK),
                mend=f"appliance images lock {name}",
            )
        if (definition.base or "") != (lock.base.name if lock.base else ""):
            raise InputRefused("names another base than image.toml", where=f"{folder / LOCK}: $.base")
        if definition.tools != tuple(tool.name for tool in lock.tools):
            raise InputRefused("names other tools than image.toml", where=f"{folder / LOCK}: $.tools")
        others = [("base", lock.base)] if lock.base else []
        for key, other in (*others, *((f"tools[{number}]", tool) for number, tool in enumerate(lock.tools))):
            if self.lock(other.name).pin != other.pin:
                raise InputRefused(
                    f"stale lock: the {key.partition('[')[0].removesuffix('s')} {other.name!r} has another pin now",
                    where=f"{folder / LOCK}: $.{key}.pin",
                    mend=f"appliance images lock {name}",
                )
        return lock

    def recipe(self, name: str, lock: ImageLock | None = None) -> Recipe:
        """`lock`: one that is not written yet; else the image's own."""
        *bases, _ = self.chain(name)
        lock = lock or self.lock(name)
        definition = self.definition(name)
        base = self.recipe(bases[-1]) if bases else None
        python = self.recipe(definition.python) if definition.python else None
        return Recipe.of(name, definition.json_value(), lock.json_value(), base, python)

    def folders(self, name: str) -> tuple[Path, ...]:
        return tuple(self.folder(link) for link in self.chain(name))

    def suites(self, name: str, lock: ImageLock | None = None) -> tuple[LockedSuite, ...]:
        *bases, _ = self.chain(name)
        below = self.suites(bases[-1]) if bases else ()
        lock = lock or self.lock(name)
        tools = (suite for tool in lock.tools for suite in self.suites(tool.name))
        return tuple(dict.fromkeys((*below, *tools, *lock.suites)))

    def _file(self, name: str) -> Path:
        return self.folder(name) / DEFINITION
