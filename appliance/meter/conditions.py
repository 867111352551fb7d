"""What the idle power of a machine depends on, and when two moments of it may be set against each other."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

TEMPERATURE: Final = "temperature"
WARMER_MILLIDEGREES: Final = 15_000
"""Further apart than this, leakage current alone moves idle power by some percent; what is less, the short check of a
run finds (it refuses a calibration that is 5 % off)."""
COUNTERS: Final = "counters"
BOOT: Final = "boot"
# Salts the digests, so that they cannot be looked up among digests of names made elsewhere.
_SALT: Final = b"bench-appliance host "


_WORDS: Final = {
    "smt": "SMT",
    "idleStates": "idle states",
    "frequencyCeiling": "ceiling of the frequency",
    "cpus": "CPUs online",
    "hostname": "host name",
}


def conditions(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> dict[str, str | None]:
    """By name, as text; None: not readable here. The counters are not among them: they are the daemon's to tell."""
    cpus = sys / "devices/system/cpu"
    return {
        BOOT: _boot(proc),
        "hostname": hashlib.sha256(_SALT + platform.node().encode()).hexdigest()[:32],
        "kernel": _text(proc / "sys/kernel/osrelease"),
        "cpus": _text(cpus / "online"),
        "governor": _common(cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")),
        "turbo": _turbo(cpus),
        "smt": _text(cpus / "smt/active"),
        "idleStates": _idle_states(cpus),
        "frequencyCeiling": _common(cpus.glob("cpu[0-9]*/cpufreq/scaling_max_freq")),
        TEMPERATURE: _temperature(sys),
    }


def counters_condition(keys: Iterable[tuple[str, str]]) -> str:
    """`(key, source)` of every zone: an idle power is that of these counters and of no others."""
    return ", ".join(f"{key} by {source}" for key, source in sorted(keys))


def changed(then: Mapping[str, str | None], now: Mapping[str, str | None]) -> str | None:
    """The first condition that is another one now, in words; None: all as they were."""
    for name in sorted(then.keys() | now.keys()):
        before, after = then.get(name), now.get(name)
        if before == after:
            continue
        if name == BOOT:
            return "the machine was started again since"
        if name == TEMPERATURE:
            if before is None or after is None or abs(_degrees(after) - _degrees(before)) * 1000 <= WARMER_MILLIDEGREES:
                continue
            return f"{_degrees(after):.0f} degrees Celsius, was {_degrees(before):.0f}"
        return _another(_WORDS.get(name, name), before, after)
    return None


def _another(what: str, before: str | None, after: str | None) -> str:
    if not after:
        return f"no {what} can be read now, then {before}"
    return f"{what}: {after} now, {before or 'none that could be read'} then"


def _degrees(text: str) -> float:
    """Not a number where it is none: no two of those are near one another."""
    try:
        return int(text) / 1000
    except ValueError:
        return float("nan")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _boot(proc: Path) -> str | None:
    """As the readings name a boot."""
    found = _text(proc / "sys/kernel/random/boot_id")
    return None if found is None else hashlib.sha256(found.encode()).hexdigest()


def _common(paths: Iterable[Path]) -> str | None:
    """What all CPUs say; several words where they differ."""
    found = sorted({_text(path) for path in paths} - {None}, key=str)
    return ",".join(str(one) for one in found) or None


def _turbo(cpus: Path) -> str | None:
    no_turbo, boost = _text(cpus / "intel_pstate/no_turbo"), _text(cpus / "cpufreq/boost")
    if no_turbo is None and boost is None:
        return None
    return "on" if no_turbo == "0" or boost == "1" else "off"


def _idle_states(cpus: Path) -> str | None:
    """Those that the first CPU may enter, by name."""
    folders = sorted((cpus / "cpu0/cpuidle").glob("state[0-9]*"), key=lambda path: int(path.name.removeprefix("state")))
    entered = [_text(folder / "name") or folder.name for folder in folders if _text(folder / "disable") != "1"]
    return ",".join(entered) if folders else None


def _temperature(sys: Path) -> str | None:
    """The hottest sensor, in thousandths of a degree Celsius."""
    found = (_text(path) for path in (sys / "class/thermal").glob("thermal_zone*/temp"))
    degrees = [int(text) for text in found if text is not None and text.lstrip("-").isdigit()]
    return str(max(degrees)) if degrees else None
