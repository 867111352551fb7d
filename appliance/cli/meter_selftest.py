"""`appliance meter selftest`: the meter measured against known loads; figures, and one verdict: conservation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from appliance.cli.metering import AsJson, Powercap, Socket

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.cgroups import CgroupDriver
    from appliance.meter.counters.cross_check import Agreement
    from appliance.meter.faces.burning import Load, StartLoad
    from appliance.meter.faces.selftest import Additivity, Findings, Piece

_CROSS_CHECK_SECONDS: Final = 5.0


def selftest(  # noqa: PLR0917 - a command's options
    seconds: Annotated[float, typer.Option("--seconds", min=0.05, max=60, help="CPU time of the larger load.")] = 4.0,
    rest_seconds: Annotated[float, typer.Option("--idle-seconds", min=2, help="Of each look at rest.")] = 10.0,
    containers: Annotated[
        bool | None,
        typer.Option(
            "--containers/--cgroups", help="Loads in real containers, or in plain cgroups (root).", show_default=False
        ),
    ] = None,
    cross_check: Annotated[
        str | None,
        typer.Option("--cross-check", metavar="NAME", help="`pyrapl`: read the same counters by it, and compare."),
    ] = None,
    validation: Annotated[
        bool, typer.Option("--validation", help="Print this host's rows for docs/validation.md instead.")
    ] = False,
    socket: Socket = None,
    powercap: Powercap = None,
    as_json: AsJson = False,
) -> None:
    """Two known loads alone, alone, together: is the energy additive, does it conserve, is CPU time right?

    Figures of this host, never judged by a clock. Conservation is: it holds to the microjoule, or this ends with 6.
    """
    import os
    import time
    from dataclasses import replace

    from appliance.cli.meter_validation import validation_rows
    from appliance.cli.output import emit_json, line, note
    from appliance.errors import MeterRefused, UsageRefused
    from appliance.meter.faces.reaching import reach
    from appliance.meter.faces.selftest import selftest as tested
    from appliance.meter.fitting import refuse_beside_socket

    if cross_check not in (None, "pyrapl"):
        raise UsageRefused(f"no cross-check is called {cross_check!r}", mend="--cross-check pyrapl")
    refuse_beside_socket(socket, () if powercap is None else ("--powercap-root",))
    checked, unchecked = ((), None) if cross_check is None else _cross_checked(cross_check, powercap)
    with reach(socket, powercap) as client:
        status = client.status()
        run = f"selftest_{os.getpid()}"
        in_containers = containers or (containers is None and os.geteuid() != 0)
        load, driver = _container_load(run) if in_containers else (_process_load, "cgroupfs")
        found = tested(
            client,
            load,
            run=run,
            driver=driver,
            counted=_why_uncounted(status),
            cpu_seconds=(seconds, seconds / 2),
            rest_seconds=rest_seconds,
            pause=time.sleep,
            say=note,
        )
    if unchecked is not None:
        found = replace(found, untested={**found.untested, f"agreement with {cross_check}": unchecked})
    rows = validation_rows(status, found, powercap, in_containers=in_containers) if validation else None
    if as_json:
        emit_json(_json(found, checked) | ({} if rows is None else {"validation": rows}))
    else:
        for text in _lines(found, checked) if rows is None else rows:
            line(text)
    if found.conserves is False:
        raise MeterRefused("energy is not conserved: a bug of ours", mend="report it with the output of --json")


def _why_uncounted(status: dict[str, Any]) -> str | None:
    from appliance.errors import MeterRefused
    from appliance.meter.faces.status import refuse_no_counter

    try:
        refuse_no_counter(status)
    except MeterRefused as refusal:
        return refusal.message
    return None


def _process_load(cgroup: str, cpu_seconds: float) -> Load:
    from appliance.meter.faces.burning import ProcessLoad

    return ProcessLoad(cgroup, cpu_seconds)


def _container_load(run: str) -> tuple[StartLoad, CgroupDriver]:
    from appliance.engine.burning import WaitingContainer
    from appliance.engine.docker import connect
    from appliance.images.catalog import Catalog
    from appliance.images.library import ImageLibrary
    from appliance.meter.faces.burning import PROGRAM, Burnt, burnt_of

    engine = connect()
    pin = Catalog.default().lock("base").pin
    image = ImageLibrary(engine).ensure([pin])[pin.config]

    class ContainerLoad:
        def __init__(self, cgroup: str, cpu_seconds: float):
            self._waiting = WaitingContainer(engine, image, run, cgroup, program=PROGRAM, cpu_seconds=cpu_seconds)

        def burn(self) -> Burnt:
            said = self._waiting.run()
            return burnt_of(said.stdout, said.exit)

        def close(self) -> None:
            self._waiting.close()

    return ContainerLoad, "systemd" if engine.stamp().cgroup_driver == "systemd" else "cgroupfs"


def _cross_checked(name: str, powercap: Path | None) -> tuple[tuple[Agreement, ...], str | None]:
    """Five seconds of both, or why that could not be: the loads are tested all the same."""
    import time

    from appliance.errors import MeterRefused
    from appliance.meter.counters.cross_check import cross_check
    from appliance.meter.counters.powercap_files import POWERCAP
    from appliance.meter.counters.sources import open_counters

    ours = open_counters(powercap=powercap or POWERCAP, nvml=False)
    try:
        if not ours[0].zones():
            absent = ours[0].absent()
            return (), "this meter reads no counter" + (f" ({absent[0].path}: {absent[0].reason})" if absent else "")
        try:
            theirs = open_counters(cpu_backend=name, nvml=False)
        except MeterRefused as refusal:
            return (), f"{name} reads no counter here ({refusal.message})"
        try:
            found = cross_check(ours[0], theirs[0], lambda: time.sleep(_CROSS_CHECK_SECONDS))
        finally:
            for counter in theirs:
                counter.close()
    finally:
        for counter in ours:
            counter.close()
    return found, None if found else f"{name} and this meter share no zone"


def _json(found: Findings, checked: tuple[Agreement, ...]) -> dict[str, Any]:
    return {
        "conserves": found.conserves,
        "untested": dict(found.untested),
        "cpuTogetherErrorNs": found.cpu_together_error_ns,
        "windows": [_piece(piece) for piece in found.pieces],
        "additivity": [_additivity(one) for one in found.additivity],
        "crossCheck": [_agreement(one) for one in checked] or None,
    }


def _piece(piece: Piece) -> dict[str, Any]:
    total = piece.window.total
    return {
        "name": piece.name,
        "burntCpuNs": piece.burnt.cpu_ns,
        "burntWallNs": piece.burnt.wall_ns,
        "cpuErrorNs": piece.cpu_error_ns,
        "wallNs": piece.window.wall_ns,
        "conservationErrorUj": piece.conservation_error_uj(),
        "grossUj": None if total is None else total.gross_uj,
        "netUj": None if total is None else total.net_uj,
        "provenance": None if total is None else total.provenance,
        "missing": None if total is None else total.missing,
        "flags": list(piece.window.flags),
    }


def _agreement(one: Agreement) -> dict[str, Any]:
    return {
        "zone": one.key,
        "agrees": one.agrees,
        "theirsNj": one.theirs_nj,
        "leastNj": one.least_nj,
        "mostNj": one.most_nj,
        "countNj": one.count_nj,
        "lack": one.lack,
    }


def _additivity(one: Additivity) -> dict[str, Any]:
    return {
        "zone": one.key,
        "aloneUj": one.alone_uj,
        "togetherUj": one.together_uj,
        "differenceUj": one.difference_uj,
        "percent": one.percent,
        "uncertaintyUj": one.uncertainty_uj,
        "missing": one.missing,
    }


def _lines(found: Findings, checked: tuple[Agreement, ...]) -> Iterator[str]:
    for piece in found.pieces:
        error = "not readable" if piece.cpu_error_ns is None else f"{piece.cpu_error_ns / 1e6:+.1f} ms"
        total = piece.window.total
        net = "" if total is None or total.net_uj is None else f", net {total.net_uj / 1e6:.3f} J"
        label = "" if total is None or total.provenance == "hw_shunt" else f" ({total.provenance})"
        yield f"{piece.name:<11} burnt {piece.burnt.cpu_ns / 1e9:.3f} s of CPU, counted {error} of that{net}{label}"
    for one in found.additivity:
        if one.difference_uj is None or one.alone_uj is None or one.together_uj is None:
            yield f"additivity of {one.key}: not known ({one.missing})"
            continue
        percent = "" if one.percent is None else f" ({one.percent:.1f} %)"
        spread = "" if one.uncertainty_uj is None else f", +- {one.uncertainty_uj / 1e6:.3f} J (k=2)"
        sums = f"alone {one.alone_uj / 1e6:.3f} J, together {one.together_uj / 1e6:.3f} J"
        yield f"additivity of {one.key}: {sums}, apart {one.difference_uj / 1e6:.3f} J{percent}{spread}"
    if found.conserves is not None:
        yield f"conservation {'exact' if found.conserves else 'BROKEN'}"
    for what, why in found.untested.items():
        yield f"{what} not tested: {why}"
    for both in checked:
        if both.lack is not None:
            yield f"cross-check of {both.key}: nothing can be said ({both.lack})"
            continue
        word = "agrees" if both.agrees else "DISAGREES"
        ours = " to ".join(_joules(number) for number in (both.least_nj, both.most_nj))
        yield f"cross-check of {both.key}: {word}, {_joules(both.theirs_nj)} J against ours of {ours} J"


def _joules(nanojoules: int | None) -> str:
    return "-" if nanojoules is None else f"{nanojoules / 1e9:.6f}"
