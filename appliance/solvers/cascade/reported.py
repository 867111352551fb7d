"""What the client in a trial's container printed, read strictly: an answer of cascade-v1, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from appliance.errors import InputRefused
from appliance.solvers.cascade.messages import Answer, Refused
from appliance.wire import Wire

Why = Literal["missing", "denied", "refused", "silent", "closed", "garbage", "too_long", "failed"]
NOT_THERE: Final[frozenset[Why]] = frozenset({"missing", "denied", "refused"})
"""Nobody could be asked at all."""


class Failure(Wire):
    why: Literal["missing", "denied", "refused", "silent", "closed", "garbage", "too_long"]
    detail: Annotated[str, Field(max_length=2000)]


class Told(Wire):
    """What client.py prints."""

    answer: str | None
    failed: Failure | None
    latency_ms: Annotated[float, Field(ge=0)] | None
    patch: Literal["none", "applied", "rejected"]
    patch_problem: str | None


@dataclass(frozen=True)
class Unanswered:
    """`failed`: the cascade said in so many words that it could not answer."""

    why: Why
    detail: str


@dataclass(frozen=True)
class Answered:
    answer: Answer
    latency_ms: float | None
    """From the connection's beginning to the answer's last byte, as the client saw it."""
    patch_problem: str | None
    """Git's words, where the response holds a diff that it did not take."""


def told(stdout: bytes, exit_status: int | None, seconds: float) -> Answered | Unanswered:
    """`exit_status` None: the trial's limit of `seconds` ended the client while it waited."""
    if exit_status is None:
        return Unanswered("silent", f"no whole answer within the trial's {seconds:g} s")
    if exit_status != 0:
        return Unanswered("closed", f"its client ended with {exit_status} before it had told an answer")
    try:
        said = Told.from_json(stdout, "the client")
    except InputRefused as refusal:
        return Unanswered("garbage", f"its client told no answer: {refusal.message}")
    if said.failed is not None:
        return Unanswered(said.failed.why, said.failed.detail)
    return _of_line((said.answer or "").encode(), said)


def _of_line(line: bytes, said: Told) -> Answered | Unanswered:
    try:
        return Answered(Answer.from_json(line, "its answer"), said.latency_ms, said.patch_problem)
    except InputRefused as refusal:
        problem = f"{refusal.where}: {refusal.message}"
    try:
        error = Refused.from_json(line, "its answer").error
    except InputRefused:
        return Unanswered("garbage", f"no answer of cascade-v1: {problem}")
    return Unanswered("failed", f"it answered {error.code}: {error.message}")
