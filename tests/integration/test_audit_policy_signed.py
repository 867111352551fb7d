"""Genuinely signed records against policies: each rule refuses what it is for, and nothing else refuses that.

Every record here was signed with the listed signer's key, and holds in every check but the ones that a case names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from appliance.audit.checks import record_checks
from appliance.audit.plausibility import RULES, plausibility_checks
from appliance.audit.policy import Policy
from appliance.audit.policy_checks import ChallengeStatus, policy_checks
from appliance.audit.trust import agreement_check, claims_of
from appliance.digests import sha256_hex
from appliance.pins import Pin
from appliance.records.energy import TrialEnergy
from appliance.records.plan import PlannedEnergy
from appliance.records.record import Check, ImageStamp, PricesStamp
from appliance.records.trial import CostByWhom, Harvest, LimitsInForce, Usage, UsageByWhom
from appliance.tasks.model import Limits
from appliance.trials.stamps import image_stamps
from attest import Refused, Report, verify
from attest.checks import Outcome
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests import record_builder as build
from tests.cassette_builder import written
from tests.policy_builder import Made, believable, metered, of_one, plan, policy, shown

ALL_BLOBS = {"required": ["journal", "readings", "diff", "streams", "baselines", "cassette", "artifacts"]}


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("policy") / "local")


def judged(
    trust: LocalTrust,
    made: Made,
    folder: Path | None,
    by: Policy,
    *,
    challenge: ChallengeStatus | None = None,
    now: datetime | None = None,
) -> Report:
    """Every check that `verify --policy` makes, of the record as it is stored and signed; what failed is in it."""
    content = made.record.canonical()
    bundle = sign_record(trust, content, claims_of(made.record))
    moment = now or datetime.now(UTC)
    checks = [
        *record_checks(folder, allow_missing=True),
        agreement_check(),
        *policy_checks(by, now=moment, blobs=folder, challenge=challenge),
        *plausibility_checks(by, now=moment, issued_at=challenge.issued_at if challenge else None),
    ]
    try:
        return verify(content, bundle, trust.root, trust.identity, ISSUER, checks)
    except Refused as refused:
        assert refused.report is not None
        return refused.report


def failed(report: Report) -> list[Outcome]:
    return [outcome for outcome in report.outcomes if outcome.refusal is not None]


@pytest.mark.parametrize(
    "made", [believable, lambda: metered(lambda number: 25.0 + number)], ids=["estimated", "counted"]
)
def test_a_believable_record_is_taken_with_every_check_made(
    made: Callable[[], Made], trust: LocalTrust, tmp_path: Path
) -> None:
    """The premise of all cases below (row P1): nothing fails; unseen is only what nobody asked for."""
    one = made()
    report = judged(trust, one, one.store(tmp_path), policy(trust, blobs=ALL_BLOBS))
    assert [(outcome.name, outcome.why) for outcome in report.outcomes if outcome.status != "passed"] == [
        ("its plan is what its suite's files say", "the suite's archive is not among the blobs"),
        ("its trials began after its challenge", "it has no challenge whose issue is known here"),
        ("its walls fit since its challenge", "it has no challenge whose issue is known here"),
    ]


@pytest.mark.parametrize(
    "rule",
    [{"composed_images": [build.pin("evil").config]}, {"any_composed_image": True}, {"images": [], "any_image": True}],
)
def test_a_solver_s_own_layers_are_taken_where_they_are_pinned_or_that_is_said(
    rule: dict[str, Any], trust: LocalTrust, tmp_path: Path
) -> None:
    """Graded is on the task's image, which stays pinned (row P7)."""
    made = with_layers()
    assert failed(judged(trust, made, made.store(tmp_path), policy(trust, suites=rule))) == []


def test_a_solver_without_layers_ran_in_its_task_s_image(trust: LocalTrust, tmp_path: Path) -> None:
    """A record of another one contradicts itself, whoever takes any image (rows P7, V18)."""
    rule = {"images": [], "any_image": True}
    made = with_layers(solver=None)
    [refused] = failed(judged(trust, made, made.store(tmp_path), policy(trust, suites=rule)))
    assert refused.refusal is not None
    assert (refused.reason, refused.refusal.where) == ("aggregate", "$.plan.tasks[0].images.composed")
    assert "is not the task's" in refused.refusal.message


@dataclass(frozen=True)
class Case:
    check: str
    where: str
    words: str
    """Part of what is said: wanted and found, or the figures."""
    make: Callable[[], Made] = believable
    policy: dict[str, Any] = field(default_factory=dict)
    word: str = "policy"
    reason: str = "policy"
    challenge: ChallengeStatus | None = None
    issued_ago: timedelta | None = None
    """Of its challenge, which is good then: seen from when the case is judged."""
    also: tuple[str, ...] = ()
    """Checks of every record that refuse it too, before this rule is asked."""

    def status(self) -> ChallengeStatus | None:
        if self.issued_ago is None:
            return self.challenge
        return ChallengeStatus("good", issued_at=datetime.now(UTC) - self.issued_ago)


def planned(**changes: Any) -> Callable[[], Made]:
    return lambda: believable(of=plan(**changes))


def with_limits(**changes: Any) -> Callable[[], Made]:
    limits = Limits(**changes)
    force = LimitsInForce(asked=limits, effective=limits)
    of = build.plan([build.task_spec(name, limits=limits) for name in ("t1", "t2")], passes=4)
    return lambda: believable(lambda _: {"limits": force}, of)


def agent(change: Callable[[int], dict[str, Any]] | None = None, **stamped: Any) -> Callable[[], Made]:
    """Of a solver that has a version of its own."""
    of = plan(solver="agent", kind="command", model="m1")
    solver = build.stamps(of).solver
    stamped = {"version": "1.0", "source": "release", **stamped}
    stamp = solver.model_copy(update={"version": stamped["version"], "source": stamped.pop("source")})
    return lambda: believable(change, of, solver=stamp, **stamped)


def without_exchanges() -> Made:
    """A trial that asked nothing, and has a cassette all the same."""
    with TemporaryDirectory() as folder:
        content = written(Path(folder) / "c", []).read_bytes()
    nothing = UsageByWhom(subject=Usage(**dict.fromkeys(Usage.model_fields, 0)))
    free = CostByWhom(subject="0")
    fields = {"cassette": build.blob(content), "exchanges": 0, "usage": nothing, "cost_usd": free}
    made = agent(of_one(5, **fields))()
    return Made(made.record, {**made.blobs, sha256_hex(content): content})


LAYERS = build.pin("layers")


def with_layers(solver: Pin | None = LAYERS) -> Made:
    """Its solver ran in another image than its task's: with layers of its own on it, or with none that it tells of."""
    of, evil = plan(), build.pin("evil")
    tasks = tuple(
        task.model_copy(update={"images": task.images.model_copy(update={"solver": solver, "composed": evil})})
        for task in of.tasks
    )
    of = of.model_copy(update={"tasks": tasks})
    stamps = (*image_stamps(of), ImageStamp(role="composed:base+reference", pin=evil, locked=True))
    return believable(of=of, images=tuple({stamp.role: stamp for stamp in stamps}.values()))


def host(**changes: Any) -> Callable[[], Made]:
    return lambda: believable(hosts=(build.host_stamp(**changes),))


def no_file_changed() -> Harvest:
    return Harvest(diff=None, changed=(), dropped=(), restored=())


def without_energy() -> Callable[[], Made]:
    return lambda: believable(of_one(2, energy=None))


def usage(**changes: int) -> Usage:
    counts = dict.fromkeys(Usage.model_fields, 0)
    return Usage(**{**counts, "input_tokens": 100, "output_tokens": 50, **changes})


def challenged(state: Any) -> dict[str, Any]:
    of = plan(challenge="c" * 64)
    return {
        "make": lambda: believable(of=of),
        "challenge": ChallengeStatus(state, "nonce 12ab"),
        "check": "its challenge is good",
        "where": "$.challenge",
        "word": "stale_challenge",
        "reason": "replay",
    }


POLICY_CASES: dict[str, Case] = {
    "another signer": Case(
        "its signer is one of the policy's",
        "signers",
        "is not among them",
        policy={"signers": {"identity": "https://appliance.local.invalid/somebody-else"}},
    ),
    "another issuer": Case(
        "its signer is one of the policy's", "signers", "among", policy={"signers": {"issuer": f"{ISSUER}/"}}
    ),
    "another root": Case(
        "its signer is one of the policy's", "signers", "among", policy={"signers": {"root_sha256": "b" * 64}}
    ),
    "a root of too low a level": Case(
        "its root has the least level",
        "least_assurance",
        "wanted private at least, and this root is known here as local",
        policy={"least_assurance": "private"},
    ),
    "a root of too low a level for this signer": Case(
        "its root has the least level",
        "signers[0].assurance",
        "wanted public at least, and this root is known here as local",
        policy={"signers": {"assurance": "public"}},
    ),
    "no challenge, and one is required": Case(
        "its challenge is good",
        "$.challenge",
        "names none",
        policy={"freshness": {"challenge": "required"}},
        word="stale_challenge",
        reason="replay",
    ),
    "an expired challenge": Case(words="expired: nonce 12ab", **challenged("expired")),
    "an unknown challenge": Case(words="unknown here: nonce 12ab", **challenged("unknown")),
    "a challenge used already": Case(words="used already: nonce 12ab", **challenged("used")),
    "a challenge for something else": Case(words="issued for something else: nonce 12ab", **challenged("foreign")),
    "another suite": Case(
        "its suite is one of the policy's",
        "$.suite.digest",
        f"wanted smoke {'d' * 12} (suites), found smoke {sha256_hex(b'suite')[:12]}",
        policy={"suites": {"digest": "d" * 64}},
    ),
    "limits overridden": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.limitOverrides",
        "wanted none (suites[0]), found {'wall_seconds': 600.0}",
        planned(limit_overrides={"wall_seconds": 600.0}),
    ),
    "a longer wall": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].spec.limits.wallSeconds",
        "wanted 600.0 (suites[0].limits.wall_seconds), found 1200.0",
        with_limits(wall_seconds=1200.0),
    ),
    "more memory than its task's own pin": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[1].spec.limits.memoryMib",
        "wanted 512 (suites[0].tasks.t2.limits.memory_mib), found 2048",
        policy={"suites": {"tasks": {"t1": {}, "t2": {"limits": {"memory_mib": 512}}}}},
    ),
    "an open network": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].spec.network",
        "wanted open (suites[0].network), found none",
        policy={"suites": {"network": "open"}},
    ),
    "another image": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].images.task.config",
        f"wanted sha256:{'e' * 64} (suites[0].images), found {build.pin().config}",
        policy={"suites": {"images": [f"sha256:{'e' * 64}"]}},
    ),
    "another image than its task's own pin": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].images.task.config",
        "(suites[0].tasks.t1.image), found",
        policy={"suites": {"tasks": {"t1": {"image": f"sha256:{'e' * 64}"}, "t2": {}}}},
    ),
    "a solver's layers that are not pinned": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].images.composed.config",
        f"wanted none (suites[0].composed_images), found {build.pin('evil').config}",
        with_layers,
    ),
    "other layers than the pinned ones": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[0].images.composed.config",
        f"wanted sha256:{'e' * 64} (suites[0].composed_images), found {build.pin('evil').config}",
        with_layers,
        {"suites": {"composed_images": [f"sha256:{'e' * 64}"]}},
    ),
    "another task of the same name": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks[1].spec.digest",
        "(suites[0].tasks.t2.digest), found",
        policy={"suites": {"tasks": {"t1": {}, "t2": {"digest": "f" * 64}}}},
    ),
    "a task less": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks",
        "wanted t3 (suites[0].tasks), found no such task",
        policy={"suites": {"tasks": {"t1": {}, "t2": {}, "t3": {}}}},
    ),
    "a task more": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.tasks",
        "wanted no such task (suites[0].tasks), found t2",
        policy={"suites": {"tasks": {"t1": {}}}},
    ),
    "a hard task filtered away": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.filtered[0]",
        "wanted only none (suites[0].may_lack), found t9",
        planned(filtered=("t9",)),
    ),
    "a hard task called quarantined": Case(
        "its limits, network and images are the pinned ones",
        "$.plan.quarantined[0]",
        "wanted only t8 (suites[0].may_lack), found t9",
        planned(quarantined=("t9",)),
        {"suites": {"may_lack": ["t8"]}},
    ),
    "no archive of its suite": Case(
        "the blobs that are required are there",
        "$.suite.archive",
        "names none, and the policy requires the suite",
        policy={"blobs": {"required": ["suite"]}},
        word="blob_missing",
        reason="blob",
    ),
    "changed files and no diff": Case(
        "the blobs that are required are there",
        "$.trials[1].harvest.diff",
        "requires the diff",
        lambda: believable(of_one(1, harvest=Harvest(diff=None, changed=("a.py",), dropped=(), restored=()))),
        {"blobs": {"required": ["diff"]}},
        word="blob_missing",
        reason="blob",
    ),
    "exchanges and no cassette": Case(
        "the blobs that are required are there",
        "$.trials[1].cassette",
        "requires the cassette",
        agent(of_one(1, exchanges=2)),
        {"blobs": {"required": ["cassette"]}},
        word="blob_missing",
        reason="blob",
    ),
    "a run broken off": Case(
        "its run came to its end",
        "$.complete",
        "wanted a complete run",
        lambda: believable(of_one(7, outcome="cancelled", wall=0.0)),
    ),
    "too much of it never ran": Case(
        "its run came to its end",
        "$.trials",
        "wanted 10.0% at most cancelled or never ran, found 1 of 8",
        lambda: believable(of_one(7, outcome="cancelled", wall=0.0)),
        {"completeness": {"complete": False, "most_missing_share": 0.1}},
    ),
    "too much of it is excluded": Case(
        "not too much of it is excluded",
        "$.trials",
        "wanted 10.0% at most excluded, found 1 of 8",
        lambda: believable(of_one(7, outcome="excluded", reason="engine_error")),
    ),
    "excluded when its answer was known": Case(
        "not too much of it is excluded",
        "$.trials",
        "wanted 0.0% at most excluded after the subject had been at work, found 1 of 8",
        lambda: believable(of_one(7, outcome="excluded", reason="expect_failed", after_subject=True)),
        {"exclusions": {"most_share": 1.0}},
    ),
    "too much of it errored": Case(
        "not too much of it is excluded",
        "$.trials",
        "wanted 10.0% at most errored, found 1 of 8",
        lambda: believable(of_one(7, outcome="errored")),
    ),
    "too old": Case(
        "it is young enough",
        "$.trials",
        "wanted 86400 s of age at most",
        policy={"freshness": {"most_age_seconds": 86_400}},
        word="stale_challenge",
        reason="replay",
    ),
    "a host with an error": Case(
        "its hosts were fit",
        "$.hosts[0].fitness[0]",
        "wanted no_error, found error swap: swapping",
        host(fitness=(Check(name="swap", level="error", message="swapping"),)),
    ),
    "a host with a warning after the trials": Case(
        "its hosts were fit",
        "$.hosts[0].fitnessAfter[0]",
        "wanted no_warning, found warn governor",
        host(fitness_after=(Check(name="governor", level="warn", message="powersave"),)),
        {"host": {"fitness": "no_warning"}},
    ),
    "a noisy host": Case(
        "its hosts were fit",
        "$.hosts[0].noisy",
        "wanted a quiet host, found noisy",
        host(noisy=True),
        {"host": {"noisy": "refused"}},
    ),
    "a subject of no known commit": Case(
        "what ran is publishable",
        "$.commit",
        "found none",
        agent(source="flag"),
    ),
    "a subject of a dirty commit": Case(
        "what ran is publishable",
        "$.commit",
        "found 'abcdef0-dirty'",
        agent(source="flag", commit="abcdef0-dirty"),
    ),
    "a release without its version": Case(
        "what ran is publishable",
        "$.version",
        "wanted a release's version, found none",
        agent(version=None),
    ),
    "a changed harness": Case(
        "what ran is publishable",
        "$.harness.dirty",
        "found changes",
        lambda: believable(harness=build.harness_stamp(dirty=True)),
    ),
    "a harness of nobody knows where": Case(
        "what ran is publishable",
        "$.harness.version",
        "wanted a release or a commit, found '0+unknown'",
        lambda: believable(
            of=plan(harness_version="0+unknown"),
            harness=build.harness_stamp(version="0+unknown", commit=None, dirty=None),
        ),
    ),
    "another version of the harness": Case(
        "what ran is publishable",
        "$.harness.version",
        "wanted 0.2.0 or 0.2.1, found '0.1.0'",
        policy={"harness": {"versions": ["0.2.0", "0.2.1"]}},
    ),
    "another harness of the same version": Case(
        "what ran is publishable",
        "$.harness.digest",
        "wanted one of 1 digests",
        policy={"harness": {"digests": ["a" * 64]}},
    ),
    "an estimate below the floor": Case(
        "its joules come from where they must",
        "$.trials[0].energy.total.provenance",
        "wanted model_based or better, found estimator",
        policy={"provenance": {"floor": "model_based"}},
    ),
    "no joules": Case(
        "its joules come from where they must",
        "$.trials[2].energy",
        "wanted a figure of energy, found none",
        without_energy(),
    ),
}


def estimated(watts: float) -> Callable[[], Made]:
    """With what JOULE_BENCH_ACTIVE_WATTS may be set to."""
    from appliance.energy import estimators
    from appliance.meter.figures import trial_energy

    energy = PlannedEnergy(mode="estimator", active_watts=watts, scheduling="exclusive")

    def of(number: int) -> dict[str, Any]:
        wall = 1.234567891 + number * 0.0135791
        estimate = estimators.wall(round(wall * 1e9), watts)
        figures = trial_energy(estimate, {"solver": 500_000_000}, below_floor=False, flags=(), missing=None)
        return {"wall": wall, "energy": figures}

    return lambda: believable(of, plan(energy=energy))


def curve(threads: int) -> Callable[[], Made]:
    from appliance.energy import estimators
    from appliance.energy.cpus import DesignPower
    from appliance.meter.figures import trial_energy

    def energy(wall: float) -> TrialEnergy:
        power = DesignPower(35_000_000, 28_000_000, 65_000_000, "table")
        estimate = estimators.curve(round(wall * 1e9), 500_000_000, threads, power)
        return trial_energy(estimate, {"solver": 500_000_000}, below_floor=False, flags=(), missing=None)

    return lambda: believable(of_one(4, wall=1.3456789, energy=energy(1.3456789)))


def at_once(count: int) -> Callable[[], Made]:
    """So many trials that began within a tenth of a second."""
    return lambda: believable(
        lambda number: {"started_at": f"2026-01-02T03:05:00.{number:03d}Z"} if number < count else {},
        plan(passes=10, energy=PlannedEnergy(mode="estimator", active_watts=None, scheduling="shared")),
    )


MINUTE = timedelta(minutes=1)


def answering(scheduling: Any, wall: float) -> Callable[[], Made]:
    """Eight trials of about this wall, made within the minute since their challenge was."""
    energy = PlannedEnergy(mode="estimator", active_watts=None, scheduling=scheduling)
    of = plan(energy=energy, challenge="c" * 64)

    def make() -> Made:
        began = datetime.now(UTC) - MINUTE
        return believable(
            lambda number: {
                "wall": wall + number * 0.0012345,
                "started_at": shown(began + timedelta(milliseconds=number)),
            },
            of,
            hosts=(build.host_stamp(cores=8),),
        )

    return make


def crowded() -> Made:
    """Eight walls of 130 s that began 100 s ago, one at a time as the plan has it: the last would end in 940 s."""
    began = datetime.now(UTC) - timedelta(seconds=100)
    return believable(
        lambda number: {
            "wall": 130.1234567 + number * 0.0012345,
            "started_at": shown(began + timedelta(milliseconds=number)),
        },
        hosts=(build.host_stamp(cores=8),),
    )


PLAUSIBLE_CASES: dict[str, Case] = {
    "joules below idle x wall": Case(
        "its joules are above a host's rest",
        "$.trials[0].energy.total.grossUj",
        "0.012346 J in 1.235 s, below 0.5 W x wall (and 7 more)",
        estimated(0.01),
    ),
    "joules of an estimate above what a host takes": Case(
        "its joules are below what its host can take",
        "$.trials[0].energy.total.grossUj",
        "above the 200 W of 2 cores",
        estimated(9_000.0),
    ),
    "joules of a counter above what a host takes": Case(
        "its joules are below what its host can take",
        "$.trials[1].energy.total.grossUj",
        "above the 200 W of 2 cores",
        lambda: metered(lambda number: 900.0 if number == 1 else 25.0),
    ),
    "joules below the rest of its own looks": Case(
        "its joules are above the rest that was looked at",
        "$.trials[2].energy.zones.package-0.grossUj",
        "and rest takes 10 W",
        lambda: metered(lambda number: 5.0 if number == 2 else 25.0),
    ),
    "rest that was looked at under load": Case(
        "its rest leaves something for its solver",
        "$.trials",
        "4 of 4 metered trials took less than rest",
        lambda: metered(lambda _: 24.0, rest_watts=25.0),
    ),
    "threads that its host lacks": Case(
        "its estimates know their host",
        "$.trials[4].energy.total.inputs.threads",
        "64 threads, and its host has 2",
        curve(64),
    ),
    "a wall above its limit": Case(
        "its walls end at their limits",
        "$.trials[4].wallSeconds",
        "700.123 s, and its limit is 600 s",
        lambda: believable(of_one(4, wall=700.123456789)),
    ),
    "a wall below nothing": Case(
        "its walls end at their limits",
        "$.trials[4].wallSeconds",
        "-3.000 s",
        lambda: believable(of_one(4, wall_seconds=-3.000000001, energy=None, cpu_seconds={}, outcome="unresolved")),
        {"provenance": {"energy": "optional"}},
    ),
    "a trial before its run": Case(
        "its trials start within their run",
        "$.trials[4].startedAt",
        "2025-12-31T00:00:00.000Z, and its run began at 2026-01-02T03:04:05Z",
        lambda: believable(of_one(4, started_at="2025-12-31T00:00:00.000Z")),
    ),
    "a trial after its signature": Case(
        "it was signed after its trials",
        "$.trials[7].startedAt",
        "2126-01-02T03:04:05.000Z and its wall, and it was signed at",
        lambda: believable(
            of_one(7, started_at="2126-01-02T03:04:05.000Z"),
            plan(energy=PlannedEnergy(mode="estimator", active_watts=None, scheduling="shared")),
        ),
    ),
    "walls that do not fit before its signature": Case(
        "its trials fit one behind another",
        "$.trials[4].startedAt",
        "from here on 520.521 s of walls on host 0, one at a time, and it was signed at",
        crowded,
    ),
    "trials that are older than their challenge": Case(
        "its trials began after its challenge",
        "$.trials[0].startedAt",
        "2026-01-02T03:04:08.000Z, and its challenge was made at 2026-01-02T03:59:59Z (and 7 more)",
        lambda: believable(of=plan(challenge="c" * 64)),
        challenge=ChallengeStatus("good", issued_at=datetime(2026, 1, 2, 3, 59, 59, tzinfo=UTC)),
    ),
    "walls that do not fit since their challenge": Case(
        "its walls fit since its challenge",
        "$.trials[0].startedAt",
        "240.036 s of walls on host 0, 1 at a time, in the",
        answering("exclusive", 30.0001234),
        issued_ago=MINUTE,
    ),
    "walls that do not fit since their challenge, however many at a time": Case(
        "its walls fit since its challenge",
        "$.trials[0].startedAt",
        "s of walls on host 0, 8 at a time, in the",
        answering("shared", 190.0001234),
        {"plausibility": {"most_jobs_per_core": 1.0}},
        issued_ago=MINUTE,
    ),
    "more trials at once than its host has threads": Case(
        "its trials overlap as its host allows",
        "$.trials[16].startedAt",
        "17 trials of host 0 at once, over 16 (and 1 more)",
        at_once(18),
    ),
    "the same nanosecond wall in 20 trials": Case(
        "its walls are those of a clock",
        "$.trials[0].wallSeconds",
        "1234567891 ns in 20 trials",
        lambda: believable(lambda _: {"wall": 1.234567891}, plan(passes=10)),
    ),
    "walls that somebody typed": Case(
        "its walls are those of a clock",
        "$.trials[0].wallSeconds",
        "8 walls of whole milliseconds, of 8",
        lambda: believable(lambda number: {"wall": 1.25 + number / 100}),
    ),
    "resolved before a program can start": Case(
        "its solvers had time to answer",
        "$.trials[5].wallSeconds",
        "resolved in 0.000012345 s",
        lambda: believable(of_one(5, wall=0.000012345)),
    ),
    "resolved in less time than its test takes": Case(
        "its graders had time to test",
        "$.trials[4].startedAt",
        "resolved, and 0.020 s for its test before $.trials[5] began",
        lambda: believable(of_one(4, gap=0.02)),
    ),
    "more CPU than there was": Case(
        "its CPU time fits its walls",
        "$.trials[5].cpuSeconds",
        "solver: 9.000 s of CPU in 1.302 s on 1 cpus",
        lambda: believable(of_one(5, cpu_seconds={"solver": 9.0})),
    ),
    "a program that took no CPU": Case(
        "its CPU time fits its walls",
        "$.trials[5].cpuSeconds.solver",
        "and used none",
        lambda: believable(of_one(5, cpu_seconds={"solver": 0.0})),
    ),
    "less than no CPU": Case(
        "its CPU time fits its walls",
        "$.trials[5].cpuSeconds.forwarder",
        "-1 s",
        lambda: believable(of_one(5, cpu_seconds={"solver": 0.5, "forwarder": -1.0})),
    ),
    "more cpus than its host has": Case(
        "its CPU time fits its walls",
        "$.trials[0].limits.effective.cpus",
        "8, and its host has 2 cores",
        with_limits(cpus=8.0),
        {"suites": {"limits": {"memory_mib": 2048}}},
    ),
    "more memory than it was given": Case(
        "its memory fits its limits",
        "$.trials[5].peakMemoryMib",
        "9000 MiB, and its limit is 2048 MiB",
        lambda: believable(of_one(5, peak_memory_mib=9000.0)),
    ),
    "a rate out of 0 trials": Case(
        "its rates are of something",
        "$.summary.passes[1].resolution",
        "a rate out of 0 trials, of 2 planned",
        lambda: believable(lambda n: {"outcome": "excluded", "reason": "engine_error"} if n in (2, 3) else {}),
        {"exclusions": {"most_share": 0.5}},
    ),
    "resolved, and nothing was changed": Case(
        "what is resolved was changed",
        "$.trials[5].harvest.changed",
        "and no file was changed",
        lambda: believable(of_one(5, harvest=no_file_changed())),
    ),
    "easier tests for one trial": Case(
        "each of its tasks has one set of tests",
        "$.trials[4].grade.testsDigestBefore",
        "other tests than in $.trials[0], of the same task",
        lambda: believable(
            of_one(4, grade=build.grade(tests_digest_before="1" * 64, tests_digest_after="1" * 64)),
        ),
    ),
    "tokens of no exchange": Case(
        "its tokens came over the wire",
        "$.trials[5].usage.subject",
        "150 tokens in no exchanges",
        agent(of_one(5, usage=UsageByWhom(subject=usage()))),
    ),
    "exchanges of a solver without a model": Case(
        "its tokens came over the wire",
        "$.trials[5].exchanges",
        "3, and its plan has no model",
        lambda: believable(of_one(5, exchanges=3)),
    ),
    "a transcript of no exchange": Case(
        "its tokens came over the wire",
        "$.trials[5].cassette",
        "a transcript of no exchange",
        without_exchanges,
    ),
    "more reasoning than output": Case(
        "its tokens came over the wire",
        "$.trials[5].usage.subject.reasoningTokens",
        "70 of reasoning in 50 of output",
        agent(of_one(5, exchanges=1, usage=UsageByWhom(subject=usage(reasoning_tokens=70)))),
    ),
    "usage that is not the transcript's": Case(
        "its tokens are those that its solver says",
        "$.trials[5].usage.claimed",
        "output: 500 claimed, 50 counted",
        agent(of_one(5, exchanges=1, usage=UsageByWhom(subject=usage(), claimed=usage(output_tokens=500)))),
    ),
    "tokens faster than any service": Case(
        "its tokens fit their time",
        "$.trials[5].usage.subject.outputTokens",
        "90000 tokens in 1.302 s",
        agent(of_one(5, exchanges=1, usage=UsageByWhom(subject=usage(output_tokens=90_000)))),
    ),
    "a cost without prices": Case(
        "its costs have prices",
        "$.trials[5].costUsd.subject",
        "0.15 US dollars, and the record names no prices",
        agent(of_one(5, exchanges=1, cost_usd=CostByWhom(subject="0.15"), usage=UsageByWhom(subject=usage()))),
    ),
    "a cost of no tokens": Case(
        "its costs have prices",
        "$.trials[5].costUsd.subject",
        "0.15 US dollars, and no tokens were counted",
        agent(of_one(5, cost_usd=CostByWhom(subject="0.15")), prices=PricesStamp(source="list", version="1")),
    ),
}


CASSETTES = ("its tokens and dollars are those of its cassettes",)
"""What was asked of a model has to be in a cassette: its numbers alone are told by that check, too."""
for _cases, _names in (
    (POLICY_CASES, ["exchanges and no cassette"]),
    (
        PLAUSIBLE_CASES,
        [
            "tokens of no exchange",
            "exchanges of a solver without a model",
            "a transcript of no exchange",
            "more reasoning than output",
            "usage that is not the transcript's",
            "tokens faster than any service",
            "a cost without prices",
            "a cost of no tokens",
        ],
    ),
):
    _cases.update({name: replace(_cases[name], also=CASSETTES) for name in _names})


def check_case(case: Case, trust: LocalTrust, tmp_path: Path) -> None:
    made = case.make()
    report = judged(trust, made, made.store(tmp_path), policy(trust, **case.policy), challenge=case.status())
    found = failed(report)
    assert [outcome.name for outcome in found] == [*case.also, case.check]
    refusal = found[-1].refusal
    assert refusal is not None
    assert (refusal.reason, refusal.word, refusal.where) == (case.reason, case.word, case.where)
    assert case.words in refusal.message
    if case.word == "implausible":
        rule = next(rule for rule in RULES if rule.name == case.check)
        assert all(f"{key} = " in refusal.message for key in rule.bounds)


@pytest.mark.parametrize("name", POLICY_CASES)
def test_what_a_policy_does_not_take_is_refused_by_the_one_rule_that_is_for_it(
    name: str, trust: LocalTrust, tmp_path: Path
) -> None:
    """Class, word, place, wanted and found (rows P5, P6, P7, H5); every other check passes."""
    check_case(POLICY_CASES[name], trust, tmp_path)


@pytest.mark.parametrize("name", PLAUSIBLE_CASES)
def test_what_is_beyond_belief_is_found_by_the_one_formula_that_is_for_it(
    name: str, trust: LocalTrust, tmp_path: Path
) -> None:
    """Signed genuinely, consistent in every record check but where `also` says so, and implausible by one figure
    (row P8)."""
    check_case(replace(PLAUSIBLE_CASES[name], word="implausible"), trust, tmp_path)


def test_every_formula_has_a_record_that_only_it_refuses() -> None:
    """None is there that was never seen to fail (row P8)."""
    elsewhere = {"it was signed before now"}  # below: `now` is no part of a record
    assert {case.check for case in PLAUSIBLE_CASES.values()} | elsewhere == {rule.name for rule in RULES}


def test_every_rule_of_a_policy_has_a_record_that_only_it_refuses(trust: LocalTrust) -> None:
    """As above; of revocation and of a suite's files the cases are in files of their own (rows P5 to P7, P12)."""
    elsewhere = {"nothing of its signature is revoked", "its plan is what its suite's files say"}
    rules = policy_checks(policy(trust), now=datetime.now(UTC), blobs=None, challenge=None)
    assert {case.check for case in POLICY_CASES.values()} | elsewhere == {check.name for check in rules}


def test_a_record_signed_by_a_clock_ahead_of_ours_is_quarantined(trust: LocalTrust, tmp_path: Path) -> None:
    """The signer's clock was set forward, so that the record stays young (row P8)."""
    made = believable()
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    found = failed(judged(trust, made, made.store(tmp_path), policy(trust), now=hour_ago))
    assert [(outcome.name, outcome.refusal.word if outcome.refusal else None) for outcome in found] == [
        ("it was signed before now", "implausible")
    ]


def test_a_record_with_several_figures_beyond_belief_names_every_one(trust: LocalTrust, tmp_path: Path) -> None:
    """Quarantined with every failed check, whichever the first (row P8)."""
    made = believable(
        lambda number: {
            0: {"peak_memory_mib": 9000.0},
            1: {"wall": 700.1234567},
            2: {"cpu_seconds": {"solver": 50.0}},
            4: {"harvest": no_file_changed()},
            5: {"harvest": no_file_changed()},
        }.get(number, {})
    )
    by = policy(trust)
    rules = by.plausibility
    found = failed(judged(trust, made, made.store(tmp_path), by))
    assert {outcome.name: outcome.why for outcome in found} == {
        "its walls end at their limits": "$.trials[1].wallSeconds: 700.123 s, and its limit is 600 s; the policy"
        f" has wall_slack_seconds = {rules.wall_slack_seconds:g}",
        "its CPU time fits its walls": "$.trials[2].cpuSeconds: solver: 50.000 s of CPU in 1.262 s on 1 cpus"
        f" (and 1 more); the policy has cpu_tolerance = {rules.cpu_tolerance:g},"
        f" cpu_slack_seconds = {rules.cpu_slack_seconds:g}",
        "its memory fits its limits": "$.trials[0].peakMemoryMib: 9000 MiB, and its limit is 2048 MiB",
        "what is resolved was changed": "$.trials[4].harvest.changed: resolved, its baseline failed, and no file was"
        " changed (and 1 more)",
    }


def test_a_challenge_that_nobody_looked_up_is_unchecked_and_no_pass_where_one_is_required(
    trust: LocalTrust, tmp_path: Path
) -> None:
    """What was not looked at is never taken for looked at (row P5)."""
    made = believable(of=plan(challenge="c" * 64))
    folder = made.store(tmp_path)
    for required, reasons in (("optional", []), ("required", ["replay"])):
        report = judged(trust, made, folder, policy(trust, freshness={"challenge": required}))
        found = next(outcome for outcome in report.outcomes if outcome.name == "its challenge is good")
        assert (found.status, found.why) == ("not_run", "its challenge was not looked up")
        assert [outcome.reason for outcome in failed(report)] == reasons


def test_a_good_challenge_is_good(trust: LocalTrust, tmp_path: Path) -> None:
    """Rows P1, P5."""
    made = believable(of=plan(challenge="c" * 64))
    by = policy(trust, freshness={"challenge": "required"})
    assert not failed(judged(trust, made, made.store(tmp_path), by, challenge=ChallengeStatus("good")))


def test_a_record_that_nobody_signed_is_asked_everything_but_who_signed_it(trust: LocalTrust) -> None:
    """Tier reported: the receiver says who it is not from (row P2)."""
    by, now = policy(trust), datetime.now(UTC)
    signed, unsigned = (
        {check.name for check in policy_checks(by, now=now, blobs=None, challenge=None, signed=asked)}
        for asked in (True, False)
    )
    assert signed - unsigned == {
        "its signer is one of the policy's",
        "its root has the least level",
        "nothing of its signature is revoked",
    }
    assert unsigned < signed
