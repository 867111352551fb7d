"""What a run's meter knows of the machine at rest while the run goes on."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.energy.idle import Idle, Rest
from appliance.meter.calibration import Calibration


@dataclass
class RestsSoFar:
    """What is known of the machine at rest so far; an energy that stands on it is provisional till the run's end."""

    _looks: tuple[Rest, ...] = ()
    _stored: Rest | None = None

    def looked(self, rest: Rest) -> None:
        self._looks = (*self._looks, rest)

    def stored(self, calibration: Calibration) -> None:
        self._stored = calibration.rest

    def idle(self) -> Idle | None:
        return Idle(self._looks, self._stored) if self._looks or self._stored else None
