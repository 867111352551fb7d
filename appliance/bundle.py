"""Where the things that ship with the program lie: images, suites, solvers, schemas."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent

Shipped = Literal["images", "tasks", "solvers", "schemas"]


def shipped(kind: Shipped) -> Path:
    """The folder of `kind`: inside the wheel when installed, at the top of the checkout otherwise."""
    inside = _PACKAGE / "_bundle" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def cache_home() -> Path:
    """`$XDG_CACHE_HOME/bench-appliance`: what can be made again (archives, packages, templates)."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """`$XDG_DATA_HOME/bench-appliance`: what cannot (keys, the local log, calibrations)."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def config_home() -> Path:
    """`$XDG_CONFIG_HOME/bench-appliance`: what a person writes (known roots, policies)."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def _xdg(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    # The specification says that a relative path is to be ignored.
    home = Path(base) if base and Path(base).is_absolute() else Path.home() / fallback
    return home / "bench-appliance"
