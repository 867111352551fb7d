"""What holds for every history of a machine, however it is cut into blocks and windows."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction
from itertools import pairwise
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Idle, Rest, ZoneRest, rest_of
from appliance.energy.readings import InnerWindow, ReadCgroup, Readings
from appliance.energy.series import ZoneSeries
from appliance.energy.split import split
from appliance.energy.windows import Window, ZoneEnergy, window_of
from tests.energy_histories import History, Moment, any_cuts
from tests.readings_builder import BOOT, zone
from tests.sysfs_tree import DRAM_RANGE_UJ, INTEL_RANGE_UJ

UNITS_NJ = {INTEL_RANGE_UJ: 61_035, DRAM_RANGE_UJ: 15_300}
OPENED_NS = 3_600 * 10**9
SOMETIMES = st.booleans()
NEVER = st.just(False)


@st.composite
def histories(
    draw: st.DrawFn, *, gaps: bool = True, whole_members: bool = False, slowness: st.SearchStrategy[bool] = SOMETIMES
) -> History:
    """Two counters that may wrap, the first of them slow or not, up to six cgroups that come and go, readings that
    failed, steps of any length.

    A slow one is the same counter, by what it says of its update period: the law must hold however it moves.
    """
    chance = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(2, 24))
    update_ns = 10_000_001 if draw(slowness) else 1_000_000
    zones = (zone(update_period_ns=update_ns), zone("package-0/dram", max_range=DRAM_RANGE_UJ))
    units = {one.id: UNITS_NJ[one.max_range or 0] for one in zones}
    counts = {
        one.id: chance.randrange(1, 2**32) if chance.random() < 0.5 else 2**32 - chance.randrange(1, 9) for one in zones
    }
    size = draw(st.integers(1, 6))
    cgroups = tuple(
        ReadCgroup(
            f"c{at}", *chance.choice([("solver", "own"), ("forwarder", "own"), ("solver", "f00d"), ("meter", None)])
        )
        for at in range(size)
    )
    lives = {
        one.id: (0, count) if whole_members or chance.random() < 0.5 else sorted(chance.sample(range(count + 1), 2))
        for one in cgroups
    }
    used = {one.id: chance.choice([0, 10**9, 2**60]) for one in cgroups}
    machine = chance.choice([10**12, 2**61])
    at_ns, moments = 0, []
    for at in range(count):
        dt_ns = chance.choice([1, 1_000_000, 100_000_000, 2_000_000_000]) if at else 0
        at_ns += dt_ns
        for one, before in counts.items():
            counts[one] = (before + chance.randint(0, dt_ns * 400 // units[one])) % 2**32
        for one in used:
            step = chance.choice([0, dt_ns // 3, dt_ns, -5]) if at else 0
            used[one] += step
            machine += max(0, step - chance.choice([0, 0, dt_ns // 50]))
        machine += chance.choice([0, dt_ns // 100, dt_ns])
        raws: dict[str, int | None] = {one: counts[one] * units[one] // 1000 for one in counts}
        if gaps and 0 < at < count - 1 and chance.random() < 0.2:
            raws[chance.choice(list(raws))] = None
        moments.append(
            Moment(
                at_ns=at_ns,
                zones=raws,
                machine=None if gaps and 0 < at < count - 1 and chance.random() < 0.1 else machine,
                cgroups={
                    one: None if gaps and at > born and chance.random() < 0.1 else used[one]
                    for one, (born, died) in lives.items()
                    if born <= at < died
                },
            )
        )
    return History(zones, cgroups, tuple(moments))


def idle_of(power_uw: int) -> Idle:
    rests = {key: ZoneRest(power_uw, 0, 0, 20, (power_uw,) * 20) for key in ("package-0", "package-0/dram")}
    return Idle((Rest(BOOT, 0, 20.0, rests, None),))


def counted_uj(readings: Readings, one: CounterZone) -> int:
    """By hand: the raw counts of the first and last readings, a step at a time, in nanojoules, rounded down once."""
    unit, total, before = UNITS_NJ[one.max_range or 0], 0, None
    for sample in readings.samples():
        raw = sample.zones.get(one.id)
        if raw is not None:
            count = -(-raw * 1000 // unit)
            total += 0 if before is None else (count - before) % 2**32
            before = count
    return total * unit // 1000


def assert_conserved(figure: ZoneEnergy) -> None:
    assert figure.gross_uj is not None
    parts = (figure.idle_uj, figure.system_uj, figure.others_uj, figure.net_uj)
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        assert sum(known) == figure.gross_uj
    assert min(known, default=0) >= 0


slow = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(history=histories(), power_uw=st.integers(0, 500_000_000))
def test_idle_system_others_and_own_are_what_was_measured(history: History, power_uw: int) -> None:
    """To the microjoule, and none of them negative: wraps, gaps, members that come and go (energy 3.1)."""
    readings = history.readings()
    found = window_of(readings, idle_of(power_uw))
    assert found.total is not None
    for one, figure in zip(history.zones, found.zones, strict=True):
        assert figure.missing is None or figure.gross_uj is not None
        assert figure.gross_uj == counted_uj(readings, one)
        assert_conserved(figure)
    assert_conserved(found.total)
    assert found.total.gross_uj == sum(one.gross_uj or 0 for one in found.zones)


@slow
@given(history=histories(), power_uw=st.integers(0, 10**8), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_where_blocks_are_cut_changes_no_joule(history: History, power_uw: int, seeds: tuple[int, int]) -> None:
    """The same history, cut in two ways: the same window, field by field."""
    one, other = (
        window_of(history.readings(any_cuts(len(history.moments), seed)), idle_of(power_uw)) for seed in seeds
    )
    assert one == other


@slow
@given(history=histories(gaps=False, whole_members=True), power_uw=st.integers(0, 10**8))
def test_every_cgroup_has_the_same_share_whoever_asks(history: History, power_uw: int) -> None:
    """Windows of each trial over the same moments: their own and what is nobody's sum to what was measured."""
    idle = idle_of(power_uw)
    owners = sorted({one.trial for one in history.cgroups if one.trial is not None})
    windows = [window_of(history.readings(cgroups=seen_by(history, owner)), idle) for owner in owners]
    nobody = window_of(history.readings(cgroups=seen_by(history, "nobody")), idle)
    ownerless = window_of(history.readings(cgroups=seen_by(history, None)), idle)
    for at, figure in enumerate(nobody.zones):
        assert figure.others_uj is not None
        shares = [window.zones[at].net_uj for window in windows]
        shares.append(ownerless.zones[at].net_uj if ownerless.cpu_ns else 0)
        assert sum(share for share in shares if share is not None) == figure.others_uj
        for window in windows:
            assert (window.zones[at].idle_uj, window.zones[at].system_uj) == (figure.idle_uj, figure.system_uj)


def seen_by(history: History, owner: str | None) -> tuple[ReadCgroup, ...]:
    return tuple(dataclasses.replace(one, trial="own" if one.trial == owner else "another") for one in history.cgroups)


@slow
@given(history=histories(gaps=False, whole_members=True, slowness=NEVER), data=st.data())
def test_windows_that_overlap_take_from_a_step_no_more_than_there_is(history: History, data: st.DataObject) -> None:
    """Two windows of two trials over shared moments: each conserves, and both together stay within the whole.

    Each carries its own fraction of a microjoule, so that a step may differ by one between them. Of a slow counter each
    window is one step by itself: what holds is the conservation of each (decision 9).
    """
    last = len(history.moments) - 1
    middle = data.draw(st.integers(0, last - 1))
    since, until = data.draw(st.integers(0, middle)), data.draw(st.integers(middle + 1, last))
    idle = idle_of(data.draw(st.integers(0, 10**8)))
    head = {"opened_boottime_ns": str(OPENED_NS + history.moments[since].at_ns)}
    first = window_of(history.readings(until=until, cgroups=seen_by(history, "own")), idle)
    second = window_of(history.readings(since=since, cgroups=seen_by(history, "f00d"), **head), idle)
    whole = window_of(history.readings(), idle)
    for one, other, all_of_it in zip(first.zones, second.zones, whole.zones, strict=True):
        assert_conserved(one)
        assert_conserved(other)
        nets = (one.net_uj or 0) + (other.net_uj or 0)
        assert nets <= (all_of_it.gross_uj or 0) - (all_of_it.idle_uj or 0) + 2 * len(history.moments)


@slow
@given(history=histories(gaps=False, whole_members=True), data=st.data())
def test_inner_windows_never_sum_to_more_than_the_whole(history: History, data: st.DataObject) -> None:
    """Nested, overlapping, at moments and between them (D5)."""
    length = history.moments[-1].at_ns
    edges = st.one_of(st.integers(0, length), st.sampled_from([one.at_ns for one in history.moments]))
    pairs = data.draw(st.lists(st.tuples(edges, edges).map(sorted), max_size=8))
    inner = tuple(InnerWindow(str(at), low, high) for at, (low, high) in enumerate(pairs))
    found = window_of(history.readings(inner=inner), idle_of(10_000_000))
    assert found.total is not None
    assert sum(one.gross_uj or 0 for one in found.inner) <= (found.total.gross_uj or 0)
    assert sum(one.net_uj or 0 for one in found.inner) <= (found.total.net_uj or 0)
    if history.zones[0].update_period_ns > 10_000_000 and found.total.net_uj is not None:
        assert {(one.net_uj, one.missing) for one in found.inner} <= {(None, "the counter is too slow for a part")}
    if pairs and min(low for low, _ in pairs) == 0 and [0, length] in pairs:
        assert sum(one.gross_uj or 0 for one in found.inner) <= (found.total.gross_uj or 0)
    if len(pairs) == 1 and pairs[0] == [0, length]:
        assert found.inner[0].gross_uj == found.total.gross_uj


def test_after_200_days_with_64_busy_cores_the_joules_are_those_of_the_first_minute() -> None:
    """CPU time of 1.1e18 ns, far past 2^53, costs no nanosecond (issue: the meter)."""
    since_boot = 200 * 86_400 * 10**9 * 64
    assert since_boot > 2**53

    def machine(base: int) -> Window:
        zones = (zone(max_range=2**60),)
        cgroups = (ReadCgroup("c0", "solver", "own"), ReadCgroup("c1", "solver", "f00d"))
        moments = tuple(
            Moment(
                at_ns=at * 100_000_000,
                zones={"z-package-0": base + at * 40_000_001},
                machine=base + at * 6_400_000_000,
                cgroups={"c0": base + at * 6_100_000_001, "c1": base + at * 100_000_003},
            )
            for at in range(30)
        )
        head = {"cpus": 64}
        return window_of(History(zones, cgroups, moments, head).readings({11, 23}), idle_of(100_000_000))

    late = machine(since_boot)
    assert late == machine(0)
    assert late.cpu_ns == {"solver": 29 * 6_100_000_001}
    assert late.zones[0].gross_uj == 29 * 40_000_001


def test_a_hundred_thousand_random_splits_conserve() -> None:
    """And none is negative (energy 3.1, property test)."""
    chance = random.Random(20240907)
    for _ in range(100_000):
        measured = chance.choice([0, 1, chance.randrange(10**4), chance.randrange(10**12)])
        members = [chance.choice([0, -5, chance.randrange(10**6)]) for _ in range(chance.randrange(6))]
        found = split(
            measured, chance.randrange(10**9), chance.randrange(1, 10**10), members, chance.randrange(-99, 10**6)
        )
        assert found.idle_uj + found.system_uj + sum(found.members_uj) == measured
        assert min(found.idle_uj, found.system_uj, *found.members_uj) >= 0


@slow
@given(history=histories(gaps=False, whole_members=True), power_uw=st.integers(0, 10**8))
def test_shares_are_those_of_the_law_in_fractions(history: History, power_uw: int) -> None:
    """A second reckoning, in exact fractions a step at a time: no cgroup is off by a microjoule a step (energy 3.1)."""
    found = window_of(history.readings(), idle_of(power_uw))
    lag = 4 * 4_000_000
    for one, figure in zip(history.zones, found.zones, strict=True):
        exact: dict[str, Fraction] = {}
        unit, carry, owed = UNITS_NJ[one.max_range or 0], 0, 0
        for before, now in steps_of(history, one):
            measured, carry = divmod(carry + counts_between(history, one, before, now) * unit, 1000)
            dynamic = measured - min(measured, power_uw * (now.at_ns - before.at_ns) // 10**9)
            weights = {name: grown(history, name, before, now) for name in sorted(now.cgroups)}
            left = (now.machine or 0) - (before.machine or 0) - sum(weights.values()) + owed
            owed = min(0, max(left, -lag))
            whole = sum(weights.values()) + max(0, left)
            for name, weight in weights.items():
                exact[name] = exact.get(name, Fraction(0)) + (Fraction(dynamic * weight, whole) if whole else 0)
        own = sum(exact[cgroup.id] for cgroup in history.cgroups if cgroup.trial == "own")
        if figure.net_uj is not None:
            assert abs(figure.net_uj - own) < len(history.moments) * len(history.cgroups)


def between(history: History, before: Moment, now: Moment) -> list[tuple[Moment, Moment]]:
    first, last = history.moments.index(before), history.moments.index(now)
    several = history.moments[first : last + 1]
    return list(pairwise(several))


def steps_of(history: History, one: CounterZone) -> list[tuple[Moment, Moment]]:
    """What the law is applied to: each sample, or all of a window where the counter is slow."""
    moments = history.moments
    if one.update_period_ns > 10_000_000:
        return [(moments[0], moments[-1])]
    return list(pairwise(moments))


def counts_between(history: History, one: CounterZone, before: Moment, now: Moment) -> int:
    unit, total = UNITS_NJ[one.max_range or 0], 0
    for earlier, later in between(history, before, now):
        first, last = (-(-(at.zones[one.id] or 0) * 1000 // unit) for at in (earlier, later))
        total += (last - first) % 2**32
    return total


def grown(history: History, name: str, before: Moment, now: Moment) -> int:
    pairs = between(history, before, now)
    return sum(max(0, (later.cgroups[name] or 0) - (earlier.cgroups[name] or 0)) for earlier, later in pairs)


@slow
@given(history=histories(), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_a_look_at_rest_is_the_same_however_its_blocks_are_cut(history: History, seeds: tuple[int, int]) -> None:
    """Idle power is recomputed by a verifier like every window."""
    one, other = (rest_of(history.readings(any_cuts(len(history.moments), seed))) for seed in seeds)
    assert one == other


@slow
@given(history=histories(), power_uw=st.integers(0, 10**8))
def test_a_window_is_the_same_by_the_quick_way_and_by_the_plain_one(history: History, power_uw: int) -> None:
    """Steps without an object for each of them, and with one: every figure, flag and bound, of looks at rest too."""
    readings = history.readings()
    quick = window_of(readings, idle_of(power_uw)), rest_of(readings)
    with patch.object(ZoneSeries, "step_uj", lambda *_: None):
        assert (window_of(readings, idle_of(power_uw)), rest_of(readings)) == quick
