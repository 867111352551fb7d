"""How good a figure is: where it comes from and how it was obtained, and what a sum of several may claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

Provenance = Literal["hw_shunt", "model_based", "estimator", "simulated"]
"""Best first; the same words as `appliance.records.words` (a test holds the two together)."""
Basis = Literal["counter", "sampled_power", "apportioned", "modelled"]
CounterKind = Literal["rapl", "nvml", "ioreport", "powermetrics"]

_PROVENANCES: Final[tuple[Provenance, ...]] = get_args(Provenance)
_BASES: Final[tuple[Basis, ...]] = get_args(Basis)
_CLAIMS: Final[dict[CounterKind, Provenance]] = {
    "rapl": "hw_shunt",
    "nvml": "hw_shunt",
    "ioreport": "model_based",
    "powermetrics": "model_based",
}
# Counters that are files: only the kernel's own file system speaks for the hardware.
_KERNEL_FILES: Final[dict[CounterKind, str]] = {"rapl": "sysfs"}


@dataclass(frozen=True)
class Grade:
    provenance: Provenance
    claimed: Provenance | None = None
    """What a simulated counter posed as."""


def grade_of(filesystem: str | None, counter: CounterKind) -> Grade:
    """`filesystem`: type of the one that holds the counter's files, None where it is read through a library.

    A counter that is files under any other file system than the kernel's is `simulated`, whatever it says of itself.
    """
    claim = _CLAIMS[counter]
    needed = _KERNEL_FILES.get(counter)
    if needed is None or filesystem == needed:
        return Grade(claim)
    return Grade("simulated", claimed=claim)


def worst_provenance(several: Iterable[Provenance]) -> Provenance:
    """Of a sum over these (row J46); a sum over nothing has none: ValueError."""
    return max(several, key=_PROVENANCES.index)


def worst_basis(several: Iterable[Basis]) -> Basis:
    return max(several, key=_BASES.index)
