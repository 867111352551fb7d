"""The store of packages by sha256, and where a package that it lacks is looked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from appliance import bundle
from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.files import writing_atomically
from appliance.images import debian, npm, sdists, wheels
from appliance.images.builder.recipe import Locked
from appliance.images.lock import LockedSuite
from appliance.images.room import MEND

BUNDLE_VARIABLE: Final = "APPLIANCE_PACKAGES"
"""Folders of packages that somebody kept, under their file names or their sha256."""
Report = Callable[[str], None]


def package_store() -> Path:
    return bundle.cache_home() / "packages"


def scratch_home() -> Path:
    return bundle.cache_home() / "scratch"


def fetch(
    packages: Sequence[Locked], suites: Iterable[LockedSuite], folders: Sequence[Path], store: Path, report: Report
) -> None:
    """See that the store has every package: its own, a kept bundle's, a mirror's, a snapshot archive's (row I7).

    `folders`: of the images, where entries of kind `file` lie. Raises HostRefused listing what no source has any
    more; nothing newer is ever taken in its place. InputRefused for a stored one whose bytes changed (row I8).
    """
    store.mkdir(parents=True, exist_ok=True)
    for package in packages:
        _refuse_altered(store / package.sha256, package)
    _from_folders(_lacking(packages, store), folders, store)
    left = _lacking(packages, store)
    if left:
        size = sum(package.bytes for package in left)
        report(f"fetching {len(left)} packages, {size / 1e6:.0f} MB")
        # apt and pip don't say which of their failures are ours to mend.
        free = shutil.disk_usage(store).free
        if free < size:
            said = f"{size / 1e6:.1f} MB of packages are to be fetched, {free / 1e6:.1f} MB are free"
            raise HostRefused(said, where=str(store), mend=MEND, reason="disk_full")
    debs = [package for package in left if package.kind == "deb"]
    if debs:
        try:
            debian.download(debs, debian.mirrors(), store)
        except HostRefused as refusal:
            report(str(refusal))
        for suite in suites:
            debian.download(_lacking(debs, store), debian.snapshots(suite), store)
    wheels.download([package for package in left if package.kind == "wheel"], "bookworm", store)
    npm.download([package for package in left if package.kind == "npm"], store)
    sdists.download([package for package in left if package.kind == "sdist"], store)
    gone = _lacking(packages, store)
    if gone:
        raise HostRefused(
            f"{len(gone)} locked packages are in no source any more: {'; '.join(str(package) for package in gone)}",
            mend=f"name a folder that holds them in {BUNDLE_VARIABLE}, or a mirror in {debian.MIRROR_VARIABLE}; "
            "`appliance images lock --update` makes a new lock",
        )


def take_kept(packages: Iterable[Locked], store: Path) -> None:
    """Whatever the store lacks and a bundle that somebody kept has."""
    store.mkdir(parents=True, exist_ok=True)
    _from_folders(_lacking(packages, store), (), store)


def _lacking(packages: Iterable[Locked], store: Path) -> list[Locked]:
    return [package for package in packages if not (store / package.sha256).exists()]


def _refuse_altered(path: Path, package: Locked) -> None:
    if path.exists() and (path.stat().st_size != package.bytes or sha256_of_file(path) != package.sha256):
        raise InputRefused(
            f"{package.kind} {package.name} {package.version} is not the locked one: its bytes have changed",
            where=str(path),
            mend="remove that file; it is fetched again",
        )


def _from_folders(packages: Iterable[Locked], folders: Sequence[Path], store: Path) -> None:
    kept = [Path(folder) for folder in os.environ.get(BUNDLE_VARIABLE, "").split(os.pathsep) if folder]
    for package in packages:
        if package.kind == "file":
            candidates = [folder / package.path for folder in folders]
        else:
            called = npm.file_name(package) if package.kind == "npm" else Path(package.path).name
            candidates = [folder / name for folder in kept for name in (package.sha256, called)]
        for candidate in candidates:
            if candidate.is_file() and sha256_of_file(candidate) == package.sha256:
                with candidate.open("rb") as kept_one, writing_atomically(store / package.sha256) as out:
                    shutil.copyfileobj(kept_one, out, 1 << 20)
                break
