"""What this machine is made of, put together for a run; the one place that knows every adapter."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from appliance import mends
from appliance.errors import HostRefused
from appliance.pins import Pin
from appliance.records.plan import PlannedBudget, PlannedEnergy, TrialPlan
from appliance.trials.models import GatewayAsk
from appliance.trials.session import Adapters

if TYPE_CHECKING:
    from appliance.images.library import ImageLibrary
    from appliance.meter.local import HostCgroups, StatsReader
    from appliance.meter.opening import Decided
    from appliance.ports import Gateway, Meter

Report = Callable[[str], None]
"""Told of steps that take a while, as an image that is built."""


def this_machine(plans: tuple[TrialPlan, ...], report: Report, decided: Decided | None = None) -> Adapters:
    """Raises HostRefused where the engine does not answer, MeterRefused where energy cannot be stated as planned.

    `decided`: where the joules come from; None, for what needs none of them, reads no counter.
    """
    from appliance.engine.docker import connect
    from appliance.engine.locks import RunLocks
    from appliance.engine.places import places
    from appliance.engine.reap import reap_leavings, reap_run
    from appliance.engine.reaper import reaper
    from appliance.engine.workspaces import HostWorkspaces
    from appliance.host.local import LocalHost
    from appliance.images.library import ImageLibrary
    from appliance.meter.local import HostCgroups
    from appliance.trials.stamps import harness_stamp

    engine, where, locks = connect(), places(), RunLocks()
    reaped = reap_leavings(engine, where)
    if reaped.anything:
        report(f"removed what {reaped.runs} interrupted runs had left: {reaped.containers} containers")
    stamp = engine.stamp()
    cgroups = HostCgroups(
        driver="systemd" if stamp.cgroup_driver == "systemd" else "cgroupfs",
        reachable=not stamp.rootless and not stamp.remote,
    )
    meter = _meter(
        plans[0].energy,
        cgroups,
        lambda run, trial, role: engine.cpu_ns(run, None if trial is None else f"{trial:05d}", role),
        decided,
        report,
    )
    return Adapters(
        engine=engine,
        workspaces=HostWorkspaces(engine),
        images=ImageLibrary(engine, report=report),
        meter=meter,
        host=LocalHost(dirty=harness_stamp().dirty),
        locks=locks,
        exclusive=lambda: locks.exclusive(lambda: report("another exclusive run is under way: waiting for its end")),
        reaper=reaper,
        reap=lambda run: reap_run(engine, run, where),
        scratch=lambda run: where.scratch(run) / "trials",
        locked_version=_locked_version,
        binds_tests=os.geteuid() == 0 and not stamp.remote and not stamp.rootless,
        gateway=open_gateway,
    )


def open_gateway(ask: GatewayAsk) -> AbstractContextManager[Gateway]:
    """Raises HostRefused where the provider's key is in no variable."""
    from appliance.gateway.budget import Budget, Spent
    from appliance.gateway.retries import RetryPolicy
    from appliance.gateway.serving import ModelGateway
    from appliance.gateway.upstreams.llama import LlamaUpstream
    from appliance.gateway.upstreams.provider import provider_upstream
    from appliance.gateway.upstreams.upstream import Upstream

    planned = ask.upstream
    upstream: Upstream | None = None
    if ask.server is not None:
        upstream = LlamaUpstream(ask.server, planned.server.slots if planned.server else 1)
    elif not ask.replays and planned.provider != "local":
        upstream = provider_upstream(planned.provider, url=planned.base_url, key_variable=ask.key_variable)

    def budget(asked: PlannedBudget) -> Budget:
        # What was refused for a budget is refused again by the cassette.
        return Budget() if ask.replays else Budget(asked.tokens, asked.usd, asked.exchanges)

    return ModelGateway(
        upstream,
        # A server of the run's own is started anew before the next trial, not within this one.
        policy=RetryPolicy(tries=2, first_wait_seconds=0.5) if ask.server is not None else None,
        model=ask.model,
        provider=planned.provider,
        folder=ask.folder,
        trial_budget=budget(planned.budget),
        run_budget=budget(planned.run_budget),
        already=Spent(ask.already.tokens, ask.already.usd, ask.already.exchanges),
    )


def _meter(
    planned: PlannedEnergy, engine: HostCgroups, stats: StatsReader, decided: Decided | None, report: Report
) -> Meter:
    from appliance.meter.local import NAME, LocalMeter
    from appliance.meter.measured import MeasuredMeter
    from appliance.meter.plugins import MeterRequest, open_meter, refuse_unlike

    if decided is not None and decided.wish.name not in (None, NAME):
        name = str(decided.wish.name)
        other = open_meter(MeterRequest(planned, engine, stats), name)
        refuse_unlike(other, name)
        return other
    if decided is not None and decided.line is not None:
        return MeasuredMeter(planned, decided.choice, decided.line, engine)
    if decided is None and planned.mode == "measured":
        planned = planned.model_copy(update={"mode": "estimator"})
    meter = LocalMeter(planned, engine, stats, choice=decided.choice if decided else None)
    if meter.leaves_cgroups:
        report(f"the engine makes cgroups that only root can remove: {mends.as_root('gc')}, after the run")
    return meter


def reachable_engine() -> bool:
    """Whether the engine's containers live on this host, where a meter may read them; True where none answers, for
    a plan that is only shown."""
    from appliance.engine.docker import connect

    try:
        stamp = connect().stamp()
    except HostRefused:
        return True
    return not stamp.remote and not stamp.rootless


def images_here(report: Report, *, needs_engine: bool) -> ImageLibrary:
    """Without an engine (a dry run on a machine that has none), only images that are pinned by a lock can be named."""
    from appliance.engine.docker import connect
    from appliance.images.library import ImageLibrary

    try:
        return ImageLibrary(connect(), report=report)
    except HostRefused as refusal:
        if needs_engine:
            raise
        return ImageLibrary(_NoEngine(refusal), report=report)


class _NoEngine:
    """Holds no image, and says why."""

    def __init__(self, refusal: HostRefused):
        self._refusal = refusal

    def resolve(self, pin: Pin) -> str | None:
        del pin
        raise self._refusal

    def load(self, archive: Path) -> None:
        del archive
        raise self._refusal

    def export(self, image: str, archive: Path) -> None:
        del image, archive
        raise self._refusal

    def pull(self, reference: str) -> None:
        del reference
        raise self._refusal


def _locked_version(image: str, program: str) -> str | None:
    """Of the package of that name in the image's lock, else of what the image is made for; as their authors count."""
    from appliance.images.catalog import Catalog
    from appliance.images.solver_version import locked_version

    entry = next((entry for entry in Catalog.default().lock(image).entries if entry.name == program), None)
    return entry.upstream_version if entry else locked_version(image)


def host_gpus() -> tuple[str, ...]:
    from appliance.host.facts import read_facts

    return read_facts().gpus


def writable_places() -> tuple[Path, ...]:
    """Beside the run's folder: where workspaces lie."""
    from appliance.engine.places import places

    return (places().state,)
