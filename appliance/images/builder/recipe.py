"""From a definition and its lock to an image: a pure function of the locked packages (row I1)."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from appliance.digests import digest_of_entries, sha256_hex, sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.bytecode import compile_python, interpreter, python_sources
from appliance.images.builder.deb import Deb, read_deb
from appliance.images.builder.oci import Image, Layer, configuration, file_as_slice
from appliance.images.builder.rootfs import Tree, add_parents, assemble, difference
from appliance.images.builder.tar import Entry, write_tar
from appliance.images.builder.wheel import Scheme, read_wheel

PLATFORM: Final = "linux/amd64"
_ARCHITECTURE = "amd64"
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
USER = "1000:1000"


@dataclass(frozen=True)
class Locked:
    """One package of a lock. `path`: in the archive for a deb, the file's name for a wheel, in the image's folder for
    a file.
    """

    kind: Literal["deb", "wheel", "npm", "sdist", "file"]
    name: str
    version: str
    sha256: str
    bytes: int
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version} sha256:{self.sha256} {self.path}"


@dataclass(frozen=True)
class Recipe:
    """What the bytes of an image depend on; `base` is the recipe that it adds one layer to."""

    name: str
    kind: Literal["task", "solver", "model"]
    epoch: int
    packages: tuple[Locked, ...]
    base: Recipe | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = USER
    links: Mapping[str, str] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any], lock: Mapping[str, Any], base: Recipe | None) -> Recipe:
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
        )

    @property
    def all_packages(self) -> tuple[Locked, ...]:
        return (*(self.base.all_packages if self.base else ()), *self.packages)


def read_recipe(images: Path, name: str) -> Recipe:
    """From `images/NAME` as it is, for a build that runs without the rest of the program (Nix)."""
    spec = tomllib.loads((images / name / "image.toml").read_text())
    lock = json.loads((images / name / "image.lock.json").read_text())
    return Recipe.of(name, spec, lock, read_recipe(images, spec["base"]) if spec.get("base") else None)


def build(recipe: Recipe, store: Path, scratch: Path) -> Image:
    """The image of `recipe` from the packages in `store` (named by sha256); layers are written under `scratch`.

    Raises HostRefused listing packages that the store lacks, InputRefused for one whose bytes are not the locked ones.
    """
    return _Build(store, scratch).image(recipe)


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

    def __init__(self, store: Path, scratch: Path) -> None:
        self._store = store
        self._scratch = scratch
        self._debs: dict[str, Deb] = {}

    def image(self, recipe: Recipe) -> Image:
        missing = [package for package in recipe.all_packages if not (self._store / package.sha256).is_file()]
        if missing:
            listed = "; ".join(str(package) for package in missing)
            raise HostRefused(f"{len(missing)} locked packages are not in the store: {listed}", where=recipe.name)
        layers, _ = self._layers(recipe)
        labels = {"org.bench-appliance.image": recipe.name, "org.bench-appliance.kind": recipe.kind}
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
        scheme = _scheme(recipe, tree)
        for package in recipe.packages:
            if package.kind == "wheel":
                tree |= {e.name: e for e in read_wheel(self._content(package), package.path, scheme, epoch)}
            elif package.kind == "file":
                mode = 0o755 if package.name in recipe.executables else 0o644
                tree[package.name] = Entry(package.name, mode=mode, mtime=epoch, content=self._content(package))
            elif package.kind != "deb":
                raise InputRefused(
                    f"{package.kind} packages cannot be built yet", where=f"{recipe.name}: {package.name}"
                )
        for name, target in recipe.links.items():
            tree[name] = Entry(name, "symlink", 0o777, mtime=epoch, link=target)
        sources = {name for name in python_sources(tree) if below.get(name) != tree[name]}
        compile_python(tree, sources, epoch)
        add_parents(tree, epoch)
        return tree

    def _deb(self, package: Locked) -> Deb:
        if package.sha256 not in self._debs:
            self._debs[package.sha256] = read_deb(self._content(package), package.name)
        return self._debs[package.sha256]

    def _content(self, package: Locked) -> bytes:
        path = self._store / package.sha256
        content = path.read_bytes()
        found = sha256_hex(content)
        if len(content) != package.bytes or found != package.sha256:
            raise InputRefused(
                f"{package.kind} {package.name} {package.version} is not the locked one: its sha256 is {found}",
                where=str(path),
                mend="remove that file and fetch it again",
            )
        return content


def _scheme(recipe: Recipe, tree: Tree) -> Scheme:
    if recipe.kind == "solver":
        root = f"opt/solvers/{recipe.name}"
        return Scheme(f"{root}/lib/python", f"{root}/bin", root, "/usr/bin/env python3")
    return Scheme(f"usr/local/lib/{interpreter(tree)}/dist-packages", "usr/local/bin", "usr/local", "/usr/bin/python3")
