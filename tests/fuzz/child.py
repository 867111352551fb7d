"""One target in a process of its own: `python -m tests.fuzz.child ENGINE TARGET SECONDS FOLDER`.

Ends with 0 where nothing was found; else with another status, the input in FOLDER/crashes, the traceback on stderr.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

_LONGEST_BYTES: Final = 64 * 1024
_ONE_INPUT_SECONDS: Final = 30
_MIB: Final = 4096
_BATCH: Final = 200
"""Examples that hypothesis draws between two looks at the clock."""


def with_atheris(target: str, seconds: int, folder: Path) -> None:
    """libFuzzer's search: inputs that reach new lines of ours are kept in FOLDER/corpus, and changed further."""
    import atheris

    with atheris.instrument_imports(include=["appliance", "attest", "rfc8785", "asn1crypto"]):
        run, seeds = _loaded(target)
    from tests.fuzz.mutation import edited

    def mutate(content: bytes, most: int, seed: int) -> Any:
        random = Random(seed)
        found = edited(content, random) if random.random() < 0.5 else atheris.Mutate(content, most)
        return found if len(found) <= most else content

    corpus, crashes = folder / "corpus", folder / "crashes"
    for content in seeds:
        _keep(corpus, content)
    options = {
        "max_total_time": seconds,
        "max_len": _LONGEST_BYTES,
        "timeout": _ONE_INPUT_SECONDS,
        "rss_limit_mb": _MIB,
        "artifact_prefix": f"{crashes}/",
        "print_final_stats": 1,
        "verbosity": 0,
    }
    words = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus)]
    atheris.Setup(words, run, custom_mutator=mutate)
    atheris.Fuzz()


def with_hypothesis(target: str, seconds: int, folder: Path) -> None:
    """Without coverage: edits of the seeds, and bytes, until the time is up; what fails is made small first."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    run, seeds = _loaded(target)
    from tests.fuzz.mutation import edited

    inputs = st.one_of(
        st.builds(lambda content, seed: edited(content, Random(seed)), st.sampled_from(seeds), st.integers(0, 2**64)),
        st.binary(max_size=2_000),
    )
    failed: list[bytes] = []

    @settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(inputs)
    def holds(content: bytes) -> None:
        try:
            run(content)
        except Exception:
            failed.append(content)
            raise

    end = time.monotonic() + seconds
    rounds = 0
    try:
        while time.monotonic() < end:
            holds()
            rounds += 1
    except Exception:
        _keep(folder / "crashes", failed[-1])
        raise
    print(f"{target}: {rounds * _BATCH} examples", file=sys.stderr)  # noqa: T201  the program's own words


ENGINES: Final[dict[str, Callable[[str, int, Path], None]]] = {
    "atheris": with_atheris,
    "hypothesis": with_hypothesis,
}


def _loaded(target: str) -> tuple[Callable[[bytes], object], list[bytes]]:
    from tests.fuzz.targets import TARGETS

    logging.disable(logging.CRITICAL)  # sigstore-python tells of each odd key
    found = TARGETS[target]
    return found.run, found.seeds()


def _keep(folder: Path, content: bytes) -> None:
    (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


if __name__ == "__main__":
    ENGINES[sys.argv[1]](sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
