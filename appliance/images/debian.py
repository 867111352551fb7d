"""Debian packages through the machine's own apt: mirrors, a private root to resolve in, downloads with a hash check.

Nothing of the machine's package state is read or changed, and no host reaches a lock.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.recipe import Locked
from appliance.images.lock import LockedPackage, LockedSuite
from appliance.scratch import scratch_in

ARCHIVE: Final = "debian"
MIRROR_VARIABLE: Final = "APPLIANCE_DEBIAN_MIRROR"
SNAPSHOT_VARIABLE: Final = "APPLIANCE_DEBIAN_SNAPSHOT"
_COMPONENTS = ("main",)
_ARCHITECTURE = "amd64"
_HELPER = Path("/usr/lib/apt/apt-helper")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_BATCH = 64
"""Downloads a call of apt-helper: its arguments stay far below the kernel's bound."""


@dataclass(frozen=True)
class Resolved:
    suite: LockedSuite
    epoch: int
    packages: tuple[LockedPackage, ...]


def mirrors() -> tuple[str, ...]:
    """Base addresses of Debian archives, with a slash behind: the variable's, else the machine's apt configuration's.

    Raises HostRefused where neither names one.
    """
    named = os.environ.get(MIRROR_VARIABLE, "").split()
    found = named or [uri for uri in _configured() if uri.rstrip("/").endswith(f"/{ARCHIVE}")]
    if not found:
        raise HostRefused("this machine's apt knows no Debian mirror", mend=f"set {MIRROR_VARIABLE} to one's address")
    return tuple(dict.fromkeys(f"{uri.rstrip('/')}/" for uri in found))


def snapshots(suite: LockedSuite) -> tuple[str, ...]:
    """The lock's moment on the snapshot archives that the variable names; none without it."""
    return tuple(
        f"{base.rstrip('/')}/archive/{suite.archive}/{suite.snapshot}/"
        for base in os.environ.get(SNAPSHOT_VARIABLE, "").split()
    )


def resolve(wanted: Sequence[str], suite: str, scratch: Path) -> Resolved:
    """The essential packages, `wanted`, and all that they depend on, as the suite has them now.

    Raises HostRefused where apt or the mirror fail, InputRefused for a package that the suite does not have.
    """
    mirror = mirrors()[0]
    environment = _private_root(scratch, mirror, suite)
    _apt(["update", "-q"], environment, "the package lists of the mirror could not be had")
    lists = scratch / "lists"
    in_release = _only(lists, "*_InRelease")
    offered = _offered(_only(lists, "*_Packages"))
    simulated = _apt(["install", "-s", "-y", "-q", "?essential", *wanted], environment, None)
    packages = []
    for name, version in re.findall(r"^Inst (\S+) \((\S+) ", simulated, re.M):
        bare = name.partition(":")[0]
        offer = offered[bare, version]
        packages.append(
            LockedPackage(
                kind="deb",
                name=bare,
                version=version,
                sha256=offer["SHA256"],
                bytes=int(offer["Size"]),
                path=offer["Filename"],
            )
        )
    state, epoch = _suite(in_release, suite)
    return Resolved(state, epoch, tuple(sorted(packages, key=lambda package: package.name)))


def download(packages: Sequence[Locked], bases: Sequence[str], into: Path) -> None:
    """Whatever of `packages` the first of `bases` that has it gives, as `into/<sha256>`; the rest is left to others."""
    if not _HELPER.exists():
        raise HostRefused(
            f"{_HELPER} is missing: Debian packages are fetched by apt", mend="use a Debian or Ubuntu host"
        )
    for base in bases:
        left = [package for package in packages if not (into / package.sha256).exists()]
        for start in range(0, len(left), _BATCH):
            # A folder a call: two programs may fetch the same packages at a time.
            with scratch_in(into) as scratch:
                _fetch(left[start : start + _BATCH], base, scratch, into)


def _fetch(packages: Sequence[Locked], base: str, scratch: Path, into: Path) -> None:
    wanted = [
        part
        for package in packages
        for part in (base + package.path, str(scratch / package.sha256), f"SHA256:{package.sha256}")
    ]
    # apt-helper goes on after a failure and says which; what counts is what lies there afterwards.
    subprocess.run(
        [str(_HELPER), "-q", "-o", "APT::Sandbox::User=root", "download-file", *wanted],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    for package in packages:
        found = scratch / package.sha256
        if found.is_file() and sha256_of_file(found) == package.sha256:
            found.replace(into / package.sha256)


def _configured() -> list[str]:
    if shutil.which("apt-get") is None:
        return []
    listed = subprocess.run(
        ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.stdout.split()


def _private_root(root: Path, mirror: str, suite: str) -> dict[str, str]:
    if not _KEYRING.exists():
        raise HostRefused(f"{_KEYRING} is missing", mend="apt-get install debian-archive-keyring")
    for folder in ("lists/partial", "cache/archives/partial", "etc"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "status").touch()
    source = f"deb [arch={_ARCHITECTURE} signed-by={_KEYRING}] {mirror} {suite} {' '.join(_COMPONENTS)}\n"
    (root / "etc/sources.list").write_text(source)
    nothing = "".join(
        f'Dir::Etc::{part} "/dev/null"; '
        for part in ("SourceParts", "Parts", "Main", "Preferences", "PreferencesParts", "TrustedParts", "Trusted")
    )
    settings = f"""\
Dir "{root}"; Dir::State "{root}"; Dir::State::Lists "{root}/lists"; Dir::State::status "{root}/status";
Dir::Cache "{root}/cache"; Dir::Etc "{root}/etc"; Dir::Etc::SourceList "{root}/etc/sources.list";
{nothing}
APT::Architecture "{_ARCHITECTURE}"; APT::Architectures {{ "{_ARCHITECTURE}"; }};
APT::Install-Recommends "false"; APT::Install-Suggests "false"; APT::Sandbox::User "root";
Acquire::Languages "none"; Acquire::GzipIndexes "false"; Debug::NoLocking "true";
"""
    (root / "apt.conf").write_text(settings + _transport())
    return {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}


def _transport() -> str:
    """The machine's proxies and certificates: how it reaches its mirrors, not what it installs."""
    if shutil.which("apt-config") is None:
        raise HostRefused("apt is missing: it is what resolves Debian packages", mend="lock on a Debian or Ubuntu host")
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    return "".join(f"{line}\n" for line in dumped.splitlines() if re.match(r"Acquire::https?::", line))


def _apt(arguments: Sequence[str], environment: Mapping[str, str], failure: str | None) -> str:
    ended = subprocess.run(["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False)
    words = next((line for line in ended.stderr.splitlines() if line.startswith("E: ")), ended.stderr.strip()[-200:])
    if ended.returncode or (failure and "W: Failed to fetch" in ended.stderr):
        message = words.removeprefix("E: ")
        if failure:
            raise HostRefused(f"{failure}: {message}", mend=f"set {MIRROR_VARIABLE} to a mirror that answers")
        raise InputRefused(f"apt cannot install these packages: {message}", where="packages")
    return ended.stdout


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise HostRefused(f"apt left {len(found)} files {pattern} where one was expected", mend="try another mirror")
    return found[0]


def _offered(index: Path) -> dict[tuple[str, str], dict[str, str]]:
    offered = {}
    for paragraph in index.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Filename|Size|SHA256): (.*)$", paragraph, re.M))
        if fields:
            offered[fields["Package"], fields["Version"]] = fields
    return offered


def _suite(in_release: Path, suite: str) -> tuple[LockedSuite, int]:
    fields = dict(re.findall(r"^(Version|Date): (.*)$", in_release.read_text(encoding="utf-8"), re.M))
    date = datetime.strptime(fields["Date"], "%a, %d %b %Y %H:%M:%S UTC").replace(tzinfo=UTC)
    # A snapshot archive takes its picture some hours after a release; it answers with the last one before a moment.
    snapshot = date + timedelta(hours=6)
    state = LockedSuite(
        archive=ARCHIVE,
        suite=suite,
        components=_COMPONENTS,
        version=fields.get("Version"),
        date=date.strftime("%Y-%m-%dT%H:%M:%SZ"),
        in_release_sha256=sha256_of_file(in_release),
        snapshot=snapshot.strftime("%Y%m%dT%H%M%SZ"),
    )
    return state, int(date.timestamp())
