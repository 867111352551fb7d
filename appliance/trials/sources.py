"""Where a run's suite, solvers and weights lay on the machine that started it: no part of what it measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.reading import read_regular

_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class Sources:
    """Absolute paths: by them a run goes on where its suite, its solvers or its model were given by path."""

    suite: Path
    solvers: Mapping[str, Path]
    weights: Path | None = None

    def encoded(self) -> bytes:
        solvers = {name: str(path.absolute()) for name, path in self.solvers.items()}
        told: dict[str, object] = {"suite": str(self.suite.absolute()), "solvers": solvers}
        if self.weights is not None:
            told["weights"] = str(self.weights.absolute())
        return json.dumps(told, sort_keys=True).encode() + b"\n"

    @classmethod
    def read(cls, path: Path) -> Sources | None:
        """None where they are not known, or no longer there."""
        try:
            said = json.loads(read_regular(path, _MAX_BYTES))
            weights = said.get("weights")
            found = cls(
                Path(said["suite"]),
                {str(name): Path(path) for name, path in said["solvers"].items()},
                None if weights is None else Path(weights),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return found if all(path.exists() for path in (found.suite, *found.solvers.values())) else None
