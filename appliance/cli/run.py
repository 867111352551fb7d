"""`appliance run`: solvers on a suite; words in, signed records and an exit status out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from appliance.cli.signer_options import IdentityToken, OidcInteractive, SignTimeout, TokenEnv, TrustOption, token_of
from appliance.errors import UsageRefused

app = typer.Typer()


class EnergyChoice(StrEnum):
    """Where joules come from; every figure says which."""

    AUTO = "auto"
    MEASURED = "measured"
    ESTIMATOR = "estimator"
    CURVE = "estimator:curve"


class SharingChoice(StrEnum):
    """What is told of a GPU on which others were beside the trial."""

    TOTAL = "device-total"
    UTILISATION = "sm-utilisation"


_SHARING: Final[dict[SharingChoice, Literal["device_total", "sm_utilisation"]]] = {
    SharingChoice.TOTAL: "device_total",
    SharingChoice.UTILISATION: "sm_utilisation",
}


_MOST_LIMIT: Final = 10**9


class AutoChoice(StrEnum):
    """How far a solver may go by itself; its TOML says what that means."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ProviderChoice(StrEnum):
    """Who answers for the model."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GOOGLE = "google"
    COMPATIBLE = "compatible"
    LOCAL = "local"


class RetryChoice(StrEnum):
    """What is run once more."""

    ERRORED = "errored"


class CpuBackend(StrEnum):
    """Two ways to the processor's own counters."""

    POWERCAP = "powercap"
    PYRAPL = "pyrapl"


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
    provider: Annotated[
        ProviderChoice | None,
        typer.Option(
            help="Who answers, else the one of the solver's wire; local: a model server of this run's own.",
            show_default=False,
        ),
    ] = None,
    model_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server of --provider compatible, or another place of a provider's."),
    ] = None,
    model_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VAR", help="The variable that holds the key, else the provider's usual one.", show_default=False
        ),
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option(metavar="PATH.gguf", help="Weights to serve here; their sha256 is in the plan.")
    ] = None,
    model_context: Annotated[
        int | None,
        typer.Option(min=256, help="Tokens that a model served here may see, else 4096.", show_default=False),
    ] = None,
    gpus: Annotated[bool, typer.Option("--gpus", help="The model server may use this host's GPUs.")] = False,
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens, in and out, of each trial.")] = None,
    budget_usd: Annotated[str | None, typer.Option(metavar="USD", help="US dollars of each trial.")] = None,
    budget_exchanges: Annotated[int | None, typer.Option(min=1, help="Requests to the model of each trial.")] = None,
    run_budget_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens, in and out, of all trials.")] = None,
    run_budget_usd: Annotated[str | None, typer.Option(metavar="USD", help="US dollars of all trials.")] = None,
    run_budget_exchanges: Annotated[
        int | None, typer.Option(min=1, help="Requests to the model of all trials.")
    ] = None,
    cascade_socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The control socket of a cascade, for a solver of that kind; no part of the plan.",
            readable=False,  # a socket that is not there errors its trials, and is told in their words
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="A mode of the solver's own [mode] table.")] = None,
    self_correct: Annotated[bool, typer.Option("--self-correct", help="With the solver's own loop.")] = False,
    auto: Annotated[AutoChoice | None, typer.Option(help="A level of the solver's own [auto] table.")] = None,
    passes: Annotated[int, typer.Option(min=1, help="Sweeps over the suite.")] = 1,
    rollouts: Annotated[int, typer.Option(min=1, help="Independent attempts at each task in each pass.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 1,
    energy: Annotated[EnergyChoice, typer.Option(help="Where joules come from.")] = EnergyChoice.AUTO,
    require_counter: Annotated[
        bool, typer.Option("--require-counter", help="The same as --energy measured: no counter, no run.")
    ] = False,
    exclusive: Annotated[
        bool,
        typer.Option(
            "--exclusive", help="Nothing of ours beside an open window: the default where joules come from counters."
        ),
    ] = False,
    shared: Annotated[bool, typer.Option("--shared", help="Windows overlap, and share what is counted.")] = False,
    gpu_sharing: Annotated[
        SharingChoice | None,
        typer.Option(
            help="Of a GPU that others were on too: its total, or a share by SM utilisation, flagged and apportioned.  "
            "[default: device-total]",
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
    trust: TrustOption = "local",
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            metavar="DIR|FILE.json",
            help="The run's folder, else runs/RUN.",
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
        float | None,
        typer.Option(
            min=2,
            max=86400,
            help="Length of the look at the idle machine before and after, where joules are counted.  [default: 20, or "
            "that of the run which goes on]",
            show_default=False,
        ),
    ] = None,
    meter_socket: Annotated[
        Path | None,
        typer.Option(
            "--meter-socket",
            "--socket",
            metavar="PATH",
            readable=False,  # whose socket we may not open is told in the meter's own words
            help="The meter that answers here, else the host's; where there is none, root starts one.",
            show_default=False,
        ),
    ] = None,
    cpu_backend: Annotated[
        CpuBackend | None, typer.Option(help="What a meter started for this run reads the processor with.")
    ] = None,
    counter: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A counter plug-in, for a meter started for this run.")
    ] = None,
    powercap_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Counters elsewhere than the kernel's, for a meter started for this run."),
    ] = None,
    meter: Annotated[str | None, typer.Option(metavar="NAME", help="A meter plug-in in place of ours.")] = None,
    strict_host: Annotated[bool, typer.Option("--strict-host", help="A noisy host is no host.")] = False,
    report_format: Annotated[FormatChoice, typer.Option("--format", help="Of the report.")] = FormatChoice.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Run solvers on a suite; write signed records, and print their report."""
    from appliance.cli.asking import Ask
    from appliance.cli.modelling import ModelAsk, budget_of
    from appliance.cli.running import carry_out
    from appliance.meter.opening import Wish

    limits: dict[str, float | None] = {
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
            model_words=ModelAsk(
                provider=provider.value if provider else None,
                url=model_url,
                key_variable=model_key_env,
                file=model_file,
                gpus=gpus,
                context=model_context,
                budget=budget_of(budget_tokens, budget_usd, budget_exchanges, "--budget-usd"),
                run_budget=budget_of(run_budget_tokens, run_budget_usd, run_budget_exchanges, "--run-budget-usd"),
            ),
            cascade_socket=cascade_socket,
            mode=mode,
            self_correct=self_correct,
            auto=auto.value if auto else None,
            passes=passes,
            rollouts=rollouts,
            jobs=jobs,
            energy=_energy(energy, require_counter),
            scheduling=_scheduling(exclusive, shared),
            gpu_sharing=_SHARING[gpu_sharing] if gpu_sharing else None,
            tasks=tasks,
            retry_errored=retry is RetryChoice.ERRORED,
            resume=resume,
            dry_run=dry_run,
            sign=not no_sign,
            trust=trust,
            token=token_of(identity_token, token_env, oidc_interactive),
            sign_seconds=sign_timeout,
            out=out,
            version=_sayable(version, "--version"),
            commit=_sayable(commit, "--commit"),
            challenge=challenge,
            limits=_limits(limits),
            include_quarantined=include_quarantined,
            keep_suite=not no_suite_blob,
            strict_host=strict_host,
            idle_seconds=idle_seconds,
            meter=Wish(
                socket=meter_socket,
                powercap=powercap_root,
                cpu_backend=cpu_backend.value if cpu_backend else None,
                counters=tuple(counter or ()),
                name=meter,
            ),
            report_format="json" if as_json else report_format.value,
            as_json=as_json,
        )
    )
    raise typer.Exit(status)


def _limits(asked: dict[str, float | None]) -> dict[str, float]:
    for name, value in asked.items():
        if value is not None and value > _MOST_LIMIT:
            where = f"--limit-{name.replace('_', '-')}"
            raise UsageRefused(f"over {_MOST_LIMIT}: {value:g}", where=where, mend="a smaller one, or leave it away")
    return {name: float(value) for name, value in asked.items() if value is not None}


def _sayable(word: str | None, flag: str) -> str | None:
    if word is not None and not word.isprintable():
        raise UsageRefused(f"cannot be written into a record: {word!r}", where=flag)
    return word


def _scheduling(exclusive: bool, shared: bool) -> Literal["exclusive", "shared"] | None:
    if exclusive and shared:
        raise UsageRefused("--exclusive and --shared exclude each other", mend="leave one of the two away")
    return "exclusive" if exclusive else "shared" if shared else None


def _energy(asked: EnergyChoice, require_counter: bool) -> Literal["auto", "measured", "estimator", "estimator:curve"]:
    if not require_counter:
        return asked.value
    if asked not in (EnergyChoice.AUTO, EnergyChoice.MEASURED):
        raise UsageRefused(
            f"an estimate needs no counter, and one is required: --energy {asked.value}",
            where="--require-counter",
            mend="leave one of the two away",
        )
    return "measured"
