"""The builder against mmdebstrap, which runs every maintainer script: the same packages, the same contents."""

from __future__ import annotations

import io
import os
import posixpath
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from appliance.digests import sha256_hex
from appliance.images.archives import read_archive
from appliance.images.build import build
from appliance.images.builder.deb import read_deb
from appliance.images.builder.recipe import Recipe
from appliance.images.catalog import Catalog
from appliance.images.store import package_store

CATALOG = Catalog((Path(__file__).parents[2] / "images",))
Tree = dict[str, tuple[object, ...]]

OURS_ONLY = {
    r"home/(bench|judge)": "the users of trials",
    r"etc/timezone": "tzdata writes it, which is not among the packages",
    r"var/lib/dpkg/available": "dpkg makes it when it is asked",
}
THEIRS_ONLY = {
    r"etc/(hostname|resolv\.conf|apt/sources\.list|dpkg/dpkg\.cfg\.d/.*)": "the host's, or mmdebstrap's",
    r"etc/(passwd|group)-": "backups",
    r"etc/(\.pwd\.lock|gshadow|subuid|subgid|security/opasswd|environment|fstab|shells)": "for logins and mounts",
    r"etc/(alternatives/.*|rc.\.d/.*|systemd/.*|dpkg/origins/default|pam\.d/common-.*)": "for administration",
    r"etc/(ca-certificates\.conf|python3(/.*)?)": "read by programs that install more",
    r"usr/sbin/rmt": "an alternative that nothing here needs",
    r"etc/ssl/certs/.*": "one link a certificate; all of them are in ca-certificates.crt",
    r"etc/ld\.so\.cache": "the loader finds the default folders without it",
    r"dev/.*": "the container's runtime makes it",
    r"etc/opt|usr/local/.*|var/(opt|mail|spool/mail)": "empty folders",
    r"usr/share/(doc|info)/.*": "dpkg keeps folders and links of what it leaves out",
    r"var/(cache|log|lib/apt|lib/systemd|lib/pam|lib/shells\.state|lib/python)(/.*)?": "caches, logs, lists",
    r"var/lib/dpkg/(alternatives|triggers|diversions|statoverride|lock|.*-old)(/.*)?": "dpkg's own",
    r"var/lib/dpkg/(lock-frontend|triggers|.*-new|diversions-old)": "dpkg's own",
    r"var/lib/dpkg/info/.*\.(p(re|ost)(inst|rm)|triggers|shlibs|symbols|config|templates)": "scripts have run",
    r"usr/share/python3/(.*/)?__pycache__(/.*)?": "of the program that compiles, which no task runs",
}
DIFFERING = {
    r"etc/(passwd|group)": "theirs lack bench and judge",
    r"etc/shadow": "the day of the last change is that of the build; ours has none",
    r"usr/bin/(awk|nawk|pager|which)": "straight to the program, not by way of /etc/alternatives",
    r"(proc|sys)": "mount points",
    r"var/(cache/apt/archives|lib/apt/lists)/partial": "apt's own user",
    r"var/lib/dpkg/(status|info/.*\.list)": "the status is compared as packages below",
    r".*\.pyc": "checked by their hash of the source, not at all in ours (I15)",
}


def listed(table: dict[str, str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in table)


def tree_of(content: bytes) -> Tree:
    """Name -> kind, mode, owners, and content or target; hard links as the files that they are."""
    found: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            name = posixpath.normpath(member.name).lstrip("/")
            owner = (member.mode & 0o7777, member.uid, member.gid)
            stream = tar.extractfile(member) if member.isfile() else None
            if name in (".", ""):
                continue
            if stream:
                found[name] = ("file", owner, sha256_hex(stream.read()))
            elif member.islnk():
                found[name] = found[posixpath.normpath(member.linkname).lstrip("/")]
            elif member.issym():
                found[name] = ("link", member.linkname)
            elif member.isdir():
                found[name] = ("folder", owner)
    return found


def flat_repository(recipe: Recipe, folder: Path) -> list[str]:
    """The locked packages and nothing else, as apt reads a folder; the exact versions to install."""
    folder.mkdir()
    paragraphs, wanted = [], []
    for package in recipe.all_packages:
        file = folder / Path(package.path).name
        shutil.copyfile(package_store() / package.sha256, file)
        control = read_deb(file.read_bytes(), package.name).control["control"].decode().rstrip("\n")
        paragraphs.append(f"{control}\nFilename: ./{file.name}\nSize: {package.bytes}\nSHA256: {package.sha256}\n")
        wanted.append(f"{package.name}={package.version}")
    index = "\n".join(paragraphs).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Release").write_text(
        "Origin: lock\nSuite: bookworm\nCodename: bookworm\nDate: Thu, 01 Jan 1970 00:00:00 UTC\n"
        f"SHA256:\n {sha256_hex(index)} {len(index)} Packages\n"
    )
    return wanted


def mmdebstrap(recipe: Recipe, scratch: Path) -> bytes:
    repository = scratch / "repository"
    wanted = flat_repository(recipe, repository)
    left_out = [f"path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale", "info", "lintian", "doc-base")]
    options = [*left_out, "path-include=/usr/share/doc/*/copyright", "force-unsafe-io"]
    root = scratch / "root"
    root.mkdir()
    # In memory: dpkg waits for the disk after every package. unshare: this mount, and the bind mount of the
    # repository, can never be left behind on this machine.
    in_memory = f'mount -t tmpfs -o size=2g bench-test {root} && exec "$@"'
    ended = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", in_memory, "-"),
            *("mmdebstrap", "--mode=root", "--variant=custom", f"--include={','.join(wanted)}"),
            *(f"--dpkgopt={option}" for option in options),
            f'--setup-hook=mkdir -p "$1/{repository}"; mount --bind {repository} "$1/{repository}"',
            f'--customize-hook=umount "$1/{repository}"; rmdir -p --ignore-fail-on-non-empty "$1/{repository}"',
            *("bookworm", "-", f"deb [trusted=yes] copy://{repository} ./"),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(recipe.epoch), "TMPDIR": str(root)},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-2000:]
    return ended.stdout


def installed(status: bytes) -> dict[str, str]:
    fields = re.findall(r"^(Package|Status|Version): (.*)$", status.decode(), re.M)
    assert {value for key, value in fields if key == "Status"} == {"install ok installed"}
    values = [value for key, value in fields if key != "Status"]
    return dict(zip(values[::2], values[1::2], strict=True))


def file_in(content: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        member = next(member for member in tar if posixpath.normpath(member.name) == name)
        stream = tar.extractfile(member)
        assert stream is not None
        return stream.read()


@pytest.mark.slow
@pytest.mark.root
def test_no_content_differs_from_mmdebstraps_but_for_a_listed_few(tmp_path: Path) -> None:
    """File by file: content, mode, owners, link targets; every exception has its reason above (rows I, the builder)."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no mmdebstrap (apt-get install mmdebstrap)")
    recipe = CATALOG.recipe("base")
    image = read_archive(build(CATALOG, "base", print).archive)
    content = b"".join(image.layers[0].content.chunks())
    theirs_content = mmdebstrap(recipe, tmp_path)
    ours, theirs = tree_of(content), tree_of(theirs_content)
    scratch = {str(parent).strip("/") for parent in [*(tmp_path / "repository").parents, tmp_path / "repository"]} - {
        "tmp"
    }
    assert not [name for name in ours.keys() - theirs.keys() if not listed(OURS_ONLY, name)]
    assert not [name for name in theirs.keys() - ours.keys() - scratch if not listed(THEIRS_ONLY, name)]
    both = ours.keys() & theirs.keys()
    assert not [(n, ours[n], theirs[n]) for n in sorted(both) if ours[n] != theirs[n] and not listed(DIFFERING, n)]
    assert len([name for name in both if ours[name] == theirs[name]]) > 5000
    status = "var/lib/dpkg/status"
    assert installed(file_in(content, status)) == installed(file_in(theirs_content, status))
    assert installed(file_in(content, status)) == {package.name: package.version for package in recipe.all_packages}
