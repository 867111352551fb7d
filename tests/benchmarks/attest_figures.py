"""Figures of signing and verifying: `python -m tests.benchmarks.attest_figures`. Nothing is asserted.

Each figure stands beside what bounds it and beside a floor measured in the same run: a shared machine makes both slow.
CPU time says more than wall time there, and the ratio of two more than either.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jsonschema import Draft202012Validator
from sigstore.models import Bundle
from sigstore.verify import Verifier, policy

from appliance import schemas
from appliance.audit.checks import record_checks
from appliance.audit.opened import Opened
from appliance.audit.trust import agreement_check, bundle_path, claims_of
from appliance.cli.verify_many import uncollected
from appliance.energy.readings import unpack
from appliance.files import store_blob
from appliance.records.plan import trial_keys
from appliance.records.record import Record
from attest import library, verify
from attest.local.log import Head
from attest.local.merkle import Frontier, leaf_hash
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests import measured_builder, record_builder

_REPEATS = 20
_COLD_REPEATS = 5
_ENTRIES = 100_000
_RECORDS = 1_000


@dataclass(frozen=True)
class Figure:
    wall_ms: float
    """Median."""
    cpu_ms: float
    """The least: what others did to our caches only adds."""


def measured(act: Callable[[], object], repeats: int = _REPEATS) -> Figure:
    act()
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        act()
        walls.append((time.perf_counter() - wall) * 1e3)
        processors.append((time.process_time() - processor) * 1e3)
    return Figure(statistics.median(walls), min(processors))


def measured_command(words: list[str], environment: dict[str, str], repeats: int) -> Figure:
    walls, processors = [], []
    for _ in range(repeats):
        wall, before = time.perf_counter(), _children_s()
        subprocess.run(words, env=environment, check=True, capture_output=True)
        walls.append((time.perf_counter() - wall) * 1e3)
        processors.append((_children_s() - before) * 1e3)
    return Figure(statistics.median(walls), min(processors))


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@dataclass(frozen=True)
class Signed:
    """A record in a run folder, signed."""

    name: str
    folder: Path
    record: Record
    content: bytes
    bundle: bytes
    samples: int

    @property
    def path(self) -> Path:
        return self.folder / "records/agent.json"

    @property
    def most_ms(self) -> float:
        return 10 + 0.1 * len(self.record.trials) + 0.020 * self.samples


def signed(trust: LocalTrust, folder: Path, name: str, record: Record, blobs: dict[str, bytes]) -> Signed:
    for digest, content in blobs.items():
        store_blob(folder / "blobs", content, digest)
    content = record.canonical()
    one = Signed(name, folder, record, content, sign_record(trust, content, claims_of(record)), _samples(record, blobs))
    one.path.parent.mkdir(parents=True)
    one.path.write_bytes(content)
    bundle_path(one.path).write_bytes(one.bundle)
    return one


def _samples(record: Record, blobs: dict[str, bytes]) -> int:
    """Of all windows and looks at rest that a verification reads."""
    refs = [look.readings for look in record.meter.idle or ()]
    refs += [trial.energy.readings for trial in record.trials if trial.energy and trial.energy.readings]
    return sum(sum(1 for _ in unpack(blobs[ref.sha256]).samples()) for ref in refs)


def several(trust: LocalTrust, home: Path) -> tuple[Signed, ...]:
    def windows(seconds: float, count: int) -> measured_builder.Measured:
        of = measured_builder.plan([f"t{number}" for number in range(count)])
        return measured_builder.measured(
            of, readings=lambda at: measured_builder.window(at, seconds=seconds, cpu={"solver": 0.3})
        )

    short, long = windows(1.02, 16), windows(600, 1)
    of = record_builder.plan([f"t{number}" for number in range(164)])
    estimated = record_builder.record(of, [record_builder.trial(key) for key in trial_keys(of)])
    return (
        signed(trust, home / "short", "16 trials of a second, measured", short.record, short.blobs),
        signed(trust, home / "long", "one trial of ten minutes, measured", long.record, long.blobs),
        signed(trust, home / "many", "164 trials, estimated", estimated, record_builder.blobs(estimated)),
    )


def whole(trust: LocalTrust, one: Signed) -> None:
    with uncollected():  # as the command does
        _whole(trust, one)


def _whole(trust: LocalTrust, one: Signed) -> None:
    opened = Opened()
    checks = [*record_checks(one.folder / "blobs", False, opened=opened), agreement_check(opened)]
    verify(one.content, one.bundle, trust.root, trust.identity, ISSUER, checks)


def in_process(trust: LocalTrust, one: Signed) -> Iterator[tuple[str, Figure, float | None]]:
    bare = Verifier(trusted_root=library.load_root(trust.root))
    exact = policy.Identity(identity=trust.identity, issuer=ISSUER)
    yield f"verify: {one.name}, {one.samples} samples", measured(lambda: whole(trust, one)), one.most_ms
    yield (
        "  of it, the 18 checks of signature and form",
        measured(lambda: verify(one.content, one.bundle, trust.root, trust.identity, ISSUER)),
        None,
    )
    yield (
        "  floor: sigstore's own verify_dsse",
        measured(lambda: bare.verify_dsse(Bundle.from_json(one.bundle), exact)),
        None,
    )
    yield "  floor: json.loads, and the model of the record", measured(lambda: _read(one.content)), None


def _read(content: bytes) -> None:
    json.loads(content)
    Record.model_validate_json(content)


def schema(one: Signed) -> Iterator[tuple[str, Figure, float | None]]:
    value = json.loads(one.content)
    plain = Draft202012Validator(json.loads(schemas.committed("record-v1")))
    yield f"JSON Schema: {one.name}", measured(lambda: schemas.first_problem("record-v1", value)), None
    yield "  the plain library", measured(lambda: plain.is_valid(value), 3), None


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


def signing(trust: LocalTrust, one: Signed) -> Iterator[tuple[str, Figure, float | None]]:
    claims = claims_of(one.record)

    def sign() -> bytes:
        return sign_record(trust, one.content, claims)

    yield f"sign: {one.name}, a short log (it is verified before it is kept)", measured(sign), 60
    fill(trust, (trust.folder / "log/entries.jsonl").read_bytes().splitlines()[0], _ENTRIES)
    yield f"sign: the same, {trust.log.head().size} entries in the log", measured(sign), 60
    yield f"  audit of {trust.log.head().size} entries", measured(trust.log.audit, 2), None


def commands(home: Path, one: Signed) -> Iterator[tuple[str, Figure, float | None]]:
    """As processes of their own, python's start included."""
    environment = {**os.environ, "XDG_DATA_HOME": str(home / "share"), "XDG_CONFIG_HOME": str(home / "config")}
    program = [sys.executable, "-m", "appliance.cli.main"]
    subprocess.run([*program, "trust", "init"], env=environment, check=True, capture_output=True)
    words = [*program, "verify", str(one.path), "--trust", "local", "--json"]
    yield "appliance verify, cold", measured_command(words, environment, _COLD_REPEATS), None
    bare = [sys.executable, "-c", "import sigstore.verify"]
    yield "  floor: python -c 'import sigstore.verify'", measured_command(bare, environment, _COLD_REPEATS), None
    many = home / "thousand"
    (many / "records").mkdir(parents=True)
    shutil.copytree(one.folder / "blobs", many / "blobs")
    for number in range(_RECORDS):
        shutil.copy(one.path, many / f"records/{number:04}.json")
        shutil.copy(bundle_path(one.path), many / f"records/{number:04}.sigstore.json")
    words = [*program, "verify", str(many), "--trust", "local"]
    name = f"appliance verify, {_RECORDS} records of {one.name}, {len(os.sched_getaffinity(0))} processors"
    # Two processors for 15 s are 30 s of CPU time.
    yield name, measured_command(words, environment, 1), 30_000


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        trust = open_or_init(home / "share/bench-appliance/trust/local")
        records = several(trust, home)
        # As the command does: what was imported is not looked through again for every record.
        gc.freeze()
        sys.stdout.write("  wall ms    cpu ms   at most\n")
        for one in records:
            _show(in_process(trust, one))
        _show(schema(records[-1]))
        _show(commands(home, records[0]))
        _show(signing(trust, records[0]))
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        sys.stdout.write(f"{most:9} MiB at most in one process of a command\n")
        for one in records:
            sys.stdout.write(f"{len(one.bundle):9} bytes of bundle, {len(one.content)} of record: {one.name}\n")


def _show(figures: Iterator[tuple[str, Figure, float | None]]) -> None:
    for name, figure, most in figures:
        bound = f"{most:9.1f}" if most is not None else " " * 9
        sys.stdout.write(f"{figure.wall_ms:9.1f} {figure.cpu_ms:9.1f} {bound}  {name}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
