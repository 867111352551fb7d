"""A counter of somebody else's: a plug that measures at the wall and tells it over HTTP, as many a home plug does.

Registered as an entry point of the group `bench_appliance.counters`; its address is in the environment.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading

MILLIJOULES_OF_A_WATT_HOUR = 3_600_000


class WallMeter:
    name = "wall-meter"

    def __init__(self, url: str):
        self._url = url

    def zones(self) -> tuple[CounterZone, ...]:
        return (
            CounterZone(
                id="outlet",
                key="outlet",
                path=self._url,
                name="the whole machine at the wall",
                domain="wall",
                unit="mj",
                max_range=None,
                most_uw=3_600_000_000,
                update_period_ns=500_000_000,
                shortest_window_ns=10_000_000_000,
                source=self.name,
                provenance="hw_shunt",
            ),
        )

    def absent(self) -> tuple[AbsentZone, ...]:
        return ()

    def read(self) -> Sequence[Reading]:
        try:
            with urllib.request.urlopen(f"{self._url}/status", timeout=2) as answer:  # noqa: S310  # its owner's word
                return [round(json.load(answer)["total_wh"] * MILLIJOULES_OF_A_WATT_HOUR)]
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return ["UNREACHABLE"]
        except (ValueError, KeyError, TypeError):
            return ["NOT_A_NUMBER"]

    def rescan(self) -> bool:
        return False

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None:
        pass


def open_wall_meter() -> WallMeter:
    return WallMeter(os.environ["BENCH_APPLIANCE_COUNTER_WALL_URL"])
