"""`python -I -m appliance.meter.daemon.serve`: the privileged daemon, or the same as a child of a run by a socket pair.

What root runs is what this imports: modules of this folder, the pure `energy`, the standard library (and NVML's binding
where there are GPUs). Small enough to read in one sitting, in this order: messages, parsing, peers, loop,
answering, windows, handles, placing, homes, columns, looking, sampling, blocks, store, thinning, chores,
releasing, inotify, finding, watch_lines.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final

from appliance.cgroups import hierarchies
from appliance.energy.counter import Counter
from appliance.errors import MeterRefused, Refusal, UsageRefused
from appliance.meter.client import SOCKET
from appliance.meter.counters.powercap_files import POWERCAP
from appliance.meter.counters.sources import CPU_BACKENDS, open_counters
from appliance.meter.daemon.answering import Meter
from appliance.meter.daemon.columns import CpuTimes
from appliance.meter.daemon.homes import columns_of
from appliance.meter.daemon.looking import CPUS_ONLINE, Looker, counted, hush, log, longest_period_ns, tell
from appliance.meter.daemon.loop import Loop
from appliance.meter.daemon.notify import Notifier
from appliance.meter.daemon.own_place import OwnPlace
from appliance.meter.daemon.peers import Listener
from appliance.meter.daemon.placing import Places
from appliance.meter.daemon.releasing import Reader, boot_id
from appliance.meter.daemon.sampling import Sampler
from appliance.meter.daemon.watch_lines import Watching

_SHORTEST_MS: Final = 10
_LONGEST_MS: Final = 60_000
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    try:
        return serve(asked)
    except Refusal as refusal:
        # A run shows its child's line as its own.
        log(str(refusal) if asked.fd else f"appliance: {refusal}")
        return refusal.status


def serve(asked: argparse.Namespace) -> int:
    """Till SIGTERM, SIGINT, or, as a child, till its client is gone."""
    if asked.fd is not None:
        hush()
    wake, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes)
    _all_descriptors()
    trees = hierarchies()
    cpu = CpuTimes(trees)
    with contextlib.ExitStack() as held:
        # The lock comes first: two meters at one place would undo each other's cgroups.
        clients = [_handed(fd) for fd in asked.fd or ()]
        listener = None if clients else Listener(asked.socket, asked.group)
        if listener is not None:
            held.callback(listener.close)
        place = OwnPlace(cpu)
        held.callback(place.leave)
        counters = _counters(asked)
        period_ns = asked.period_ms * 1_000_000
        _refuse_slow(counters, period_ns)
        looker = Looker(counters, cpu, asked.cpus_online)
        places = Places(trees, cpu)
        sampler = Sampler(looker, period_ns, lambda pids: columns_of(pids, looker.columns))
        own = None if place.path is None else places.free_column(place.path, "meter")
        sampler.change(add=() if own is None else (own,))
        ours = _version()
        reader = Reader(f"appliance-meter {ours}", boot_id(_boot_id()), period_ns, cpu, looker)
        watching = Watching(trees, looker, places, reader, ours)
        meter = Meter(ours, sampler, places, reader, watching)
        loop = Loop(meter, Notifier(), listener=listener, clients=clients, wake_fd=wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.stop())
        keys = ", ".join(zone.key for zone in looker.zones)
        place_words = "" if listener is None else f"listening at {listener.path}{listener.admits}; "
        tell(f"{place_words}{counted(len(looker.zones))}{': ' if keys else ''}{keys}; CPU time from {cpu.words}")
        tell(f"reads every {asked.period_ms} ms while a window is open")
        loop.run()
    return 0


def _counters(asked: argparse.Namespace) -> tuple[Counter, ...]:
    """What is absent at the start is in `status`, and no news to a run; what fails later is."""
    started = False

    def say(message: str) -> None:
        (log if started else tell)(message)

    counters = open_counters(
        powercap=asked.powercap_root,
        cpu_backend=asked.cpu_backend,
        plugins=asked.counter,
        nvml=asked.nvml,
        say=say,
    )
    started = True
    return counters


def _refuse_slow(counters: Sequence[Counter], period_ns: int) -> None:
    """A counter must not go round unseen (T_safe of energy.md 2.1)."""
    for counter in counters:
        for zone in counter.zones():
            safe = longest_period_ns(zone)
            if safe is not None and period_ns > safe:
                raise MeterRefused(
                    f"at {zone.most_uw // 10**6} W it may go round in {4 * safe / 1e9:.0f} s unseen",
                    where=zone.key,
                    mend=f"--period-ms {safe // 10**6} or less",
                )


def _handed(fd: int) -> socket.socket:
    try:
        return socket.socket(fileno=fd)
    except OSError as error:
        raise UsageRefused(f"--fd {fd} is no socket: {error.strerror}") from error


def _all_descriptors() -> None:
    """A cgroup that is read is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _version() -> str:
    try:
        return installed_version("bench-appliance")
    except PackageNotFoundError:
        return "0+unknown"


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text()
    except OSError:
        return "unknown"


def _period(text: str) -> int:
    if not text.isdigit() or not _SHORTEST_MS <= int(text) <= _LONGEST_MS:
        raise argparse.ArgumentTypeError(f"from {_SHORTEST_MS} to {_LONGEST_MS}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="appliance.meter.daemon.serve", description="Read energy counters and cgroups for those who may ask."
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--socket", type=Path, default=SOCKET, help="where clients find it (%(default)s)")
    place.add_argument(
        "--fd", type=int, action="append", help="a connected socket that was handed down; ends with the last one's peer"
    )
    parser.add_argument("--group", default="bench", help="who may connect besides root (%(default)s)")
    parser.add_argument("--period-ms", type=_period, default=100, help="between samples (%(default)s)")
    parser.add_argument("--powercap-root", "--powercap", type=Path, default=POWERCAP, metavar="DIR")
    parser.add_argument("--cpu-backend", choices=CPU_BACKENDS, default="powercap", help="%(default)s")
    parser.add_argument("--counter", action="append", default=[], metavar="NAME", help="a plug-in; more than once")
    parser.add_argument("--no-nvml", dest="nvml", action="store_false", help="do not look for NVIDIA's GPUs")
    parser.add_argument("--cpus-online", type=Path, default=CPUS_ONLINE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
