"""From a definition and its lock to an image: a pure function of the locked packages (row I1)."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from appliance.digests import digest_of_entries, sha256_of_file, sha256_of_stream
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.bytecode import compile_python, interpreter, python_sources
from appliance.images.builder.deb import Deb, read_deb
from appliance.images.builder.npm import read_npm
from appliance.images.builder.oci import Image, Layer, configuration, file_as_slice
from appliance.images.builder.rootfs import Tree, add_parents, assemble, difference
from appliance.images.builder.spool import Spool
from appliance.images.builder.tar import Entry, write_tar
from appliance.images.builder.wheel import Scheme, read_wheel

PLATFORM: Final = "linux/amd64"
_ARCHITECTURE = "amd64"
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
USER = "1000:1000"
NOT_REDISTRIBUTABLE: Final = "org.bench-appliance.not-redistributable"


@dataclass(frozen=True)
class Locked:
    """One package of a lock. `path`: in the archive for a deb, the file's name for a wheel or an sdist, the place in
    npm's tree for an npm package, in the image's folder for a file, in the folder of the build for what was built.
    """

    kind: Literal["deb", "wheel", "npm", "sdist", "built", "file"]
    name: str
    version: str
    sha256: str
    bytes: int
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version} sha256:{self.sha256} {self.path}"


@dataclass(frozen=True)
class Recipe:
    """What the bytes of an image depend on; `base` is the recipe that it adds one layer to, `python` the one whose
    interpreter compiles its modules where it has none itself.
    """

    name: str
    kind: Literal["task", "solver", "model"]
    epoch: int
    packages: tuple[Locked, ...]
    base: Recipe | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = USER
    links: Mapping[str, str] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    starters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    python: Recipe | None = None
    redistributable: bool = True

    @classmethod
    def of(
        cls,
        name: str,
        spec: Mapping[str, Any],
        lock: Mapping[str, Any],
        base: Recipe | None,
        python: Recipe | None = None,
    ) -> Recipe:
        """From parsed image.toml and image.lock.json, which the caller has validated."""
        return cls(
            name=name,
            kind=spec.get("kind", "task"),
            epoch=lock["sourceDateEpoch"],
            packages=tuple(
                Locked(*(entry[key] for key in ("kind", "name", "version", "sha256", "bytes", "path")))
                for entry in lock["entries"]
            ),
            base=base,
            env={**(base.env if base else {}), **spec.get("env", {})},
            user=spec.get("user", USER),
            links=spec.get("links", {}),
            executables=frozenset(file["target"] for file in spec.get("files", ()) if file.get("executable", False)),
            starters={program: tuple(words) for program, words in spec.get("starters", {}).items()},
            python=python,
            redistributable=spec.get("redistributable", True),
        )

    @property
    def all_packages(self) -> tuple[Locked, ...]:
        """What the image holds, its bases' first."""
        return (*(self.base.all_packages if self.base else ()), *self.packages)

    @property
    def needed_packages(self) -> tuple[Locked, ...]:
        """What must be in the store to build it: not the source archives, whose output is locked as well."""
        tools = self.python.needed_packages if self.python else ()
        return tuple(dict.fromkeys(one for one in (*tools, *self.all_packages) if one.kind != "sdist"))


def read_recipe(images: Path, name: str) -> Recipe:
    """From `images/NAME` as it is, for a build that runs without the rest of the program (Nix)."""
    spec = tomllib.loads((images / name / "image.toml").read_text())
    lock = json.loads((images / name / "image.lock.json").read_text())
    base, python = (read_recipe(images, spec[key]) if spec.get(key) else None for key in ("base", "python"))
    return Recipe.of(name, spec, lock, base, python)


def build(recipe: Recipe, store: Path, scratch: Path) -> Image:
    """The image of `recipe` from the packages in `store` (named by sha256); layers are written under `scratch`.

    Raises HostRefused listing packages that the store lacks, InputRefused for one whose bytes are not the locked ones.
    """
    spool = Spool(scratch)
    try:
        return _Build(store, scratch, spool).image(recipe)
    finally:
        spool.close()


def builder_digest() -> str:
    """Of the sources that decide an image's bytes: this package."""
    folder = Path(__file__).parent
    return digest_of_entries((path.name, "644", sha256_of_file(path)) for path in sorted(folder.glob("*.py")))


def layer_file(tree: Tree, scratch: Path) -> Layer:
    """Write the tree as a layer under `scratch`, named by its digest."""
    descriptor, draft = tempfile.mkstemp(prefix="layer.", dir=scratch)
    with os.fdopen(descriptor, "wb") as out:
        digest, _ = write_tar(tree.values(), out)
    path = scratch / digest.removeprefix("sha256:")
    Path(draft).replace(path)
    return Layer(digest, file_as_slice(path))


class _Build:
    """One build: packages are read once, however many images of the chain hold them."""

    def __init__(self, store: Path, scratch: Path, spool: Spool) -> None:
        self._store = store
        self._scratch = scratch
        self._spool = spool
        self._debs: dict[str, Deb] = {}

    def image(self, recipe: Recipe) -> Image:
        missing = [package for package in recipe.needed_packages if not (self._store / package.sha256).is_file()]
        if missing:
            listed = "; ".join(str(package) for package in missing)
            raise HostRefused(f"{len(missing)} locked packages are not in the store: {listed}", where=recipe.name)
        layers, _ = self._layers(recipe)
        labels = {"org.bench-appliance.image": recipe.name, "org.bench-appliance.kind": recipe.kind}
        if not recipe.redistributable:
            labels[NOT_REDISTRIBUTABLE] = "a licence forbids passing this image on; its recipe and its lock may be"
        env = {**({} if recipe.kind == "solver" else _ENVIRONMENT), **recipe.env}
        config = configuration(
            [layer.digest for layer in layers], recipe.epoch, env=env, user=recipe.user, labels=labels
        )
        return Image(config, layers)

    def _layers(self, recipe: Recipe) -> tuple[tuple[Layer, ...], Tree]:
        if recipe.base is None:
            tree = self._tree(recipe, {})
            return (layer_file(tree, self._scratch),), tree
        lower, below = self._layers(recipe.base)
        tree = self._tree(recipe, below)
        return (*lower, layer_file(difference(tree, below), self._scratch)), tree

    def _tree(self, recipe: Recipe, below: Tree) -> Tree:
        """The whole file system of the image; byte code of `below` is taken over, not compiled again."""
        epoch = recipe.epoch
        debs = [self._deb(package) for package in recipe.all_packages if package.kind == "deb"]
        tree: Tree = assemble(debs, epoch, _ARCHITECTURE) if debs else {}
        for name, entry in below.items():
            # Times alone are no difference: a newer lock clamps them elsewhere.
            if name not in tree or replace(tree[name], mtime=entry.mtime) == entry:
                tree[name] = entry
        tools = self._tools(recipe)
        scheme = _scheme(recipe, tools or tree)
        for package in recipe.packages:
            tree |= {entry.name: entry for entry in self._unpacked(recipe, package, scheme)}
        programs = f"opt/solvers/{recipe.name}/bin" if recipe.kind == "solver" else "usr/local/bin"
        for program, words in recipe.starters.items():
            text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
            path = f"{programs}/{program}"
            tree[path] = Entry(path, mode=0o755, mtime=epoch, content=text.encode())
        for name, target in recipe.links.items():
            tree[name] = Entry(name, "symlink", 0o777, mtime=epoch, link=target)
        own = scheme.library if scheme.own and tools else None
        sources = {name for name in python_sources(tree, own) if below.get(name) != tree[name]}
        compile_python(tree, sources, epoch, self._spool, tools)
        add_parents(tree, epoch)
        return tree

    def _tools(self, recipe: Recipe) -> Tree:
        """The tree whose interpreter compiles the image's modules; empty where the image has its own, or none."""
        if recipe.python is None:
            return {}
        debs = [self._deb(package) for package in recipe.python.all_packages if package.kind == "deb"]
        return assemble(debs, recipe.python.epoch, _ARCHITECTURE)

    def _unpacked(self, recipe: Recipe, package: Locked, scheme: Scheme) -> Iterator[Entry]:
        """What one of the image's own packages adds; Debian's are assembled together with its bases'."""
        if package.kind in ("deb", "sdist"):
            return
        with self._opened(package) as stream:
            if package.kind == "wheel":
                yield from read_wheel(stream, package.path, scheme, recipe.epoch, self._spool)
            elif package.kind == "npm":
                place = f"{scheme.data}/lib/{package.path}"
                yield from read_npm(stream, f"{package.name} {package.version}", place, recipe.epoch, self._spool)
            else:
                mode = 0o755 if package.kind == "built" or package.name in recipe.executables else 0o644
                yield Entry(package.name, mode=mode, mtime=recipe.epoch, content=self._spool.keep(stream))

    def _deb(self, package: Locked) -> Deb:
        if package.sha256 not in self._debs:
            with self._opened(package) as stream:
                self._debs[package.sha256] = read_deb(stream.read(), package.name)
        return self._debs[package.sha256]

    @contextmanager
    def _opened(self, package: Locked) -> Iterator[BinaryIO]:
        """The package's bytes, which are the locked ones: hashed through the descriptor that is then read."""
        path = self._store / package.sha256
        with path.open("rb") as stream:
            found = sha256_of_stream(stream)
            if stream.tell() != package.bytes or found != package.sha256:
                raise InputRefused(
                    f"{package.kind} {package.name} {package.version} is not the locked one: its sha256 is {found}",
                    where=str(path),
                    mend="remove that file and fetch it again",
                )
            stream.seek(0)
            yield stream


def _scheme(recipe: Recipe, tree: Tree) -> Scheme:
    """`tree`: the one that has the interpreter."""
    version = interpreter(tree)
    if recipe.kind == "solver":
        root = f"opt/solvers/{recipe.name}"
        # Isolated: neither the task's PYTHON* variables nor its folder reach the solver's own program.
        python = f"/usr/bin/{version} -I" if version else "/usr/bin/env python3"
        return Scheme(f"{root}/lib/python", f"{root}/bin", root, python, own=True)
    return Scheme(f"usr/local/lib/{version}/dist-packages", "usr/local/bin", "usr/local", "/usr/bin/python3")
