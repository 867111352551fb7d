"""Byte code, compiled by the image's own interpreter without root, chroot or container (row I15).

Its dynamic loader is called by path. A fixed list in a fixed order (`-i`), one process and `-B` make the result the
same in every folder and every time; unchecked-hash files look at no clock. Without byte code Python starts in
250 ms instead of 55, and that falsifies every trial's time.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from appliance.errors import HostRefused
from appliance.images.builder.rootfs import Tree
from appliance.images.builder.spool import Spool
from appliance.images.builder.tar import Entry, Slice, sort_key

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = f"{_LIBRARIES}/ld-linux-x86-64.so.2"


def interpreter(tree: Tree) -> str | None:
    """`python3.11`: the newest interpreter that the image has."""
    found = [match for name in tree if (match := re.fullmatch(r"usr/bin/(python3\.(\d+))", name))]
    return max(found, key=lambda match: int(match[2]))[1] if found else None


def compile_python(tree: Tree, sources: Collection[str], epoch: int, spool: Spool, tools: Tree | None = None) -> None:
    """Add the byte code of `sources`, names in `tree`; a file that is no valid Python (a template, a test of the
    parser) gets none. `tools`: the tree that has the interpreter, where `tree` will lie on another. Raises HostRefused
    where this machine cannot run the image's interpreter.
    """
    whole = {**(tools or {}), **tree}
    version = interpreter(whole)
    if version is None or not sources:
        return
    root = Path(tempfile.mkdtemp(prefix="bench-bytecode."))
    try:
        for name, entry in whole.items():
            found = resolved(whole, name) if name in sources else entry
            if found and (name in sources or _is_needed(name, version)):
                _lay(root / name, found, whole, root)
        _compile(root, version, sorted(sources, key=sort_key))
        for name in sorted(_compiled(source, version) for source in sources):
            path, folder = root / name, name.rpartition("/")[0]
            if not path.exists():
                continue
            tree[name] = Entry(name, mtime=epoch, content=spool.keep_bytes(path.read_bytes()))
            tree.setdefault(folder, Entry(folder, "directory", 0o755, mtime=epoch))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def python_sources(tree: Tree, own: str | None = None) -> set[str]:
    """The Python files that a program of the image may import: those of its library folders, `own` among them."""
    version = interpreter(tree)
    tops = (f"usr/lib/{version}/", "usr/lib/python3/", f"usr/local/lib/{version}/", *([f"{own}/"] if own else []))
    return {name for name in tree if name.endswith(".py") and name.startswith(tops) and resolved(tree, name)}


def resolved(tree: Tree, name: str) -> Entry | None:
    """The file that `name` is or links to, through any number of links; None where it is none."""
    for _ in range(40):  # as many as Linux follows
        entry = tree.get(name)
        if entry is None or entry.kind == "directory":
            return None
        if entry.kind == "file":
            return entry
        if entry.kind == "hardlink":
            name = entry.link
        else:
            name = posixpath.normpath(posixpath.join("/", posixpath.dirname(name), entry.link)).lstrip("/")
    return None


def _compiled(source: str, version: str) -> str:
    """Where `compileall` puts a source's byte code."""
    folder, _, file = source.rpartition("/")
    return (
        f"{folder}/__pycache__/{file.removesuffix('.py')}.c{version.replace('.', '').replace('python', 'python-')}.pyc"
    )


def _is_needed(name: str, version: str) -> bool:
    return name.startswith((f"{_LIBRARIES}/lib", f"{_LIBRARIES}/ld-", f"usr/lib/{version}/", f"usr/bin/{version}"))


def _lay(path: Path, entry: Entry, tree: Tree, root: Path) -> None:
    if entry.kind == "directory":
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind == "symlink":
        link = os.path.relpath(f"{root}{entry.link}", path.parent) if entry.link.startswith("/") else entry.link
        path.symlink_to(link)
        return
    content = tree[entry.link].content if entry.kind == "hardlink" else entry.content
    path.write_bytes(b"".join(content.chunks()) if isinstance(content, Slice) else content)
    path.chmod(entry.mode | 0o400)


def _compile(root: Path, version: str, sources: list[str]) -> None:
    loader = [str(root / _LOADER), "--library-path", str(root / _LIBRARIES), str(root / f"usr/bin/{version}")]
    options = ["-B", "-m", "compileall", "-f", "-q", "-j1", "--invalidation-mode", "unchecked-hash"]
    try:
        ended = subprocess.run(
            [*loader, *options, "-s", str(root), "-p", "/", "-i", "-"],
            input="".join(f"{root}/{name}\n" for name in sources),
            # Nothing of ours reaches the interpreter: PYTHONPATH, locale or a hash seed would show in the bytes.
            env={"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise HostRefused(
            f"the image's interpreter does not run here: {error.strerror}", mend="build on x86-64 Linux"
        ) from error
    # 1 says that some file did not compile, which lib2to3's own tests never do.
    if ended.returncode not in (0, 1):
        raise HostRefused(
            f"the image's interpreter does not run here: {ended.stderr.strip()[-200:] or ended.returncode}",
            mend="build on x86-64 Linux, with TMPDIR on a file system that is not mounted noexec",
        )
