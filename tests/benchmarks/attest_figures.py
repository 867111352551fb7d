"""Figures of signing and verifying: `python -m tests.benchmarks.attest_figures`. Medians; nothing is asserted."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from appliance.audit.checks import record_checks
from appliance.audit.trust import agreement_check, claims_of
from attest import verify
from attest.local.log import Head
from attest.local.merkle import Frontier, leaf_hash
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests.record_builder import record

_REPEATS = 30
_COLD_REPEATS = 7
_ENTRIES = 100_000


def milliseconds(act: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall and mean CPU time, children's included: the second says more on a machine that is shared."""
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), sum(os.times()[:4])
        act()
        walls.append((time.perf_counter() - wall) * 1e3)
        processors.append((sum(os.times()[:4]) - processor) * 1e3)
    return statistics.median(walls), statistics.mean(processors)  # a tick is 10 ms: a median of ticks says nothing


def fill(trust: LocalTrust, body: bytes, count: int) -> None:
    """The log as `count` signatures would have left it, without making them."""
    head = trust.log.head()
    frontier: Frontier = head.frontier
    leaf = leaf_hash(body)
    for _ in range(count):
        frontier = frontier.append(leaf)
    with (trust.folder / "log/entries.jsonl").open("ab") as stream:
        stream.write((body + b"\n") * count)
    root = frontier.root
    length = head.covered_bytes + (len(body) + 1) * count
    trust.log._write_head(Head(frontier, length, trust.log._checkpoint(frontier.size, root)))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        trust = open_or_init(home / "share/bench-appliance/trust/local")
        one = record()
        content = one.canonical()
        claims = claims_of(one)
        held_to = (trust.root, trust.identity, ISSUER)
        bundle = sign_record(trust, content, claims)
        figures = {
            "sign_record, a short log (verified again before it returns)": milliseconds(
                lambda: sign_record(trust, content, claims), _REPEATS
            ),
            "verify, the 18 checks": milliseconds(lambda: verify(content, bundle, *held_to), _REPEATS),
            "verify, with the record's own checks": milliseconds(
                lambda: verify(
                    content, bundle, *held_to, [*record_checks(None, allow_missing=True), agreement_check()]
                ),
                _REPEATS,
            ),
        }
        figures |= cold(home, content, bundle)
        fill(trust, (trust.folder / "log/entries.jsonl").read_bytes().splitlines()[0], _ENTRIES)
        figures[f"sign_record, {trust.log.head().size} entries in the log"] = milliseconds(
            lambda: sign_record(trust, content, claims), _REPEATS
        )
        figures[f"audit of {trust.log.head().size} entries"] = milliseconds(trust.log.audit, 3)
        sys.stdout.write("  wall ms    cpu ms\n")
        for name, (wall, processor) in figures.items():
            sys.stdout.write(f"{wall:9.1f} {processor:9.1f}  {name}\n")
        sys.stdout.write(f"{len(bundle):9} bytes of bundle, {len(content)} of record\n")


def cold(home: Path, content: bytes, bundle: bytes) -> dict[str, tuple[float, float]]:
    """`appliance verify` as a process of its own, python's start included."""
    records = home / "run/records"
    records.mkdir(parents=True)
    (records / "noop.json").write_bytes(content)
    (records / "noop.sigstore.json").write_bytes(bundle)
    environment = {**os.environ, "XDG_DATA_HOME": str(home / "share"), "XDG_CONFIG_HOME": str(home / "config")}
    program = [sys.executable, "-m", "appliance.cli.main"]

    def typed(*words: str) -> bytes:
        return subprocess.run([*program, *words], env=environment, check=True, capture_output=True).stdout

    typed("trust", "init")
    words = ("verify", str(records / "noop.json"), "--trust", "local", "--allow-missing-blobs", "--json")
    if not json.loads(typed(*words))["verified"]:
        raise SystemExit("the record does not verify")
    bare = [sys.executable, "-c", "import sigstore.verify"]
    return {
        "appliance verify, cold": milliseconds(lambda: typed(*words), _COLD_REPEATS),
        "floor: python -c 'import sigstore.verify'": milliseconds(
            lambda: subprocess.run(bare, check=True), _COLD_REPEATS
        ),
    }


if __name__ == "__main__":
    main()
