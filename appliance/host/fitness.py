"""Is this machine fit to be measured on: one function a check, each with the act that mends it.

The list is the one of Green Metrics Tool's system checks, with what energy needs beside it. `info` is a condition that
a record keeps, `warn` one that blurs figures (`--strict-host` refuses it), `error` one that spoils them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from appliance.errors import HostRefused
from appliance.host.facts import Roots, number, text
from appliance.host.looks import Between
from appliance.host.timers import SOON, due
from appliance.records.record import Check

FOREIGN_LOAD: Final = 0.05
"""Share of the CPUs (of one CPU, for a container) above which somebody else is at work (harness row H13)."""
STOLEN: Final = 0.01
SUSPENDED_SECONDS: Final = 0.05
CLOCK_STEP_SECONDS: Final = 0.05
HOT_MILLIDEGREES: Final = 80_000
_TIMED: Final = frozenset({"cron", "crond", "anacron", "atd", "fcron"})


def static_checks(
    roots: Roots, *, dirty: bool | None, now: datetime | None = None, systemd: Iterable[tuple[str, datetime]] = ()
) -> tuple[Check, ...]:
    """Conditions of this moment; `dirty` is the checkout's state, None where it runs from a wheel; `systemd`: its
    timers, and when each fires next."""
    return (
        swap(roots),
        governor(roots),
        smt(roots),
        turbo(roots),
        frequency(roots),
        temperature(roots),
        watchdog(roots),
        timers(roots, now or datetime.now().astimezone(), systemd),
        power_caps(roots),
        energy_filtering(roots),
        checkout(dirty),
    )


def changes(seen: Between, own_containers: frozenset[str] = frozenset()) -> tuple[Check, ...]:
    """What happened between two looks."""
    return (
        cpu_load(seen),
        containers(seen, own_containers),
        steal(seen),
        suspend(seen),
        clock_step(seen),
    )


def refuse_unfit(checks: Iterable[Check]) -> None:
    """`--strict-host`: raises HostRefused on the first warning, naming all."""
    unfit = [check for check in checks if check.level != "info"]
    if unfit:
        raise HostRefused(
            f"this host is not fit: {'; '.join(f'{check.name}: {check.message}' for check in unfit)}",
            mend=next((check.mend for check in unfit if check.mend), None),
            reason="unfit",
        )


# ---------------------------------------------------------------------------------------------- between two looks


def cpu_load(seen: Between) -> Check:
    if seen.busy is None:
        return _info("cpu_load", "not readable")
    if seen.busy > FOREIGN_LOAD:
        return _warn("cpu_load", f"{seen.busy:.0%} of the CPUs are busy with something else", "top -o %CPU")
    return _info("cpu_load", f"{seen.busy:.1%} of the CPUs are busy")


def containers(seen: Between, own: frozenset[str]) -> Check:
    foreign = {container: rate for container, rate in seen.containers.items() if container not in own}
    busy = sorted(container[:12] for container, rate in foreign.items() if rate > FOREIGN_LOAD)
    if busy:
        return _warn(
            "containers", f"other containers use over 5 % of a CPU: {', '.join(busy)}", f"docker stop {' '.join(busy)}"
        )
    return _info("containers", f"{len(foreign)} other containers are running" if foreign else "no other container")


def steal(seen: Between) -> Check:
    if seen.steal is None or seen.guest is None:
        return _info("steal", "not readable")
    if seen.steal > STOLEN:
        return _warn("steal", f"the hypervisor took {seen.steal:.1%} of the CPUs", "use a dedicated or bare machine")
    if seen.guest > STOLEN:
        return _warn("steal", f"virtual machines took {seen.guest:.1%} of the CPUs", "virsh list")
    return _info("steal", "nothing was taken by a hypervisor or a guest")


def suspend(seen: Between) -> Check:
    if seen.suspended_seconds > SUSPENDED_SECONDS:
        mend = "systemd-inhibit --what=sleep appliance run ..."
        return _error("suspend", f"the machine slept for {seen.suspended_seconds:.1f} s", mend)
    return _info("suspend", "the machine did not sleep")


def clock_step(seen: Between) -> Check:
    # NTP may slew by 500 parts in a million, which is no step.
    allowed = CLOCK_STEP_SECONDS + seen.seconds * 0.0005
    if abs(seen.clock_step_seconds) > allowed:
        return _warn(
            "clock_step", f"the wall clock was set by {seen.clock_step_seconds:+.2f} s", "timedatectl timesync-status"
        )
    return _info("clock_step", "the wall clock ran on")


# ---------------------------------------------------------------------------------------------- of this moment


def swap(roots: Roots) -> Check:
    fields = {line.split(":")[0]: line.split() for line in (text(roots.proc / "meminfo") or "").splitlines()}
    try:
        used_mib = (int(fields["SwapTotal"][1]) - int(fields["SwapFree"][1])) // 1024
    except (KeyError, IndexError, ValueError):
        return _info("swap", "not readable")
    if used_mib > 0:
        return _warn("swap", f"{used_mib} MiB of swap are in use", "sudo swapoff -a && sudo swapon -a")
    return _info("swap", "no swap in use")


def governor(roots: Roots) -> Check:
    policies = sorted((roots.sys / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    found = sorted({(text(path) or "").strip() for path in policies} - {""})
    if not found:
        return _info("governor", "no frequency scaling is visible")
    if found != ["performance"]:
        mend = "sudo cpupower frequency-set -g performance"
        return _warn("governor", f"the frequency governor is {', '.join(found)}", mend)
    return _info("governor", "performance")


def smt(roots: Roots) -> Check:
    active = number(roots.sys / "devices/system/cpu/smt/active")
    if active is None:
        return _info("smt", "not visible")
    return _info("smt", "two threads share a core" if active else "off")


def turbo(roots: Roots) -> Check:
    no_turbo = number(roots.sys / "devices/system/cpu/intel_pstate/no_turbo")
    boost = number(roots.sys / "devices/system/cpu/cpufreq/boost")
    if no_turbo is None and boost is None:
        return _info("turbo", "not visible")
    return _info("turbo", "on" if no_turbo == 0 or boost == 1 else "off")


def frequency(roots: Roots) -> Check:
    """Warns of a ceiling below what the processor can do: set by hand, or by its firmware when it is hot."""
    folder = roots.sys / "devices/system/cpu/cpu0/cpufreq"
    ceiling, able = number(folder / "scaling_max_freq"), number(folder / "cpuinfo_max_freq")
    if ceiling is None or able is None:
        return _info("frequency", "not visible")
    if ceiling < able:
        mend = f"sudo cpupower frequency-set -u {able // 1000}MHz"
        return _warn("frequency", f"capped at {ceiling // 1000} of {able // 1000} MHz", mend)
    return _info("frequency", f"up to {able // 1000} MHz")


def temperature(roots: Roots) -> Check:
    zones = (roots.sys / "class/thermal").glob("thermal_zone*/temp")
    found = [value for value in (number(path) for path in zones) if value is not None]
    if not found:
        return _info("temperature", "no sensor is visible")
    if max(found) > HOT_MILLIDEGREES:
        return _warn("temperature", f"{max(found) / 1000:.0f} degrees Celsius", "let it cool down, and run again")
    return _info("temperature", f"{max(found) / 1000:.0f} degrees Celsius")


def watchdog(roots: Roots) -> Check:
    if number(roots.proc / "sys/kernel/nmi_watchdog") == 1:
        mend = "sudo sysctl kernel.nmi_watchdog=0"
        return _warn("watchdog", "the kernel's watchdog interrupts every CPU and holds a counter", mend)
    return _info("watchdog", "off")


def timers(roots: Roots, now: datetime, systemd: Iterable[tuple[str, datetime]] = ()) -> Check:
    """Programs that start others by the clock, and what they are about to start."""
    soon = due(roots, now, systemd)
    if soon:
        shown = ", ".join(soon[:3]) + (", ..." if len(soon) > 3 else "")
        mend = f"wait {SOON.seconds // 60} minutes, or stop it for the run: systemctl stop cron"
        return _warn("timers", f"due within {SOON.seconds // 60} minutes: {shown}", mend)
    names = {(text(path) or "").strip() for path in roots.proc.glob("[0-9]*/comm")}
    found = sorted(names & _TIMED)
    if found:
        return Check(name="timers", level="info", message=f"{', '.join(found)} may start work", mend="crontab -l")
    if (text(roots.proc / "1/comm") or "").strip() == "systemd":
        message, mend = "systemd's timers may start work", "systemctl list-timers"
        return Check(name="timers", level="info", message=message, mend=mend)
    return _info("timers", "nothing that starts work by the clock")


def power_caps(roots: Roots) -> Check:
    low = []
    for zone in sorted((roots.sys / "class/powercap").glob("intel-rapl:*")):
        limit, able = number(zone / "constraint_0_power_limit_uw"), number(zone / "constraint_0_max_power_uw")
        if limit is not None and able is not None and 0 < limit < able:
            low.append(f"{zone.name} at {limit // 10**6} of {able // 10**6} W")
    if low:
        return _warn("power_caps", f"capped: {', '.join(low)}", "sudo powercap-set intel-rapl")
    return _info("power_caps", "none below the processor's own")


def energy_filtering(roots: Roots) -> Check:
    """SGX makes the processor blur its energy counters."""
    flags = next(
        (line.split() for line in (text(roots.proc / "cpuinfo") or "").splitlines() if line.startswith("flags")), []
    )
    if "sgx" in flags:
        return _info("energy_filtering", "the processor may blur its energy counters (SGX)")
    return _info("energy_filtering", "no sign of it")


def checkout(dirty: bool | None) -> Check:
    if dirty:
        return _warn("checkout", "the harness runs from a checkout with changes", "git commit, or git stash")
    return _info("checkout", "clean" if dirty is False else "not a checkout")


def _info(name: str, message: str) -> Check:
    return Check(name=name, level="info", message=message)


def _warn(name: str, message: str, mend: str) -> Check:
    return Check(name=name, level="warn", message=message, mend=mend)


def _error(name: str, message: str, mend: str) -> Check:
    return Check(name=name, level="error", message=message, mend=mend)
