"""What a report says beside its figures: how windows lay, why joules lack, when the host was noisy, who forced what."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest

from appliance.energy.grades import Grade
from appliance.meter.channel import gone
from appliance.records.frontier import ranking_refusal
from appliance.records.metered import lost
from appliance.records.plan import PlannedEnergy
from appliance.records.record import CalibrationStamp, Check, MeterStamp, Record, RestZone
from appliance.records.words import REASONS_OF
from appliance.report import detail, joules, words
from appliance.report.render import render
from tests import record_builder as build


def counted(
    *nets: int | None, scheduling: Literal["exclusive", "shared"] = "exclusive", solver: str = "agent", **changes: Any
) -> Record:
    names = [f"t{number}" for number in range(len(nets))]
    energy = PlannedEnergy(mode="measured", active_watts=None, scheduling=scheduling)
    of = build.plan(names, solver=solver, kind="command", energy=energy)
    figures = [build.counted_figure(net, **changes) for net in nets]
    trials = [build.trial(name, energy=build.energy(figure)) for name, figure in zip(names, figures, strict=True)]
    return build.record(of, trials)


def test_windows_that_were_alone_are_never_ranked_against_windows_that_may_share() -> None:
    """The field is named, as for the other refusals; each record says how its windows lay (L3, design 8)."""
    alone, beside = counted(5_000_000), counted(4_000_000, scheduling="shared", solver="other")
    assert ranking_refusal([alone, alone], 0) == ranking_refusal([beside, beside], 0) == ()
    refused = ("plan.energy.scheduling differs: exclusive, shared",)
    assert ranking_refusal([alone, beside], 0) == refused
    text = render([alone, beside], "text")
    assert f"no ranking by joules, pass 0: {refused[0]}" in text
    assert "scheduling exclusive: one window at a time" in text
    assert "scheduling shared" in text


def test_gross_of_windows_that_may_overlap_is_not_summed_without_a_word() -> None:
    """The same joule of the machine stands in each of them (T3)."""
    remark = "gross of windows that overlap counts the same joule in each, and so does its sum"
    assert remark in render([counted(5, 6, scheduling="shared")], "text")
    assert remark not in render([counted(5, 6)], "text")
    assert remark not in render([counted(5, scheduling="shared")], "text")


def test_a_sum_that_is_not_told_from_nothing_is_below_its_limit_too() -> None:
    """`< LOD` for trial, sum, share and frontier alike; one trial below it does not hide a sum far above (G6)."""
    low = counted(1_000, 2_000, lod_uj=10_000, gross_uj=50_000_000)
    energy = low.summary.passes[0].energy
    assert energy is not None
    assert (energy.net_uj, energy.lod_uj, energy.undetected) == (3_000, 20_000, True)
    assert joules.of_pass(energy) == "< 0.020 J"
    assert joules.per_resolved(low.summary.passes[0]) == "< 0.010 J"
    assert "0.003 J" not in render([low, counted(9_000_000, 1, solver="other")], "text")
    mixed = counted(1_000, 9_000_000, lod_uj=10_000).summary.passes[0].energy
    assert mixed is not None
    assert joules.of_pass(mixed) == "9.0 J"
    still = counted(None, None, lod_uj=10_000, missing="below the limit of detection").summary.passes[0]
    assert joules.of_pass(still.energy) == "< 0.020 J"
    assert joules.per_resolved(still) == "< 0.010 J"


def test_a_share_of_what_is_not_told_from_nothing_is_shown_as_little() -> None:
    """`show` has no number by role where the total has none (G6)."""
    total = build.counted_figure(1_000, lod_uj=10_000)
    share = total.model_copy(update={"lod_uj": None, "gross_uj": None})
    energy = build.energy(total).model_copy(update={"by_role": {"solver": share}})
    trial = build.trial("t1", energy=energy)
    text = detail.trial_text(trial, {})
    table = text[text.index("energy of") :]
    assert not re.search(r"role solver +0.001 J", table)
    assert table.count("< 0.010 J") == 2


def test_missing_joules_have_their_reasons_beside_their_number() -> None:
    """The commonest first, with its count where there are several (L2)."""
    gone_words = "the meter does not answer: it closed the connection"
    one = build.record(
        build.plan(["a", "b", "c"]),
        [
            build.trial("a", energy=lost(gone_words, ("solver",), by_kind=False)),
            build.trial("b", energy=lost(gone_words, ("solver",), by_kind=False)),
            build.trial("c", energy=lost("the window was never opened", ("solver",), by_kind=False)),
        ],
    )
    text = render([one], "text")
    assert f"3 of 3 without joules (2: {gone_words}; 1: the window was never opened): no sum, no ranking" in text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), "it closed the connection"),
        (ConnectionResetError(104, "Connection reset by peer"), "it closed the connection"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_a_meter_that_is_gone_is_told_in_words(error: OSError, said: str) -> None:
    """No number of the system's in a record (J34)."""
    assert str(gone(error)) == f"the meter does not answer: {said}"


def test_lost_joules_keep_the_worst_provenance_of_their_zones() -> None:
    """Simulated stays simulated; without a zone nothing is said against the kernel's (J34, J46)."""
    zones = (Grade("hw_shunt"), Grade("simulated", "hw_shunt"))
    total = lost("gone", ("solver",), by_kind=False, origins=zones).total
    assert (total.provenance, total.claimed) == ("simulated", "hw_shunt")
    assert lost("gone", ("solver",), by_kind=False).total.provenance == "hw_shunt"


def test_a_noisy_host_says_on_which_side_and_which_host_where_there_are_several() -> None:
    """(H13)"""

    def busy(percent: int) -> tuple[Check, ...]:
        return (Check(name="cpu_load", level="warn", message=f"{percent}% busy", mend="top"),)

    host = build.host_stamp(noisy=True, fitness=busy(20), fitness_after=busy(65))
    text = render([build.record(hosts=(host,))], "text")
    assert "the host was noisy (before): 20% busy\n" in text
    assert "the host was noisy (after): 65% busy\n" in text
    other = build.host_stamp(noisy=True, fitness=busy(30))
    text = render([build.record(hosts=(host, other))], "text")
    assert "the host was noisy (host 0, after): 65% busy\n" in text
    assert "the host was noisy (host 1, before): 30% busy\n" in text


def test_a_calibration_by_force_says_so_and_looks_say_tenths_of_seconds() -> None:
    """(J38)"""
    stamp = CalibrationStamp(
        at="2026-01-02T03:00:00.000Z",
        readings=build.blob(b"rest"),
        boot_id="b" * 64,
        middle_boottime_ns="1",
        seconds=5.00099,
        zones={"package-0": RestZone(mean_uw=10_000_000, deviation_uw=0, drift_uw=0, bins=5)},
        unfit=None,
        expires_at="2026-01-03T03:00:00.000Z",
        conditions={"forced": "package-0 varies by 13 %"},
    )
    meter = MeterStamp(
        name="meter", version="1", counters=("package-0",), idle=None, calibration=stamp, mode="measured", reason=None
    )
    text = render([build.record(meter=meter)], "text")
    assert "over 5.0 s; forced: package-0 varies by 13 %\n" in text


def test_every_reason_has_words_and_none_resolved_is_no_number() -> None:
    """The word of the record stays in JSON and CSV, and so does Infinity (L2, J20)."""
    assert set(words._REASONS) >= {reason for reasons in REASONS_OF.values() for reason in reasons}
    record = build.record(None, [build.trial("t1", "unresolved")])
    text = render([record], "text")
    assert "why not resolved: tests failed (1)" in text
    assert "- (none resolved)" in text
    assert "Infinity" not in text
    assert "tests_failed" not in text
    assert "Infinity" in render([record], "json")
    assert "Infinity" in render([record], "csv")
