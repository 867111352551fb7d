"""The numbers of plausibility, each with the reason of its default.

None of them is a law of nature: they lie where an honest record does not come, and a person looks at what is beyond.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Plausibility(BaseModel):
    """What is beyond these is quarantined, never excluded: a person releases or refuses it."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    idle_watts: float = Field(default=0.5, ge=0.0)
    """The least that a host takes: a trial's gross joules are at least this x wall. Half a watt: package and memory of
    the smallest notebooks in their deepest sleep, and a trial is no sleep. A board that knows its hosts says more."""
    most_watts: float = Field(default=100.0, ge=0.0)
    """The most that a host takes, beside what the next two add: boards, memory, disks."""
    most_watts_per_core: float = Field(default=50.0, ge=0.0)
    """For each hardware thread. No package so far draws more than 40 W a thread, at its peak."""
    most_watts_per_gpu: float = Field(default=1500.0, ge=0.0)
    """For each GPU. The largest modules are rated at 1.0 to 1.4 kW."""
    rest_tolerance: Share = 0.2
    """By how much a zone's gross may fall below what the record's own looks at rest saw. Rest drifts with temperature
    by some percent; a fifth is more than `idle_drift` lets a calibration have."""
    most_below_idle_share: Share = 0.5
    """Of metered trials, with the flag `below_idle`. A few are noise at low load; half of them is rest that was
    measured under load, so that nothing is left for the solver."""
    wall_slack_seconds: float = Field(default=10.0, ge=0.0)
    """Beyond a trial's wall limit. The harness kills at the limit; an engine under load took some seconds to say so."""
    clock_slack_seconds: float = Field(default=300.0, ge=0.0)
    """Between two clocks: the host's and the timestamp's, the host's and ours. Without NTP a clock drifts by minutes;
    300 s is what Kerberos allows."""
    most_jobs_per_core: float = Field(default=8.0, gt=0.0)
    """Trials of a host at one time, for each of its hardware threads; a record does not say its `--jobs`. Eight:
    trials that wait for a model leave their host idle, and more would meet each other in its memory."""
    cpu_tolerance: Share = 0.05
    """By how much CPU time may pass wall x cpus. cgroups enforce a quota by periods of 0.1 s; one may make up for
    another."""
    cpu_slack_seconds: float = Field(default=1.0, ge=0.0)
    """And beyond that, once: what the exec's start and end add to the window, on either side of the wall."""
    least_solver_seconds: float = Field(default=0.001, ge=0.0)
    """A resolved trial's wall. A millisecond: no program is started and ends sooner; `true` in a container takes 20."""
    least_test_seconds: float = Field(default=0.05, ge=0.0)
    """From a resolved trial's exit to the next trial's start, one at a time: a container starts, and the test runs. No
    engine has been seen to start one in less than 0.1 s. A board that knows its suite's tests says more."""
    most_equal_walls: int = Field(default=4, ge=1)
    """Trials with the same wall to the nanosecond. Walls of one task spread over 10 ms and more: of 100,000 trials,
    five alike come by chance once in 100,000 records."""
    most_round_walls: int = Field(default=2, ge=0)
    """Trials whose wall is a whole millisecond. A clock of nanoseconds gives one in a million: three are typed in."""
    usage_tolerance: Share = 0.1
    """By how much the tokens that a solver claims may differ from those that were counted on the wire. A tenth: what
    clients reckon by another tokenizer is off by some percent; more is another conversation."""
    most_output_tokens_per_second: float = Field(default=10_000.0, gt=0.0)
    """Of the subject, in a trial's wall. Several times the fastest service of today, for one conversation."""
