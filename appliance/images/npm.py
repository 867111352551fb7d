"""npm packages through the machine's own npm: its registry, proxies and certificates; no script of theirs runs."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.recipe import Locked
from appliance.images.lock import LockedPackage
from appliance.images.room import MEND
from appliance.scratch import scratch_in

PLATFORM: Final = {"os": "linux", "cpu": "x64", "libc": "glibc"}
"""What packages must fit, in npm's words."""
_TREE: Final = "node_modules/"


def resolve(requirements: Sequence[str], omit: Sequence[str], into: Path) -> tuple[LockedPackage, ...]:
    """`requirements`, all that they depend on, and where npm's tree has each; kept as `into/<sha256>`.

    Packages for other platforms and those that `omit` names are left out. Raises InputRefused in npm's own words.
    """
    if not requirements:
        return ()
    with scratch_in(into) as scratch:
        tree = _tree(requirements, scratch)
        # A place is called as its dependents call the package, by an alias maybe; npm keeps the package's name then.
        called = {place: place.rpartition(_TREE)[2] for place in tree}
        names = {place: str(described.get("name", called[place])) for place, described in tree.items()}
        unknown = sorted(set(omit) - {*called.values(), *names.values()})
        if unknown:
            raise InputRefused(f"no package {unknown[0]} is in npm's tree", where="omit")
        chosen = [
            place
            for place, described in tree.items()
            if _fits(described) and not {called[place], names[place]} & set(omit)
        ]
        versions = {place: str(tree[place]["version"]) for place in chosen}
        tarballs = _packed([f"{names[place]}@{versions[place]}" for place in chosen], scratch)
        by_integrity = {_integrity(tarball): tarball for tarball in tarballs}
        kept: dict[Path, str] = {}
        found = []
        for place in chosen:
            resolved = str(tree[place].get("integrity", "no sha512")).split()
            tarball = next((by_integrity[one] for one in resolved if one in by_integrity), None)
            if tarball is None:
                said = f"{names[place]}@{versions[place]} is not what npm resolved: {' '.join(resolved)}"
                raise InputRefused(said, where="npm")
            if tarball not in kept:
                kept[tarball] = sha256_of_file(tarball)
                tarball.replace(into / kept[tarball])
            size = (into / kept[tarball]).stat().st_size
            found.append(
                LockedPackage(
                    kind="npm",
                    name=names[place],
                    version=versions[place],
                    sha256=kept[tarball],
                    bytes=size,
                    path=place,
                )
            )
    return tuple(sorted(found, key=lambda package: package.key))


def download(packages: Sequence[Locked], into: Path) -> None:
    """Whatever of `packages` the registry still has, by hash; the rest is left to the caller to name."""
    for asked in (packages, *([package] for package in packages)):
        # In one go, which is quicker; one by one what that did not give: a package that is gone fails all of them.
        left = [package for package in asked if not (into / package.sha256).exists()]
        if not left:
            continue
        wanted = {package.sha256 for package in left}
        with scratch_in(into) as scratch:
            try:
                tarballs = _packed([f"{package.name}@{package.version}" for package in left], scratch)
            except InputRefused:
                continue
            for tarball in tarballs:
                digest = sha256_of_file(tarball)
                if digest in wanted:
                    tarball.replace(into / digest)


def file_name(package: Locked) -> str:
    """As `npm pack` calls it."""
    return f"{package.name.removeprefix('@').replace('/', '-')}-{package.version}.tgz"


def _tree(requirements: Sequence[str], scratch: Path) -> Mapping[str, Mapping[str, Any]]:
    """Place -> what npm's lock says of the package there."""
    (scratch / "package.json").write_text('{"name": "image", "version": "0.0.0", "private": true}')
    words = ["install", "--package-lock-only", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
    _npm([*words, "--save-exact", *requirements], scratch)
    locked = json.loads((scratch / "package-lock.json").read_bytes())
    tree: dict[str, Mapping[str, Any]] = locked["packages"]
    return {place: described for place, described in tree.items() if place and not described.get("dev")}


def _fits(described: Mapping[str, Any]) -> bool:
    """As npm decides it: `!x` forbids, anything else allows."""
    for key, ours in PLATFORM.items():
        listed = described.get(key) or []
        listed = [listed] if isinstance(listed, str) else listed
        allowed = [one for one in listed if not one.startswith("!")]
        if f"!{ours}" in listed or (allowed and ours not in allowed and "any" not in allowed):
            return False
    return True


def _packed(specs: Sequence[str], scratch: Path) -> list[Path]:
    """The registry's own tarballs: packing a published package copies it."""
    folder = scratch / "packed"
    folder.mkdir()
    _npm(["pack", "--ignore-scripts", "--silent", f"--pack-destination={folder}", *dict.fromkeys(specs)], scratch)
    return sorted(folder.glob("*.tgz"))


def _integrity(tarball: Path) -> str:
    with tarball.open("rb") as stream:
        return f"sha512-{base64.b64encode(hashlib.file_digest(stream, 'sha512').digest()).decode()}"


def _npm(words: Sequence[str], folder: Path) -> None:
    try:
        ended = subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise HostRefused("no npm here, which fetches npm packages", mend="apt-get install npm") from error
    if ended.returncode:
        said = ended.stderr.splitlines()
        if any("ENOSPC" in line for line in said):
            raise HostRefused("no space left on device", where=str(folder), mend=MEND, reason="disk_full")
        # "npm error code E404", then its words, then where its log lies.
        told = [line.removeprefix("npm error ").removeprefix("npm ERR! ") for line in said if "npm err" in line.lower()]
        told = [line for line in told if line.strip() and not line.startswith(("code ", "A complete log"))]
        raise InputRefused(f"cannot be had from npm: {(told or said or ['no word'])[0].strip()}", where="npm")
