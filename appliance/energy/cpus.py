"""What a processor draws by design: the machine's processor as /proc/cpuinfo tells it, and a table by brand string.

The figures of the table are the vendors' published design powers of one package, with its hardware threads. A brand
that is not in it, to the letter, takes the default of its class: nothing is matched by likeness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Processor:
    """The processors of one machine."""

    brand: str
    """`model name`, as written; empty where the platform has none."""
    threads: int
    """Online logical CPUs."""
    packages: int
    virtual: bool
    """Under a hypervisor: its CPUs are a share of a package."""


@dataclass(frozen=True)
class DesignPower:
    """Microwatts of the CPUs that this machine has, with the range they may lie in."""

    point_uw: int
    low_uw: int
    high_uw: int
    source: str
    """`table`, `table,vm-share`, `class:server`, `class:other`."""


# brand string: (design power of a package in watts, hardware threads of a package)
_TABLE: Final[dict[str, tuple[int, int]]] = {
    "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz": (28, 8),
    "12th Gen Intel(R) Core(TM) i9-12900K": (125, 24),
    "13th Gen Intel(R) Core(TM) i9-13900K": (125, 32),
    "AMD EPYC 7302 16-Core Processor": (155, 32),
    "AMD EPYC 7543 32-Core Processor": (225, 64),
    "AMD EPYC 7702 64-Core Processor": (200, 128),
    "AMD EPYC 7742 64-Core Processor": (225, 128),
    "AMD EPYC 7763 64-Core Processor": (280, 128),
    "AMD EPYC 9554 64-Core Processor": (360, 128),
    "AMD EPYC 9654 96-Core Processor": (360, 192),
    "AMD Ryzen 7 3700X 8-Core Processor": (65, 16),
    "AMD Ryzen 7 5800X 8-Core Processor": (105, 16),
    "AMD Ryzen 9 3900X 12-Core Processor": (105, 24),
    "AMD Ryzen 9 5950X 16-Core Processor": (105, 32),
    "AMD Ryzen 9 7950X 16-Core Processor": (170, 32),
    "Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz": (15, 8),
    "Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz": (15, 8),
    "Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz": (95, 12),
    "Intel(R) Core(TM) i9-9900K CPU @ 3.60GHz": (95, 16),
    "Intel(R) Xeon(R) CPU E5-2650 v4 @ 2.20GHz": (105, 24),
    "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz": (120, 28),
    "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz": (145, 36),
    "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz": (125, 32),
    "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz": (125, 40),
    "Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz": (240, 48),
    "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz": (210, 48),
    "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz": (205, 56),
    "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz": (300, 64),
}
# Watts a logical CPU: point, low, high. Ours: design power over threads spans 1.6 (EPYC 7742) to 8 W (Core i9) above.
_SERVER: Final = (4.0, 1.5, 8.0)
_OTHER: Final = (5.0, 1.5, 12.0)
# What the vendors' design power is off by when all cores are busy; wider for a share of an unknown neighbourhood.
_RANGE_KNOWN: Final = (0.8, 1.25)
_RANGE_SHARE: Final = (0.5, 2.0)


def parse_cpuinfo(text: str) -> Processor:
    """Of /proc/cpuinfo on x86; elsewhere brand and packages may be missing from it (empty, 1)."""
    brand, threads, packages, virtual = "", 0, set[str](), False
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor":
            threads += 1
        elif key == "model name" and not brand:
            brand = value
        elif key == "physical id":
            packages.add(value)
        elif key == "flags" and "hypervisor" in value.split():
            virtual = True
    return Processor(brand, max(1, threads), max(1, len(packages)), virtual)


def design_power(processor: Processor) -> DesignPower:
    """Of all CPUs that the machine has; for a virtual one its share of the package, by threads."""
    known = _TABLE.get(processor.brand)
    if known is None:
        server = any(word in processor.brand for word in ("Xeon", "EPYC"))
        point, low, high = (processor.threads * watts for watts in (_SERVER if server else _OTHER))
        return _power(point, low, high, "class:server" if server else "class:other")
    watts, threads = known
    if processor.virtual:
        point = watts * processor.threads / threads
        return _power(point, point * _RANGE_SHARE[0], point * _RANGE_SHARE[1], "table,vm-share")
    point = float(watts * processor.packages)
    return _power(point, point * _RANGE_KNOWN[0], point * _RANGE_KNOWN[1], "table")


def _power(point: float, low: float, high: float, source: str) -> DesignPower:
    return DesignPower(round(point * 1e6), round(low * 1e6), round(high * 1e6), source)
