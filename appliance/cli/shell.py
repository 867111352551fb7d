"""`appliance shell`: look around in what a solver left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.output import note

if TYPE_CHECKING:
    from appliance.records.record import Record
    from appliance.records.trial import TrialResult

app = typer.Typer()


@app.command(context_settings={"allow_interspersed_args": False})
def shell(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or a record in one.")],
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="TASK[:PASS[:ROLLOUT]], or its number in the record.")],
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Instead of a shell.")] = None,
    solver: Annotated[str | None, typer.Option(help="Whose trial, where the run has several solvers.")] = None,
    suite: Annotated[Path | None, typer.Option(help="The suite, where the run's folder does not hold it.")] = None,
) -> None:
    """A shell in a fresh hardened container over what the solver left; the container goes when the shell ends."""
    from appliance.cli.shelling import choose, enter
    from appliance.errors import UsageRefused
    from appliance.reproduce.suites import suite_of
    from appliance.scratch import shared_scratch

    words = tuple(command or ())
    if words and words[0].startswith("-") and words[0] != "--":
        raise UsageRefused(
            "no command begins with a dash",
            where=words[0],
            mend=f"options stand before RUN: shell {words[0]} ... RUN TRIAL",
        )
    path, record, result = choose(run, solver, trial)
    blobs = path.resolve().parent.parent / "blobs"
    with shared_scratch() as scratch:
        found = suite_of(record, str(path), suite, blobs if blobs.is_dir() else None, scratch)
        note(_about(record, result))
        raise typer.Exit(enter(record, result, found, blobs, words[words[:1] == ("--",) :]))


def _about(record: Record, result: TrialResult) -> str:
    key = result.key
    reason = f": {result.reason}" if result.reason else ""
    return f"{record.solver.name} on {key.task}, pass {key.pass_}, rollout {key.rollout}: {result.outcome}{reason}"
