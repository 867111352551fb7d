"""`appliance tasks check`: reference, noop and the forgers on every task of a suite; checks.json and an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from appliance.tasks.checks import Checks
    from appliance.tasks.model import Suite
    from appliance.trials.checking import Checked


def check(
    suite: Annotated[str, typer.Argument(help="A suite: a name in ./tasks or the bundle, or a path.")],
    runs: Annotated[int, typer.Option(min=1, help="How often each solver runs on each task.")] = 1,
    tasks: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Check only these; the others stay as known.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Containers at a time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Run the reference, noop and the forgers N times; quarantine what is broken, name what can be forged.

    Ends with 3 where a task that promises isolation is broken or forged; what is wrong with the others is listed.
    """
    from appliance.cli.output import emit_json, line, note
    from appliance.errors import InputRefused
    from appliance.tasks.checks import write_checks
    from appliance.tasks.find import find_suite
    from appliance.tasks.reader import read_suite
    from appliance.trials.checking import defects

    asked = read_suite(find_suite(suite))
    checks = _checked(asked, runs, tasks, jobs)
    path = write_checks(asked.folder, checks)
    broken = defects(asked, checks)
    if as_json:
        emit_json({"path": str(path), "checks": checks.json_value(), "defects": broken})
    else:
        for text in table(checks):
            line(text)
        note(f"written to {path}")
    if broken:
        name, why = next(iter(broken.items()))
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise InputRefused(f"{why}{more}", where=f"{asked.folder}/{name}", mend="mend the task or its tests")


def _checked(suite: Suite, runs: int, glob: str | None, jobs: int) -> Checks:
    from contextlib import ExitStack

    from appliance.cli.output import note
    from appliance.errors import HostRefused
    from appliance.ports import LOCK_LABEL, RUN_LABEL, EngineFailed
    from appliance.records.plan import PlannedEnergy
    from appliance.scratch import shared_scratch
    from appliance.solvers.finding import find_solver
    from appliance.tasks.checks import read_checks
    from appliance.trials.adapters import images_here, this_machine
    from appliance.trials.checking import check_tasks
    from appliance.trials.grading.grader import Grader
    from appliance.trials.planning import PlanOptions, chosen_tasks, plan_trials, resolve_images
    from appliance.trials.session import new_run_id
    from appliance.trials.stamps import harness_version

    options = PlanOptions(
        energy=PlannedEnergy(mode="estimator", active_watts=None, scheduling="shared"),
        harness_version=harness_version(),
        tasks=glob,
        include_quarantined=True,
    )
    noop = find_solver("noop")
    images = resolve_images(chosen_tasks(suite, options), noop, images_here(note, needs_engine=True))
    plan = plan_trials(suite, noop, images, options)
    adapters = this_machine((plan,), note)
    run = new_run_id()
    stored = read_checks(suite.folder, suite.digest)
    with ExitStack() as stack:
        scratch = stack.enter_context(shared_scratch())
        lock = stack.enter_context(adapters.locks.hold(run))
        stack.enter_context(adapters.reaper(run, lock))
        stack.callback(adapters.reap, run)
        stack.callback(adapters.meter.close_run, run)
        grader = Grader(
            adapters.engine,
            adapters.workspaces,
            {RUN_LABEL: run, LOCK_LABEL: str(lock)},
            lambda: adapters.meter.harness_cgroup(run),
            scratch,
            bind_tests=adapters.binds_tests,
        )
        image_ids = adapters.images.ensure([planned.images.task for planned in plan.tasks], plan.tasks)
        try:
            return check_tasks(
                suite,
                {planned.spec.name: planned for planned in plan.tasks},
                image_ids,
                grader=grader,
                runs=runs,
                jobs=jobs,
                watcher=_Lines(),
                before=stored.value if stored else None,
            )
        except EngineFailed as error:
            raise HostRefused(f"the engine failed: {error}", mend="appliance doctor") from error


class _Lines:
    """Progress, a line each, on standard error."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0

    def began(self, total: int) -> None:
        self._total = total

    def ended(self, checked: Checked) -> None:
        from appliance.cli.output import note

        self._done += 1
        note(f"[{self._done}/{self._total}] {checked.task} {checked.solver}: {checked.words}")


def table(checks: Checks) -> list[str]:
    """A line a task: rates by solver, then what is wrong with it."""
    lines = []
    for task in checks.rates:
        rates = "  ".join(f"{rate.solver} {rate.resolved}/{rate.runs}" for rate in task.rates)
        state = (
            "quarantined" if task.task in checks.quarantined else "forgeable" if task.task in checks.forgeable else "ok"
        )
        lines.append(f"{task.task}: {state}  {rates}")
        if task.task in checks.quarantined:
            lines.append(f"    quarantined: {checks.quarantined[task.task]}")
        if task.task in checks.forgeable:
            lines.append(f"    forgeable by: {', '.join(checks.forgeable[task.task])}")
        lines += [f"    {finding}" for finding in task.findings]
    good = sum(task.task not in checks.quarantined and task.task not in checks.forgeable for task in checks.rates)
    bad = f"{len(checks.quarantined)} quarantined, {len(checks.forgeable)} forgeable"
    lines.append(f"{len(checks.rates)} {'task' if len(checks.rates) == 1 else 'tasks'}: {good} ok, {bad}")
    return lines


def _state(checks: Checks, task: str) -> str:
    if task in checks.quarantined:
        return "quarantined"
    return "forgeable" if task in checks.forgeable else "ok"
