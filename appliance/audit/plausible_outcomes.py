"""What a trial used and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.audit.plausible import Fault, Seen

_MEMORY_TOLERANCE: Final = 1.01
_MEMORY_MIB: Final = 1.0
"""Beyond a limit: the kernel charges by batches of pages."""
_IDLE_WALL_SECONDS: Final = 1.0


def cpu_fits_the_wall(seen: Seen) -> Iterator[Fault]:
    """cpu of the solver <= (1 + cpu_tolerance) x wall x cpus in force + cpu_slack_seconds; of all roles together the
    same with the host's cores; cpus in force <= the host's cores; no role less than 0, and
    the solver not 0 in a wall of a second or more."""
    rules = seen.rules
    for one in seen.ran:
        cpu = {role: seconds for role, seconds in one.trial.cpu_seconds.items() if seconds is not None}
        force = one.trial.limits.effective or one.trial.limits.asked
        hosts = seen.record.hosts
        cores = hosts[one.trial.host].cores if one.trial.host < len(hosts) else 1
        if force.cpus > cores:
            yield Fault(f"{one.here}.limits.effective.cpus", f"{force.cpus:g}, and its host has {cores} cores")
        for name, used, cpus in (("solver", cpu.get("solver"), force.cpus), ("all roles", sum(cpu.values()), cores)):
            most = (1 + rules.cpu_tolerance) * max(0.0, one.wall) * cpus + rules.cpu_slack_seconds
            if used is not None and used > most:
                words = f"{name}: {used:.3f} s of CPU in {one.wall:.3f} s on {cpus:g} cpus"
                yield Fault(f"{one.here}.cpuSeconds", words)
        for role in (role for role, used in cpu.items() if used < 0):
            yield Fault(f"{one.here}.cpuSeconds.{role}", f"{cpu[role]:g} s")
        if cpu.get("solver") == 0.0 and one.wall >= _IDLE_WALL_SECONDS:
            yield Fault(f"{one.here}.cpuSeconds.solver", f"a program ran for {one.wall:.3f} s, and used none")


def memory_fits_the_limit(seen: Seen) -> Iterator[Fault]:
    """peak memory <= 1.01 x limit + 1 MiB: the kernel gives no more."""
    for one in seen.ran:
        peak, limit = one.trial.peak_memory_mib, one.trial.limits.asked.memory_mib
        if peak is not None and peak > _MEMORY_TOLERANCE * limit + _MEMORY_MIB:
            yield Fault(f"{one.here}.peakMemoryMib", f"{peak:g} MiB, and its limit is {limit} MiB")


def rates_of_something(seen: Seen) -> Iterator[Fault]:
    """resolved + unresolved > 0 in each pass, but where nothing of it was to be scored. Row P8: a rate out of 0."""
    for at, one in enumerate(seen.record.summary.passes):
        scored = one.outcomes.get("resolved", 0) + one.outcomes.get("unresolved", 0)
        if not scored and not one.outcomes.get("unscored", 0):
            yield Fault(f"$.summary.passes[{at}].resolution", f"a rate out of 0 trials, of {one.planned} planned")
    if not seen.record.summary.passes:
        yield Fault("$.summary.passes", "a rate out of no pass")


def resolved_by_a_change(seen: Seen) -> Iterator[Fault]:
    """What is resolved after a baseline that failed has changed a file, where changes were harvested at all."""
    for at, trial in enumerate(seen.record.trials):
        harvest = trial.harvest
        if trial.outcome == "resolved" and harvest is not None and not harvest.changed:
            yield Fault(f"$.trials[{at}].harvest.changed", "resolved, its baseline failed, and no file was changed")


def one_set_of_tests(seen: Seen) -> Iterator[Fault]:
    """testsDigestBefore is the same in all trials of a task: easier tests for some of them are no tests of it."""
    first: dict[str, tuple[str, int]] = {}
    for at, trial in enumerate(seen.record.trials):
        if trial.grade is None:
            continue
        digest, where = first.setdefault(trial.key.task, (trial.grade.tests_digest_before, at))
        if trial.grade.tests_digest_before != digest:
            words = f"other tests than in $.trials[{where}], of the same task"
            yield Fault(f"$.trials[{at}].grade.testsDigestBefore", words)
