"""Where solvers are looked for: a path, `./solvers`, then what ships with the program."""

from __future__ import annotations

from pathlib import Path

from appliance.bundle import shipped
from appliance.errors import InputRefused, UsageRefused
from appliance.solvers.definition import SolverDefinition, read_definition


def known_solvers() -> dict[str, Path]:
    """Name -> TOML; `./solvers` hides a shipped one of the same name."""
    found: dict[str, Path] = {}
    for folder in (shipped("solvers"), Path("solvers")):
        for path in sorted(folder.glob("*.toml")):
            found[path.stem] = path
    return found


def find_solver(wanted: str) -> SolverDefinition:
    """`wanted`: a name, or a path (with a slash, or ending in .toml). Unknown: UsageRefused listing the known."""
    if "/" in wanted or wanted.endswith(".toml"):
        path = Path(wanted)
        if path.is_dir():
            raise UsageRefused(f"{wanted} is a folder", where="--solver", mend="give the .toml in it")
        if not path.is_file():
            raise UsageRefused(f"no such file: {wanted}", where="--solver", mend=_listed())
        return read_definition(path)
    path_of = known_solvers()
    if wanted not in path_of:
        raise UsageRefused(f"no solver {wanted!r}", where="--solver", mend=_listed())
    definition = read_definition(path_of[wanted])
    if definition.name != wanted:
        raise InputRefused(
            f"is called {definition.name!r}, its file {path_of[wanted].name}",
            where=f"{path_of[wanted]}: name",
            mend="make them equal",
        )
    return definition


def find_solvers(listed: str) -> tuple[SolverDefinition, ...]:
    """`A,B` in the order given; a name that stands twice is refused before anything runs."""
    words = [word.strip() for word in listed.split(",")]
    if not all(words):
        raise UsageRefused("an empty name in the list", where="--solver", mend=_listed())
    found = tuple(find_solver(word) for word in words)
    names = [definition.name for definition in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageRefused(f"solver {twice[0]!r} stands twice", where="--solver", mend="name each once")
    return found


def _listed() -> str:
    return f"known: {', '.join(sorted(known_solvers())) or 'none'}"
