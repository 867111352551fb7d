"""`appliance meter calibrate`: the power of this machine at rest, measured and kept for a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli.metering import AsJson, Powercap, Socket

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.host.local import LocalHost
    from appliance.meter.calibration import Calibration


def calibrate(  # noqa: PLR0917 - a command's options
    seconds: Annotated[float, typer.Option("--seconds", min=2, help="How long; nothing else should run.")] = 60.0,
    force: Annotated[bool, typer.Option("--force", help="Keep it even where the host was not quiet.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="What is stored, and whether it holds; measures nothing.")
    ] = False,
    socket: Socket = None,
    powercap: Powercap = None,
    as_json: AsJson = False,
) -> None:
    """Measure the machine at rest and keep it: a run then takes short looks instead of long ones.

    It holds for 24 hours, and only while kernel, governor, turbo, idle states, counters and the like stay as they were.
    """
    from appliance.cli.output import emit_json, line, note
    from appliance.errors import MeterRefused

    if show:
        found = _stored(socket, powercap)
    else:
        calibration, place = _measured(seconds, force, socket, powercap)
        if calibration.forced:
            note(f"kept although the host was not quiet: {calibration.forced}")
        found = {**calibration.json_value(), "file": str(place), "lapsed": None}
    if as_json:
        emit_json(found)
    else:
        for text in _lines(found):
            line(text)
    if found["lapsed"]:
        # What a script asks `--show` for.
        raise typer.Exit(MeterRefused.status)


def _measured(seconds: float, force: bool, socket: Path | None, powercap: Path | None) -> tuple[Calibration, Path]:
    import time

    from appliance.cli.output import note
    from appliance.errors import HostRefused
    from appliance.host.local import LocalHost
    from appliance.meter.calibration import RUN, calibration_of, measure_rest, store
    from appliance.meter.conditions import conditions
    from appliance.meter.faces.reaching import reach
    from appliance.meter.faces.status import refuse_no_counter

    with reach(socket, powercap) as client:
        refuse_no_counter(client.status())
        host = LocalHost()
        forced = _refuse_load(host, force)
        note(f"measuring the machine at rest for {seconds:g} s: leave it alone")
        readings = measure_rest(client, RUN, lambda: time.sleep(seconds))
    calibration = calibration_of(readings, here=conditions(), forced=_refuse_load(host, force) or forced)
    if calibration.rest.unfit is not None:
        # With --force too: no run could reckon with it.
        raise HostRefused(
            f"this was no machine at rest: {calibration.rest.unfit}", mend="try again once it is quiet", reason="unfit"
        )
    return calibration, store(calibration)


def _refuse_load(host: LocalHost, force: bool) -> str | None:
    """What is at work here, where that was said to be taken."""
    from appliance.errors import HostRefused
    from appliance.meter.faces.quiet import mend_of, unquiet

    checks = host.fitness()
    why = unquiet(checks)
    if why is not None and not force:
        raise HostRefused(
            f"the host is not quiet: {why}", mend=f"{mend_of(checks) or 'wait'}, or --force", reason="not_quiet"
        )
    return why


def _stored(socket: Path | None, powercap: Path | None) -> dict[str, Any]:
    from appliance.errors import InputRefused
    from appliance.meter.calibration import folder_of_calibration, load

    stored = load()
    place = folder_of_calibration() / "calibration.json"
    if stored is None:
        raise InputRefused("no calibration is stored", where=str(place), mend="appliance meter calibrate")
    return {**stored.json_value(), "file": str(place), "lapsed": _lapsed(stored, socket, powercap)}


def _lapsed(stored: Calibration, socket: Path | None, powercap: Path | None) -> str | None:
    """Held against the counters of the meter that answers; without one, against everything else."""
    from datetime import UTC, datetime

    from appliance.errors import HostRefused, MeterRefused
    from appliance.meter.calibration import usable
    from appliance.meter.conditions import COUNTERS, conditions
    from appliance.meter.faces.reaching import reach

    try:
        with reach(socket, powercap) as client:
            return usable(client.status()["counters"])[1]
    except (HostRefused, MeterRefused):
        here = {**conditions(), COUNTERS: stored.conditions.get(COUNTERS)}
        return stored.lapsed(datetime.now(UTC), here)


def _lines(found: dict[str, Any]) -> list[str]:
    zones = [
        f"{key:<20} {zone['meanUw'] / 1e6:8.3f} W  +- {zone['deviationUw'] / 1e6:.3f}"
        f"  drift {zone['driftUw'] / 1e6:+.3f}  ({zone['bins']} s)"
        for key, zone in found["zones"].items()
    ]
    state = f"does not hold: {found['lapsed']}" if found["lapsed"] else f"holds till {found['expiresAt']}"
    words = [*zones, f"measured at {found['at']} over {found['seconds']:.0f} s; {state}"]
    words += [f"unfit: {found['unfit']}"] if found["unfit"] else []
    words += [f"forced: {found['forced']}"] if found["forced"] else []
    return [*words, f"kept in {found['file']}"]
