"""Wheels through the machine's own pip: its indexes, proxies and certificates, and a hash check; no host in a lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.recipe import Locked
from appliance.images.lock import LockedPackage
from appliance.images.room import MEND
from appliance.scratch import scratch_in

PYTHON: Final = {"bookworm": "3.11"}
"""The interpreter of a suite: what wheels must fit."""
_GLIBC = 36
"""bookworm's: manylinux tags up to it run there."""


def resolve(requirements: Sequence[str], suite: str, into: Path) -> tuple[LockedPackage, ...]:
    """The wheels of `requirements` and of all that they depend on, kept as `into/<sha256>`."""
    if not requirements:
        return ()
    with scratch_in(into) as scratch:
        _pip(requirements, suite, scratch, "cannot be had as wheels")
        found = []
        for wheel in sorted(scratch.glob("*.whl")):
            name, version = wheel.name.split("-")[:2]
            digest = sha256_of_file(wheel)
            found.append(
                LockedPackage(
                    kind="wheel",
                    name=name.replace("_", "-").lower(),
                    version=version,
                    sha256=digest,
                    bytes=wheel.stat().st_size,
                    path=wheel.name,
                )
            )
            wheel.replace(into / digest)
    return tuple(sorted(found, key=lambda package: package.name))


def download(packages: Sequence[Locked], suite: str, into: Path) -> None:
    """Whatever of `packages` an index still has, by hash; the rest is left to the caller to name.

    In one go, which is quicker by a second a wheel; one by one what that did not give: one that is gone fails all.
    """
    for batch in (packages, *([package] for package in packages)):
        left = [package for package in batch if not (into / package.sha256).exists()]
        if not left:
            continue
        with scratch_in(into) as scratch:
            asked = scratch / "asked.txt"
            asked.write_text("".join(f"{one.name}=={one.version} --hash=sha256:{one.sha256}\n" for one in left))
            try:
                _pip(["--no-deps", "--require-hashes", "-r", str(asked)], suite, scratch, "")
            except InputRefused:
                continue
            wanted = {package.sha256 for package in left}
            for wheel in scratch.glob("*.whl"):
                digest = sha256_of_file(wheel)
                if digest in wanted:
                    wheel.replace(into / digest)


def _pip(arguments: Sequence[str], suite: str, into: Path, failure: str) -> None:
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON[suite]}"]
    target += [f"--platform={platform}" for platform in platforms]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--dest", str(into)]
    ended = subprocess.run([*command, *target, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        if "No module named pip" in ended.stderr:
            raise HostRefused("this Python has no pip, which fetches wheels", mend=f"{sys.executable} -m ensurepip")
        if "[Errno 28]" in ended.stderr:
            raise HostRefused("no space left on device", where=str(into), mend=MEND, reason="disk_full")
        words = next(
            (line for line in ended.stderr.splitlines()[::-1] if line.startswith("ERROR: ")), ended.stderr[-200:]
        )
        raise InputRefused(f"{failure}: {words.removeprefix('ERROR: ').strip()}", where="wheels")
