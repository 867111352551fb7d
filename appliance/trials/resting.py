"""The machine at rest, looked at once before the first trial of a start and once after its last (row J38).

Nothing of the run is under way then. A stored calibration that a short look finds unchanged spares the long ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from appliance.energy.idle import Idle, Rest, rest_of
from appliance.energy.readings import unpack
from appliance.errors import HostRefused
from appliance.ports import Meter, StoredRest
from appliance.records.blob import BlobRef
from appliance.records.journal import CalibrationLine, IdleLine
from appliance.records.metered import rest_fields
from appliance.records.record import CalibrationStamp, IdleStamp

IDLE_SECONDS: Final = 20.0
"""Of each look, where nobody asked for another length."""
CHECK_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 1.0
"""What the engine takes to clear up behind the last container."""
When = Literal["before", "after", "check"]


class Rests:
    """Of one start of a run; does nothing where joules come from no counter."""

    def __init__(
        self,
        meter: Meter,
        run: str,
        *,
        seconds: float,
        keep: Callable[[bytes], BlobRef],
        write: Callable[[CalibrationLine | IdleLine], None],
        pause: Callable[[float], None],
        report: Callable[[str], None],
        strict: bool = False,
    ):
        """`pause` lets seconds go by, and may raise; `write` returns once the line is on the disk. `strict`: a machine
        that is not at rest before the first trial is refused."""
        self._meter = meter
        self._run = run
        self._each = seconds
        self._keep = keep
        self._write = write
        self._pause = pause
        self._report = report
        self._strict = strict
        self.seconds = 0.0
        """Spent so far."""
        self._stands = False
        """On a stored calibration."""

    def before(self) -> None:
        """Raises HostRefused where the machine is not at rest and must be."""
        if not self._meter.counts:
            return
        stored = self._meter.stored()
        if stored is not None:
            self._stands = self._holds(stored)
        if not self._stands:
            found = self._look("before", self._each)
            if found is not None and found.unfit is not None and self._strict:
                raise HostRefused(
                    f"this host is not at rest: {found.unfit}",
                    mend="stop what runs there, then go on with --resume",
                    reason="unfit",
                )

    def after(self) -> None:
        """Nothing where the meter is gone: figures then stand on the look before alone."""
        if not self._meter.counts:
            return
        self._pause(_SETTLE_SECONDS)
        if self._stands:
            self._look("check", min(CHECK_SECONDS, self._each))
        else:
            self._look("after", self._each)

    def make_up(self, *, stood: bool) -> None:
        """The look that an earlier start did not come to, where no trial is left to run. `stood`: it stood on a stored
        calibration, which is held against the machine once more."""
        if not self._meter.counts:
            return
        stored = self._meter.stored() if stood else None
        if stored is None or not self._holds(stored):
            self._look("after", self._each)

    def _holds(self, stored: StoredRest) -> bool:
        check = self._look("check", min(CHECK_SECONDS, self._each))
        if check is None:
            return False
        found = unpack(stored.readings)
        rest = rest_of(found)
        idle = Idle((check,), rest)
        unfit = (idle.unfit(key, check.boot_id, check.middle_boottime_ns) for key in sorted(check.zones))
        why = next((word for word in unfit if word is not None), None)
        if why is not None:
            self._report(f"the stored calibration does not hold ({why}): the idle machine is measured anew")
            return False
        fields = rest_fields(rest, found.header.opened_at, self._keep(stored.readings))
        stamp = CalibrationStamp(**fields, expires_at=stored.expires_at, conditions=dict(stored.conditions))
        self._write(CalibrationLine(calibration=stamp))
        return True

    def _look(self, when: When, seconds: float) -> Rest | None:
        if when == "check":
            self._report(f"holding the stored calibration against the idle machine ({seconds:g} s)")
        else:
            self._report(f"measuring the idle machine ({seconds:g} s)")
        content = self._meter.idle(self._run, lambda: self._pause(seconds))
        if content is None:
            return None
        self.seconds += seconds
        found = unpack(content)
        rest = rest_of(found)
        fields = rest_fields(rest, found.header.opened_at, self._keep(content))
        self._write(IdleLine(idle=IdleStamp(**fields, when=when)))
        if rest.unfit is not None:
            self._report(f"the machine was not at rest: {rest.unfit}; figures that stand on this look have no net")
        return rest
