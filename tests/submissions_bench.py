"""A sender and a receiver on one machine: each a home of his own, records of the builder, real signatures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.policy import read_policy
from appliance.audit.trust import bundle_path, claims_of, open_or_init_local
from appliance.cli import output
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.plan import TrialPlan, trial_keys
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.submissions.examining import Terms
from appliance.submissions.intake import Taken, take_in
from appliance.submissions.roots import roots_of
from appliance.submissions.store import Store
from attest import vsa
from attest.trust.local import LocalTrust, open_or_init
from tests import record_builder as build

WALLS = (1.137, 2.251, 0.894, 3.378, 1.723, 2.619, 1.512, 0.967)


FIRST_HOUR = datetime(2026, 1, 2, 10, tzinfo=UTC)
"""Later than a record of the builder is dated."""


def trials(of: TrialPlan, hour: int = 5, *, began: datetime | None = None, **changes: Any) -> list[TrialResult]:
    """One after the other, as they take; `hour`, or `began`, makes another run of them."""
    began = began or FIRST_HOUR + timedelta(hours=hour)
    found = []
    for at, key in enumerate(trial_keys(of)):
        wall = WALLS[at % len(WALLS)] + at // len(WALLS) / 1000
        started = f"{began + timedelta(seconds=at * 5):%Y-%m-%dT%H:%M:%SZ}"
        found.append(build.trial(key, wall=wall, started_at=started, **changes))
    return found


def genuine(of: TrialPlan | None = None, hour: int = 5, **stamped: Any) -> Record:
    of = of or build.plan(("t1", "t2"))
    number = f"0192f0c4-1111-7000-8000-{hour:012}"
    stamped = {"record_id": number, "version": "1.0", "commit": "1" * 40, **stamped}
    return build.record(of, trials(of, hour), **stamped)


def equal_walls() -> Record:
    """Twenty trials that took the same nanosecond."""
    of = build.plan(tuple(f"t{at:02}" for at in range(20)))
    found = [trial.model_copy(update={"wall_seconds": 1.234567891}) for trial in trials(of)]
    found = [one.model_copy(update={"energy": build.estimated_energy(1.234567891)}) for one in found]
    return build.record(of, found, version="1.0", commit="1" * 40)


@dataclass
class Sender:
    """Somebody with a key of his own, and a folder of submissions."""

    home: Path
    trust: LocalTrust = field(init=False)

    def __post_init__(self) -> None:
        self.trust = open_or_init(self.home / "trust")

    def submission(
        self, *records: Record, to: str = "sent", unsigned: bool = False, without: Sequence[str] = ()
    ) -> Path:
        """Packed by hand: `without` are digests of blobs that stay away."""
        folder = self.home / to
        for record in records:
            self.add(folder, record, unsigned=unsigned, without=without)
        return folder

    def add(
        self,
        folder: Path,
        record: Record,
        *,
        name: str | None = None,
        unsigned: bool = False,
        without: Sequence[str] = (),
    ) -> Path:
        content = record.canonical()
        path = folder / "records" / f"{name or sha256_hex(content)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if not unsigned:
            bundle_path(path).write_bytes(self.signed(record))
        blobs = folder / "blobs/sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        for sha256, blob in build.blobs(record).items():
            if sha256 not in without:
                (blobs / sha256).write_bytes(blob)
        return path

    def signed(self, record: Record) -> bytes:
        from attest.signing import sign_record

        return sign_record(self.trust, record.canonical(), claims_of(record))

    @property
    def entry(self) -> str:
        """As a policy lists him."""
        return "\n".join(
            f'{key} = "{value}"'
            for key, value in (
                ("root_sha256", self.trust.root.sha256),
                ("identity", self.trust.identity),
                ("issuer", self.trust.issuer),
            )
        )

    def reproduced(
        self,
        record: Record,
        bundle: bytes,
        verdict: str = "reproduced",
        *,
        verifier: str | None = None,
        trials: tuple[int, int] | None = None,
    ) -> bytes:
        """His signed summary of having run its plan again; `verifier`: the id that he gives himself; `trials`: how many
        he compared, of how many he says that there are; all that the record has, if not said."""
        from attest import statement
        from attest.signing import sign_statement

        about = sha256_hex(record.canonical())
        compared, recorded = trials or (len(record.trials), len(record.trials))
        details = vsa.Reproduced(
            again=sha256_hex(b"again"),
            verdict=sha256_hex(b"verdict"),
            checked="verified",
            compared_trials=compared,
            recorded_trials=recorded,
            outcome=verdict,  # type: ignore[arg-type]  # a test names it
            energy="reproduced",
            cost="reproduced",
        )
        digest = sha256_hex(bundle)
        summary = vsa.summary(
            verifier or self.trust.identity,
            {"bench-appliance": "0"},
            vsa.record_uri(about),
            ("urn:policy", sha256_hex(b"policy")),
            ((f"urn:{digest}", digest),),
            details,
        )
        return sign_statement(self.trust, vsa.build(summary, "record.json", about), statement.VSA_TYPE)


@dataclass
class Receiver:
    """A store, a policy, and what is typed there."""

    home: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def policy(self) -> Path:
        return self.home / "policy.toml"

    def keeps(self, *senders: Sender, **changes: Any) -> None:
        """A policy that takes these senders' records of the builder's suite."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.policy.write_text(policy_text(senders, **changes))

    def words(self, verb: str, folder: Path, *senders: Sender) -> list[str]:
        roots = [word for one in senders for word in ("--trusted-root", str(one.trust.root_path))]
        into = ["--into", str(self.store)] if verb == "intake" else []
        return ["submission", verb, str(folder), *into, "--policy", str(self.policy), *roots]

    def intake(self, folder: Path, *senders: Sender, status: int = 0) -> Any:
        return self.json(*self.words("intake", folder, *senders), status=status)

    def check(self, folder: Path, *senders: Sender, status: int = 0) -> Any:
        return self.json(*self.words("check", folder, *senders), status=status)

    def json(self, *words: str, status: int = 0) -> Any:
        self.capsys.readouterr()
        output._emitted = False  # one process stands for many commands
        ended = run([*words, "--json"])
        said = self.capsys.readouterr()
        assert ended == status, f"{words}: {ended}\n{said.out}\n{said.err}"
        return json.loads(said.out)

    def shown(self) -> Any:
        return self.json("submission", "show", str(self.store))


def policy_text(
    senders: Sequence[Sender],
    *,
    name: str = "example",
    version: int = 1,
    least_tier: str = "auditable",
    verifiers: Sequence[Sender] = (),
    verifier_more: str = "",
    more: str = "",
    suite_more: str = "any_image = true\nany_tasks = true",
    suite_digest: str = sha256_hex(b"suite"),
    stamps: str = '[stamps]\nharness = "any"\n',
) -> str:
    head = f'schema = "policy-v1"\nname = "{name}"\nversion = {version}\nleast_tier = "{least_tier}"\n'
    signers = "".join(f"[[signers]]\n{one.entry}\n" for one in senders)
    others = "".join(f'[[verifiers]]\n{one.entry}\nid = "{one.trust.identity}"\n{verifier_more}' for one in verifiers)
    limits = "[suites.limits]\nwall_seconds = 600.0\n"
    suite = f'[[suites]]\nname = "smoke"\ndigest = "{suite_digest}"\nnetwork = "none"\n{suite_more}\n{limits}'
    return head + signers + others + suite + stamps + more


@contextmanager
def home_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(folder / "share"))
        patched.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield


def files_of(folder: Path) -> dict[str, str]:
    """Every file below, with its digest: equal where nothing was written."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def terms_at(receiver: Receiver, sender: Sender, now: datetime) -> Terms:
    """As typed at another moment."""
    policy = read_policy(receiver.policy)
    roots, _ = roots_of(policy, [sender.trust.root_path])
    return Terms(policy, roots, now)


def taken_at(receiver: Receiver, sender: Sender, folder: Path, now: datetime) -> Taken:
    """An intake at another moment."""
    keeper, _ = open_or_init_local()
    store = Store(receiver.store, (keeper.root, keeper.identity, keeper.issuer))
    terms = terms_at(receiver, sender, now)
    _, stamps = roots_of(terms.policy, [sender.trust.root_path])
    return take_in(folder, store, terms, stamps, keeper)
