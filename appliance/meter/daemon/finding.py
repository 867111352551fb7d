"""Folders of containers below the trees of cgroups: told by the kernel as they come and go, or looked for.

While somebody watches only (decision 10). A folder that is made before its parent is watched is seen by the look that
follows every new watch. Energy row C13.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from appliance.meter.daemon.inotify import Inotify
from appliance.meter.daemon.looking import log

Discovery = Literal["off", "inotify", "looking"]
_NAMED: Final = re.compile(r"(?:^|-)[0-9a-f]{64}(?:\.scope)?$")
_DEEPEST: Final = 6
MOST_FOLDERS: Final = 8192
"""Watched at once: some MiB, of ours and of the kernel's."""


class Finder:
    """`roots`: where the trees are mounted. Raises nothing: what cannot be told is looked for, and said once."""

    def __init__(self, roots: Sequence[str], queue: Callable[[], Inotify] = Inotify):
        self.how: Discovery = "off"
        self._roots = tuple(roots)
        self._queue = queue
        self._inotify: Inotify | None = None
        self._folders: dict[int, tuple[str, int]] = {}
        """Watched ones by the kernel's number, with their depth."""
        self._named: set[str] = set()
        self._came = False

    @property
    def fd(self) -> int | None:
        """Readable when there is something to `take`."""
        return None if self._inotify is None else self._inotify.fd

    def begin(self) -> None:
        if self.how != "off":
            return
        self.how = "inotify"
        try:
            self._inotify = self._queue()
            for root in self._roots:
                self._watch(root, 0)
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def end(self) -> None:
        self._forget()
        self.how = "off"

    def take(self) -> bool:
        """What the kernel tells; True where a container's folder came."""
        if self._inotify is None:
            return False
        self._came = False
        try:
            for told in self._inotify.read():
                if told.lost:
                    self._give_up("its queue ran over")
                    return True
                if told.ended:
                    self._folders.pop(told.watch, None)
                elif told.folder and told.watch in self._folders:
                    folder, depth = self._folders[told.watch]
                    self._happened(f"{folder}/{told.name}", depth + 1, gone=told.went)
        except OSError as error:
            self._give_up(error.strerror or str(error))
            return True
        return self._came

    def folders(self, root: str) -> list[str]:
        """Of containers below one of the roots, none below another; there now, or a moment ago."""
        if self.how == "inotify":
            return [one for one in self._named if one.startswith(f"{root}/")]
        return list(_named_below(root))

    def _happened(self, path: str, depth: int, *, gone: bool) -> None:
        if _NAMED.search(path.rpartition("/")[2]):
            if gone:
                self._named.discard(path)
            else:
                self._name(path)
        elif not gone and depth <= _DEEPEST:
            self._watch(path, depth)

    def _name(self, path: str) -> None:
        self._came = self._came or path not in self._named
        self._named.add(path)

    def _watch(self, folder: str, depth: int) -> None:
        """It and all below it. Looked into after it is watched: what came before is seen, what comes later told."""
        assert self._inotify is not None  # noqa: S101  # asked while it is there
        at = [(folder, depth)]
        while at:
            place, depth = at.pop()
            try:
                self._folders[self._inotify.watch(place)] = (place, depth)
                below = _below(place)
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone again
            if len(self._folders) > MOST_FOLDERS:
                raise OSError(0, f"more than {MOST_FOLDERS} cgroups")
            for name in below:
                if _NAMED.search(name):
                    self._name(f"{place}/{name}")
                elif depth < _DEEPEST:
                    at.append((f"{place}/{name}", depth + 1))

    def _give_up(self, why: str) -> None:
        self._forget()
        self.how = "looking"
        log(f"containers are looked for once a second: the kernel does not tell of them ({why})")

    def _forget(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
        self._inotify = None
        self._folders.clear()
        self._named.clear()


def _named_below(folder: str) -> Iterator[str]:
    """Folders of containers, none below another."""
    at = [(folder, 0)]
    while at:
        place, depth = at.pop()
        try:
            below = _below(place)
        except OSError:
            continue
        for name in below:
            if _NAMED.search(name):
                yield f"{place}/{name}"
            elif depth < _DEEPEST:
                at.append((f"{place}/{name}", depth + 1))


def _below(place: str) -> list[str]:
    with os.scandir(place) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
