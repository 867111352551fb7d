"""`appliance run`: solvers on a suite; words in, signed records and an exit status out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


class EnergyChoice(StrEnum):
    """Where joules come from; every figure says which."""

    AUTO = "auto"
    MEASURED = "measured"
    ESTIMATOR = "estimator"
    CURVE = "estimator:curve"


class AutoChoice(StrEnum):
    """How far a solver may go by itself; its TOML says what that means."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class RetryChoice(StrEnum):
    """What is run once more."""

    ERRORED = "errored"


class FormatChoice(StrEnum):
    """How the report at the end is printed."""

    TEXT = "text"
    JSON = "json"


@app.command()
def run(  # noqa: PLR0917 - a command's options
    suite: Annotated[str | None, typer.Option(help="A suite: a name in ./tasks or the bundle, or a path.")] = None,
    solver: Annotated[
        str | None, typer.Option("--solver", "--solvers", metavar="A[,B]", help="Solvers: names, or paths to TOML.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, for solvers that require one.")] = None,
    mode: Annotated[str | None, typer.Option(help="A mode of the solver's own [mode] table.")] = None,
    self_correct: Annotated[bool, typer.Option("--self-correct", help="With the solver's own loop.")] = False,
    auto: Annotated[AutoChoice | None, typer.Option(help="A level of the solver's own [auto] table.")] = None,
    passes: Annotated[int, typer.Option(min=1, help="Sweeps over the suite.")] = 1,
    rollouts: Annotated[int, typer.Option(min=1, help="Independent attempts at each task in each pass.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 1,
    energy: Annotated[EnergyChoice, typer.Option(help="Where joules come from.")] = EnergyChoice.AUTO,
    exclusive: Annotated[
        bool | None,
        typer.Option(
            "--exclusive/--shared",
            help="Nothing of ours beside an open window, or windows that overlap and share.  [default: exclusive "
            "where joules come from counters]",
            show_default=False,
        ),
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="GLOB[,GLOB]", help="Only tasks with such names.")] = None,
    retry: Annotated[
        RetryChoice | None, typer.Option(help="Run once more what errored, or what the engine or grader failed.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with a run that was cut off.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what it takes; start nothing.")
    ] = False,
    no_sign: Annotated[bool, typer.Option("--no-sign", help="Write records without signatures.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            metavar="DIR|FILE.json",
            help="The run's folder.  [default: runs/RUN]",
            show_default=False,
        ),
    ] = None,
    version: Annotated[str | None, typer.Option(help="Version of the system under test.")] = None,
    commit: Annotated[str | None, typer.Option(help="Commit of the system under test.")] = None,
    challenge: Annotated[Path | None, typer.Option(metavar="FILE", help="A verifier's challenge to bind to.")] = None,
    limit_wall_seconds: Annotated[float | None, typer.Option(help="Instead of every task's own limit.")] = None,
    limit_cpus: Annotated[float | None, typer.Option(help="Instead of every task's own limit.")] = None,
    limit_memory_mib: Annotated[int | None, typer.Option(help="Instead of every task's own limit.")] = None,
    limit_pids: Annotated[int | None, typer.Option(help="Instead of every task's own limit.")] = None,
    limit_disk_mib: Annotated[int | None, typer.Option(help="Instead of every task's own limit.")] = None,
    limit_test_seconds: Annotated[float | None, typer.Option(help="Instead of every task's own limit.")] = None,
    include_quarantined: Annotated[
        bool, typer.Option("--include-quarantined", help="Plan tasks that failed the suite's checks, too.")
    ] = False,
    no_suite_blob: Annotated[
        bool, typer.Option("--no-suite-blob", help="Keep no copy of the suite in the run's folder.")
    ] = False,
    idle_seconds: Annotated[
        float, typer.Option(min=1, help="Length of each idle calibration, where joules come from counters.")
    ] = 20,
    strict_host: Annotated[bool, typer.Option("--strict-host", help="A noisy host is no host.")] = False,
    report_format: Annotated[FormatChoice, typer.Option("--format", help="Of the report.")] = FormatChoice.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Run solvers on a suite; write signed records, and print their report."""
    from appliance.cli.running import Ask, carry_out

    del idle_seconds  # no counter is read in this version: there is no idle power to calibrate
    limits = {
        "wall_seconds": limit_wall_seconds,
        "cpus": limit_cpus,
        "memory_mib": limit_memory_mib,
        "pids": limit_pids,
        "disk_mib": limit_disk_mib,
        "test_seconds": limit_test_seconds,
    }
    status = carry_out(
        Ask(
            suite=suite,
            solver=solver,
            model=model,
            mode=mode,
            self_correct=self_correct,
            auto=auto.value if auto else None,
            passes=passes,
            rollouts=rollouts,
            jobs=jobs,
            energy=energy.value,
            scheduling=None if exclusive is None else "exclusive" if exclusive else "shared",
            tasks=tasks,
            retry_errored=retry is RetryChoice.ERRORED,
            resume=resume,
            dry_run=dry_run,
            sign=not no_sign,
            out=out,
            version=version,
            commit=commit,
            challenge=challenge,
            limits={name: float(value) for name, value in limits.items() if value is not None},
            include_quarantined=include_quarantined,
            keep_suite=not no_suite_blob,
            strict_host=strict_host,
            report_format="json" if as_json else report_format.value,
            as_json=as_json,
        )
    )
    raise typer.Exit(status)
