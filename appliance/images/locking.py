"""Making a lock: resolve, fetch, build, pin, write. The only act that may choose another version."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path

from appliance.digests import sha256_of_file
from appliance.errors import InputRefused
from appliance.images import debian, npm, store, wheels
from appliance.images.archives import read_archive
from appliance.images.build import make
from appliance.images.builder.recipe import builder_digest
from appliance.images.catalog import Catalog
from appliance.images.compiling import Compiler, Workshop
from appliance.images.definition import DEFINITION, Definition
from appliance.images.lock import LOCK, ImageLock, LockedBase, LockedPackage, LockedSuite, read_lock, version_changes
from appliance.images.needs import lacking
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


def lock_image(
    catalog: Catalog, name: str, report: Report, *, update: bool = False, workshop: Workshop | None = None
) -> Locking:
    """Lock `name`; its base and its tools must be locked. Where the definition is the locked one, the packages stay
    and only the pin is made anew; `update` resolves them anew. `workshop`: where its programs from source are built.

    Raises InputRefused where a changed definition would change the version of a package that is locked already and
    `update` was not asked for (row I7).
    """
    *bases, _ = catalog.chain(name)
    definition, folder = catalog.definition(name), catalog.folder(name)
    compiler = Compiler(catalog, report, workshop)
    old = read_lock(folder) if (folder / LOCK).exists() else None
    base = catalog.lock(bases[-1]) if bases else None
    if old and old.spec_sha256 == definition.digest and not update:
        draft = old
    else:
        report(f"resolving {name}")
        draft = _resolve(catalog, name, definition, compiler)
        _refuse_silent_updates(old, draft, update, folder)
    draft = draft.model_copy(
        update={
            "base": LockedBase(name=bases[-1], pin=base.pin) if base else None,
            "tools": tuple(LockedBase(name=tool, pin=catalog.lock(tool).pin) for tool in definition.tools),
            "builder": builder_digest(),
            "pin": _UNPINNED,
        }
    )
    with writing_to():
        compiler.provide(name, draft)
    recipe = catalog.recipe(name, draft)
    pin, archive = make(recipe, catalog.suites(name, draft), catalog.folders(name), report)
    _refuse_dangling(name, definition, archive, folder)
    lock = draft.model_copy(update={"pin": pin})
    with writing_to(lambda: folder):
        lock.write(folder)
    changes = version_changes(old.entries if old else (), lock.entries)
    return Locking(name, tuple(changes), old.pin if old else None, pin)


@writing_to()
def _resolve(catalog: Catalog, name: str, definition: Definition, compiler: Compiler) -> ImageLock:
    *bases, _ = catalog.chain(name)
    base = catalog.lock(bases[-1]) if bases else None
    definitions = [catalog.definition(link) for link in bases]
    below = {entry.name: entry for link in bases for entry in catalog.lock(link).entries if entry.kind == "deb"}
    packages = store.package_store()
    packages.mkdir(parents=True, exist_ok=True)
    entries: list[LockedPackage] = []
    suites: tuple[LockedSuite, ...] = ()
    newest = [base] if base else [catalog.lock(tool) for tool in definition.tools]
    epoch = max((lock.source_date_epoch for lock in newest), default=0)
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
    entries += npm.resolve(definition.npm, definition.omit, packages)
    entries += compiler.resolve(name, definition.build)
    entries += _files(definition, catalog.folder(name))
    return ImageLock(
        spec_sha256=definition.digest,
        builder=builder_digest(),
        source_date_epoch=epoch,
        suites=suites,
        base=None,
        entries=tuple(sorted(entries, key=lambda entry: entry.key)),
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


def _refuse_dangling(name: str, definition: Definition, archive: Path, folder: Path) -> None:
    """What a solver's links and starters lead to must be there: npm passes over an optional package that it could not
    get, and the program itself may be one.
    """
    own = f"/opt/solvers/{name}/"
    led = [posixpath.normpath(f"/{posixpath.dirname(path)}/{target}") for path, target in definition.links.items()]
    led += [word for words in definition.starters.values() for word in words]
    gone = lacking(read_archive(archive), sorted({path for path in led if path.startswith(own)}))
    if gone:
        raise InputRefused(f"leads to {gone[0]}, which its packages don't have", where=str(folder / DEFINITION))


def _refuse_silent_updates(old: ImageLock | None, draft: ImageLock, update: bool, folder: Path) -> None:
    if old is None or update:
        return
    locked = {entry.key: entry.version for entry in old.entries}
    moved = [entry for entry in draft.entries if locked.get(entry.key, entry.version) != entry.version]
    if moved:
        raise InputRefused(
            f"{moved[0].name} would change from {locked[moved[0].key]} to {moved[0].version}",
            where=str(folder / LOCK),
            mend=f"`appliance images lock --update {folder.name}` takes new versions",
        )
