"""`appliance cascade`: the reference server of cascade-v1, and a question to any that speaks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from appliance.solvers.cascade.staged import StagedCascade

app = typer.Typer()
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost"})

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@app.command()
def serve(  # noqa: PLR0917 - a command's options
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The control socket, for --cascade-socket.", readable=False)
    ] = None,
    http: Annotated[str | None, typer.Option(metavar="127.0.0.1:PORT", help="HTTP on this host alone.")] = None,
    rules: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Patterns, and what answers them.")] = None,
    model_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server, up to its /v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model that it is asked for.")] = None,
    model_key_env: Annotated[str | None, typer.Option(metavar="VAR", help="The variable that holds its key.")] = None,
    cached: Annotated[int, typer.Option(min=0, max=1_000_000, help="Answers to remember.")] = 1024,
    watts: Annotated[
        float | None, typer.Option(help="Of the estimate watts x wall.  [default: 65]", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="What it is called in records.")] = "reference-cascade",
    as_json: AsJson = False,
) -> None:
    """Answer prompts by stages: answers seen before, then rules, then a model. It stays in the foreground.

    Its joules are an estimate, watts x the wall time of each stage, and it says so. With --json, the one document is
    where it listens.
    """
    import signal
    from contextlib import ExitStack

    from appliance.cli.output import emit_json, note
    from appliance.errors import UsageRefused
    from appliance.solvers.cascade.serving import on_socket, over_http

    if socket is None and http is None:
        raise UsageRefused("nowhere to listen", where="--socket, --http", mend="name one of them, or both")
    cascade = _cascade(rules, model_url, model, model_key_env, cached=cached, watts=watts, name=name)
    with ExitStack() as stack:
        places: dict[str, str | None] = {"socket": None, "http": None}
        if socket is not None:
            stack.enter_context(on_socket(socket, cascade))
            places["socket"] = str(socket)
        if http is not None:
            places["http"] = stack.enter_context(over_http(*_address(http), cascade))
        if as_json:
            emit_json({**places, "health": cascade.health().json_value()})
        note(f"listening at {' and '.join(place for place in places.values() if place)}")
        while True:
            signal.pause()


@app.command()
def ask(
    place: Annotated[str, typer.Argument(metavar="SOCKET|URL", help="Where the cascade listens.")],
    prompt: Annotated[str | None, typer.Argument(help="What it is asked; left away: who it is.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a cascade one prompt, or who it is; the answer is one of cascade-v1, or refused in words."""
    from appliance.cli.output import block, emit_json, line
    from appliance.errors import HostRefused
    from appliance.solvers.cascade.links import Cascade, CascadeFailed, HttpCascade, SocketCascade
    from appliance.solvers.cascade.messages import Resolve

    cascade: Cascade = HttpCascade(place) if "://" in place else SocketCascade(Path(place))
    try:
        said = cascade.health() if prompt is None else cascade.resolve(Resolve(id="ask", prompt=prompt))
    except CascadeFailed as failed:
        raise HostRefused(failed.message, mend="`appliance cascade serve` starts one", reason=failed.code) from failed
    if as_json:
        emit_json(said)
        return
    for key, value in said.json_value().items():
        if key != "response":
            line(f"{key:12} {value}")
    if prompt is not None:
        block(said.json_value()["response"])


def _cascade(
    rules: Path | None,
    url: str | None,
    model: str | None,
    key_variable: str | None,
    *,
    cached: int,
    watts: float | None,
    name: str,
) -> StagedCascade:
    import math
    import os

    from appliance.errors import HostRefused, UsageRefused
    from appliance.solvers.cascade.model import ModelStage
    from appliance.solvers.cascade.rules import read_rules
    from appliance.solvers.cascade.staged import Identity, Stage, StagedCascade
    from appliance.trials.stamps import harness_stamp

    if (url is None) != (model is None):
        raise UsageRefused("a model has a server and a name", where="--model-url, --model", mend="give both")
    if rules is None and url is None:
        raise UsageRefused("no stage that could answer", where="--rules, --model-url", mend="give one of them, or both")
    if watts is not None and not (math.isfinite(watts) and watts > 0):
        raise UsageRefused(f"no number of watts above 0: {watts}", where="--watts", mend="as --watts 20")
    key = os.environ.get(key_variable) if key_variable else None
    if key_variable and not key:
        raise HostRefused("is not set", where=f"--model-key-env {key_variable}", mend=f"export {key_variable}=...")
    stages: list[Stage] = []
    if rules is not None:
        stages.append(read_rules(rules))
    if url is not None and model is not None:
        stages.append(ModelStage(url, model, key))
    stamp = harness_stamp()
    return StagedCascade(stages, Identity(name, stamp.version, stamp.commit), cached=cached, watts=watts)


def _address(http: str) -> tuple[str, int]:
    from appliance.errors import UsageRefused

    host, _, port = http.rpartition(":")
    if host not in _LOOPBACK or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageRefused(
            f"no port of this host's loopback: {http}", where="--http", mend="as --http 127.0.0.1:8099; 0 takes any"
        )
    return "127.0.0.1", int(port)
