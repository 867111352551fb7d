"""A counter that does what a loopback server tells it at every read: for the ways in which a plug-in can misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading

_ZONE = CounterZone(
    id="a",
    key="a",
    path="scripted",
    name="scripted",
    domain="other",
    unit="uj",
    max_range=None,
    most_uw=10**9,
    update_period_ns=1_000_000,
    shortest_window_ns=0,
    source="powercap",
    provenance="hw_shunt",
)


class Scripted:
    name = "scripted"

    def __init__(self) -> None:
        self._url = os.environ["BENCH_APPLIANCE_COUNTER_SCRIPT_URL"]
        told = self._told("begin")
        if told.get("do") == "raise":
            raise RuntimeError("told so\nin two lines")
        self._zones = tuple(replace(_ZONE, **one) for one in told.get("zones", [{}]))
        self._on: list[dict[str, Any]] = []

    def zones(self) -> tuple[CounterZone, ...]:
        return self._zones

    def absent(self) -> tuple[AbsentZone, ...]:
        return tuple(AbsentZone(name, value) for name, value in _facts().items())

    def read(self) -> Sequence[Reading]:
        told = self._told("read")
        self._on = told.get("on", [])
        match told.get("do"):
            case "die":
                sys.stderr.write("\x1b[31mtold to die\n")
                sys.stderr.flush()
                os._exit(3)
            case "raise":
                raise RuntimeError("told so")
            case "spawn":
                subprocess.Popen(["sleep", told["argument"]])
            case "sleep":
                time.sleep(told["seconds"])
            case "babble":
                for fd in sorted(int(one.name) for one in Path("/proc/self/fd").iterdir())[3:]:
                    with contextlib.suppress(OSError):
                        os.write(fd, bytes(told["bytes"]) * told["times"])
            case "shout":
                for fd in (1, 2):
                    os.write(fd, b"noise\n" * 100_000)
        found: list[Reading] = told["readings"]
        return found

    def rescan(self) -> bool:
        told = self._told("rescan")
        if "zones" not in told:
            return False
        self._zones = tuple(replace(_ZONE, **one) for one in told["zones"])
        return True

    def occupancy(self) -> Sequence[Occupancy]:
        return [Occupancy(one["zone"], frozenset(one["pids"]), one.get("sharing")) for one in self._on]

    def close(self) -> None:
        pass

    def _told(self, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/{what}", timeout=10) as answer:  # noqa: S310  # a loopback address of the test's
            told: dict[str, Any] = json.load(answer)
            return told


def _facts() -> dict[str, str]:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    try:
        os.setuid(0)
    except OSError:
        back = "refused"
    else:
        back = "root again"
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
            file.flush()
        wrote = "wrote"
    except OSError:
        wrote = "refused"
    return {
        "uid": " ".join(status["Uid"].split()),
        "groups": status["Groups"].strip() or "none",
        "caps": " ".join(status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")),
        "no_new_privs": status["NoNewPrivs"],
        "files": " ".join(sorted(one.name for one in Path("/proc/self/fd").iterdir())),
        "core": str(resource.getrlimit(resource.RLIMIT_CORE)),
        "memory": str(resource.getrlimit(resource.RLIMIT_AS)),
        "root": back,
        "write": wrote,
        "environment": " ".join(sorted(os.environ)),
        "folder": str(Path.cwd()),
        "beside": " ".join(sorted(one.name for one in Path(__file__).parent.parent.iterdir())),
    }


def open_scripted() -> Scripted:
    return Scripted()
