"""What a replay costs: `python -m tests.benchmarks.replay_cost [EXCHANGES [ROUNDS]]`. Nothing here passes or fails.

A conversation of so many exchanges whose history ends at a megabyte. First the parts alone: CPU to write the cassette,
to read it, and to find an answer at each level. Then, where an engine answers, an agent in a container that asks so
many times: the wall time of its trial against a scripted model here, which answers at once, beside its replay's.
"""

from __future__ import annotations

import random
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from appliance.gateway.cassette import read_cassette
from appliance.gateway.exchange import Asked
from appliance.gateway.matching import Match, Replay
from tests.cassette_builder import asked, exchange, route, written

_END_BYTES = 1_000_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    _parts(count)
    print()
    _containers(count, rounds)


def _parts(count: int) -> None:
    recorded = list(_conversation(count, seed=1, day="2026-11-30"))
    total = sum(len(one.body) for one in recorded)
    print(f"{count} exchanges, {total / 1e6:.0f} MB of requests, the last of {len(recorded[-1].body) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory(prefix="appliance-replay-") as folder:
        path = Path(folder) / "cassette.tar.gz"
        pairs = ((exchange(at, one), b"x" * 2000) for at, one in enumerate(recorded))
        print(f"{'write':<12} {_cpu(lambda: written(path, pairs)):8.3f} s  {path.stat().st_size / 1e6:.1f} MB")
        print(f"{'read':<12} {_cpu(lambda: read_cassette(path, Path(folder))):8.3f} s")
        cassette = read_cassette(path, Path(folder))
        for level, asks in (
            ("exact", recorded),
            ("masked", list(_conversation(count, seed=1, day="2027-01-02"))),
            ("structural", list(_conversation(count, seed=2, day="2027-01-02"))),
        ):
            found: list[Match] = []
            seconds = _cpu(lambda asks=asks, found=found: found.extend(_answers(Replay(cassette), asks)))  # type: ignore[misc]
            reached = sorted({match.level for match in found})
            print(f"{level:<12} {1000 * seconds / count:8.3f} ms of CPU a request ({', '.join(reached)})")


def _answers(replay: Replay, asks: list[Asked]) -> Iterator[Match]:
    for one in asks:
        found = replay.answer(one, route(one))
        if isinstance(found, Match):
            yield found


def _cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _conversation(count: int, seed: int, day: str) -> Iterator[Asked]:
    """As an agent's: each request holds all of the one before, and a tool's result more."""
    words = random.Random(seed)
    history: list[dict[str, Any]] = [{"role": "user", "content": f"Today is {day}. Mend it."}]
    for at in range(count):
        yield asked({"model": "m", "stream": True, "tools": [{"name": "bash"}], "messages": list(history)})
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": _text(words, _END_BYTES // count)}
        history += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def _text(words: random.Random, size: int) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        line = " ".join("".join(words.choices(string.ascii_lowercase, k=words.randint(2, 9))) for _ in range(12))
        lines.append(f"{line}\n" if words.random() < 0.95 else "-rw-r--r-- 1 user user 149 Nov 30 19:04 a.py\n")
    return "".join(lines)


_AGENT = """
import json, sys, urllib.request
base, key, model, count, size = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
messages = [{"role": "user", "content": "mend it"}]
for at in range(count):
    body = json.dumps({"model": model, "messages": messages}).encode()
    head = {"authorization": "Bearer " + key, "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(base + "/v1/chat/completions", body, head)) as answer:
        message = json.load(answer)["choices"][0]["message"]
    messages += [message, {"role": "user", "content": ("%d " % at) * (size // len("%d " % at))}]
"""


def _containers(count: int, rounds: int) -> None:
    from appliance.errors import Refusal
    from tests.gateway_bench import MODEL, agent, upstream
    from tests.scripted_model import Say, ScriptedModel
    from tests.trials_bench import records, run_suite
    from tests.trials_suites import small_suite

    live: list[float] = []
    replayed: list[float] = []
    with tempfile.TemporaryDirectory(prefix="appliance-replay-") as name:
        folder = Path(name)
        try:
            solver = agent(folder / "solvers", script=_AGENT, words=f', "{count}", "{_END_BYTES // count}"')
            suite = small_suite(folder / "suite")
            for at in range(rounds):
                with ScriptedModel(Say("Go on.")) as model:
                    plan = {"model": MODEL, "upstream": upstream(model.url)}
                    ended = run_suite(folder / f"live{at}", suite, solver, **plan)
                trial = records(ended)[0].trials[0]
                assert trial.cassette is not None
                assert trial.exchanges == count
                blob = ended.folder / "blobs/sha256" / trial.cassette.sha256
                options = {"replays": {trial.key: blob}}
                again = run_suite(folder / f"replayed{at}", suite, solver, run_options=options, **plan)
                after = records(again)[0].trials[0]
                assert (after.replay_level, after.exchanges, after.reason) == ("exact", count, trial.reason), after
                live.append(trial.wall_seconds or 0.0)
                replayed.append(after.wall_seconds or 0.0)
        except Refusal as refusal:
            print(f"no container: {refusal}")
            return
    one, other = statistics.median(live), statistics.median(replayed)
    print(
        f"an agent in a container, {count} exchanges, medians of {rounds}: {one:.2f} s asked, {other:.2f} s replayed,"
        f" {other / one:.2f} times"
    )


if __name__ == "__main__":
    main()
