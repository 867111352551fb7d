"""The meter's figures beside a bare loop and a peer, in one run: CPU, memory, readings, edges, error of CPU time.

`python -m tests.benchmarks.meter_cost [SECONDS [ROUNDS]]`, as root. Nothing here passes or fails. On a machine that has
other work, only the ratios mean something.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from appliance.meter.client import MeterClient
from tests.benchmarks import meter_burns, meter_peers
from tests.benchmarks.meter_rig import RUN, at_rest, cpu_ns, daemon, echo, files_read, placed, queued_ns, rss_mib

_NUMBERS = (10, 100)
_PERIOD_MS = "100"
_PAIRS = 500
_READINGS_SECONDS = 120
_BARE = Path(__file__).with_name("bare_meter.py")

Spent = tuple[float, float]
"""Share of a core, and MiB of memory at its peak."""


def main() -> None:
    if os.geteuid() != 0:
        print("the meter's figures are not taken: cgroups are root's to make (sudo make benchmark)")
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.5
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory(prefix="appliance-meter-") as name:
        peer = meter_peers.installed(Path(name))
        for number in _NUMBERS:
            folder = Path(name) / str(number)
            folder.mkdir()
            cost(folder, number, seconds, rounds, peer if number == _NUMBERS[0] else None)
        folder = Path(name) / "more"
        folder.mkdir()
        with daemon(folder) as (pid, client):
            edges(pid, client)
            size(client)
            meter_burns.report(client)


def cost(folder: Path, number: int, seconds: float, rounds: int, peer: Path | str | None) -> None:
    """Turn by turn, `rounds` times each. A turn of 20.5 s has one block of 200 samples that is finished and packed."""
    print(f"\nCPU of the whole daemon at 10 Hz, {number} cgroups with a sleeping process each, 4 counters;")
    print(f"medians of {rounds} turns of {seconds:g} s, taken in turn")
    with daemon(folder) as (pid, client):

        def ours(windows: Callable[[MeterClient, int], contextlib.AbstractContextManager[None]]) -> Spent:
            with windows(client, number):
                return _spent(pid, seconds), rss_mib(pid)

        def bare() -> Spent:
            with placed(client, number, working=False):
                files = files_read(folder)
                argv = [sys.executable, "-I", "-S", str(_BARE), str(folder / "out"), _PERIOD_MS]
                return _of_program(argv, files, seconds)

        turns: dict[str, Callable[[], Spent]] = {
            "bare loop": bare,
            "daemon, a window each": lambda: ours(_window_each),
            "daemon, one window over all": lambda: ours(_one_window),
        }
        if isinstance(peer, Path):
            words = f"CodeCarbon {meter_peers.version(peer)} at {meter_peers.SAMPLES_A_SECOND} Hz"
            for mode in ("machine", "process"):
                turns[f"{words}, {mode}"] = lambda mode=mode: _of_peer(peer, mode, folder, seconds)  # type: ignore[misc]
        elif peer is not None:
            print(f"CodeCarbon is not installed here: {peer}")
        found: dict[str, list[Spent]] = {what: [] for what in turns}
        for _ in range(rounds):
            for what, turn in turns.items():
                found[what].append(turn())
    _table(found)


def _table(found: dict[str, list[Spent]]) -> None:
    floor = statistics.median(share for share, _ in found["bare loop"])
    print(f"{'':<38}  {'% core':>7}  {'least':>7}  {'most':>7}  {'ratio':>6}  {'MiB':>5}")
    for what, spent in found.items():
        shares = [100 * share for share, _ in spent]
        middle = statistics.median(shares)
        memory = max(mib for _, mib in spent)
        print(
            f"{what:<38}  {middle:>7.3f}  {min(shares):>7.3f}  {max(shares):>7.3f}"
            f"  {middle / 100 / floor:>6.2f}  {memory:>5.1f}",
            flush=True,
        )


def _spent(pid: int, seconds: float) -> float:
    """CPU time over wall time."""
    began, used = time.monotonic_ns(), cpu_ns(pid)
    time.sleep(seconds)
    return (cpu_ns(pid) - used) / (time.monotonic_ns() - began)


def _of_program(argv: Sequence[str], paths: Sequence[str], seconds: float) -> Spent:
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write("\n".join(paths))
        process.stdin.close()
        # Its start is not what it costs.
        time.sleep(1)
        return _spent(process.pid, seconds), rss_mib(process.pid)
    finally:
        process.kill()
        process.wait()


def _of_peer(python: Path, mode: str, folder: Path, seconds: float) -> Spent:
    process = meter_peers.start(python, mode, folder)
    try:
        return _spent(process.pid, seconds), rss_mib(process.pid)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def _window_each(client: MeterClient, number: int) -> Iterator[None]:
    with placed(client, number, working=False) as prepared:
        for one in prepared:
            client.open(one.handle)
        yield


@contextlib.contextmanager
def _one_window(client: MeterClient, number: int) -> Iterator[None]:
    with placed(client, number, working=False):
        whole = client.prepare(RUN, None, [])
        client.open(whole.handle)
        yield
        client.release(whole.handle)


def edges(pid: int, client: MeterClient) -> None:
    print("\nan open and a close over the socket, ms; `echo`: two lines there and back to a program that does nothing;")
    print("`alone`: less what daemon and client waited for a CPU that others had, or each other;")
    print("`CPU`: with what the daemon does after its answer")
    print(f"{'windows open beside it':<24}  {'p50':>7}  {'p99':>7}  {'CPU p50':>7}  {'CPU p99':>7}", end="")
    print(f"  {'alone p50':>9}  {'alone p99':>9}  {'echo p50':>8}  {'echo p99':>8}  pairs")
    for beside in (0, 10, 100):
        taken: list[float] = []
        used: list[float] = []
        alone: list[float] = []
        echoed: list[float] = []
        with placed(client, beside, working=False) as prepared, echo() as floor:
            for one in prepared:
                client.open(one.handle)
            for pair in range(_PAIRS):
                one = client.prepare(RUN, 1000 + pair, ["solver"])
                at_rest(pid)
                queued = queued_ns(pid) + queued_ns(os.getpid())
                cpu, began = cpu_ns(pid), time.perf_counter_ns()
                client.close(client.open(one.handle).window)
                taken.append((time.perf_counter_ns() - began) / 1e6)
                alone.append(taken[-1] - (queued_ns(pid) + queued_ns(os.getpid()) - queued) / 1e6)
                at_rest(pid)
                used.append((cpu_ns(pid) - cpu) / 1e6)
                client.release(one.handle)
                began = time.perf_counter_ns()
                floor()
                floor()
                echoed.append((time.perf_counter_ns() - began) / 1e6)
        figures = [cut for series in (taken, used, alone, echoed) for cut in _median_and_p99(series)]
        words = "  ".join(f"{one:>{width}.3f}" for one, width in zip(figures, (7, 7, 7, 7, 9, 9, 8, 8), strict=True))
        print(f"{beside:<24}  {words}  {_PAIRS:>5}", flush=True)


def _median_and_p99(series: Sequence[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(series, n=100)
    return cuts[49], cuts[98]


def size(client: MeterClient) -> None:
    """One over ten cgroups that work now and then: nothing compresses like rest."""
    with placed(client, 10, working=True):
        whole = client.prepare(RUN, None, [])
        window = client.open(whole.handle)
        began = time.monotonic()
        time.sleep(_READINGS_SECONDS)
        client.close(window.window)
        length = time.monotonic() - began
        readings = client.release(whole.handle).readings
    assert readings is not None
    print(f"\nreadings of a window with 10 cgroups at work and 4 counters: {len(readings)} bytes in {length:.0f} s,")
    print(f"{len(readings) / length * 3600 / 1e6:.2f} MB an hour at that rate (blocks are packed every 20 s)")


if __name__ == "__main__":
    main()
