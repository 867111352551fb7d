"""Programs from source archives: what a build is made of, and what it made, kept by the digest of the former."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from appliance import bundle
from appliance.digests import sha256_hex, sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.files import write_atomically
from appliance.images import sdists, store
from appliance.images.catalog import Catalog
from appliance.images.definition import DEFINITION, BuildFromSource
from appliance.images.lock import ImageLock, LockedPackage
from appliance.images.store import Report
from appliance.pins import Pin
from appliance.scratch import scratch_in
from attest import canonical


class Workshop(Protocol):
    """Where foreign build scripts may run: a container without a network."""

    def build(self, image: Pin, archive: Path, build: BuildFromSource, epoch: int, into: Path) -> None:
        """Unpack `archive`, run the command, copy what is to be installed to `into`, named by its path in the build.

        Raises InputRefused where the build fails, HostRefused where there is no engine.
        """
        ...


class Compiler:
    """Programs of image definitions; without a `workshop`, only those that were built here before."""

    def __init__(self, catalog: Catalog, report: Report, workshop: Workshop | None):
        self._catalog = catalog
        self._report = report
        self._workshop = workshop
        self._packages = store.package_store()

    def resolve(self, name: str, builds: Sequence[BuildFromSource]) -> list[LockedPackage]:
        """The source archives of image `name` and what they build to, all of it in the store."""
        entries: list[LockedPackage] = []
        for build in builds:
            archive = sdists.resolve(build.source, build.version, self._packages)
            entries += [archive, *self._built(name, build, archive)]
        return entries

    def provide(self, name: str, lock: ImageLock) -> None:
        """See that the store has what the image's source archives build to, bit for bit what its lock says.

        Raises InputRefused where a build gives other bytes, HostRefused where it cannot be made here.
        """
        wanted = {entry.name: entry for entry in lock.entries if entry.kind == "built"}
        store.take_kept([entry.locked for entry in wanted.values()], self._packages)
        for build in self._catalog.definition(name).build:
            if all((self._packages / wanted[target].sha256).is_file() for target in build.install.values()):
                continue
            archive = next(entry for entry in lock.entries if entry.kind == "sdist" and entry.name == build.source)
            store.fetch([archive.locked], (), (), self._packages, self._report)
            for made in self._built(name, build, archive):
                locked = wanted[made.name]
                if made != locked:
                    raise InputRefused(
                        f"{build.source} {build.version} builds to {made.sha256}, not to the locked {locked.sha256}",
                        where=f"{self._catalog.folder(name) / DEFINITION}: build",
                        mend=f"`appliance images lock --update {name}` locks what it builds to here",
                    )

    def _built(self, name: str, build: BuildFromSource, archive: LockedPackage) -> list[LockedPackage]:
        lock = self._catalog.lock(build.image)
        recipe = {"image": lock.pin.config, "archive": archive.sha256, "build": build.json_value()}
        kept = bundle.cache_home() / "builds" / f"{sha256_hex(canonical.dumps(recipe))}.json"
        digests = _remembered(kept, build, self._packages)
        if digests is None:
            if self._workshop is None:
                raise HostRefused(
                    f"{build.source} {build.version} is not built here yet, which takes minutes",
                    mend=f"`appliance images build {name}` builds it",
                )
            digests = {}
            with scratch_in(self._packages) as scratch:
                archived = self._packages / archive.sha256
                self._workshop.build(lock.pin, archived, build, lock.source_date_epoch, scratch)
                for path in build.install:
                    digests[path] = sha256_of_file(scratch / path)
                    (scratch / path).replace(self._packages / digests[path])
            write_atomically(kept, json.dumps(digests, sort_keys=True).encode())
        return [
            _entry(target, build.version, self._packages / digests[path], path)
            for path, target in build.install.items()
        ]


def _entry(target: str, version: str, kept: Path, path: str) -> LockedPackage:
    size = kept.stat().st_size
    return LockedPackage(kind="built", name=target, version=version, sha256=kept.name, bytes=size, path=path)


def _remembered(kept: Path, build: BuildFromSource, packages: Path) -> dict[str, str] | None:
    """Path in the build -> sha256, where this very build was made here before and nothing of it is gone."""
    try:
        digests = json.loads(kept.read_bytes())
        found = {path: str(digests[path]) for path in build.install}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if all((packages / digest).is_file() for digest in found.values()) else None
