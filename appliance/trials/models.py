"""What answers the solvers of a run: a gateway for each model of its plans, and the model server behind it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Self

from appliance.errors import HostRefused
from appliance.pins import Pin
from appliance.ports import Engine, ExchangeWatch, Gateway
from appliance.records.journal import TrialPlace
from appliance.records.journal_file import JournalFile
from appliance.records.money import total_usd
from appliance.records.outline import AnyTrial
from appliance.records.plan import PlannedServer, PlannedUpstream, TrialKey, TrialPlan
from appliance.trials import sidecar
from appliance.trials.model_server import ModelServer
from appliance.trials.sidecar import Sidecar

_FORWARDER: Final = Path(__file__).parents[1] / "gateway" / "forwarder.py"


@dataclass(frozen=True)
class ModelSources:
    """What no plan holds of a model: where this machine has its weights, and its key."""

    weights: Path | None = None
    key_variable: str | None = None
    """The NAME of the environment variable that holds the provider's key; None: the provider's usual one."""


@dataclass(frozen=True)
class Spending:
    """What the finished trials of a run that goes on have used of its budget."""

    tokens: int = 0
    usd: str | None = "0"
    exchanges: int = 0


@dataclass(frozen=True)
class GatewayAsk:
    """What a gateway is made from."""

    model: str
    upstream: PlannedUpstream
    folder: Path
    """Private, of this run alone: the trials' sockets lie below it."""
    server: Path | None
    """The socket of the run's model server."""
    key_variable: str | None
    already: Spending
    replays: bool
    """Nothing is asked of anybody: every trial has its cassette."""


ServerArgv = Callable[[PlannedServer, str], tuple[str, ...]]
OpenGateway = Callable[[GatewayAsk], AbstractContextManager[Gateway]]


class Models:
    """Entered, it lets trials in. Raises HostRefused where a key, the weights or the engine's reach is missing."""

    def __init__(
        self,
        plans: Iterable[TrialPlan],
        *,
        engine: Engine,
        open_gateway: OpenGateway,
        server_argv: ServerArgv,
        image_ids: Mapping[str, str],
        labels: Mapping[str, str],
        folder: Path,
        kept: Path,
        sources: ModelSources,
        spent: Mapping[str, Spending],
        replays: Mapping[TrialKey, Path] | None,
        model_cgroup: Callable[[], str | None],
        report: Callable[[str], None],
    ):
        """`kept`: the run's folder, where a server's log is left. `spent`: by `gateway_key`."""
        self._plans = tuple(plan for plan in plans if plan.upstream is not None)
        self._engine = engine
        self._open_gateway = open_gateway
        self._server_argv = server_argv
        self._image_ids = image_ids
        self._labels = labels
        self._folder = folder
        self._kept = kept
        self._sources = sources
        self._spent = spent
        self._replays = replays
        self._model_cgroup = model_cgroup
        self._report = report
        self._stack = ExitStack()
        self._doors = count()
        self._gateways: dict[str, Gateway] = {}
        self._servers: dict[str, ModelServer] = {}

    def __enter__(self) -> Self:
        if not self._plans:
            return self
        if self._engine.stamp().remote:
            raise HostRefused(
                "the engine is another machine's: a solver in its containers has no way to the model gateway here",
                mend="run where the engine is",
                reason="remote_engine",
            )
        try:
            self._make_folder()
            for plan in self._plans:
                self._take_up(plan)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def spent(self, plan: TrialPlan) -> bool:
        """The run's budget is used up: what has not begun is not begun."""
        gateway = self._gateways.get(gateway_key(plan))
        return gateway is not None and gateway.spent

    def sidecar(self, plan: TrialPlan, key: TrialKey, trial: str, watch: ExchangeWatch) -> Sidecar | None:
        """None for a solver that is given no way to a model. Raises HostRefused where the model server is gone."""
        name = gateway_key(plan)
        if plan.upstream is None or name not in self._gateways:
            return None
        if name in self._servers:
            self._servers[name].make_fresh()
        replay = None if self._replays is None else self._replays[key]
        # A trial that is run once more in one run has another door.
        number = next(self._doors)
        door = self._gateways[name].open(f"{trial}.{number}", replay=replay, watch=watch)
        return Sidecar(self._engine, door, self._program)

    @property
    def _program(self) -> Path:
        return self._folder / "forwarder"

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._program.mkdir()
        self._program.chmod(0o755)
        copy = self._program / sidecar.PROGRAM
        shutil.copyfile(_FORWARDER, copy)
        copy.chmod(0o644)

    def _take_up(self, plan: TrialPlan) -> None:
        name, upstream = gateway_key(plan), plan.upstream
        if upstream is None or plan.model is None or name in self._gateways:
            return
        server = None
        if upstream.server is not None and self._replays is None:
            server = self._served(name, upstream.server, plan.model)
        ask = GatewayAsk(
            model=plan.model,
            upstream=upstream,
            folder=self._folder / f"g{len(self._gateways)}",
            server=server,
            key_variable=self._sources.key_variable,
            already=self._spent.get(name, Spending()),
            replays=self._replays is not None,
        )
        ask.folder.mkdir(mode=0o700)
        self._gateways[name] = self._stack.enter_context(self._open_gateway(ask))

    def _served(self, name: str, planned: PlannedServer, model: str) -> Path:
        if self._sources.weights is None:
            raise HostRefused(
                f"the weights {planned.weights[:12]} of {model} are not known here",
                mend="--model-file PATH",
                reason="weights",
            )
        self._report(f"loading {model}")
        server = ModelServer(
            self._engine,
            planned,
            argv=self._server_argv(planned, model),
            image=self._image_ids[planned.image.config],
            weights=self._sources.weights.absolute(),
            folder=self._folder / f"m{len(self._servers)}",
            labels=self._labels,
            cgroup=self._model_cgroup(),
            log=self._kept / "model-server.log",
            rootless=self._engine.stamp().rootless,
            report=self._report,
        )
        self._servers[name] = self._stack.enter_context(server)
        return server.socket


def gateway_key(plan: TrialPlan) -> str:
    """Equal for plans that share a gateway, and with it the run's budget; empty for those that have none."""
    return "" if plan.upstream is None else f"{plan.model} {plan.upstream.canonical().decode()}"


def pins_of_upstream(plan: TrialPlan, *, replays: bool) -> tuple[Pin, ...]:
    """The images that a plan's way to its model takes."""
    upstream = plan.upstream
    if upstream is None:
        return ()
    server = upstream.server
    return (upstream.forwarder,) if server is None or replays else (upstream.forwarder, server.image)


def spending_of(trials: Iterable[AnyTrial]) -> Spending:
    """Of finished trials; dollars are None as soon as one of them has no price."""
    told = [trial for trial in trials if trial.exchanges]
    usages = [trial.usage.subject for trial in told if trial.usage.subject is not None]
    return Spending(
        tokens=sum(usage.input_tokens + usage.output_tokens for usage in usages),
        usd=total_usd(trial.cost_usd.subject for trial in told) if told else "0",
        exchanges=sum(trial.exchanges or 0 for trial in told),
    )


def spent_by_gateway(plans: Iterable[TrialPlan], before: JournalFile | None) -> dict[str, Spending]:
    """Of a run that goes on, by `gateway_key`; also what went into trials that were broken off or are run again."""
    told: dict[str, list[AnyTrial]] = {}
    names = {plan.digest: gateway_key(plan) for plan in plans}
    for line in before.lines if before else ():
        if isinstance(line, TrialPlace):
            told.setdefault(names[line.plan_digest], []).append(line.result)
    return {name: spending_of(trials) for name, trials in told.items()}
