"""What is taken from a solution, and what is put back as it was, before it is graded (formats 7)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from appliance.ports import TreeEntry
from appliance.trials.grading.tree import Node, after, entries_of, file_changes, folders_of
from attest import toml

LOADED_BY_THEMSELVES: Final = (
    "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "*.pyc",
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", ".coveragerc", ".npmrc",
    "Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "configure",
)  # fmt: skip
"""Names that runners, interpreters and build tools read unasked, wherever they lie; make and pytest by all theirs."""
LOADED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", ".git"})
_LOADED_MODULES: Final = frozenset({"sitecustomize", "usercustomize", "conftest"})
_MODULE_FILE = re.compile(r"^(?P<module>[^.]+)(\.[\w-]+)*\.(py|pyi|pyc|so)$")


@dataclass(frozen=True)
class Sifted:
    """`allowed` turns the pristine tree into what is graded; `restored` are the paths that stayed as they were."""

    allowed: tuple[TreeEntry, ...]
    restored: tuple[bytes, ...]


def sift(
    pristine: Mapping[bytes, Node],
    entries: Sequence[TreeEntry],
    *,
    test_files: Iterable[str],
    protected: Sequence[str],
    allow: Sequence[str],
    modules: Callable[[], frozenset[str]],
) -> Sifted:
    """`modules` gives the top-level names that the image's Python can import; asked for only where it matters.

    `protected` and test files are never taken, whatever `allow` says.
    """
    tests = frozenset(name.encode() for name in test_files)
    keep_out = _Rules(tests, tuple(protected), tuple(allow), pristine, modules)
    changes = file_changes(pristine, after(pristine, entries))
    restored = [change.path for change in changes if keep_out.reason(change.path, change.old, change.new) is not None]
    kept_back = frozenset(restored)
    # What a restored file needs in its way: a folder of a protected path replaced by a file or a link gives way.
    needed = folders_of(path for path in kept_back | tests if path in pristine or path in tests)
    blocked = [change.path for change in changes if change.new is not None and change.path in needed]
    restored += [path for path in blocked if path not in kept_back]
    kept_back |= frozenset(blocked)
    graded = {path: node for path, node in after(pristine, entries).items() if path not in kept_back}
    graded.update({path: pristine[path] for path in kept_back if path in pristine})
    return Sifted(entries_of(file_changes(pristine, graded)), tuple(sorted(restored)))


@dataclass(frozen=True)
class _Rules:
    tests: frozenset[bytes]
    protected: tuple[str, ...]
    allow: tuple[str, ...]
    pristine: Mapping[bytes, Node]
    modules: Callable[[], frozenset[str]]

    def reason(self, path: bytes, old: Node | None, new: Node | None) -> str | None:
        """Why this path stays as it was, or None where the change is taken."""
        if path in self.tests:
            return "a test file"
        text = path.decode("utf-8", "surrogateescape")
        if matches(text, self.protected):
            return "protected"
        if matches(text, self.allow):
            return None
        if _loaded_by_itself(text, old, new):
            return "loaded by runners"
        if old is None and self._shadows(text):
            return "shadows a module"
        return None

    def _shadows(self, text: str) -> bool:
        """An added NAME.py or NAME/ at the root or beside a test, where NAME is a module of the image."""
        return any(
            name in _LOADED_MODULES or name in self.modules() for name in self._module_names(PurePosixPath(text))
        )

    def _module_names(self, path: PurePosixPath) -> Iterable[str]:
        for folder in self._import_roots:
            if path == folder or not path.is_relative_to(folder):
                continue
            first = path.relative_to(folder).parts[0]
            whole = (folder / first).as_posix().encode("utf-8", "surrogateescape")
            if path == folder / first:
                found = _MODULE_FILE.match(first)
                # A link of a module's name may lead to a folder, which is a package.
                yield found["module"] if found else first
            elif not any(known.startswith(whole + b"/") for known in self.pristine):
                yield first

    @property
    def _import_roots(self) -> frozenset[PurePosixPath]:
        beside = (PurePosixPath(test.decode("utf-8", "surrogateescape")).parent for test in self.tests)
        return frozenset({PurePosixPath(), *beside})


def _loaded_by_itself(text: str, old: Node | None, new: Node | None) -> bool:
    parts = text.split("/")
    if LOADED_FOLDERS.intersection(parts) or matches(parts[-1], LOADED_BY_THEMSELVES):
        return True
    if parts[-1] == "pyproject.toml":
        return _part(old, _pytest_tables) != _part(new, _pytest_tables)
    if parts[-1] == "package.json":
        return _part(old, _scripts) != _part(new, _scripts)
    return False


def _part(node: Node | None, read: Callable[[bytes], object]) -> object:
    """The part of a file that a runner reads; nothing to read is None, and what cannot be read is unlike anything."""
    if node is None:
        return None
    if node.mode == "link":
        return object()
    try:
        return read(node.content)
    except (ValueError, AttributeError, RecursionError):
        return object()


def _pytest_tables(content: bytes) -> object:
    tool = toml.loads(content.decode()).get("tool", {})
    return {name: table for name, table in tool.items() if name.startswith("pytest")} or None


def _scripts(content: bytes) -> object:
    return json.loads(content).get("scripts") or None


def matches(path: str, globs: Iterable[str]) -> bool:
    """As in .gitignore: without a slash a glob matches a name at any depth, with one the path from the root."""
    return any(_pattern(glob).fullmatch(path) is not None for glob in globs)


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    anchored = "/" in glob.rstrip("/")
    glob = glob.removeprefix("/")
    if glob.endswith("/"):
        glob += "**"
    pieces = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]/]+\])", glob)
    body = "".join(pieces.get(word) or (_class(word) if word.startswith("[") else re.escape(word)) for word in words)
    return re.compile(("" if anchored else "(?:.*/)?") + body, re.DOTALL)


def _class(word: str) -> str:
    if not (word.endswith("]") and len(word) > 2):
        return re.escape(word)
    inner = word[1:-1].replace("\\", "\\\\")
    return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
