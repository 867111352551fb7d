"""The systemd unit, and what of it can be seen without systemd: the rights it leaves, and what root imports."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.energy.readings import unpack
from tests.meter_bench import meter_daemon, run_of_its_own
from tests.sysfs_tree import PowercapTree

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "bench-appliance-meter.service"


def test_systemd_finds_no_fault_with_the_unit() -> None:
    """`systemd-analyze verify`, where it is installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    asked = subprocess.run(["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, check=False)
    # A host without the interpreter at that path is no fault of the unit's.
    said = [line for line in asked.stderr.splitlines() if "is not executable" not in line]
    assert said == []


def test_every_right_and_every_restriction_has_its_reason_above_it() -> None:
    """In the service section no line stands without a comment over it or over the group that it is in."""
    reasoned = False
    for line in UNIT.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        if line.startswith("#"):
            reasoned = True
        elif not line:
            reasoned = False
        else:
            assert reasoned, line
    for name in _bounds():
        assert re.search(rf"^#.*{name}\b.* \S+", UNIT.read_text(), re.MULTILINE)


@pytest.mark.root
def test_the_daemon_does_all_it_does_with_the_units_capabilities_alone(tmp_path: Path) -> None:
    """Socket to its group, counters, cgroups made, read and removed: with root's bounding set cut to the unit's."""
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv")
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(1)
    (tree.root / "intel-rapl:0" / "energy_uj").chmod(0o400)
    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in _bounds())
    before = ["setpriv", "--bounding-set", f"-all,{kept}", "--no-new-privs"]
    arguments = ("--group", "nogroup")
    with (
        run_of_its_own() as run,
        meter_daemon(tmp_path, tree.root, *arguments, before=before) as daemon,
        daemon.client() as client,
    ):
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        assert int(status.split("CapEff:")[1].split()[0], 16).bit_count() == len(_bounds())
        assert daemon.socket.stat().st_gid == 65534
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        tree.add("intel-rapl:0", 7_000_000)
        client.close(opened.window)
        released = client.release(prepared.handle)
        assert released.flags == ()
        samples = list(unpack(released.readings or b"").samples())
        assert [samples[0].zones["z0"], samples[-1].zones["z0"]] == [1_000_000, 8_000_000]
        assert all(sample.cgroups["c1"] is not None for sample in samples)


def test_what_root_imports_is_the_standard_library_our_own_and_nvml() -> None:
    """No pydantic, no docker, no thread of anybody's: what is privileged can be read in one sitting. (design 3)"""
    program = "import appliance.meter.daemon.serve, sys; print(*sys.modules, sep='\\n')"
    asked = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    modules = asked.stdout.split()
    tops = {name.partition(".")[0] for name in modules}
    foreign = {name for name in tops if name not in sys.stdlib_module_names and name[0] != "_"}
    # An editable installation's hook is the interpreter's own business at its start.
    assert {name for name in foreign if not name.startswith(("distutils-", "sitecustomize"))} <= {
        "appliance", "pynvml",
    }  # fmt: skip
    packages = {name.split(".")[1] for name in modules if name.startswith("appliance.")}
    assert packages <= {"errors", "mends", "moments", "cgroups", "energy", "meter"}


def _bounds() -> list[str]:
    found = re.search(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split()
