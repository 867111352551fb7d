"""CPU time as the meter charges it against what the program itself says that it used: execs in real containers.

The exec's own start is in the window, as a solver's is: measured by a program that burns nothing, and stated apart.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.engine.burning import WaitingContainer
from appliance.engine.docker import connect
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.meter.client import MeterClient
from appliance.meter.faces.burning import PROGRAM, burnt_of
from appliance.ports import Engine
from tests.benchmarks.meter_rig import RUN

_SECONDS = (0.0, 0.05, 0.5, 5.0)
_ROUNDS = {1: (20, 20, 10, 4), 10: (3, 3, 2, 1)}
"""At one and at ten at once."""
_TRIALS = itertools.count(10_000)


@dataclass(frozen=True)
class Bench:
    client: MeterClient
    engine: Engine
    image: str

    def errors_ms(self, seconds: float, at_once: int) -> list[float]:
        """What the meter charges beyond what each says that it burnt."""
        prepared = [self.client.prepare(RUN, next(_TRIALS), ["solver"]) for _ in range(at_once)]
        containers = [
            WaitingContainer(self.engine, self.image, RUN, one.cgroups["solver"], program=PROGRAM, cpu_seconds=seconds)
            for one in prepared
        ]
        try:

            def burnt_ns(number: int) -> int:
                window = self.client.open(prepared[number].handle).window
                said = containers[number].run()
                self.client.close(window)
                return burnt_of(said.stdout, said.exit).cpu_ns

            with ThreadPoolExecutor(at_once) as pool:
                burnt = list(pool.map(burnt_ns, range(at_once)))
        finally:
            for container in containers:
                container.close()
        return [(self._charged_ns(one.handle) - used) / 1e6 for one, used in zip(prepared, burnt, strict=True)]

    def _charged_ns(self, handle: str) -> int:
        readings = self.client.release(handle).readings
        assert readings is not None
        charged = window_of(unpack(readings), None).cpu_ns["solver"]
        assert charged is not None
        return charged


def report(client: MeterClient) -> None:
    engine = connect()
    pin = Catalog.default().lock("base").pin
    bench = Bench(client, engine, ImageLibrary(engine).ensure([pin])[pin.config])
    print("\nCPU time charged beyond a known burn in a container, ms; `error` is what is left without the exec's own")
    print(f"{'at once':>7}  {'burn s':>6}  {'median':>7}  {'least':>7}  {'most':>7}  {'error':>7}  {'worst':>7}  execs")
    for at_once, rounds in _ROUNDS.items():
        constant = 0.0
        for seconds, times in zip(_SECONDS, rounds, strict=True):
            found = [error for _ in range(times) for error in bench.errors_ms(seconds, at_once)]
            if not seconds:
                constant = statistics.median(found)
            print(_row(at_once, seconds, found, constant), flush=True)
        print(f"the exec's own: {constant:.1f} ms at {at_once} at once (the row of 0 s)")


def _row(at_once: int, seconds: float, found: Sequence[float], constant: float) -> str:
    middle = statistics.median(found)
    worst = max((error - constant for error in found), key=abs)
    return (
        f"{at_once:>7}  {seconds:>6g}  {middle:>7.1f}  {min(found):>7.1f}  {max(found):>7.1f}"
        f"  {middle - constant:>+7.1f}  {worst:>+7.1f}  {len(found):>5}"
    )
