"""Challenges: handed out and signed by a store, met by one run, and refused in every other place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.policy import read_policy
from appliance.audit.trust import open_or_init_local
from appliance.digests import sha256_hex
from appliance.records.record import Record
from appliance.submissions.challenge import Challenge, ChallengedPolicy, ChallengedSuite, moment, new_challenge
from appliance.submissions.issuing import issue
from appliance.submissions.store import Store
from appliance.tasks.reader import read_suite
from attest import statement
from attest.verification import verify_statement
from tests import record_builder as build
from tests.submissions_bench import Receiver, Sender, files_of, genuine, home_of, policy_text, taken_at, trials
from tests.tasks_made import make_task

SUITE = sha256_hex(b"suite")
REQUIRED = '[freshness]\nchallenge = "required"\n'


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "sender")


@pytest.fixture
def receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sender: Sender
) -> Receiver:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    found = Receiver(tmp_path / "receiver", capsys)
    found.keeps(sender, more=REQUIRED)
    return found


def issued(receiver: Receiver, *, ago: int = 1, suite: str = SUITE, policy: str | None = None) -> Challenge:
    """As `challenge new` makes it, `ago` hours ago, for a day."""
    keeper, _ = open_or_init_local()
    store = Store(receiver.store, (keeper.root, keeper.identity, keeper.issuer))
    found = read_policy(receiver.policy)
    with store.alone(keeper):
        challenge = new_challenge(
            ChallengedSuite(name="smoke", digest=suite),
            ChallengedPolicy(name=policy or found.name, version=found.version, sha256=found.digest),
            store.origin,
            timedelta(hours=24),
            datetime.now(UTC) - timedelta(hours=ago),
        )
        issue(store, challenge, keeper)
    return challenge


def met(challenge: Challenge, minutes: int = 5, run: str = "", **planned: Any) -> Record:
    """Of a run that began some minutes after it was issued; by default each minute is another run."""
    of = build.plan(("t1", "t2"), challenge=challenge.sha256, **planned)
    began = moment(challenge.issued_at) + timedelta(minutes=minutes)
    number = f"{run or f'run-{minutes}'}.{of.solver.name}"
    return build.record(of, trials(of, began=began), version="1.0", commit="1" * 40, record_id=number)


def reasons(document: Any) -> list[tuple[str, str]]:
    return [(one["word"], one["message"]) for record in document["records"] for one in record["reasons"]]


def test_a_record_that_meets_its_challenge_is_accepted_once(sender: Sender, receiver: Receiver) -> None:
    """Row P5: reused by a second run it is stale."""
    challenge = issued(receiver)
    receiver.intake(sender.submission(met(challenge), to="one"), sender)
    refused = receiver.intake(sender.submission(met(challenge, minutes=6), to="two"), sender, status=7)
    [(word, message)] = reasons(refused)
    assert word == "stale_challenge"
    assert "used already" in message


def test_one_run_of_several_solvers_meets_one_challenge(sender: Sender, receiver: Receiver) -> None:
    """Row P5: two records of one solver are two tries, whatever else their plans say, and so are two runs."""
    challenge = issued(receiver)
    records = (met(challenge, 5, "one"), met(challenge, 7, "one", solver="noop", kind="noop"))
    found = receiver.intake(sender.submission(*records, to="run"), sender)
    assert found["accepted"] == 2
    for at, (second, says) in enumerate(
        (
            ({}, "of the same solver and model"),
            ({"run": "tries", "passes": 2}, "of the same solver and model"),
            ({"run": "second", "solver": "noop", "kind": "noop"}, "of another run"),
        )
    ):
        again = issued(receiver)
        tries = [met(again, 8 + 3 * at, "tries"), met(again, 9 + 3 * at, **second)]
        refused = receiver.intake(sender.submission(*tries, to=f"tries{at}"), sender, status=7)
        [late] = [one for one in refused["records"] if one["status"] == "excluded"]
        assert says in late["reasons"][0]["message"]


def test_a_run_that_began_before_its_challenge_was_made_waits_for_a_person(sender: Sender, receiver: Receiver) -> None:
    """Rows P5, P8: a challenge cannot be known before it is there, whatever the sender's clock says."""
    refused = receiver.intake(sender.submission(met(issued(receiver), minutes=-10)), sender, status=7)
    assert (refused["quarantined"], {word for word, _ in reasons(refused)}) == (1, {"implausible"})


def test_an_expired_challenge_is_stale(sender: Sender, receiver: Receiver) -> None:
    """Row P5: by the receiver's clock."""
    refused = receiver.intake(sender.submission(met(issued(receiver, ago=25))), sender, status=7)
    [(word, message)] = reasons(refused)
    assert word == "stale_challenge"
    assert message.startswith("expired")


def test_a_record_that_came_in_time_and_was_mended_later_still_meets_it(sender: Sender, receiver: Receiver) -> None:
    """Row P5: the store's own index says when it was here first."""
    challenge = issued(receiver)
    record = met(challenge)
    lost = build.blob(build.PATCH).sha256
    receiver.intake(sender.submission(record, to="one", without=[lost]), sender, status=7)
    late = datetime.now(UTC) + timedelta(hours=25)
    taken = taken_at(receiver, sender, sender.submission(record, to="two"), late)
    assert [line.decision.status for line in taken.lines] == ["accepted"]


def test_a_challenge_that_this_store_never_issued_is_stale(sender: Sender, receiver: Receiver) -> None:
    """Row P5: unknown where nothing came along, foreign where its document names another store."""
    challenge = issued(receiver)
    elsewhere = challenge.model_copy(update={"nonce": sha256_hex(b"1"), "store": sha256_hex(b"other")})
    unknown = receiver.intake(sender.submission(met(elsewhere), to="unknown"), sender, status=7)
    assert reasons(unknown)[0][0] == "stale_challenge"
    assert reasons(unknown)[0][1].startswith("unknown here")
    folder = sender.submission(met(elsewhere, minutes=6), to="foreign")
    (folder / "challenges").mkdir()
    (folder / f"challenges/{elsewhere.sha256}.json").write_bytes(elsewhere.canonical())
    foreign = receiver.intake(folder, sender, status=7)
    assert "by another store" in reasons(foreign)[0][1]


def test_a_document_put_into_the_store_by_hand_was_not_issued(sender: Sender, receiver: Receiver) -> None:
    """Row P5: its signature says who issued it, not the folder that it lies in."""
    challenge = issued(receiver)
    forged = challenge.model_copy(update={"nonce": sha256_hex(b"mine")})
    kept = receiver.store / "challenges"
    (kept / f"{forged.sha256}.json").write_bytes(forged.canonical())
    (kept / f"{forged.sha256}.sigstore.json").write_bytes(
        (kept / f"{challenge.sha256}.sigstore.json").read_bytes(),
    )
    refused = receiver.intake(sender.submission(met(forged)), sender, status=7)
    assert reasons(refused)[0][1].startswith("unknown here")


def test_a_challenge_for_something_else_is_foreign(sender: Sender, receiver: Receiver) -> None:
    """Row P5: for another suite, for another policy."""
    other_suite = issued(receiver, suite=sha256_hex(b"another"))
    refused = receiver.intake(sender.submission(met(other_suite), to="one"), sender, status=7)
    assert "for suite smoke" in reasons(refused)[0][1]
    other_policy = issued(receiver, policy="another-board")
    refused = receiver.intake(sender.submission(met(other_policy, minutes=6), to="two"), sender, status=7)
    assert "for policy another-board" in reasons(refused)[0][1]


def test_none_where_one_is_required_is_stale_and_no_fault_elsewhere(sender: Sender, receiver: Receiver) -> None:
    """Row P5; a challenge that is given counts also where none is asked for."""
    assert reasons(receiver.intake(sender.submission(genuine()), sender, status=7))[0][0] == "stale_challenge"
    receiver.keeps(sender, version=2)
    receiver.intake(sender.submission(genuine(), to="again"), sender)
    expired = met(issued(receiver, ago=25), minutes=6)
    assert receiver.intake(sender.submission(expired, to="late"), sender, status=7)["excluded"] == 1


def test_a_check_holds_a_challenge_to_what_can_be_seen_of_it(sender: Sender, receiver: Receiver) -> None:
    """Without the store: its suite, its policy, its end."""
    for at, (challenge, status) in enumerate(
        ((issued(receiver), 0), (issued(receiver, ago=25), 7), (issued(receiver, policy="other"), 7))
    ):
        folder = sender.submission(met(challenge, minutes=5 + at), to=f"sent{at}")
        (folder / "challenges").mkdir()
        (folder / f"challenges/{challenge.sha256}.json").write_bytes(challenge.canonical())
        receiver.check(folder, sender, status=status)


@pytest.fixture
def listed(tmp_path: Path, sender: Sender, receiver: Receiver) -> Path:
    """A suite on disk that the policy takes."""
    make_task(tmp_path / "tasks/small")
    digest = read_suite(tmp_path / "tasks/small").digest
    receiver.policy.write_text(policy_text([sender], suite_digest=digest))
    return tmp_path / "tasks/small"


def test_a_new_challenge_is_signed_by_its_store_and_remembered(receiver: Receiver, listed: Path) -> None:
    """P5's other side: what is handed out is what the store knows, and no two are alike."""
    words = (
        "challenge",
        "new",
        "--suite",
        str(listed),
        "--policy",
        str(receiver.policy),
        "--into",
        str(receiver.store),
    )
    made = [receiver.json(*words, "--expires-in", "36h", "--to", str(receiver.home / f"{at}.json")) for at in range(2)]
    assert made[0]["nonce"] != made[1]["nonce"]
    assert made[0]["store"] == made[1]["store"] == receiver.shown()["store"]
    keeper, _ = open_or_init_local()
    content = Path(made[0]["challenge"]).read_bytes()
    bundle = Path(made[0]["bundle"]).read_bytes()
    signed = verify_statement(bundle, keeper.root, keeper.identity, keeper.issuer, statement.CHALLENGE_TYPE)
    statement.check_subject(signed.statement, content)
    assert signed.statement.predicate == json.loads(content)
    assert (receiver.store / f"challenges/{made[0]['sha256']}.json").read_bytes() == content
    issued_at, expires_at = (datetime.fromisoformat(made[0][key]) for key in ("issuedAt", "expiresAt"))
    assert expires_at - issued_at == timedelta(hours=36)
    receiver.json("schema", "check", str(receiver.home / "0.json"))


@pytest.mark.parametrize(
    ("flag", "word", "status"),
    [("--expires-in", "soon", 2), ("--expires-in", "9999d", 2), ("--suite", "nosuch", 2), ("--policy", "nowhere", 3)],
)
def test_a_challenge_that_cannot_be_made_leaves_nothing(
    receiver: Receiver, listed: Path, flag: str, word: str, status: int
) -> None:
    """One line, no store."""
    asked = {
        "--suite": str(listed),
        "--policy": str(receiver.policy),
        "--into": str(receiver.store),
        "--to": str(receiver.home / "c.json"),
    }
    asked[flag] = word
    receiver.json("challenge", "new", *[part for pair in asked.items() for part in pair], status=status)
    assert not receiver.store.exists()
    assert not (receiver.home / "c.json").exists()


def test_a_suite_that_the_policy_does_not_take_gets_no_challenge(
    receiver: Receiver, tmp_path: Path, sender: Sender
) -> None:
    """Nobody runs for hours what is excluded afterwards."""
    make_task(tmp_path / "tasks/other")
    refused = receiver.json(
        "challenge",
        "new",
        "--suite",
        str(tmp_path / "tasks/other"),
        "--policy",
        str(receiver.policy),
        "--into",
        str(receiver.store),
        "--to",
        str(receiver.home / "c.json"),
        status=2,
    )
    assert "takes no suite other" in refused["error"]["message"]


def test_challenges_of_two_stores_do_not_pass_for_each_other(
    sender: Sender, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row P5, foreign: the origin is the index's own."""
    with home_of(tmp_path / "second", monkeypatch):
        second = Receiver(tmp_path / "second", receiver.capsys)
        second.keeps(sender, more=REQUIRED)
        challenge = issued(second)
    folder = sender.submission(met(challenge))
    (folder / "challenges").mkdir()
    (folder / f"challenges/{challenge.sha256}.json").write_bytes(challenge.canonical())
    issued(receiver)
    before = files_of(receiver.store / "challenges")
    refused = receiver.intake(folder, sender, status=7)
    assert "by another store" in reasons(refused)[0][1]
    assert files_of(receiver.store / "challenges") == before


def test_a_signature_whose_document_was_never_written_goes_with_the_next_intake(
    sender: Sender, receiver: Receiver
) -> None:
    """Row P10: what a kill between the two leaves; a challenge that was handed out stays."""
    lost, kept = issued(receiver), issued(receiver)
    folder = receiver.store / "challenges"
    (folder / f"{lost.sha256}.json").unlink()
    receiver.intake(sender.submission(met(kept)), sender)
    assert sorted(path.name for path in folder.iterdir()) == [f"{kept.sha256}.json", f"{kept.sha256}.sigstore.json"]
