"""The adapter of `ports.Images`: pins to images that the engine holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from appliance import bundle
from appliance.errors import HostRefused, InputRefused, Refusal, UsageRefused
from appliance.files import write_atomically
from appliance.images import archives, registry
from appliance.images.build import build
from appliance.images.builder.oci import Image, reference
from appliance.images.catalog import Catalog
from appliance.images.compiling import Workshop
from appliance.images.compose import compose, with_tree
from appliance.images.lock import pin_of
from appliance.images.needs import refuse_lacking
from appliance.images.registry import Reference
from appliance.images.room import writing_to
from appliance.images.store import Report, scratch_home
from appliance.pins import Pin
from appliance.ports import EngineFailed
from appliance.records.plan import PlannedTask
from appliance.scratch import scratch_in

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ImageStore(Protocol):
    """What of an engine the library needs: of `ports.Engine`, and a pull, which is nobody else's to call."""

    def resolve(self, pin: Pin) -> str | None: ...

    def load(self, archive: Path) -> None: ...

    def export(self, image: str, archive: Path) -> None: ...

    def pull(self, reference: str) -> None: ...


def _silent(_: str) -> None:
    """Nobody is told."""


def _nowhere(_: str) -> None:
    """Nothing is built from source."""


class ImageLibrary:
    """Images by name, digest or reference, had in row I6's order: in the engine, cached, rebuilt, pulled, refused."""

    def __init__(
        self,
        engine: ImageStore,
        catalog: Catalog | None = None,
        report: Report = _silent,
        workshop: Callable[[str], Workshop | None] = _nowhere,
    ):
        """`workshop`: of an image by name, where its programs from source may be built; that takes minutes."""
        self._engine = engine
        self._workshop = workshop
        self._catalog = catalog or Catalog.default()
        self._report = report
        self._references: dict[str, Reference] = {}
        """By manifest digest."""

    def pin(self, name: str) -> tuple[Pin, bool]:
        """Raises UsageRefused for an unknown name, InputRefused for a lock that is stale, HostRefused for a digest
        that neither the cache nor the engine has, or a reference that cannot be pulled either.
        """
        reference = registry.parsed(name)
        if reference:
            return self._pin_of(reference), False
        if not _DIGEST.fullmatch(name):
            return self._catalog.lock(name).pin, True
        locked = next((pin for pin in self._locked() if name in (pin.config, pin.manifest)), None)
        if locked:
            return locked, True
        return pin_of(self._own(name).identity), False

    @writing_to()
    def composed(self, task_image: str, solver_image: str | None) -> Pin:
        if solver_image is None:
            return self.pin(task_image)[0]
        definition = self._catalog.definition(solver_image)
        if definition.kind != "solver":
            said = f"image {solver_image!r} is a {definition.kind} image"
            raise UsageRefused(said, mend='name one of kind = "solver"')
        task, solver = self._image(task_image), self._image(solver_image)
        refuse_lacking(task_image, task, solver_image, definition.needs)
        pin = pin_of(compose(task, solver).identity)
        parts = self.pin(task_image)[0], self.pin(solver_image)[0]
        _remember_parts(pin, parts)
        return pin

    @writing_to()
    def with_tree(self, image: str, tree: Path, target: str, *, owner: int = 0) -> Pin:
        """An image and one layer of a host tree (row I10), kept in the cache; `ensure` loads it."""
        with scratch_in(scratch_home()) as scratch:
            made = with_tree(self._image(image), tree, target, scratch, owner=owner)
            archives.keep_archive(made, reference(Path(target).name.lower(), made.identity.config))
        return pin_of(made.identity)

    def ensure(self, pins: Iterable[Pin], planned: Iterable[PlannedTask] = ()) -> Mapping[str, str]:
        wanted, planned = dict.fromkeys(pins), tuple(planned)
        self._references |= registry.references_of(planned)
        for images in (task.images for task in planned):
            if images.solver:
                _remember_parts(images.composed, (images.task, images.solver))
        found: dict[str, str] = {}
        missing: list[str] = []
        for pin in wanted:
            try:
                found[pin.config] = self._engine.resolve(pin) or self._load(pin)
            except HostRefused as refusal:
                if refusal.reason == "disk_full":
                    # Not about this image: the next one would end the same way, and the mend is another.
                    raise
                missing.append(f"{pin.config}: {refusal.message}" + (f" ({refusal.mend})" if refusal.mend else ""))
            except EngineFailed as failure:
                missing.append(f"{pin.config}: {failure}")
        if missing:
            raise HostRefused(
                f"{len(missing)} images cannot be had: {'; '.join(missing)}",
                mend="`appliance images list` shows what this machine can build",
            )
        return found

    # ------------------------------------------------------------------------------------------ where images are

    def _load(self, pin: Pin) -> str:
        """Into the engine, from the cache, the lock or a registry. Raises HostRefused where none gives it."""
        parts = _parts(pin)
        if parts:
            return self._load_composed(pin, *parts)
        name, reference = self._name_of(pin), self._references.get(pin.manifest)
        if archives.held(pin):
            try:
                return self._load_archive(pin)
            except EngineFailed as failure:
                if name is None and reference is None:
                    raise
                # A damaged archive; the engine checks every layer against the configuration.
                again = f"building {name} again" if name else "pulling it again"
                self._report(f"the cached archive does not load ({failure}); {again}")
        if name:
            build(self._catalog, name, self._report, again=True, workshop=self._workshop(name))
            return self._load_archive(pin)
        if reference:
            return self._load_pulled(pin, reference)
        raise HostRefused("in neither the engine nor the cache, and no lock here builds it")

    def _load_archive(self, pin: Pin) -> str:
        self._report(f"loading {pin.config[:19]}")
        self._engine.load(archives.archive_path(pin.config))
        return self._loaded(pin)

    def _load_pulled(self, pin: Pin, reference: Reference) -> str:
        self._pull(reference)
        found = self._engine.resolve(pin)
        if found is None:
            raise HostRefused(f"{reference.text} is another image than the one that was pinned by it")
        return found

    def _pull(self, reference: Reference) -> None:
        self._report(f"pulling {reference.text}")
        try:
            self._engine.pull(reference.text)
        except EngineFailed as failure:
            raise HostRefused(
                str(failure), mend="see to its registry, or load the image into the engine", reason="not_pulled"
            ) from failure

    @writing_to()
    def _load_composed(self, pin: Pin, task: Pin, solver: Pin) -> str:
        """Thin where the engine holds the task's layers (it is asked first: one that lacked them said "Loaded" and
        left a broken image), whole where that does not give the image.
        """
        self.ensure([task])
        image = compose(self._image_of(task), self._image_of(solver))
        if pin_of(image.identity) != pin:
            raise HostRefused("its parts compose to another image")
        for omit in (task.diff_ids, ()):
            with scratch_in(scratch_home()) as scratch:
                archive = scratch / "composed.tar"
                archives.write_whole(archive, image, reference("composed", pin.config), omit)
                self._engine.load(archive)
            found = self._engine.resolve(pin)
            if found:
                return found
        return self._loaded(pin)

    def _loaded(self, pin: Pin) -> str:
        found = self._engine.resolve(pin)
        if found is None:
            raise HostRefused("the engine took the archive and does not have the image", mend="look at its log")
        return found

    def _image(self, name: str) -> Image:
        pin, rebuildable = self.pin(name)
        return self._image_of(pin) if rebuildable or registry.parsed(name) else self._own(name)

    def _image_of(self, pin: Pin) -> Image:
        image = archives.held(pin)
        if image is None:
            name = self._name_of(pin)
            if name is None:
                if pin.manifest in self._references:
                    self.ensure([pin])
                return self._own(pin.config)
            build(self._catalog, name, self._report, workshop=self._workshop(name))
            image = archives.held(pin)
        if image is None:
            raise HostRefused(f"the archive of {pin.config} has gone from the cache", mend="run it again")
        return image

    def _own(self, digest: str) -> Image:
        """A user's own image, by digest from the cache or else out of the engine (row I11)."""
        path = archives.archive_path(digest)
        return archives.read_archive(path) if path.is_file() else self._exported(digest)

    @writing_to()
    def _exported(self, image: str) -> Image:
        with scratch_in(scratch_home()) as scratch:
            exported = scratch / "exported.tar"
            try:
                self._engine.export(image, exported)
            except EngineFailed as failure:
                if isinstance(failure.__cause__, OSError) and failure.__cause__.errno:
                    raise
                raise HostRefused(str(failure), mend="look at the engine's log") from failure
            found = archives.read_archive(exported)
            archives.refuse_compressed(found, image)
            path = archives.archive_path(found.identity.config)
            path.parent.mkdir(parents=True, exist_ok=True)
            exported.replace(path)
        return archives.read_archive(path)

    def _pin_of(self, reference: Reference) -> Pin:
        """Its configuration and layers are known once the image is here: pulled at the first planning, not again."""
        self._references[reference.digest] = reference
        pin = registry.remembered(reference)
        if pin is None:
            try:
                image = self._exported(reference.text)
            except HostRefused as refusal:
                if refusal.reason != "no_image":
                    raise
                self._pull(reference)
                image = self._exported(reference.text)
            pin = pin_of(image.identity).model_copy(update={"manifest": reference.digest})
            with writing_to():
                registry.remember(reference, pin)
        return pin

    def _name_of(self, pin: Pin) -> str | None:
        return next((name for name in self._catalog.names() if self._pin_or_none(name) == pin), None)

    def _locked(self) -> list[Pin]:
        return [pin for name in self._catalog.names() if (pin := self._pin_or_none(name))]

    def _pin_or_none(self, name: str) -> Pin | None:
        """A broken image of somebody else's must not stand in the way of a whole one."""
        try:
            return self._catalog.lock(name).pin
        except Refusal:
            return None


def _composition(pin: Pin) -> Path:
    return bundle.cache_home() / "compositions" / f"{pin.config.removeprefix('sha256:')}.json"


def _remember_parts(pin: Pin, parts: tuple[Pin, Pin]) -> None:
    named = dict(zip(("task", "solver"), (part.json_value() for part in parts), strict=True))
    with writing_to():
        write_atomically(_composition(pin), json.dumps(named, sort_keys=True).encode())


def _parts(pin: Pin) -> tuple[Pin, Pin] | None:
    path = _composition(pin)
    if not path.is_file():
        return None
    try:
        parts = json.loads(path.read_bytes())
        task, solver = (Pin.from_json(json.dumps(parts[part]).encode(), str(path)) for part in ("task", "solver"))
    except (ValueError, KeyError, TypeError, InputRefused):
        return None
    return task, solver
