"""Where suites are looked for: a path, ./tasks, what ships with the program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.bundle import shipped
from appliance.errors import UsageRefused
from appliance.tasks.toml import short


@dataclass(frozen=True)
class Found:
    """A suite that is there by name; nothing of it has been read."""

    name: str
    folder: Path
    source: Literal["tasks", "bundled"]


def find_suite(name_or_path: str | Path, cwd: Path | None = None) -> Path:
    """The folder of a suite: a path, else `./tasks/NAME`, else a bundled one (J03).

    Raises UsageRefused that lists the known ones.
    """
    here = cwd or Path.cwd()
    asked = str(name_or_path)
    if not asked or "\0" in asked:
        raise UsageRefused("the suite's name is empty", mend=_known(here))
    known = {found.name: found.folder for found in reversed(list_suites(here))}
    try:
        path = here / Path(asked).expanduser()
        if "/" in asked or asked in {".", ".."} or isinstance(name_or_path, Path):
            if path.is_dir():
                return path
            raise UsageRefused("no such folder", where=asked, mend=_known(here))
        if path.is_dir() and asked not in known:
            return path
    except (OSError, RuntimeError) as error:
        raise UsageRefused(f"cannot be looked up: {error}", where=short(asked)) from error
    if asked not in known:
        raise UsageRefused(f"unknown suite {short(asked)}", mend=_known(here))
    return known[asked]


def list_suites(cwd: Path | None = None) -> tuple[Found, ...]:
    """Every suite that can be named, sorted; one in ./tasks hides a bundled one of the same name."""
    found: dict[str, Found] = {}
    sources: tuple[tuple[Literal["tasks", "bundled"], Path], ...] = (
        ("bundled", shipped("tasks")),
        ("tasks", (cwd or Path.cwd()) / "tasks"),
    )
    for source, folder in sources:
        if folder.is_dir():
            for path in folder.iterdir():
                if _looks_like_suite(path):
                    found[path.name] = Found(name=path.name, folder=path, source=source)
    return tuple(found[name] for name in sorted(found))


def _looks_like_suite(path: Path) -> bool:
    if path.name.startswith(".") or not path.is_dir():
        return False
    return (path / "suite.toml").exists() or any(path.glob("*/task.toml"))


def _known(cwd: Path) -> str:
    names = ", ".join(found.name for found in list_suites(cwd))
    return f"known suites: {names}" if names else "no suites here: give a path"
