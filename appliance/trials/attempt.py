"""One trial, phase by phase: baseline, solve, harvest, grade. Decisions are asked of `outcomes`; here they are done."""

from __future__ import annotations

import shutil
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime

from appliance.errors import HostRefused, MeterRefused
from appliance.ports import EngineFailed
from appliance.records.journal import InterruptedLine, TrialLine
from appliance.records.words import Reason
from appliance.trials.bench import Bench, Trial
from appliance.trials.cascades import unanswered, with_answer
from appliance.trials.early import EarlyGrader
from appliance.trials.folder import RunFolder
from appliance.trials.outcomes import Verdict, broken_off, never_begun, outcome_of, start_failed
from appliance.trials.results import Seen, artifact, keep_grade, result_of, spooled_streams
from appliance.trials.solving import solve
from appliance.trials.stopping import Interrupted


def attempt(trial: Trial, bench: Bench) -> TrialLine | InterruptedLine:
    """Always a line, whatever happened; only a bug in making the line itself escapes."""
    seen = Seen(started_at=now())
    interrupted = False
    marker = bench.folder.in_flight / trial.name
    try:
        with bench.folder.taking():
            marker.touch()
        verdict = _phases(trial, bench, seen)
    except Interrupted:
        interrupted = True
    except (HostRefused, MeterRefused):
        # A full disk, a meter that is gone: no failure of this trial's, and the next would meet it too. The run ends,
        # and can go on.
        raise
    except Exception as error:  # noqa: BLE001 - one of three places: an unknown failure never becomes a score
        # What we broke off fails in the engine's own words: the engine is not to blame for that.
        interrupted = bench.stop.asked()
        trace = "".join(traceback.format_exception(error))
        seen.artifacts.append(artifact("traceback", "text/plain", trace.encode(), bench.folder.keep))
        reason: Reason = "grader_error" if seen.grading and isinstance(error, EngineFailed) else "engine_error"
        verdict = Verdict("excluded", reason, f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(bench.scratch / trial.name, ignore_errors=True)
    if interrupted:
        verdict = Verdict("cancelled", "interrupted", "the run was stopped")
    upstream = trial.plan.upstream
    far = upstream is not None and upstream.is_far
    result = with_answer(
        result_of(trial.key, trial.planned, bench.host, seen, verdict, far=far),
        seen.answered,
    )
    kind = InterruptedLine if interrupted else TrialLine
    return kind(plan_digest=trial.plan_digest, trial=trial.index, result=result)


def cut_off(trial: Trial, host: int, folder: RunFolder) -> InterruptedLine:
    """The line of a trial whose harness did not live to write one, with what the solver had printed till then."""
    verdict = Verdict("cancelled", "interrupted", "the harness was killed while it ran")
    streams = spooled_streams(folder.in_flight / trial.name, folder.keep)
    result = result_of(trial.key, trial.planned, host, Seen(started_at=now(), streams=streams), verdict)
    return InterruptedLine(plan_digest=trial.plan_digest, trial=trial.index, result=result)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _phases(trial: Trial, bench: Bench, seen: Seen) -> Verdict:
    if bench.models.spent(trial.plan):
        return never_begun()
    with bench.turns.work():
        baseline = bench.baselines.of(trial.planned, trial.task)
    if baseline.verdict != "failed":
        return Verdict("excluded", baseline.verdict, baseline.detail)
    bench.stop.check()
    with ExitStack() as undo:
        early = EarlyGrader(bench.grader, trial.task, trial.planned, bench.image_ids)
        undo.callback(early.discard)
        end, changes = solve(trial, bench, seen, undo, early)
        if end.start_error is not None:
            return start_failed(end.start_error)
        bench.stop.check()
        if (silent := unanswered(seen.answered)) is not None:
            return silent
        if (broken := broken_off(seen.cause, seen.traffic, seen.claimed)) is not None:
            return broken
        seen.grading = True
        with bench.turns.work():
            graded = bench.grader.grade(early.take(), changes)
            keep_grade(graded, seen, bench.folder.keep)
        verdict = Verdict(graded.outcome, graded.reason, graded.detail)
        return outcome_of(seen.cause, verdict, timeout_resolves=trial.plan.suite.timeout_resolves)
