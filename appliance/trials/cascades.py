"""Trials of a cascade: its client's program, what came of its answer, and who it says that it is.

What a cascade says of its own joules stands beside the trial's energy and never in it: `reportedUj`, and an observation
for each tier, labelled `self_reported`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from appliance.errors import HostRefused, InputRefused
from appliance.ports import ExecOutcome, SolveCall, Solver
from appliance.records.blob import BlobRef
from appliance.records.plan import TrialPlan
from appliance.records.trial import TrialResult, Usage
from appliance.solvers.cascade.links import CascadeFailed, SocketCascade
from appliance.solvers.cascade.messages import Health, Tier
from appliance.solvers.cascade.program import CascadeProgram
from appliance.solvers.cascade.reported import NOT_THERE, Answered, Unanswered, told
from appliance.solvers.definition import SolverDefinition
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.programs import Program
from appliance.trials.outcomes import Verdict
from appliance.trials.results import Seen, artifact
from appliance.trials.stamps import Subject

RESPONSE_CHARS: Final = 16 * 1024
"""Of a response in the record; the whole of it is the artifact `response`."""
CACHE: Final = "cache"
_WHO_SECONDS: Final = 5.0
_BESIDE: Final = (
    "self_reported: the cascade runs beside the trials, its energy is nobody's here; what it says of it is in"
    " reportedUj, and in no total"
)


def program_of(definition: SolverDefinition, plan: TrialPlan, socket: Path | None) -> Solver:
    """`socket`: of the run's cascade."""
    if definition.kind == "cascade":
        return CascadeProgram(definition.name, socket)
    return Program(definition, plan.solver.argv, plan.model, plan.upstream.budget if plan.upstream else None)


def keep_answer(call: SolveCall, ended: ExecOutcome, seen: Seen, keep: Callable[[bytes], BlobRef]) -> None:
    """Nothing for a solver that is no cascade, or whose client never started."""
    if call.control_socket is None or ended.start_error is not None:
        return
    answered = told(ended.stdout.kept, ended.exit, call.exec.timeout_seconds or 0.0)
    if isinstance(answered, Unanswered):
        seen.answered = replace(answered, detail=f"{call.control_socket}: {answered.detail}")
        return
    seen.answered = answered
    answer = answered.answer
    seen.artifacts.append(artifact("response", "text/plain", answer.response.encode(), keep))
    if len(answer.response) > RESPONSE_CHARS:
        seen.faults.append(
            f"the response has {len(answer.response)} characters: the record holds the first {RESPONSE_CHARS}, the"
            " artifact `response` all"
        )
    if answered.patch_problem is not None:
        seen.faults.append(f"the response's diff was not taken: {answered.patch_problem}")
    if answer.usage is not None:
        seen.claimed = Claimed("complete", usage=Usage.model_validate(answer.usage.model_dump(by_alias=False)))


def unanswered(answered: Answered | Unanswered | None) -> Verdict | None:
    """A trial whose cascade gave no answer is no attempt at its task; None: the oracle decides."""
    if not isinstance(answered, Unanswered):
        return None
    if answered.why in NOT_THERE:
        return Verdict("errored", "start_failed", answered.detail)
    return Verdict("errored", "provider_failed" if answered.why == "failed" else "protocol_incomplete", answered.detail)


def with_answer(result: TrialResult, answered: Answered | Unanswered | None) -> TrialResult:
    """The answer in its place of the record; the cascade's own count of joules is labelled, tier by tier."""
    if isinstance(answered, Unanswered) and answered.why in NOT_THERE:
        # What ended was our client: the solver never started.
        return result.model_copy(update={"cause": None, "solver_exit": None})
    if not isinstance(answered, Answered):
        return result
    answer = answered.answer
    tiers = answer.tiers or (Tier(stage=answer.stage, microjoules=answer.microjoules),)
    return result.model_copy(
        update={
            "response": answer.response[:RESPONSE_CHARS],
            "stage": answer.stage,
            "reported_uj": answer.microjoules,
            "latency_ms": answered.latency_ms,
            "observations": tuple(_observed(tier, answer.provenance) for tier in tiers),
        }
    )


def _observed(tier: Tier, provenance: str | None) -> dict[str, Any]:
    return {
        "kind": "tier",
        "stage": tier.stage,
        "microjoules": tier.microjoules,
        "label": "self_reported",
        "provenance": provenance,
    }


# ------------------------------------------------------------------------------------------------- who it is


def ask_who(socket: Path | None, subject: Subject, where: str, *, remote: bool) -> tuple[Subject, tuple[str, ...]]:
    """What is under test as it says itself, and what a reader of the record is to be told of it (labels of formats 6).

    A cascade that does not say who it is may answer all the same, and is `unpinned`. Raises InputRefused where another
    version answers than was asked for, HostRefused where the trials' containers are another machine's.
    """
    if remote:
        raise HostRefused(
            "the engine is another machine's: its containers have no way to a control socket here",
            mend="run where the engine is",
            reason="remote_engine",
        )
    if socket is None:
        return subject, (_BESIDE, "unpinned: no control socket was given")
    try:
        health = SocketCascade(socket, seconds=_WHO_SECONDS).health()
    except CascadeFailed as failed:
        return subject, (_BESIDE, f"unpinned: the cascade did not say who it is: {failed.message}")
    return _stamped(subject, health, f"{where}: {socket}"), (_BESIDE, *_labels(health))


def _stamped(subject: Subject, health: Health, where: str) -> Subject:
    said = None if health.version is None else f"{health.name} {health.version}"
    if subject.version is not None and said is not None and subject.version not in (said, health.version):
        raise InputRefused(f"{said} answers, and {subject.version} is under test", where=where, mend="start that one")
    if None not in (subject.commit, health.commit) and subject.commit != health.commit:
        raise InputRefused(
            f"commit {health.commit} answers, and {subject.commit} is under test", where=where, mend="start that one"
        )
    source = "release" if subject.version is None and said is not None else subject.source
    return Subject(subject.version or said, subject.commit or health.commit, source)


def _labels(health: Health) -> list[str]:
    labels = []
    lacking = [name for name, value in (("version", health.version), ("commit", health.commit)) if value is None]
    if lacking:
        labels.append(f"unpinned: the cascade {health.name} did not say its {' and '.join(lacking)}")
    if health.synthetic:
        labels.append(f"synthetic: no model stands behind the answers of {health.name}")
    return labels


class Stages:
    """Which stages answered, by pass, as trials go by."""

    def __init__(self) -> None:
        self._seen: dict[int, set[str]] = defaultdict(set)

    def saw(self, trial: TrialResult) -> None:
        if trial.stage is not None:
            self._seen[trial.key.pass_].add(trial.stage)

    def remarks(self) -> tuple[str, ...]:
        """A pass that was answered from the cache alone says nothing of what stands behind it."""
        return tuple(
            f"degenerate: pass {sweep} was answered from the cache alone"
            for sweep, stages in sorted(self._seen.items())
            if stages == {CACHE}
        )
