"""Builds: a lock to an archive in the cache, whose pin must be the lock's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.errors import InputRefused
from appliance.images import archives, store
from appliance.images.builder import recipe as builder
from appliance.images.builder.oci import Image, reference
from appliance.images.catalog import Catalog
from appliance.images.compiling import Compiler, Workshop
from appliance.images.lock import LOCK, ImageLock, LockedSuite, pin_of
from appliance.images.room import writing_to
from appliance.images.store import Report
from appliance.pins import Pin
from appliance.scratch import scratch_in


@dataclass(frozen=True)
class Built:
    name: str
    pin: Pin
    archive: Path
    made: bool
    """False where the cache had it already."""


def build(
    catalog: Catalog, name: str, report: Report, *, again: bool = False, workshop: Workshop | None = None
) -> Built:
    """The image that the lock of `name` pins. `again`: also where the cache holds it. `workshop`: where what it has
    from source is built, if the store lacks it.

    Raises InputRefused for a stale lock and where the bytes come out with another pin (the builder has changed
    since), HostRefused for packages that cannot be had.
    """
    lock = catalog.lock(name)
    if not again and archives.cached(lock.pin):
        return Built(name, lock.pin, archives.archive_path(lock.pin.config), made=False)
    with writing_to():
        Compiler(catalog, report, workshop).provide(name, lock)
    pin, archive = make(catalog.recipe(name), catalog.suites(name), catalog.folders(name), report)
    check_pin(catalog, name, lock, pin)
    return Built(name, pin, archive, made=True)


def check_pin(catalog: Catalog, name: str, lock: ImageLock, pin: Pin) -> None:
    if pin == lock.pin:
        return
    why = "the builder has changed since" if lock.builder != builder.builder_digest() else "the same builder made it"
    raise InputRefused(
        f"builds to {pin.config}, not to the locked {lock.pin.config} ({why})",
        where=f"{catalog.folder(name) / LOCK}: $.pin",
        mend=f"`appliance images lock {name}` pins anew",
    )


@writing_to()
def make(
    recipe: builder.Recipe, suites: tuple[LockedSuite, ...], folders: tuple[Path, ...], report: Report
) -> tuple[Pin, Path]:
    """Fetch, build, keep; whatever pin comes out."""
    packages = store.package_store()
    store.fetch(recipe.needed_packages, suites, folders, packages, report)
    report(f"building {recipe.name} from {len(recipe.all_packages)} packages")
    with scratch_in(store.scratch_home()) as scratch:
        image: Image = builder.build(recipe, packages, scratch)
        archive = archives.keep_archive(image, reference(recipe.name, image.identity.config))
    return pin_of(image.identity), archive
