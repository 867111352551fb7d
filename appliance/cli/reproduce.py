"""`appliance reproduce`: a record's plan again; words in, a verdict and an exit status out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.signer_options import LOCAL, IdentityToken, OidcInteractive, SignTimeout, TokenEnv, token_of

app = typer.Typer()


@app.command()
def reproduce(  # noqa: PLR0917 - a command's options
    record: Annotated[Path, typer.Argument(help="The record.", show_default=False)],
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would run, from the record alone, and stop.")
    ] = False,
    replay: Annotated[
        bool | None,
        typer.Option(
            "--replay/--live", help="Recorded model responses, the default where there are any; or the model again."
        ),
    ] = None,
    model_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --live: the record's own URL of its model, which you trust with a key."),
    ] = None,
    model_key_env: Annotated[
        str | None, typer.Option(metavar="VAR", help="With --live: the variable that holds the provider's key.")
    ] = None,
    model_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="With --live: the weights of a local model; their digest is checked."),
    ] = None,
    cascade_socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="With --live: the control socket of the record's cascade.", readable=False),
    ] = None,
    suite: Annotated[Path | None, typer.Option(help="Where that version of the suite lies.")] = None,
    solver: Annotated[str | None, typer.Option(help="Where that version of the solver lies: a name or a TOML.")] = None,
    blobs: Annotated[Path | None, typer.Option(help="The record's blobs; by default ../blobs.")] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="K", help="Only K trials, drawn by the record's digest.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only this task's trials.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of a live model's rate, instead of its 95 % Wilson interval.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 1,
    at_recorded_commit: Annotated[
        bool, typer.Option("--at-recorded-commit", help="With the harness of the record's own commit, from git.")
    ] = False,
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help="Let tasks have the network that the record asks for.")
    ] = False,
    max_wall_seconds: Annotated[float | None, typer.Option(help="The most that a task may ask for.")] = None,
    max_cpus: Annotated[float | None, typer.Option(help="The same; by default this host's cores.")] = None,
    max_memory_mib: Annotated[int | None, typer.Option(help="The same; by default this host's memory.")] = None,
    max_pids: Annotated[int | None, typer.Option(help="The same.")] = None,
    max_disk_mib: Annotated[int | None, typer.Option(help="The same; by default this host's free disk.")] = None,
    idle_seconds: Annotated[
        float,
        typer.Option(min=2, help="Length of the look at the idle machine before and after, where joules are counted."),
    ] = 20,
    meter_socket: Annotated[
        Path | None,
        typer.Option(
            "--meter-socket",
            "--socket",
            metavar="PATH",
            readable=False,  # whose socket we may not open is told in the meter's own words
            help="The meter that answers here.  [default: the host's, else root starts one]",
            show_default=False,
        ),
    ] = None,
    strict_host: Annotated[bool, typer.Option("--strict-host", help="A noisy host is no host.")] = False,
    bundle: Annotated[Path | None, typer.Option(help="Its bundle; by default X.sigstore.json beside X.json.")] = None,
    trust: Annotated[str | None, typer.Option(help="Check its signature first, against a root of this name.")] = None,
    trusted_root: Annotated[Path | None, typer.Option(help="The same, a root in a file.")] = None,
    root_sha256: Annotated[str | None, typer.Option(help="The sha256 that this file must have.")] = None,
    identity: Annotated[str, typer.Option(help="The exact name of the signer; --trust local implies it.")] = "",
    issuer: Annotated[str, typer.Option(help="The exact issuer of that name; --trust local implies it.")] = "",
    sign: Annotated[bool, typer.Option("--sign", help="Sign the verdict, by default with the local trust.")] = False,
    sign_with: Annotated[
        str | None,
        typer.Option(metavar="NAME|CONFIG", help="Sign the verdict with this trust, or with a trust config's file."),
    ] = None,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the new run and its verdict.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as one JSON document.")] = False,
) -> None:
    """Run RECORD's plan again and say, in three parts, whether it holds. Status 8 where its outcome does not."""
    from appliance.cli.reproducing import Ask, Signing, carry_out
    from appliance.cli.trusting import TrustWords
    from appliance.meter.opening import Wish

    words = TrustWords(
        trust=trust, trusted_root=trusted_root, root_sha256=root_sha256, identity=identity, issuer=issuer
    )
    caps = {
        "wall_seconds": max_wall_seconds,
        "cpus": max_cpus,
        "memory_mib": max_memory_mib,
        "pids": max_pids,
        "disk_mib": max_disk_mib,
    }
    signing = None
    if sign or sign_with is not None:
        signing = Signing(
            trust=sign_with or LOCAL, token=token_of(identity_token, token_env, oidc_interactive), seconds=sign_timeout
        )
    status = carry_out(
        Ask(
            record=record,
            bundle=bundle,
            blobs=blobs,
            plan_only=plan,
            replay=replay,
            model_url=model_url,
            model_key_env=model_key_env,
            model_file=model_file,
            cascade_socket=cascade_socket,
            suite=suite,
            solver=solver,
            trials=trials,
            task=task,
            tolerance=tolerance,
            jobs=jobs,
            at_recorded_commit=at_recorded_commit,
            allow_network=allow_network,
            caps=caps,
            trust=words,
            signing=signing,
            out=out,
            meter=Wish(socket=meter_socket),
            idle_seconds=idle_seconds,
            strict_host=strict_host,
            as_json=as_json,
        )
    )
    raise typer.Exit(status)
