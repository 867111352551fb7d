"""Known CPU loads in cgroups of ours: what the meter's own test measures. As root, without any container."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from appliance.cgroups import hierarchies
from appliance.errors import HostRefused

PROGRAM: Final = """\
import sys, time
wanted = float(sys.argv[1])
sys.stdin.readline()
began, wall = time.process_time_ns(), time.monotonic_ns()
while time.process_time_ns() - began < wanted * 1e9:
    for _ in range(1000):
        pass
print('{"cpuNs": %d, "wallNs": %d}' % (time.process_time_ns() - began, time.monotonic_ns() - wall))
"""
"""Waits for a line, burns so many CPU seconds by its own clock, says what it used. Any Python 3 runs it."""


@dataclass(frozen=True)
class Burnt:
    """What a load says that it used."""

    cpu_ns: int
    wall_ns: int


class Load(Protocol):
    """One load, ready in its cgroup; it has used nothing yet that counts."""

    def burn(self) -> Burnt:
        """Blocks till it has ended. Raises HostRefused where it fails."""
        ...

    def close(self) -> None:
        """Whatever is left of it is gone then."""
        ...


StartLoad = Callable[[str, float], Load]
"""(cgroup as the meter gave it, CPU seconds) -> a load that waits there."""


class ProcessLoad:
    """A process of ours in the cgroup itself, in every hierarchy that has it."""

    def __init__(self, cgroup: str, cpu_seconds: float):
        """`cgroup` is a kernel path: the meter was asked under the driver `cgroupfs`. Raises HostRefused."""
        # Isolated: a test of the meter runs nothing of the user's.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, str(cpu_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            joined = 0
            for folder in hierarchies().folders(cgroup):
                if folder.is_dir():
                    (folder / "cgroup.procs").write_text(str(self._process.pid))
                    joined += 1
            if not joined:
                raise FileNotFoundError(2, "no such cgroup", cgroup)
        except OSError as error:
            self.close()
            raise HostRefused(
                f"cannot put a load into its cgroup: {error.strerror or error}", where=cgroup, mend="run as root"
            ) from error

    def burn(self) -> Burnt:
        stdout, _ = self._process.communicate(b"go\n")
        return burnt_of(stdout, self._process.returncode)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def burnt_of(stdout: bytes, status: int | None) -> Burnt:
    """Of PROGRAM's output. Raises HostRefused where it did not come to its end."""
    try:
        found = json.loads(stdout)
        return Burnt(int(found["cpuNs"]), int(found["wallNs"]))
    except (ValueError, KeyError, TypeError) as error:
        raise HostRefused(
            f"a load of the test ended with {status}: {stdout[:200]!r}", mend="see what killed it: dmesg"
        ) from error
