"""A trial after it happened: what was asked, what ran, what the oracle said, what it cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from appliance.pins import Sha256
from appliance.records.blob import Artifact, BlobRef
from appliance.records.energy import TrialEnergy
from appliance.records.money import Usd
from appliance.records.plan import TrialKey
from appliance.records.words import REASONS_OF, Cause, OracleKind, Outcome, Reason, TestStatus
from appliance.tasks.model import Limits, Network
from appliance.wire import COST_BAND, EXACT, INFORMATIVE, OUTCOME, TOKENS, Moment, Wire, compared

Uj = Annotated[int, Field(ge=0)]


class TestResult(Wire):
    """One listed id with what was expected of it and what the structured output said."""

    id: Annotated[str, EXACT]
    expected: Annotated[TestStatus, EXACT]
    status: Annotated[TestStatus, OUTCOME]


class Grade(Wire):
    """The oracle's word; `ids` is empty where the task lists none."""

    oracle: Annotated[OracleKind, EXACT]
    exit: Annotated[int | None, OUTCOME]
    """None where it was killed by its limit."""
    timed_out: Annotated[bool, OUTCOME]
    ids: Annotated[tuple[TestResult, ...], OUTCOME]
    tests_digest_before: Annotated[Sha256, EXACT]
    tests_digest_after: Annotated[Sha256 | None, OUTCOME]
    """None where it could not be read again: then the verdict is no_verdict or tampered."""


class Baseline(Wire):
    """The oracle on the untouched workspace; it must fail."""

    task: Annotated[str, EXACT]
    image: Annotated[str, EXACT]
    """The config digest of the image it ran on."""
    exit: Annotated[int | None, EXACT]
    timed_out: Annotated[bool, EXACT]
    ids: Annotated[tuple[TestResult, ...], EXACT]
    verdict: Annotated[Literal["failed", "baseline_passed", "baseline_error"], EXACT]
    """`failed` is the good one: the bug reproduces."""
    detail: Annotated[str | None, INFORMATIVE]
    digest: Annotated[Sha256, EXACT]
    """Of task digest, image and limits: the key under which it is reused."""
    output: Annotated[BlobRef | None, INFORMATIVE]


class Stream(Wire):
    """One output stream: the whole's size and digest, and a blob of its head and tail (formats: harness H18)."""

    bytes: Annotated[int, INFORMATIVE] = Field(ge=0)
    sha256: Annotated[Sha256, INFORMATIVE]
    truncated: Annotated[bool, INFORMATIVE]
    blob: Annotated[BlobRef | None, INFORMATIVE]


class Streams(Wire):
    stdout: Annotated[Stream, INFORMATIVE]
    stderr: Annotated[Stream, INFORMATIVE]


class LimitsInForce(Wire):
    asked: Annotated[Limits, EXACT]
    effective: Annotated[Limits | None, EXACT]
    """Read back from the runtime; None where the container never started."""


class NetworkInForce(Wire):
    asked: Annotated[Network, EXACT]
    effective: Annotated[Network | None, EXACT]


class Harvest(Wire):
    """What the solver changed; `diff` is a patch that `git apply` accepts. Paths: UTF-8, other bytes as \\xNN."""

    diff: Annotated[BlobRef | None, OUTCOME]
    changed: Annotated[tuple[str, ...], OUTCOME]
    dropped: Annotated[tuple[str, ...], INFORMATIVE]
    """What a patch cannot say: FIFOs, sockets, setuid bits, paths under .git."""
    restored: Annotated[tuple[str, ...], INFORMATIVE]
    """Files that runners load by themselves, put back before grading (formats 7)."""


class Usage(Wire):
    input_tokens: Annotated[int, TOKENS] = Field(ge=0)
    cache_read_tokens: Annotated[int, TOKENS] = Field(ge=0)
    cache_write_tokens: Annotated[int, TOKENS] = Field(ge=0)
    output_tokens: Annotated[int, TOKENS] = Field(ge=0)
    reasoning_tokens: Annotated[int, TOKENS] = Field(ge=0)


class UsageByWhom(Wire):
    subject: Annotated[Usage | None, TOKENS] = None
    judge: Annotated[Usage | None, TOKENS] = None
    claimed: Annotated[Usage | None, TOKENS] = None


class CostByWhom(Wire):
    """None is unknown, never zero."""

    subject: Annotated[Usd | None, COST_BAND] = None
    judge: Annotated[Usd | None, COST_BAND] = None
    claimed: Annotated[Usd | None, INFORMATIVE] = None


class TrialResult(Wire):
    """One line of the journal and one entry of `trials`."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"outcome": {"const": outcome}}},
                    "then": {"properties": {"reason": {"enum": [*sorted(reasons)]} if reasons else {"type": "null"}}},
                }
                for outcome, reasons in REASONS_OF.items()
            ]
        }
    )

    key: Annotated[TrialKey, EXACT]
    host: Annotated[int, INFORMATIVE] = Field(ge=0)
    """Index into the record's hosts."""
    outcome: Annotated[Outcome, OUTCOME]
    reason: Annotated[Reason | None, OUTCOME]
    detail: Annotated[str | None, INFORMATIVE]
    cause: Annotated[Cause | None, OUTCOME]
    """What ended the solver; None where it never started."""
    after_subject: Annotated[bool, OUTCOME] = False
    started_at: Annotated[Moment, INFORMATIVE]
    wall_seconds: Annotated[float | None, compared("informative", "wall_band")]
    """Of the window: exec to exit."""
    latency_ms: Annotated[float | None, INFORMATIVE] = Field(default=None, ge=0)
    solver_exit: Annotated[int | None, OUTCOME]
    protocol_exit: Annotated[int | None, OUTCOME] = None
    grade: Annotated[Grade | None, OUTCOME]
    limits: Annotated[LimitsInForce, EXACT]
    network: Annotated[NetworkInForce, EXACT]
    cpu_seconds: Annotated[dict[str, float | None], INFORMATIVE]
    """By role."""
    cpu_source: Annotated[Literal["cgroup_parent", "stats_one_shot"] | None, INFORMATIVE]
    peak_memory_mib: Annotated[float | None, INFORMATIVE] = Field(ge=0)
    disk_mib: Annotated[float | None, INFORMATIVE] = Field(ge=0)
    oom_kills: Annotated[int | None, INFORMATIVE] = Field(ge=0)
    pids_denied: Annotated[int | None, INFORMATIVE] = Field(ge=0)
    streams: Annotated[Streams | None, INFORMATIVE]
    energy: Annotated[TrialEnergy | None, INFORMATIVE]
    usage: Annotated[UsageByWhom, TOKENS] = UsageByWhom()
    cost_usd: Annotated[CostByWhom, COST_BAND] = CostByWhom()
    exchanges: Annotated[int | None, INFORMATIVE] = Field(default=None, ge=0)
    cassette: Annotated[BlobRef | None, INFORMATIVE] = None
    replay_level: Annotated[Literal["exact", "masked", "structural"] | None, INFORMATIVE] = None
    observations: Annotated[tuple[dict[str, Any], ...], OUTCOME] = ()
    faults: Annotated[tuple[str, ...], INFORMATIVE] = ()
    artifacts: Annotated[tuple[Artifact, ...], INFORMATIVE] = ()
    harvest: Annotated[Harvest | None, OUTCOME]
    response: Annotated[str | None, OUTCOME] = None
    stage: Annotated[str | None, OUTCOME] = None
    hint: Annotated[str | None, INFORMATIVE] = None
    match: Annotated[bool | None, OUTCOME] = None
    score: Annotated[float | None, OUTCOME] = None
    reported_uj: Annotated[Uj | None, INFORMATIVE] = None

    @model_validator(mode="after")
    def _reason_fits_outcome(self) -> Self:
        allowed = REASONS_OF[self.outcome]
        if allowed and self.reason not in allowed:
            raise ValueError(
                f"outcome {self.outcome} needs a reason of {', '.join(sorted(allowed))}, not {self.reason}"
            )
        if not allowed and self.reason is not None:
            raise ValueError(f"outcome {self.outcome} takes no reason, and has {self.reason}")
        return self
