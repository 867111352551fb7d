"""The rules of audit that no single change of a plain record reaches: each on a record made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.audit import blobs, energy, outcomes, plans
from appliance.energy import estimators
from appliance.energy.cpus import DesignPower
from appliance.files import store_blob
from appliance.meter.figures import trial_energy
from appliance.records.energy import EnergyFigure, EnergyPart, TrialEnergy, ZoneFigure
from appliance.records.metered import lost
from appliance.records.plan import PlannedBudget, PlannedServer, PlannedUpstream
from appliance.records.record import Record
from appliance.records.trial import Streams, TrialResult
from appliance.records.words import Outcome
from attest.checks import NotRun
from attest.errors import Refused
from tests import record_builder as build


def refused(look: Any, record: Record) -> str | None:
    """JSON path of the refusal, None where the rule holds."""
    try:
        look(record)
    except Refused as refusal:
        return refusal.where
    return None


def one(trial: TrialResult, *, timeout_resolves: bool = True) -> Record:
    of = build.plan()
    suite = of.suite.model_copy(update={"timeout_resolves": timeout_resolves})
    return build.record(of.model_copy(update={"suite": suite}), [trial])


def unresolved(reason: str, **grade: Any) -> TrialResult:
    return build.trial("t1", "unresolved", reason=reason, grade=build.grade("unresolved", **grade))  # type: ignore[arg-type]


PASSED = build.grade("resolved")


@pytest.mark.parametrize(
    ("trial", "timeout_resolves", "place"),
    [
        (unresolved("oracle_timeout", exit=None, timed_out=True), True, None),
        (unresolved("oracle_timeout"), True, "$.trials[0].reason"),
        (unresolved("tests_failed", exit=None, timed_out=True), True, "$.trials[0].reason"),
        (unresolved("tampered", tests_digest_after="0" * 64), True, None),
        (unresolved("tampered"), True, "$.trials[0].reason"),
        (unresolved("no_verdict", tests_digest_after=None), True, None),
        (build.trial("t1", "unresolved", reason="no_verdict", grade=PASSED), True, "$.trials[0].reason"),
        (build.trial("t1", "unresolved", reason="patch_rejected", grade=None), True, None),
        (build.trial("t1", "unresolved", reason="timeout", cause="timeout", solver_exit=None), False, None),
        (
            build.trial("t1", "unresolved", reason="timeout", cause="timeout", solver_exit=None),
            True,
            "$.trials[0].reason",
        ),
        (build.trial("t1", "unresolved", reason="timeout"), False, "$.trials[0].reason"),
        (build.trial("t1", cause="timeout", solver_exit=None), True, None),
        (build.trial("t1", cause="timeout", solver_exit=None), False, "$.trials[0].outcome"),
    ],
)
def test_each_reason_needs_what_it_says(trial: TrialResult, timeout_resolves: bool, place: str | None) -> None:
    """decisions: Oracle, How a trial ends (H2, H7, J11)."""
    assert refused(outcomes.follow_from_grades, one(trial, timeout_resolves=timeout_resolves)) == place


def test_without_listed_ids_the_exit_status_alone_decides() -> None:
    """`oracle: exit_code`, no ids (decisions: Oracle)."""
    spec = build.task_spec()
    bare = spec.oracle.model_copy(update={"format": "exit_code", "path": None, "fail_to_pass": (), "pass_to_pass": ()})
    of = build.plan([spec.model_copy(update={"oracle": bare})])
    grade = build.grade("resolved", oracle="exit_code", ids=())
    baseline = build.baseline(ids=())
    assert refused(outcomes.follow_from_grades, build.record(of, [build.trial(grade=grade)], [baseline])) is None
    junit = build.grade("resolved", ids=())
    odd = build.record(of, [build.trial(grade=junit)], [baseline])
    assert refused(outcomes.follow_from_grades, odd) == "$.trials[0].grade.oracle"


def with_energy(found: TrialEnergy, **planned: Any) -> Record:
    of = build.plan()
    of = of.model_copy(update={"energy": of.energy.model_copy(update=planned)})
    return build.record(of, [build.trial(energy=found)])


def test_an_estimate_where_counters_were_asked_for_is_refused() -> None:
    """No silent fallback (J34, L4)."""
    record = with_energy(build.estimated_energy(1.0), mode="measured")
    assert refused(energy.figures_follow, record) == "$.trials[0].energy.total.basis"
    counted = build.energy(build.counted_figure(5)).model_copy(update={"readings": build.blob(b"readings")})
    assert refused(energy.figures_follow, with_energy(counted, mode="measured")) is None


def test_a_counter_s_figure_without_readings_is_refused_and_a_missing_one_is_not() -> None:
    """No joule of a counter is believed that nobody can make again; where there is none, the reason stands (J44)."""
    assert refused(energy.figures_follow, with_energy(build.energy(build.counted_figure(5)))) == (
        "$.trials[0].energy.total.basis"
    )
    gone = lost("the meter went away", ("solver",), by_kind=False)
    assert refused(energy.figures_follow, with_energy(gone)) is None
    sampled = gone.model_copy(update={"samples": 3})
    assert refused(energy.figures_follow, with_energy(sampled)) == "$.trials[0].energy.samples"


def test_the_watts_of_an_estimate_are_the_plan_s() -> None:
    """What `wall` multiplies by stands in the plan, so it cannot be lowered afterwards (J37)."""

    def at(watts: float) -> TrialEnergy:
        estimate = estimators.wall(10**9, watts)
        return trial_energy(estimate, {"solver": 5 * 10**8}, below_floor=False, flags=(), missing=None)

    assert refused(energy.figures_follow, with_energy(at(20), active_watts=20.0)) is None
    place = "$.trials[0].energy.total.inputs.watts"
    assert refused(energy.figures_follow, with_energy(at(10), active_watts=20.0)) == place
    assert refused(energy.figures_follow, with_energy(at(20))) == f"{place}Source"


def test_the_curve_is_redone_from_the_trial_s_own_cpu_time() -> None:
    """Its CPU time is what the record charges the solver."""
    power = DesignPower(8_000_000, 3_000_000, 16_000_000, "class:server")

    def curve(cpu_ns: int) -> TrialEnergy:
        estimate = estimators.curve(10**9, cpu_ns, 2, power)
        return trial_energy(estimate, {"solver": cpu_ns}, below_floor=False, flags=(), missing=None)

    assert refused(energy.figures_follow, with_energy(curve(5 * 10**8))) is None
    assert refused(energy.figures_follow, with_energy(curve(10**8))) == "$.trials[0].energy.total.inputs.cpuNs"


def figures(total: EnergyFigure, **more: Any) -> Record:
    """Of counters, so with readings, whose blob is another check's."""
    readings = build.blob(b"readings")
    return with_energy(TrialEnergy(total=total, by_role={"solver": total}, readings=readings, **more))


def test_parts_and_sides_of_a_figure_add_up() -> None:
    """Parts never make more than the whole (D5)."""
    total = build.counted_figure(10)
    part = EnergyPart(**dict(build.counted_figure(6)), label="case 1")
    assert refused(energy.figures_follow, figures(total, parts=(part,))) is None
    assert refused(energy.figures_follow, figures(total, parts=(part, part))) == "$.trials[0].energy.parts"


def test_zones_that_are_summed_add_up_to_the_total_and_others_are_not_added() -> None:
    """psys is no part of the sum; a microjoule in one zone alone is seen without readings too (ZN2, J45)."""
    parts: dict[str, Any] = {"gross_uj": 16, "idle_uj": 1, "system_uj": 2, "others_uj": 3}
    twice: dict[str, Any] = {key: 2 * uj for key, uj in parts.items()}

    def zone(net_uj: int, **changes: Any) -> ZoneFigure:
        figure = build.counted_figure(net_uj, **parts)
        return ZoneFigure(**{**dict(figure), "summed": True, "by_role_uj": {"solver": net_uj}, **changes})

    total = build.counted_figure(20, **twice)
    zones = {"package-0": zone(10), "package-1": zone(10), "psys": zone(10, summed=False)}
    assert refused(energy.figures_follow, figures(total, zones=zones)) is None
    moved = {**zones, "package-1": zone(9, gross_uj=15)}
    assert refused(energy.figures_follow, figures(total, zones=moved)) == "$.trials[0].energy.total.grossUj"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"claimed": "hw_shunt"}, "claimed"),
        ({"claimed": "hw_shunt", "provenance": "simulated"}, None),
        ({"idle_uj": 1, "gross_uj": 10}, "grossUj"),
        ({"idle_uj": 1, "system_uj": 2, "gross_uj": 13}, None),
        ({"idle_uj": 1, "system_uj": 2, "others_uj": 3, "gross_uj": 17}, "grossUj"),
        ({"idle_uj": 1, "system_uj": 2, "others_uj": 3, "gross_uj": 16}, None),
        ({"marginal_uj": 11}, "marginalUj"),
        ({"interval": (11, 12)}, "interval"),
        ({"interval": (12, 8)}, "interval"),
        ({"bounds": (0, 9)}, "bounds"),
    ],
)
def test_a_figure_fits_itself(changes: dict[str, Any], place: str | None) -> None:
    """Idle, system and net lie within gross, the point within its interval (decision: conservation; J46)."""
    found = refused(energy.figures_follow, figures(build.counted_figure(10, **changes)))
    assert found == (None if place is None else f"$.trials[0].energy.total.{place}")


def kept(record: Record, folder: Path) -> Path:
    for digest, content in build.blobs(record).items():
        store_blob(folder, content, digest)
    return folder


def test_a_whole_stream_s_blob_is_the_stream() -> None:
    """Size and digest of the whole are those of the blob where nothing was cut off (H18)."""
    trial = build.trial()
    assert trial.streams is not None
    other = trial.streams.stdout.model_copy(update={"sha256": "0" * 64})
    odd = one(build.trial(streams=Streams(stdout=other, stderr=trial.streams.stderr)))
    assert refused(lambda record: blobs.hold(record, None, True), odd) == "$.trials[0].streams.stdout.blob"
    cut = other.model_copy(update={"truncated": True})
    fine = one(build.trial(streams=Streams(stdout=cut, stderr=trial.streams.stderr)))
    with pytest.raises(NotRun):
        blobs.hold(fine, None, True)


def test_a_blob_of_another_size_kind_or_place_is_refused(tmp_path: Path) -> None:
    """A folder, a link out of the folder, a longer file: none is the blob."""
    record = build.record()
    path = kept(record, tmp_path) / "sha256" / build.blob(build.PATCH).sha256
    for make in (
        lambda: path.write_bytes(build.PATCH + b"x"),
        lambda: path.symlink_to(path.with_name("elsewhere")),
        path.mkdir,
    ):
        path.unlink()
        make()
        found = refused(lambda one: blobs.hold(one, tmp_path, True), record)
        assert found == "$.trials[0].harvest.diff"


def test_the_journal_holds_these_trials_and_baselines_and_no_more(tmp_path: Path) -> None:
    """A record folded from a journal cannot leave out, add or change what it tells (formats 6: journal)."""
    of = build.plan(["t1", "t2"])
    record = build.record(of)
    kept(record, tmp_path)

    def check(changed: Record) -> str | None:
        return refused(lambda one: blobs.journal_agrees(one, tmp_path, True), changed)

    assert check(record) is None
    shorter = build.record(of, record.trials[:1], journal=record.journal)
    assert check(shorter) == "$.trials"
    other = build.record(of, [build.trial("t1", wall=0.5), record.trials[1]], journal=record.journal)
    assert check(other) == "$.trials[0]"
    baselines = [build.baseline("t1", exit=2), build.baseline("t2")]
    assert check(build.record(of, None, baselines, journal=record.journal)) == "$.baselines[0]"


def test_an_incomplete_record_may_say_so() -> None:
    """Cancelled trials and trials that lack are no contradiction where `complete` is false (H22)."""
    of = build.plan(["t1", "t2"])
    record = build.record(of, [build.trial("t1", "cancelled")])
    assert not record.complete
    assert refused(plans.trials_are_planned, record) is None
    boast = record.model_copy(update={"complete": True})
    assert refused(plans.trials_are_planned, boast) == "$.complete"


@pytest.mark.parametrize(
    ("first", "place"), [("unresolved", "$.journal"), ("resolved", "$.journal"), ("errored", None), ("cancelled", None)]
)
def test_a_trial_that_had_ended_is_not_run_again_till_it_pleases(
    tmp_path: Path, first: Outcome, place: str | None
) -> None:
    """Only what says nothing of the solver may be told again: failures of ours, and what was broken off (H22)."""
    of = build.plan(["t1", "t2"])
    plain = build.record(of)
    told = build.journal_bytes(of, plain.baselines, [build.trial("t1", first), *plain.trials])
    record = build.record(of, journal=build.blob(told))
    kept(record, tmp_path)
    (tmp_path / "sha256" / record.journal.sha256).write_bytes(told)
    assert refused(lambda one: blobs.journal_agrees(one, tmp_path, True), record) == place


def test_the_model_is_stamped_as_it_was_planned() -> None:
    """Provider, weights, sampling and engine follow from the plan: none is said twice in two ways (M10)."""
    server = PlannedServer(
        weights="a" * 64,
        image=build.pin("llama"),
        slots=1,
        threads=2,
        context=4096,
        gpus=False,
        sampling={"seed": 42.0},
    )
    upstream = PlannedUpstream(
        provider="local",
        base_url=None,
        forwarder=build.pin(),
        server=server,
        budget=PlannedBudget(),
        run_budget=PlannedBudget(),
    )
    record = build.record(build.plan(solver="agent", kind="command", model="m", upstream=upstream))
    assert refused(plans.stamps_agree, record) is None
    assert record.model is not None
    for name, value in (
        ("provider", "openai"),
        ("digest", "b" * 64),
        ("sampling", {"seed": 43}),
        ("engine", None),
        ("name", "n"),
    ):
        other = record.model.model_copy(update={name: value})
        assert refused(plans.stamps_agree, record.model_copy(update={"model": other})) == f"$.model.{name}"
