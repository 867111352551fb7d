"""The engine as a runner uses it: several trials at a time, solvers that kill what they can, runtimes by name."""

from __future__ import annotations

import threading

import pytest

from appliance.engine.docker import connect
from appliance.errors import HostRefused
from appliance.ports import EngineFailed
from tests.engine_bench import LIMITS, container, execute, python

pytestmark = pytest.mark.docker


def test_one_engine_serves_several_trials_at_a_time() -> None:
    """Streams and answers never mix; what they share is the connection pool."""
    engine = connect()
    said: dict[int, bytes] = {}

    def trial(number: int) -> None:
        with container(engine) as made:
            program = f"import sys; sys.stdout.buffer.write(bytes([{number}]) * 300_000)"
            said[number] = b"".join(python(engine, made, program).stdout.kept for _ in range(3))

    threads = [threading.Thread(target=trial, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: bytes([number]) * 900_000 for number in range(4)}


def test_a_solver_that_kills_everything_it_can_ends_its_own_exec() -> None:
    """The engine still says how it ended, and nothing of it lives (H1, I17)."""
    engine = connect()
    with container(engine) as made:
        engine.in_force(made, LIMITS)
        outcome = execute(engine, made, ("sh", "-c", "kill -9 -1; sleep 30"))
        assert not outcome.timed_out
        assert outcome.exit is not None
        engine.remove(made)
        assert engine.processes(made) == 0


def test_a_runtime_that_the_engine_does_not_know_is_refused() -> None:
    """`--runtime` (I23)."""
    engine = connect(runtime="nowhere-runtime")
    with pytest.raises(HostRefused, match="no runtime 'nowhere-runtime'"), container(engine):
        pass


def test_an_exec_in_a_container_that_is_gone_is_the_engines_failure() -> None:
    """Not the solver's: `excluded: engine_error` (decisions: how a trial ends)."""
    engine = connect()
    with container(engine) as made:
        engine.remove(made)
        with pytest.raises(EngineFailed, match="No such container"):
            execute(engine, made, ("true",))
