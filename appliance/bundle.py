"""Where the things that ship with the program lie: images, suites, solvers, schemas."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from appliance.digests import digest_of_entries, tree_entries
from appliance.errors import HostRefused

_PACKAGE = Path(__file__).resolve().parent

Shipped = Literal["images", "tasks", "solvers", "schemas"]


def shipped(kind: Shipped) -> Path:
    """The folder of `kind`: inside the wheel when installed, at the top of the checkout otherwise.

    Tasks come without what an installer added to them. Raises HostRefused where the cache takes no copy.
    """
    inside = _PACKAGE / "_bundle" / kind
    if not inside.is_dir():
        return _PACKAGE.parent / kind
    return _without_bytecode(inside) if kind == "tasks" else inside


@cache
def _without_bytecode(folder: Path) -> Path:
    """`folder`, or its copy in the cache where it holds `__pycache__`.

    pip compiles every .py that it installs, those of tasks too. All that lies in a task is part of its digest: left
    there, the same suite would have another digest in every installation.
    """
    entries = tree_entries(folder)
    clean = [entry for entry in entries if "__pycache__" not in entry[0].split("/")]
    if len(clean) == len(entries):
        return folder
    place = cache_home() / "shipped" / digest_of_entries(clean)
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=place.parent) as scratch:
            draft = Path(scratch) / "tasks"
            shutil.copytree(folder, draft, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            if not place.is_dir():
                draft.rename(place)
    except OSError as error:
        if not place.is_dir():  # another process was quicker
            raise HostRefused(
                error.strerror or str(error), where=str(place.parent), mend="make it writable, or set XDG_CACHE_HOME"
            ) from error
    return place


def cache_home() -> Path:
    """`$XDG_CACHE_HOME/bench-appliance`: what can be made again (archives, packages, templates)."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """`$XDG_DATA_HOME/bench-appliance`: what cannot (keys, the local log, calibrations)."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def config_home() -> Path:
    """`$XDG_CONFIG_HOME/bench-appliance`: what a person writes (known roots, policies)."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def home() -> Path:
    """The user's folder. Raises HostRefused where he has none: no HOME, and no entry that names one."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise HostRefused(
            "this user has no home folder", where="HOME", mend="export HOME=DIR", reason="no_home"
        ) from error


def _xdg(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    # The specification says that a relative path is to be ignored.
    folder = Path(base) if base and Path(base).is_absolute() else home() / fallback
    return folder / "bench-appliance"
