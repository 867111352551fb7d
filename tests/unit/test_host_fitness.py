"""Each check of fitness over a planted tree, or over two looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cgroups import Hierarchies, Hierarchy
from appliance.errors import HostRefused
from appliance.host import fitness
from appliance.host.facts import Roots
from appliance.host.local import LocalHost
from appliance.host.looks import Between, Clocks, Look, between, container_cpu, parse_stat
from appliance.records.record import Check

CONTAINER = "a" * 64
OTHER = "b" * 64
CALM = Between(
    seconds=1.0,
    busy=0.01,
    steal=0.0,
    guest=0.0,
    containers={},
    suspended_seconds=0.0,
    clock_step_seconds=0.0,
)


def plant(root: Path, files: dict[str, str]) -> Roots:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Roots(proc=root / "proc", sys=root / "sys", etc=root / "etc", var=root / "var")


def static(tmp_path: Path, files: dict[str, str], name: str) -> Check:
    checks = fitness.static_checks(plant(tmp_path, files), dirty=None)
    return next(check for check in checks if check.name == name)


def test_a_calm_machine_that_shows_nothing_gives_no_warning(tmp_path: Path) -> None:
    """A virtual machine hides most of this; what is not visible is said so, and refuses nothing."""
    checks = (*fitness.static_checks(plant(tmp_path, {}), dirty=False), *fitness.changes(CALM))
    assert {check.level for check in checks} == {"info"}
    fitness.refuse_unfit(checks)


CPU0 = "sys/devices/system/cpu/cpu0/cpufreq/"


@pytest.mark.parametrize(
    ("name", "files", "level"),
    [
        ("swap", {"proc/meminfo": "SwapTotal: 2048000 kB\nSwapFree: 1024000 kB\n"}, "warn"),
        ("swap", {"proc/meminfo": "SwapTotal: 2048000 kB\nSwapFree: 2048000 kB\n"}, "info"),
        ("governor", {CPU0 + "scaling_governor": "powersave\n"}, "warn"),
        ("governor", {CPU0 + "scaling_governor": "performance\n"}, "info"),
        ("frequency", {CPU0 + "scaling_max_freq": "1200000", CPU0 + "cpuinfo_max_freq": "3600000"}, "warn"),
        ("frequency", {CPU0 + "scaling_max_freq": "3600000", CPU0 + "cpuinfo_max_freq": "3600000"}, "info"),
        ("temperature", {"sys/class/thermal/thermal_zone0/temp": "91000\n"}, "warn"),
        ("temperature", {"sys/class/thermal/thermal_zone0/temp": "41000\n"}, "info"),
        ("watchdog", {"proc/sys/kernel/nmi_watchdog": "1\n"}, "warn"),
        ("watchdog", {"proc/sys/kernel/nmi_watchdog": "0\n"}, "info"),
        (
            "power_caps",
            {
                "sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw": "45000000",
                "sys/class/powercap/intel-rapl:0/constraint_0_max_power_uw": "125000000",
            },
            "warn",
        ),
    ],
)
def test_what_blurs_figures_is_a_warning_with_its_mend(
    tmp_path: Path, name: str, files: dict[str, str], level: str
) -> None:
    """(harness, Machine fitness)"""
    check = static(tmp_path, files, name)
    assert check.level == level
    assert (check.mend is not None) == (level == "warn")


@pytest.mark.parametrize(
    ("name", "files", "words"),
    [
        ("smt", {"sys/devices/system/cpu/smt/active": "1\n"}, "share a core"),
        ("turbo", {"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"}, "on"),
        ("turbo", {"sys/devices/system/cpu/cpufreq/boost": "0\n"}, "off"),
        ("timers", {"proc/812/comm": "cron\n"}, "cron may start work"),
        ("timers", {"proc/1/comm": "systemd\n"}, "systemd's timers"),
        ("energy_filtering", {"proc/cpuinfo": "flags\t: fpu sgx\n"}, "SGX"),
    ],
)
def test_conditions_are_kept_as_they_are(tmp_path: Path, name: str, files: dict[str, str], words: str) -> None:
    """(harness, Machine fitness)"""
    check = static(tmp_path, files, name)
    assert check.level == "info"
    assert words in check.message


def test_a_dirty_checkout_is_a_warning() -> None:
    """(harness, Machine fitness)"""
    assert fitness.checkout(True).level == "warn"
    assert fitness.checkout(False).level == fitness.checkout(None).level == "info"


def changed(**seen: object) -> dict[str, Check]:
    fields = {name: getattr(CALM, name) for name in CALM.__dataclass_fields__}
    return {check.name: check for check in fitness.changes(Between(**(fields | seen)))}


def test_load_beside_us_is_a_warning_above_five_percent() -> None:
    """(H13, harness: Machine fitness)"""
    assert changed(busy=0.051)["cpu_load"].level == "warn"
    assert changed(busy=0.05)["cpu_load"].level == "info"
    assert changed(busy=None)["cpu_load"].message == "not readable"


def test_a_foreign_container_is_noise_above_five_percent_of_a_cpu() -> None:
    """Ours are none; a quiet one is only counted (H13)."""
    loud = changed(containers={CONTAINER: 0.06})["containers"]
    assert loud.level == "warn"
    assert loud.mend == f"docker stop {CONTAINER[:12]}"
    quiet = changed(containers={CONTAINER: 0.05})["containers"]
    assert (quiet.level, quiet.message) == ("info", "1 other containers are running")
    seen = Between(**{**{f: getattr(CALM, f) for f in CALM.__dataclass_fields__}, "containers": {CONTAINER: 0.9}})
    assert fitness.containers(seen, frozenset({CONTAINER})).level == "info"


def test_time_that_a_hypervisor_or_a_guest_took_is_a_warning() -> None:
    """(harness: Machine fitness)"""
    assert changed(steal=0.02)["steal"].level == "warn"
    assert changed(guest=0.02)["steal"].level == "warn"
    assert changed(steal=0.01, guest=0.01)["steal"].level == "info"


def test_sleep_is_an_error_and_a_clock_step_a_warning() -> None:
    """A slept-through window is no window (W14 W15)."""
    assert changed(suspended_seconds=0.06)["suspend"].level == "error"
    assert changed(suspended_seconds=0.05)["suspend"].level == "info"
    assert changed(clock_step_seconds=-1.0)["clock_step"].level == "warn"
    assert changed(seconds=3600.0, clock_step_seconds=1.0)["clock_step"].level == "info"


def test_strict_hosts_are_refused_by_their_warnings() -> None:
    """`--strict-host` ends with status 4, naming them all and the first mend (harness: Machine fitness)."""
    checks = (fitness.checkout(True), changed(busy=0.5)["cpu_load"], fitness.checkout(None))
    with pytest.raises(HostRefused, match=r"checkout: .*; cpu_load: ") as refusal:
        fitness.refuse_unfit(checks)
    assert refusal.value.status == 4
    assert refusal.value.mend == "git commit, or git stash"


def test_two_looks_give_shares_without_counting_guests_twice() -> None:
    """/proc/stat has guest time in user as well: proc(5)."""
    first = Look(Clocks(0, 0, 0), parse_stat("cpu 100 0 0 900 0 0 0 0 50 0\n"), {CONTAINER: 10**9})
    last = Look(
        Clocks(2 * 10**9, 10**9, 3 * 10**9),
        parse_stat("cpu 160 0 20 1000 0 0 0 20 100 0\ncpu0 1 1 1\n"),
        {CONTAINER: 15 * 10**8, OTHER: 10**8},
    )
    seen = between(first, last)
    assert (seen.busy, seen.guest, seen.steal) == (0.15, 0.25, 0.1)
    assert seen.containers == {CONTAINER: 0.5, OTHER: 0.1}
    assert (seen.suspended_seconds, seen.clock_step_seconds) == (2.0, -1.0)


def test_containers_are_known_by_their_cgroups_under_both_drivers(tmp_path: Path) -> None:
    """Only those with a live task; by the names that engines give (energy 2.3)."""
    trees = Hierarchies((Hierarchy(2, frozenset(), tmp_path),))
    for folder, tasks in (
        (f"docker/{CONTAINER}", "12\n"),
        (f"system.slice/docker-{OTHER}.scope", "13\n"),
        (f"docker/{'c' * 64}", ""),
        ("user.slice", "14\n"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").write_text(tasks)
        (tmp_path / folder / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1\n")
    assert container_cpu(trees) == {CONTAINER: 1_500_000, OTHER: 1_500_000}


def test_this_host_is_looked_at_without_a_failure() -> None:
    """Every check of the list is there once, on whatever runs this test."""
    checks = LocalHost().fitness()
    names = [check.name for check in checks]
    assert len(names) == len(set(names)) == 16
    assert {"cpu_load", "containers", "steal", "swap", "governor", "smt", "turbo", "frequency"} <= set(names)
    assert {"temperature", "watchdog", "clock_step", "suspend", "timers", "power_caps", "checkout"} <= set(names)
