"""Ids of zones, unique in the life of this process whatever counter they are of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

ZONE_IDS: Final[Iterator[str]] = (f"z{number}" for number in itertools.count())
