"""Small images of real packages: .debs of a few bytes, definitions, locks and a store of their own."""

from __future__ import annotations

import io
import lzma
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.digests import sha256_hex
from appliance.images.build import make
from appliance.images.builder.recipe import builder_digest
from appliance.images.catalog import Catalog
from appliance.images.lock import ImageLock, LockedBase, LockedPackage, LockedSuite
from appliance.images.store import package_store
from appliance.pins import Pin

CHECKOUT = Path(__file__).parents[1]
UNPINNED = Pin(config=f"sha256:{0:064x}", manifest=f"sha256:{0:064x}", diff_ids=())
EPOCH = 1_700_000_000
SUITE = LockedSuite(
    archive="debian",
    suite="bookworm",
    components=("main",),
    version="12.0",
    date="2023-11-14T22:13:20Z",
    in_release_sha256="0" * 64,
    snapshot="20231115T041320Z",
)
PASSWD = b"root:*:0:0:root:/root:/bin/bash\nnobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
ACCOUNTS = {
    "usr/share/base-passwd/passwd.master": PASSWD,
    "usr/share/base-passwd/group.master": b"root:*:0:\nnogroup:*:65534:\n",
}


def builder_sources() -> tuple[Path, ...]:
    """Every file of this checkout that the builder runs from, asked of a Python without site-packages."""
    asked = (
        "import sys, appliance.images.builder.recipe\n"
        "print(*(module.__file__ for name, module in sys.modules.items() if name.startswith('appliance')))"
    )
    words = [sys.executable, "-S", "-B", "-c", asked]
    ran = subprocess.run(words, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=True)
    builder = CHECKOUT / "appliance/images/builder"
    return tuple(sorted({*map(Path, ran.stdout.split()), *builder.glob("*.py")}))


def deb(name: str, version: str, members: Iterable[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    """A package as dpkg-deb would make it; members are files as `(path, content)` or whatever a TarInfo says."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody\nDescription: test\n"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": lzma.compress(_tar([("control", control.encode())])),
        "data.tar.xz": lzma.compress(_tar(members)),
    }
    out = b"!<arch>\n"
    for part, content in parts.items():
        out += f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}".encode() + b"`\n" + content
        out += b"\n" * (len(content) & 1)
    return out


def _tar(members: Iterable[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            path, content = member
            item = tarfile.TarInfo(f"./{path}")
            item.size, item.mtime, item.uname, item.gname = len(content), EPOCH - 60, "someone", "somegroup"
            tar.addfile(item, io.BytesIO(content))
    return out.getvalue()


@dataclass(frozen=True)
class Shelf:
    """A folder of images and the packages that their locks name."""

    root: Path

    @property
    def catalog(self) -> Catalog:
        return Catalog((self.root,))

    def define(self, name: str, text: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "image.toml").write_text(text)
        return folder

    def lock(
        self, name: str, packages: Mapping[str, bytes], *, files: Mapping[str, tuple[str, bytes]] = {}
    ) -> ImageLock:
        """Lock `packages` (name -> .deb) and `files` (target -> source and content) and put them into the store."""
        entries = [self.stored("deb", key, "1.0", f"pool/{key}_1.0_amd64.deb", deb) for key, deb in packages.items()]
        for target, (source, content) in files.items():
            (self.root / name / source).write_bytes(content)
            entries.append(self.stored("file", target, "", source, content))
        definition = self.catalog.definition(name)
        base = definition.base
        lock = ImageLock(
            spec_sha256=definition.digest,
            builder=builder_digest(),
            source_date_epoch=EPOCH,
            suites=(SUITE,) if packages else (),
            base=LockedBase(name=base, pin=self.catalog.lock(base).pin) if base else None,
            entries=tuple(sorted(entries, key=lambda entry: (entry.kind, entry.name))),
            pin=UNPINNED,
        )
        recipe = self.catalog.recipe(name, lock)
        pin, _ = make(recipe, (), self.catalog.folders(name), lambda _: None)
        lock = lock.model_copy(update={"pin": pin})
        lock.write(self.root / name)
        return lock

    def stored(self, kind: str, name: str, version: str, path: str, content: bytes) -> LockedPackage:
        digest = sha256_hex(content)
        store = package_store()
        store.mkdir(parents=True, exist_ok=True)
        (store / digest).write_bytes(content)
        return LockedPackage.model_validate(
            {"kind": kind, "name": name, "version": version, "sha256": digest, "bytes": len(content), "path": path}
        )


def small_shelf(root: Path) -> Shelf:
    """One image, `small`, of two packages: accounts and a file."""
    shelf = Shelf(root)
    shelf.define("small", 'packages = ["hello-file", "base-passwd"]\n')
    shelf.lock("small", small_packages())
    return shelf


def small_packages() -> dict[str, bytes]:
    return {
        "base-passwd": deb("base-passwd", "1.0", list(ACCOUNTS.items())),
        "hello-file": deb("hello-file", "1.0", [("usr/share/hello", b"hello\n"), ("bin/hi", b"#!/bin/sh\necho hi\n")]),
    }
