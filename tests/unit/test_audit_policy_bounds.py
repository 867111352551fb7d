"""Formulas at their bounds: what lies on one is taken, the next value is not; and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from appliance.audit import plausible_energy, plausible_outcomes, plausible_time, plausible_usage, policy_rules
from appliance.audit.plausible import Fault, Formula, Seen
from appliance.audit.plausible_shapes import Plausibility
from appliance.records.record import CalibrationStamp, Record
from appliance.records.trial import TrialResult, Usage, UsageByWhom
from attest.errors import Refused
from tests import record_builder as build
from tests.policy_builder import BEGAN, believable, metered, policy, shown

SIGNED = BEGAN + timedelta(days=1)


def faults(formula: Formula, record: Record, *, signed: datetime = SIGNED, **rules: Any) -> list[Fault]:
    return list(formula(Seen(record, Plausibility(**rules), signed, SIGNED)))


def of_one_trial(**fields: Any) -> Record:
    """A record of one trial as it is given, consistent or not."""
    made = believable().record
    trial = made.trials[0].model_copy(update=fields)
    return made.model_copy(update={"trials": (trial,)})


def spent(microjoules: int, wall: float, **fields: Any) -> Record:
    energy = build.energy(build.figure(microjoules))
    return of_one_trial(wall_seconds=wall, energy=energy, **fields)


BOUNDS: dict[str, tuple[Formula, Callable[[int], Record], int, int, dict[str, Any]]] = {
    # what: (formula, record by a whole number, the last that is taken, the first that is not, numbers)
    "0.5 W less 10 ms": (plausible_energy.above_the_least, lambda uj: spent(uj, 1.01), 500_000, 499_999, {}),
    "200 W and a window's edges": (
        plausible_energy.below_the_most,
        lambda uj: spent(uj, 1.0),
        200 * 6_050_000,
        200 * 6_050_000 + 1,
        {},
    ),
    "threads of its host": (
        plausible_energy.estimates_know_their_host,
        lambda threads: of_one_trial(energy=build.energy(build.figure(1, inputs={"threads": threads}))),
        2,
        3,
        {},
    ),
    "a limit and its slack": (
        plausible_time.within_the_limit,
        lambda seconds: of_one_trial(wall_seconds=float(seconds)),
        610,
        611,
        {},
    ),
    "a wall of nothing": (
        plausible_time.within_the_limit,
        lambda seconds: of_one_trial(wall_seconds=float(seconds)),
        0,
        -1,
        {},
    ),
    "a run's beginning": (
        plausible_time.within_the_run,
        lambda seconds: of_one_trial(started_at=shown(BEGAN + timedelta(seconds=seconds))),
        -300,
        -301,
        {},
    ),
    "a signature": (
        plausible_time.before_the_signature,
        lambda ms: of_one_trial(started_at=shown(SIGNED + timedelta(milliseconds=ms)), wall_seconds=1.0),
        299_000,
        299_001,
        {},
    ),
    "a run's date": (
        plausible_time.before_the_signature,
        lambda s: believable().record.model_copy(update={"date": shown(SIGNED + timedelta(seconds=s)), "trials": ()}),
        300,
        301,
        {},
    ),
    "equal walls": (
        plausible_time.walls_of_a_clock,
        lambda count: believable(lambda n: {"wall": 1.234567891} if n < count else {}).record,
        4,
        5,
        {},
    ),
    "round walls": (
        plausible_time.walls_of_a_clock,
        lambda count: believable(lambda n: {"wall": 1.25 + n} if n < count else {}).record,
        2,
        3,
        {},
    ),
    "the least of a program": (
        plausible_time.time_to_answer,
        lambda us: of_one_trial(wall_seconds=us / 1e6),
        1_000,
        999,
        {},
    ),
    "the least of a test": (
        plausible_time.time_to_test,
        lambda ms: believable(lambda n: {"wall": 1.5, **({"gap": ms / 1000} if n == 4 else {})}).record,
        51,  # moments are floats of seconds since 1970: a quarter of a microsecond is lost
        49,
        {},
    ),
    "CPU of a wall": (
        plausible_outcomes.cpu_fits_the_wall,
        lambda ms: of_one_trial(wall_seconds=1.0, cpu_seconds={"solver": ms / 1000}),
        2_050,
        2_051,
        {},
    ),
    "CPU of a host": (
        plausible_outcomes.cpu_fits_the_wall,
        lambda ms: of_one_trial(wall_seconds=1.0, cpu_seconds={"solver": 1.0, "model": ms / 1000}),
        2_100,
        2_101,
        {},
    ),
    "memory of a limit": (
        plausible_outcomes.memory_fits_the_limit,
        lambda mib: of_one_trial(peak_memory_mib=float(mib)),
        2_069,
        2_070,
        {},
    ),
    "claimed tokens": (
        plausible_usage.claimed_as_counted,
        lambda tokens: of_one_trial(usage=UsageByWhom(subject=usage(1000), claimed=usage(tokens))),
        1_100,
        1_101,
        {},
    ),
    "fewer claimed tokens": (
        plausible_usage.claimed_as_counted,
        lambda tokens: of_one_trial(usage=UsageByWhom(subject=usage(1000), claimed=usage(tokens))),
        900,
        899,
        {},
    ),
    "tokens a second": (
        plausible_usage.tokens_fit_the_wall,
        lambda tokens: of_one_trial(wall_seconds=2.0, usage=UsageByWhom(subject=usage(tokens))),
        20_000,
        20_001,
        {},
    ),
}


def usage(output: int) -> Usage:
    fields = dict.fromkeys(Usage.model_fields, 0)
    return Usage(**{**fields, "output_tokens": output})


@pytest.mark.parametrize("what", BOUNDS)
def test_what_lies_on_a_bound_is_taken_and_the_next_value_is_not(what: str) -> None:
    """Every number of the schema is what the formula uses, to the last digit (row P8)."""
    formula, of, last, first, rules = BOUNDS[what]
    assert faults(formula, of(last), **rules) == []
    assert len(faults(formula, of(first), **rules)) == 1


def test_signed_at_the_very_slack_is_taken() -> None:
    """Our clock and the signer's (row P8)."""
    record = believable().record
    for seconds, count in ((300, 0), (301, 1)):
        assert (
            len(faults(plausible_time.signed_in_the_past, record, signed=SIGNED + timedelta(seconds=seconds))) == count
        )


def test_a_share_on_its_bound_is_taken() -> None:
    """Of 8 planned trials, one is an eighth (rows P7, P8)."""
    record = believable(lambda n: {"outcome": "errored"} if n == 7 else {}).record
    policy_rules.little_is_excluded(policy(exclusions={"most_errored_share": 0.125}), record)
    with pytest.raises(Refused, match="found 1 of 8"):
        policy_rules.little_is_excluded(policy(exclusions={"most_errored_share": 0.1249}), record)


def test_an_age_on_its_bound_is_taken() -> None:
    """From the first trial's start to now."""
    record = believable().record
    first = datetime.fromisoformat(record.trials[0].started_at)
    by = policy(freshness={"most_age_seconds": 60})
    policy_rules.is_young(by, record, first + timedelta(seconds=60))
    with pytest.raises(Refused, match="wanted 60 s of age at most, found 61"):
        policy_rules.is_young(by, record, first + timedelta(seconds=61))


def beside_a_cloud(local_uj: int) -> TrialResult:
    cloud = build.energy(build.figure(10**15), local=local_uj, cloud=10**15 - local_uj)
    return build.trial("t1", wall=1.0, energy=cloud)


def test_what_a_cloud_took_is_of_no_host() -> None:
    """A thousand megajoules of somebody's data centre are nothing that this host cannot take; its own part is (P8)."""
    record = believable().record
    for local_uj, least, most in ((10**6, 0, 0), (10**3, 1, 0), (10**12, 0, 1)):
        mixed = record.model_copy(update={"trials": (beside_a_cloud(local_uj),)})
        found = faults(plausible_energy.above_the_least, mixed)
        over = faults(plausible_energy.below_the_most, mixed)
        assert (len(found), len(over)) == (least, most)
        assert all(fault.where == "$.trials[0].energy.local.grossUj" for fault in (*found, *over))


def test_the_floor_of_provenance_holds_for_what_was_taken_here() -> None:
    """A model's word about a cloud stands beside a counter's figure, and does not sink it (row L6)."""
    counted = beside_a_cloud(10**6)
    assert counted.energy is not None
    local = build.counted_figure(10**6)
    trial = counted.model_copy(update={"energy": counted.energy.model_copy(update={"local": local})})
    record = believable().record.model_copy(update={"trials": (trial,)})
    policy_rules.joules_come_from(policy(provenance={"floor": "hw_shunt"}), record)
    with pytest.raises(Refused, match="wanted hw_shunt or better, found estimator"):
        policy_rules.joules_come_from(
            policy(provenance={"floor": "hw_shunt"}),
            record.model_copy(update={"trials": (counted,)}),
        )


def test_rest_is_the_least_of_all_fit_looks_and_of_the_zones_that_are_summed() -> None:
    """A stored calibration counts, an unfit look does not, nor does a zone that no sum has (row P8)."""
    record = metered(lambda _: 9.0).record
    meter = record.meter
    assert meter.idle is not None
    assert faults(plausible_energy.above_its_own_rest, record) == []

    def looks(watts: float, **changes: Any) -> Record:
        look = meter.idle[0] if meter.idle else None
        assert look is not None
        zones = {key: zone.model_copy(update={"mean_uw": round(watts * 1e6)}) for key, zone in look.zones.items()}
        fields = {**dict(look), "zones": zones, "expires_at": "2027-01-01T00:00:00Z", "conditions": {}, **changes}
        fields.pop("when")
        stamp = CalibrationStamp(**fields)
        return record.model_copy(update={"meter": meter.model_copy(update={"idle": (), "calibration": stamp})})

    assert len(faults(plausible_energy.above_its_own_rest, looks(12.0))) == 4
    assert faults(plausible_energy.above_its_own_rest, looks(12.0), rest_tolerance=0.3) == []
    assert faults(plausible_energy.above_its_own_rest, looks(12.0, unfit="busy")) == []
    hidden = looks(12.0)
    trials = tuple(
        trial.model_copy(update={"energy": trial.energy.model_copy(update={"zones": zones})})
        for trial in hidden.trials
        if trial.energy
        for zones in [{key: zone.model_copy(update={"summed": False}) for key, zone in trial.energy.zones.items()}]
    )
    assert faults(plausible_energy.above_its_own_rest, hidden.model_copy(update={"trials": trials})) == []


def test_several_trials_at_a_time_say_nothing_of_the_time_for_a_test() -> None:
    """The next one to begin may be another worker's (row P8)."""
    record = believable(lambda n: {"started_at": shown(BEGAN + timedelta(seconds=n))}).record
    assert faults(plausible_time.time_to_test, record, least_test_seconds=3.0) == []


def test_a_rate_out_of_no_pass_is_a_rate_out_of_nothing() -> None:
    """Row P8."""
    record = believable().record
    nothing = record.model_copy(update={"summary": record.summary.model_copy(update={"passes": ()})})
    assert [fault.words for fault in faults(plausible_outcomes.rates_of_something, nothing)] == [
        "a rate out of no pass"
    ]


def test_what_was_never_to_be_scored_is_no_rate_out_of_nothing() -> None:
    """A suite without an oracle measures joules and seconds (decisions: Oracle)."""
    record = believable().record
    counts = {**record.summary.passes[0].outcomes, "resolved": 0, "unresolved": 0, "unscored": 2}
    sweep = record.summary.passes[0].model_copy(update={"outcomes": counts})
    unscored = record.model_copy(update={"summary": record.summary.model_copy(update={"passes": (sweep,)})})
    assert faults(plausible_outcomes.rates_of_something, unscored) == []


@pytest.mark.parametrize(
    "formula",
    [
        plausible_energy.below_the_most,
        plausible_energy.estimates_know_their_host,
        plausible_time.overlap_as_allowed,
        plausible_outcomes.cpu_fits_the_wall,
    ],
)
def test_a_trial_on_no_host_of_the_record_crashes_no_formula(formula: Formula) -> None:
    """Another check has refused it; this one still comes to its end (issue 5: hostile input)."""
    record = of_one_trial(host=7, energy=build.energy(build.figure(1, inputs={"threads": 3})))
    assert isinstance(faults(formula, record), list)


@pytest.mark.parametrize("moment", ["soon", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", ""])
def test_what_is_no_moment_is_implausible_and_no_crash(moment: str) -> None:
    """Any text may stand there (row P8)."""
    record = of_one_trial(started_at=moment)
    for formula in (plausible_time.within_the_run, plausible_time.overlap_as_allowed):
        with pytest.raises(Refused, match="is no moment") as refused:
            faults(formula, record)
        assert (refused.value.word, refused.value.where) == ("implausible", "$.trials[0].startedAt")
    with pytest.raises(Refused, match="is no moment"):
        faults(plausible_time.within_the_run, record.model_copy(update={"date": moment}))


def test_the_clock_of_these_tests_is_utc() -> None:
    """A moment of another zone is the same moment."""
    other = of_one_trial(started_at="2026-01-02T05:04:05+02:00")
    assert faults(plausible_time.within_the_run, other, clock_slack_seconds=0.0) == []
    assert SIGNED.tzinfo is UTC
