"""What a journal says of a measured run's rest and host."""

from __future__ import annotations

from typing import Literal

from appliance.records.blob import BlobRef
from appliance.records.journal import (
    CalibrationLine,
    FitnessLine,
    HeaderLine,
    HostLine,
    IdleLine,
    Journal,
    Line,
    TrialLine,
    decode,
    encode,
)
from appliance.records.record import CalibrationStamp, Check, IdleStamp
from tests import record_builder as build
from tests.record_builder import harness_stamp, host_stamp

REST = {
    "at": "2026-01-02T03:04:05Z",
    "readings": BlobRef(sha256="a" * 64, bytes=3),
    "boot_id": "b" * 64,
    "middle_boottime_ns": "12",
    "seconds": 5.0,
    "zones": {},
    "unfit": None,
}
HOST = HostLine(host=host_stamp(), at="2026-01-02T03:04:05Z")
CHECK = IdleLine(idle=IdleStamp(**REST, when="check"))
BEFORE = IdleLine(idle=IdleStamp(**REST, when="before"))


def calibration(blob: str = "c") -> CalibrationLine:
    stamp = CalibrationStamp(
        **(REST | {"readings": BlobRef(sha256=blob * 64, bytes=4)}), expires_at="2026-01-03T03:04:05Z", conditions={}
    )
    return CalibrationLine(calibration=stamp)


def journal(*lines: Line) -> Journal:
    head = HeaderLine(run_id="r", plan_digests=("e" * 64,), harness=harness_stamp(), started_at="2026-01-02T03:04:05Z")
    return decode(b"".join(encode(line) for line in (head, *lines)), "journal")


def test_a_calibration_is_the_records_where_every_start_stood_on_it() -> None:
    """One whose start was never measured says nothing; one without it, or with another, leaves the looks
    alone (J38).
    """
    one = calibration()
    assert journal(HOST, CHECK, one, CHECK).calibration() == one.calibration
    assert journal(HOST, CHECK, one, HOST, CHECK, one, CHECK).calibration() == one.calibration
    assert journal(HOST, CHECK, one, CHECK, HOST).calibration() == one.calibration
    assert journal(HOST, CHECK, one, HOST, BEFORE).calibration() is None
    assert journal(HOST, BEFORE, HOST, CHECK, one).calibration() is None
    assert journal(HOST, CHECK, one, HOST, CHECK, calibration("d")).calibration() is None
    assert journal(HOST).calibration() is None


def test_looks_at_rest_are_kept_in_the_order_they_were_taken() -> None:
    """(J38)"""
    assert journal(HOST, BEFORE, CHECK).idle() == (BEFORE.idle, CHECK.idle)


def test_a_host_is_noisy_where_it_was_on_either_side_of_the_run() -> None:
    """The checks after the last start's trials stand beside those before; hosts stay numbered as trials count them
    (H13, harness: Machine fitness).
    """
    loud = Check(name="cpu_load", level="warn", message="busy", mend="top")
    calm = Check(name="cpu_load", level="info", message="calm")
    at = "2026-01-02T03:05:05Z"
    quiet_host = host_stamp().model_copy(update={"noisy": False})
    start = HostLine(host=quiet_host, at=at)
    before = journal(start)
    assert before.hosts_after() == before.hosts() == (quiet_host,)
    after = journal(start, FitnessLine(host=0, checks=(loud,), at=at))
    assert after.hosts() == (quiet_host,)
    (host,) = after.hosts_after()
    assert (host.noisy, host.fitness_after) == (True, (loud,))
    (host,) = journal(start, FitnessLine(host=0, checks=(calm,), at=at)).hosts_after()
    assert host.noisy is False


def metered(trial: int = 0) -> TrialLine:
    energy = build.energy(build.counted_figure(1)).model_copy(update={"readings": BlobRef(sha256="f" * 64, bytes=3)})
    return TrialLine(plan_digest="e" * 64, trial=trial, result=build.trial("t1", energy=energy))


def look(boot: str, when: Literal["before", "after"] = "before") -> IdleLine:
    return IdleLine(idle=IdleStamp(**(REST | {"boot_id": boot * 64}), when=when))


def test_a_start_that_was_cut_off_before_its_last_look_lacks_it() -> None:
    """Whatever is looked at later makes up for it; a trial without readings asks for none (J38)."""
    bare = metered().model_copy(update={"result": build.trial("t1")})
    assert not journal(HOST).lacks_rest()
    assert not journal(HOST, bare).lacks_rest()
    assert journal(HOST, BEFORE, metered()).lacks_rest()
    assert journal(HOST, BEFORE, metered(), bare.model_copy(update={"trial": 1})).lacks_rest()
    assert not journal(HOST, BEFORE, metered(), HOST, BEFORE).lacks_rest()


def test_a_look_in_another_boot_is_none_after_the_trials_of_this_one() -> None:
    """No line between two looks leads over a boot; a trial that was run again counts where it ran last (J38)."""
    assert journal(HOST, look("b"), metered()).rests_on_one_side()
    assert journal(HOST, look("b"), metered(), HOST, look("c")).rests_on_one_side()
    assert not journal(HOST, look("b"), metered(), HOST, look("b")).rests_on_one_side()
    assert not journal(HOST, look("b"), metered(), HOST, look("c"), metered(), look("c", "after")).rests_on_one_side()
    assert not journal(HOST, metered()).rests_on_one_side()
