"""From packages to a tree, without root, chroot or container: what maintainer scripts would do is here as values."""

from __future__ import annotations

import fnmatch
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from appliance.errors import InputRefused
from appliance.images.builder.deb import Deb
from appliance.images.builder.tar import Entry, Kind, sort_key

Tree = dict[str, Entry]

USERS = (("bench", 1000), ("judge", 1001))
"""The solver's and everything else's user; and the oracle's."""
_MERGED = ("bin", "sbin", "lib", "lib64")
_LEFT_OUT = (
    "usr/share/man/*",
    "usr/share/info/*",
    "usr/share/locale/*",
    "usr/share/lintian/*",
    "usr/share/doc-base/*",
    "dev/*",
)
_FOLDERS = {
    "dev": 0o755,
    "etc/ssl/certs": 0o755,
    "media": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "proc": 0o555,
    "root": 0o700,
    "run": 0o755,
    "run/lock": 0o1777,
    "srv": 0o755,
    "sys": 0o555,
    "tmp": 0o1777,
    "usr/local/bin": 0o755,
    "var/lib/dpkg/info": 0o755,
    "var/lib/dpkg/updates": 0o755,
    "var/tmp": 0o1777,
}
_COPIED = {
    "etc/inputrc": "usr/share/readline/inputrc",
    "etc/motd": "usr/share/base-files/motd",
    "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
    "etc/profile": "usr/share/base-files/profile",
    "root/.bashrc": "usr/share/base-files/dot.bashrc",
    "root/.profile": "usr/share/base-files/dot.profile",
}
_ALTERNATIVES = {
    "usr/bin/awk": "mawk",
    "usr/bin/c++": "g++",
    "usr/bin/c89": "c89-gcc",
    "usr/bin/c99": "c99-gcc",
    "usr/bin/cc": "gcc",
    "usr/bin/nawk": "mawk",
    "usr/bin/pager": "more",
    "usr/bin/which": "which.debianutils",
}
"""What update-alternatives would choose among the packages that we lock; a name stands only where its target does."""


def assemble(debs: Iterable[Deb], epoch: int, architecture: str) -> Tree:
    """The root file system of these packages, every directory and file no newer than `epoch`."""
    chosen = sorted(debs, key=lambda deb: deb.name)
    tree: Tree = {}
    for name in _MERGED:
        tree[name] = Entry(name, "symlink", 0o777, mtime=epoch, link=f"usr/{name}")
        tree[f"usr/{name}"] = Entry(f"usr/{name}", "directory", 0o755, mtime=epoch)
    for deb in chosen:
        _unpack(tree, deb, epoch)
    _regroup_hard_links(tree)
    _dpkg_database(tree, chosen, epoch, architecture)
    _configure(tree, epoch)
    return tree


def add_parents(tree: Tree, epoch: int) -> None:
    """Every folder that something lies in and nothing declares: root's, 755."""
    for name in list(tree):
        parent = name.rpartition("/")[0]
        while parent and parent not in tree:
            tree[parent] = Entry(parent, "directory", 0o755, mtime=epoch)
            parent = parent.rpartition("/")[0]


def difference(tree: Mapping[str, Entry], below: Mapping[str, Entry]) -> Tree:
    """What a layer over `below` must hold to make `tree`, with the folders that its entries lie in.

    Hard links need their target in the same layer. Raises InputRefused where something of `below` is gone: packages
    only add.
    """
    gone = sorted(below.keys() - tree.keys())
    if gone:
        raise InputRefused(f"its packages take away what the base has, /{gone[0]} for one", mend="drop the base")
    layer = {name: entry for name, entry in tree.items() if below.get(name) != entry}
    for entry in list(layer.values()):
        if entry.kind == "hardlink":
            layer.setdefault(entry.link, tree[entry.link])
    for name in list(layer):
        parent = name.rpartition("/")[0]
        while parent:
            layer.setdefault(parent, tree[parent])
            parent = parent.rpartition("/")[0]
    return layer


def _unpack(tree: Tree, deb: Deb, epoch: int) -> None:
    for entry in deb.entries:
        name = _merged(entry.name)
        if entry.name in _MERGED or _is_left_out(name, entry.kind):
            continue
        if entry.kind == "directory":
            # A directory's time tells how it was unpacked, not what it is.
            tree.setdefault(name, replace(entry, name=name, mtime=epoch))
            continue
        link = _merged(entry.link) if entry.kind == "hardlink" else entry.link
        tree[name] = replace(entry, name=name, link=link, mtime=min(entry.mtime, epoch))


def _merged(name: str) -> str:
    """`/usr` is merged: /bin/x is /usr/bin/x."""
    top, _, rest = name.partition("/")
    return f"usr/{name}" if rest and top in _MERGED else name


def _is_left_out(name: str, kind: Kind) -> bool:
    if name.startswith("usr/share/doc/"):
        # A package's folder may be a link to another's; the copyright that it must carry lies there.
        return not name.endswith("/copyright") and not (kind == "symlink" and name.count("/") == 3)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _LEFT_OUT)


def _regroup_hard_links(tree: Tree) -> None:
    """The content of linked files goes under the first of their names, so that it precedes its links in any tar."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in tree.values():
        if entry.kind == "hardlink":
            groups[entry.link].append(entry.name)
    for target, links in groups.items():
        if target not in tree:
            raise InputRefused(f"/{links[0]} is a hard link to /{target}, which the image does not have")
        source = tree[target]
        first, *others = sorted([target, *links], key=sort_key)
        tree[first] = replace(source, name=first)
        for name in others:
            tree[name] = replace(source, name=name, kind="hardlink", link=first, content=b"")


def _dpkg_database(tree: Tree, debs: list[Deb], epoch: int, architecture: str) -> None:
    def keep(name: str, content: bytes) -> None:
        tree[f"var/lib/dpkg/{name}"] = Entry(f"var/lib/dpkg/{name}", mtime=epoch, content=content)

    for deb in debs:
        qualified = f"{deb.name}:{architecture}" if deb.multi_arch_same else deb.name
        keep(f"info/{qualified}.list", "".join(f"{path}\n" for path in deb.paths).encode("utf-8", "surrogateescape"))
        for part in ("conffiles", "md5sums"):
            if part in deb.control:
                keep(f"info/{qualified}.{part}", deb.control[part])
    keep("arch", f"{architecture}\n".encode())
    keep("available", b"")
    keep("info/format", b"1\n")
    keep("status", "\n".join(_status(tree, deb) for deb in debs).encode())


def _status(tree: Tree, deb: Deb) -> str:
    lines = deb.control["control"].decode().rstrip("\n").split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith("Package:")), 0)
    lines.insert(at + 1, "Status: install ok installed")
    configured = [path for path in deb.control.get("conffiles", b"").decode().splitlines() if path.startswith("/")]
    if configured:
        lines.append("Conffiles:")
    for path in configured:
        entry = tree.get(_merged(path.lstrip("/")))
        if entry is not None and isinstance(entry.content, bytes):
            # dpkg's own format; no security hangs on it.
            lines.append(f" {path} {hashlib.md5(entry.content, usedforsecurity=False).hexdigest()}")
    return "\n".join(lines) + "\n"


def _configure(tree: Tree, epoch: int) -> None:
    """What the packages' maintainer scripts leave behind, less what is the host's or of the moment (row I14)."""

    def put(name: str, content: bytes, mode: int = 0o644, gid: int = 0) -> None:
        tree[name] = Entry(name, mode=mode, gid=gid, mtime=epoch, content=content)

    def link(name: str, target: str) -> None:
        tree[name] = Entry(name, "symlink", 0o777, mtime=epoch, link=target)

    for name, mode in _FOLDERS.items():
        tree[name] = Entry(name, "directory", mode, mtime=epoch)
    passwd, group, shadow = _accounts(tree)
    put("etc/passwd", passwd)
    put("etc/group", group)
    put("etc/shadow", shadow, 0o640, gid=42)
    for user, number in USERS:
        home = f"home/{user}"
        tree[home] = Entry(home, "directory", 0o755, number, number, epoch)
    for name, source in _COPIED.items():
        if source in tree:
            put(name, _bytes(tree, source))
    link("var/run", "/run")
    link("var/lock", "/run/lock")
    put("etc/timezone", b"Etc/UTC\n")
    if "usr/share/zoneinfo/Etc/UTC" in tree:
        link("etc/localtime", "/usr/share/zoneinfo/Etc/UTC")
    for name, target in _ALTERNATIVES.items():
        if f"usr/bin/{target}" in tree:
            link(name, target)
    certificates = [
        name for name in tree if name.startswith("usr/share/ca-certificates/mozilla/") and name.endswith(".crt")
    ]
    if certificates:
        bundle = b"".join(_bytes(tree, name).rstrip(b"\n") + b"\n" for name in sorted(certificates))
        put("etc/ssl/certs/ca-certificates.crt", bundle)


def _accounts(tree: Tree) -> tuple[bytes, bytes, bytes]:
    try:
        passwd = _bytes(tree, "usr/share/base-passwd/passwd.master").decode().replace(":*:", ":x:")
        group = _bytes(tree, "usr/share/base-passwd/group.master").decode().replace(":*:", ":x:")
    except KeyError as error:
        raise InputRefused(
            "no base-passwd among its packages: an image without a base needs the essential ones"
        ) from error
    for user, number in USERS:
        passwd += f"{user}:x:{number}:{number}:{user}:/home/{user}:/bin/bash\n"
        group += f"{user}:x:{number}:\n"
    names = [line.partition(":")[0] for line in passwd.splitlines()]
    shadow = "".join(f"{name}:*::0:99999:7:::\n" for name in names)
    return passwd.encode(), group.encode(), shadow.encode()


def _bytes(tree: Tree, name: str) -> bytes:
    content = tree[name].content
    if not isinstance(content, bytes):
        raise TypeError(f"{name}: packages are unpacked in memory")
    return content
