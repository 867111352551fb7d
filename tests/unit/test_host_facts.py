"""What the machine is, over planted trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.host.facts import Roots, host_stamp, read_facts
from appliance.records.record import Check, EngineStamp

ENGINE = EngineStamp(
    name="docker",
    version="20.10.24",
    storage_driver="overlay2",
    cgroup_driver="cgroupfs",
    runtime="runc",
    rootless=False,
    remote=False,
)


def plant(root: Path, files: dict[str, str]) -> Roots:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Roots(proc=root / "proc", sys=root / "sys", etc=root / "etc", var=root / "var")


MACHINE = {
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: AMD EPYC\n",
    "proc/meminfo": "MemTotal:       24683520 kB\nMemFree: 1 kB\n",
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
    "proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 5\n",
}


def test_the_stamp_holds_what_the_machine_is(tmp_path: Path) -> None:
    """Processor, memory, kernel, cgroups, system, GPUs (H9)."""
    facts = read_facts(plant(tmp_path, MACHINE))
    stamp = host_stamp(facts, ENGINE, ())
    assert (stamp.cpu, stamp.cores, stamp.memory_mib) == ("AMD EPYC", 2, 24105)
    assert (stamp.kernel, stamp.os) == ("6.1.0-18-amd64", "Debian GNU/Linux 12 (bookworm)")
    assert (stamp.cgroup, stamp.gpus) == ("v2", ("NVIDIA H200",))
    assert not stamp.noisy


def test_the_id_tells_nothing_of_the_machines_own(tmp_path: Path) -> None:
    """Equal on the same machine, another on another, and no substring of the machine-id."""
    first = read_facts(plant(tmp_path / "a", MACHINE))
    again = read_facts(plant(tmp_path / "b", MACHINE))
    other = read_facts(plant(tmp_path / "c", MACHINE | {"etc/machine-id": "f" * 32}))
    assert first.id == again.id != other.id
    assert len(first.id) == 32
    assert "0123456789abcdef" not in first.id


def test_a_machine_that_tells_nothing_is_stamped_all_the_same(tmp_path: Path) -> None:
    """Unknown is said, and nothing raises."""
    stamp = host_stamp(read_facts(plant(tmp_path, {})), ENGINE, ())
    assert (stamp.kernel, stamp.os, stamp.memory_mib, stamp.cgroup) == ("unknown", "unknown", 0, "unknown")
    assert len(stamp.id) == 32


@pytest.mark.parametrize(
    ("name", "level", "noisy"),
    [
        ("containers", "warn", True),
        ("cpu_load", "warn", True),
        ("containers", "info", False),
        ("governor", "warn", False),
    ],
)
def test_a_run_beside_others_is_noisy(tmp_path: Path, name: str, level: str, noisy: bool) -> None:
    """Foreign load marks it, a governor does not (H13)."""
    check = Check.model_validate({"name": name, "level": level, "message": "m"})
    assert host_stamp(read_facts(plant(tmp_path, MACHINE)), ENGINE, (check,)).noisy is noisy
