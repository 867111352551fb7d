"""What this machine is made of, put together for a run; the one place that knows every adapter."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import HostRefused
from appliance.pins import Pin
from appliance.records.plan import TrialPlan
from appliance.trials.session import Adapters

if TYPE_CHECKING:
    from appliance.images.library import ImageLibrary

Report = Callable[[str], None]
"""Told of steps that take a while, as an image that is built."""


def this_machine(plans: tuple[TrialPlan, ...], report: Report) -> Adapters:
    """Raises HostRefused where the engine does not answer, MeterRefused where energy cannot be stated as planned."""
    from appliance.engine.docker import connect
    from appliance.engine.locks import RunLocks
    from appliance.engine.places import places
    from appliance.engine.reap import reap_leavings, reap_run
    from appliance.engine.reaper import reaper
    from appliance.engine.workspaces import HostWorkspaces
    from appliance.host.local import LocalHost
    from appliance.images.library import ImageLibrary
    from appliance.meter.local import HostCgroups, LocalMeter
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
    meter = LocalMeter(plans[0].energy, cgroups, lambda run, trial, _role: engine.cpu_ns(run, f"{trial:05d}"))
    if meter.leaves_cgroups:
        report("the engine makes cgroups that only root can remove: sudo appliance gc, after the run")
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
    )


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
    """Of the package of that name in the image's lock, as its authors count."""
    from appliance.images.catalog import Catalog

    entry = next((entry for entry in Catalog.default().lock(image).entries if entry.name == program), None)
    return entry.upstream_version if entry else None


def writable_places() -> tuple[Path, ...]:
    """Beside the run's folder: where workspaces lie."""
    from appliance.engine.places import places

    return (places().state,)
