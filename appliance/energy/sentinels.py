"""Numbers that stand for no number: all bits set, as drivers give what they could not read (row ZN10)."""

from __future__ import annotations

from typing import Final

_UNITS: Final = (1, 1_000, 1_000_000)
_WIDE: Final = (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
SENTINELS: Final = frozenset(ones * unit for ones in _WIDE for unit in _UNITS)
"""Of energy or power, in the driver's own unit or scaled up by it: 4294967295000 uW is 2^32 - 1 mW."""
SENTINELS_OF_POWER: Final = SENTINELS | {2**16 - 1, (2**16 - 1) * 1_000, (2**16 - 1) * 1_000_000}
"""Sixteen bits too: a counter of energy passes 65535 on its way, a board does not stand at it."""


def is_sentinel(number: int, *, power: bool = False) -> bool:
    return number < 0 or number in (SENTINELS_OF_POWER if power else SENTINELS)
