"""What the meter's figures are taken on: the daemon as root starts it, counters that go on, cgroups at work."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from appliance.cgroups import hierarchies, remove_run_cgroups
from appliance.errors import Refusal
from appliance.meter.client import MeterClient
from appliance.meter.daemon.messages import Prepared
from tests.sysfs_tree import PowercapTree

RUN = f"benchmark_{os.getpid()}"
TREES = hierarchies()
_SERVE = (sys.executable, "-I", "-m", "appliance.meter.daemon.serve")
_CPU_SECONDS_A_SECOND = 0.02
_WORK = f"""
import random, sys, time
chance = random.Random(int(sys.argv[1]))
while True:
    burst = chance.expovariate(1 / {_CPU_SECONDS_A_SECOND / 8})
    until = time.process_time() + burst
    while time.process_time() < until: pass
    time.sleep(chance.uniform(0, 0.25))
"""
"""Some percent of a CPU, never the same twice: numbers that do not compress."""


def cpu_ns(pid: int) -> int:
    """CPU time of a process and its threads, to the nanosecond (clock_getcpuclockid(3): ~pid << 3, CPUCLOCK_SCHED)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def queued_ns(pid: int) -> int:
    """How long its first thread was ready and had no CPU (the second field of schedstat)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def at_rest(pid: int) -> None:
    """Waits till it waits: its CPU time is not told to others while it runs, and it works on after it has answered."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.read_bytes().rpartition(b")")[2].split()[0] != b"S":
        pass


def rss_mib(pid: int) -> float:
    """Its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"{pid} has no memory")


@contextlib.contextmanager
def daemon(folder: Path) -> Iterator[tuple[int, MeterClient]]:
    """Pid, and a client of it. Started as `appliance meter serve` starts it, NVML's binding included.

    Its socket is `meter.sock` in `folder`, its counters are below `powercap`.
    """
    tree = PowercapTree(folder / "powercap")
    tree.packages(2, dram=True)
    listening = folder / "meter.sock"
    log = folder / "meter.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*_SERVE, "--socket", str(listening), "--powercap-root", str(tree.root)],
            stdin=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        with _connected(process, listening, log) as client, counting(tree):
            yield process.pid, client
    finally:
        process.terminate()
        process.wait(timeout=30)
        remove_run_cgroups(TREES, RUN, patience_seconds=5)


def _connected(process: subprocess.Popen[bytes], listening: Path, log: Path) -> MeterClient:
    for _ in range(500):
        if process.poll() is not None:
            break
        with contextlib.suppress(Refusal):
            return MeterClient.connect(listening, timeout_seconds=30.0)
        time.sleep(0.02)
    raise RuntimeError(f"the daemon does not answer: {log.read_text()}")


@contextlib.contextmanager
def counting(tree: PowercapTree) -> Iterator[None]:
    """In a process of its own, so that its cost is nobody's: ten to a hundred watts a zone, never the same twice."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        chance = random.Random(1)  # repeatable work
        zones = [path.name for path in sorted(tree.root.iterdir())]
        while os.getppid() == parent:
            for zone in zones:
                tree.add(zone, int(0.02 * chance.uniform(10e6, 100e6)))
            time.sleep(0.02)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@contextlib.contextmanager
def placed(client: MeterClient, number: int, *, working: bool) -> Iterator[list[Prepared]]:
    """So many trials' cgroups, a process in each: asleep, or at work now and then."""
    prepared = [client.prepare(RUN, index, ["solver"]) for index in range(number)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for index, one in enumerate(prepared):
            words = [sys.executable, "-I", "-S", "-c", _WORK, str(index)] if working else ["sleep", "86400"]
            processes.append(subprocess.Popen(words))
            _enter(one.cgroups["solver"], processes[-1].pid)
        yield prepared
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for one in prepared:
            client.release(one.handle)


def _enter(cgroup: str, pid: int) -> None:
    for folder in TREES.folders(cgroup):
        if folder.is_dir():
            (folder / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def echo() -> Iterator[Callable[[], None]]:
    """A line there and back over a Unix socket to another process: what this machine takes for nothing at all."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pid = os.fork()
    if pid == 0:
        ours.close()
        while line := its.recv(4096):
            its.sendall(line)
        os._exit(0)
    its.close()

    def there_and_back() -> None:
        ours.sendall(b'{"op":"close","v":1,"window":"0123456789abcdef"}\n')
        ours.recv(4096)

    try:
        yield there_and_back
    finally:
        ours.close()
        os.waitpid(pid, 0)


def files_read(folder: Path) -> Sequence[str]:
    """What the daemon of this folder reads each time: its counters, the machine's CPU time, the cgroups'."""
    with MeterClient.connect(folder / "meter.sock", timeout_seconds=30.0) as client:
        line = next(client.watch())
    unified = TREES.unified
    counts = unified if unified is not None and (unified.mount / "cpu.stat").exists() else TREES.v1("cpuacct")
    if counts is None:
        raise RuntimeError("no CPU time is counted here")
    name = "cpu.stat" if counts.version == 2 else "cpuacct.usage"
    zones = [str(folder / "powercap" / zone["path"] / "energy_uj") for zone in line["zones"]]
    # Containers of others are in a watch line only.
    cgroups = ["/", *(one["path"] for one in line["cgroups"] if one["role"] != "container")]
    return zones + [str(counts.mount / path.lstrip("/") / name) for path in cgroups]
