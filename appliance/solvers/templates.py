"""The text files beside a solver's TOML that are filled in and put under its HOME."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from appliance.errors import InputRefused
from appliance.reading import read_regular
from appliance.solvers import placeholders
from appliance.tasks.names import relative_problem

MAX_BYTES: Final = 1024 * 1024
_MAX_PATH: Final = 1024
_MAX_PART: Final = 255


def check_text(text: str, where: str, *, whole_argument: bool, gateway: bool) -> None:
    for name in placeholders.named(text):
        if name not in placeholders.KNOWN:
            raise InputRefused(
                f"no placeholder {{{name}}}; known: {', '.join(sorted(placeholders.KNOWN))}",
                where=where,
                mend=f"write {{{{{name}}}}} for the text itself",
            )
        if name in placeholders.GATEWAY and not gateway:
            raise InputRefused(
                f"{{{name}}} is of the model gateway, and no wire says how it is spoken to",
                where=where,
                mend='add wire = "openai-chat", or whichever it speaks',
            )
        if name == placeholders.FLAGS and not (whole_argument and text == "{flags}"):
            raise InputRefused("{flags} is an argument of its own", where=where, mend='write it as "{flags}" in argv')


def read_templates(files: Mapping[str, str], path: Path, *, gateway: bool) -> dict[str, str]:
    """A path in the container -> text. `path`: of the TOML; `gateway`: the solver has a wire."""
    found: dict[str, str] = {}
    for target, source in files.items():
        where = f'{path}: files."{target}"'
        _check_target(target, files, where)
        if PurePosixPath(source).is_absolute() or ".." in PurePosixPath(source).parts:
            raise InputRefused("a template lies beside the TOML", where=where)
        try:
            beside = _lies_beside(path, source)
            text = read_regular(path.parent / source, MAX_BYTES).decode() if beside else ""
        except UnicodeDecodeError as error:
            raise InputRefused(f"{source}: not UTF-8 at byte {error.start}", where=where) from error
        except OSError as error:
            raise InputRefused(f"{source}: {error.strerror or error}", where=where) from error
        if not beside:
            raise InputRefused(f"{source}: a symbolic link that leads elsewhere", where=where, mend="copy the file")
        check_text(text, f"{path.parent / source}", whole_argument=False, gateway=gateway)
        found[target] = text
    return found


def _check_target(target: str, others: Iterable[str], where: str) -> None:
    below = target.removeprefix("{home}/")
    if below == target or ".." in PurePosixPath(target).parts:
        raise InputRefused("templates go under {home}/", where=where)
    too_long = len(below.encode()) > _MAX_PATH or any(len(part.encode()) > _MAX_PART for part in below.split("/"))
    problem = relative_problem(below) or ("is too long" if too_long else None)
    if problem:
        raise InputRefused(f"a path that {problem}", where=where)
    if any(other.startswith(f"{target}/") for other in others):
        raise InputRefused("a file, and the folder of another", where=where)


def _lies_beside(path: Path, source: str) -> bool:
    """A solver that somebody handed over takes nothing else of this machine along; the TOML itself may be a link."""
    try:
        end = (path.parent / source).resolve()
        return any(end.is_relative_to(folder) for folder in (path.parent.resolve(), path.resolve().parent))
    except (RuntimeError, ValueError):  # a loop of links, which 3.11 reports so; a NUL: reading it says which
        return True
