"""Making a lock: resolve, fetch, build, pin, write. The only act that may choose another version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.digests import sha256_of_file
from appliance.errors import InputRefused
from appliance.images import debian, store, wheels
from appliance.images.build import make
from appliance.images.builder.recipe import builder_digest
from appliance.images.catalog import Catalog
from appliance.images.definition import DEFINITION, Definition
from appliance.images.lock import LOCK, ImageLock, LockedBase, LockedPackage, LockedSuite, read_lock, version_changes
from appliance.images.room import writing_to
from appliance.images.store import Report
from appliance.pins import Pin
from appliance.scratch import scratch_in

_UNPINNED = Pin(config=f"sha256:{0:064x}", manifest=f"sha256:{0:064x}", diff_ids=())


@dataclass(frozen=True)
class Locking:
    """What making a lock did."""

    name: str
    changes: tuple[str, ...]
    """Lines of `lock.version_changes`."""
    before: Pin | None
    after: Pin


def lock_image(catalog: Catalog, name: str, report: Report, *, update: bool = False) -> Locking:
    """Lock `name`; its base must be locked. Where the definition is the locked one, the packages stay and only the pin
    is made anew; `update` resolves them anew.

    Raises InputRefused where a changed definition would change the version of a package that is locked already and
    `update` was not asked for (row I7).
    """
    *bases, _ = catalog.chain(name)
    definition, folder = catalog.definition(name), catalog.folder(name)
    _refuse_unsupported(definition, folder)
    old = read_lock(folder) if (folder / LOCK).exists() else None
    base = catalog.lock(bases[-1]) if bases else None
    if old and old.spec_sha256 == definition.digest and not update:
        draft = old
    else:
        report(f"resolving {name}")
        draft = _resolve(catalog, name, definition, base)
        _refuse_silent_updates(old, draft, update, folder)
    draft = draft.model_copy(
        update={
            "base": LockedBase(name=bases[-1], pin=base.pin) if base else None,
            "builder": builder_digest(),
            "pin": _UNPINNED,
        }
    )
    recipe = catalog.recipe(name, draft)
    pin, _ = make(recipe, catalog.suites(name, draft), catalog.folders(name), report)
    lock = draft.model_copy(update={"pin": pin})
    with writing_to(lambda: folder):
        lock.write(folder)
    changes = version_changes(old.entries if old else (), lock.entries)
    return Locking(name, tuple(changes), old.pin if old else None, pin)


@writing_to()
def _resolve(catalog: Catalog, name: str, definition: Definition, base: ImageLock | None) -> ImageLock:
    *bases, _ = catalog.chain(name)
    definitions = [catalog.definition(link) for link in bases]
    below = {entry.name: entry for link in bases for entry in catalog.lock(link).entries if entry.kind == "deb"}
    packages = store.package_store()
    packages.mkdir(parents=True, exist_ok=True)
    entries: list[LockedPackage] = []
    suites: tuple[LockedSuite, ...] = ()
    epoch = base.source_date_epoch if base else 0
    if definition.packages:
        wanted = sorted({package for each in (*definitions, definition) for package in each.packages})
        with scratch_in(store.scratch_home()) as scratch:
            resolved = debian.resolve(wanted, definition.suite, scratch)
        moved = [p for p in resolved.packages if p.name in below and below[p.name].version != p.version]
        if moved:
            raise InputRefused(
                f"{moved[0].name} is {moved[0].version} now, {below[moved[0].name].version} in its base",
                where=f"{catalog.folder(name) / DEFINITION}: base",
                mend=f"appliance images lock --update {bases[-1]}",
            )
        entries += [package for package in resolved.packages if package.name not in below]
        suites, epoch = (resolved.suite,), max(epoch, resolved.epoch)
    entries += wheels.resolve(definition.wheels, definition.suite, packages)
    entries += _files(definition, catalog.folder(name))
    return ImageLock(
        spec_sha256=definition.digest,
        builder=builder_digest(),
        source_date_epoch=epoch,
        suites=suites,
        base=None,
        entries=tuple(sorted(entries, key=lambda entry: (entry.kind, entry.name))),
        pin=_UNPINNED,
    )


def _files(definition: Definition, folder: Path) -> list[LockedPackage]:
    locked = []
    for file in definition.files:
        path = folder / file.source
        if not path.is_file():
            raise InputRefused(f"no file {file.source}", where=f"{folder / DEFINITION}: files")
        size, digest = path.stat().st_size, sha256_of_file(path)
        locked.append(
            LockedPackage(kind="file", name=file.target, version="", sha256=digest, bytes=size, path=file.source)
        )
    return locked


def _refuse_unsupported(definition: Definition, folder: Path) -> None:
    for key, listed in (("npm", definition.npm), ("build", definition.build)):
        if listed:
            raise InputRefused(f"{key} entries cannot be locked yet", where=f"{folder / DEFINITION}: {key}")


def _refuse_silent_updates(old: ImageLock | None, draft: ImageLock, update: bool, folder: Path) -> None:
    if old is None or update:
        return
    locked = {(entry.kind, entry.name): entry.version for entry in old.entries}
    moved = [entry for entry in draft.entries if locked.get((entry.kind, entry.name), entry.version) != entry.version]
    if moved:
        raise InputRefused(
            f"{moved[0].name} would change from {locked[moved[0].kind, moved[0].name]} to {moved[0].version}",
            where=str(folder / LOCK),
            mend=f"`appliance images lock --update {folder.name}` takes new versions",
        )
