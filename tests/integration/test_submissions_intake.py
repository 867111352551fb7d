"""A stranger's records before a receiver: each accepted, excluded or quarantined, and the reasons are signed."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import bundle_path, open_or_init_local
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.record import Record
from appliance.submissions import summaries
from attest import canonical, statement, vsa
from attest.verification import verify_statement
from tests import record_builder as build
from tests.attest_forge import Forge
from tests.submissions_bench import (
    Receiver,
    Sender,
    equal_walls,
    files_of,
    genuine,
    home_of,
    policy_text,
    taken_at,
)

REPORTED = "reported"


@dataclass
class Both:
    sender: Sender
    receiver: Receiver

    def intake(self, *records: Record, status: int = 0, to: str = "sent", **how: Any) -> Any:
        return self.receiver.intake(self.sender.submission(*records, to=to, **how), self.sender, status=status)


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Both:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    found = Both(Sender(tmp_path / "sender"), Receiver(tmp_path / "receiver", capsys))
    found.receiver.keeps(found.sender)
    return found


def only(document: Any) -> Any:
    [record] = document["records"]
    return record


def words(document: Any) -> list[str]:
    return [reason["word"] for reason in only(document)["reasons"]]


def verdict_of(line: Any) -> vsa.Vsa:
    """Its signed summary, held to the receiver's own trust."""
    keeper, _ = open_or_init_local()
    bundle = Path(line["verdictPath"]).read_bytes()
    assert sha256_hex(bundle) == line["verdict"]
    signed = verify_statement(bundle, keeper.root, keeper.identity, keeper.issuer, statement.VSA_TYPE)
    summary, record = vsa.read(signed)
    assert record == line["record"]
    return summary


def test_a_good_submission_is_accepted_as_auditable_with_a_signed_verdict(both: Both) -> None:
    """Rows P1, A55: the index grows by one line, its checkpoint follows from the last, and the summary names record,
    bundle, policy and verifier by their digests."""
    first = both.intake(genuine(hour=5), to="one")
    second = both.intake(genuine(hour=6), to="two")
    assert (first["accepted"], only(first)["tier"], only(first)["reasons"]) == (1, "auditable", [])
    assert [document["checkpoint"]["size"] for document in (first, second)] == [1, 2]
    previous = second["checkpoint"]["previous"]
    assert (previous["size"], previous["root"]) == (1, first["checkpoint"]["root"])
    line = only(second)
    summary = verdict_of(line)
    assert summary.passed
    assert summary.verified_levels == ("BENCH_TIER_AUDITABLE",)
    assert summary.bundles == (line["bundle"],)
    assert summary.policy.digest.sha256 == sha256_hex(both.receiver.policy.read_bytes())
    assert summary.verifier.id == open_or_init_local()[0].identity
    assert set(summary.verifier.version) == {"bench-appliance", "bench-appliance/sha256"}
    kept = both.receiver.store / "records"
    assert sha256_hex((kept / f"{line['record']}.json").read_bytes()) == line["record"]
    assert sha256_hex((kept / f"{line['record']}.sigstore.json").read_bytes()) == line["bundle"]
    assert {path.name for path in (both.receiver.store / "blobs/sha256").iterdir()} >= set(build.blobs(genuine()))


def test_an_unsigned_record_is_taken_as_reported_only_where_the_policy_takes_that(both: Both) -> None:
    """Rows P2, A55: with its journal it is accepted as `reported` and shown after those that somebody signed; under
    another policy it is excluded."""
    unsigned, signed = genuine(hour=5), genuine(hour=6)
    refused = both.intake(unsigned, to="plain", unsigned=True, status=7)
    assert (only(refused)["status"], words(refused)) == ("excluded", ["policy"])
    assert "nobody signed it" in only(refused)["reasons"][0]["message"]
    both.receiver.keeps(both.sender, version=2, least_tier=REPORTED)
    assert only(both.intake(unsigned, to="plain", unsigned=True))["tier"] == "reported"
    assert only(both.intake(signed, to="signed"))["tier"] == "auditable"
    both.receiver.capsys.readouterr()
    assert run(["submission", "show", str(both.receiver.store)]) == 0
    tiers = [line.split()[1] for line in both.receiver.capsys.readouterr().out.splitlines() if "accepted" in line]
    assert tiers == ["auditable", "reported"]


def test_an_unsigned_record_without_its_journal_is_excluded(both: Both) -> None:
    """Row P2: a bare claim is no report."""
    both.receiver.keeps(both.sender, least_tier=REPORTED)
    record = genuine()
    refused = both.intake(record, unsigned=True, without=[record.journal.sha256], status=7)
    assert words(refused) == ["blob_missing"]


@pytest.fixture
def doubter(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "doubter")


def _with_summary(folder: Path, summary: Callable[[bytes], bytes]) -> None:
    """Made of the bundle that goes along."""
    [bundle] = (folder / "records").glob("*.sigstore.json")
    (folder / "verdicts").mkdir()
    (folder / "verdicts/reproduced.sigstore.json").write_bytes(summary(bundle.read_bytes()))


def test_a_listed_verifiers_reproduction_makes_a_record_verified(both: Both, doubter: Sender) -> None:
    """Rows P3, A55: the summary names this record and this bundle; it is kept beside the verdict."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle))
    line = only(both.receiver.intake(folder, both.sender, doubter))
    assert (line["status"], line["tier"]) == ("accepted", "verified")
    [kept] = line["reproductions"]
    assert (both.receiver.store / f"verdicts/{kept}.sigstore.json").exists()
    assert verdict_of(line).verified_levels == ("BENCH_TIER_VERIFIED",)


def test_a_summary_that_comes_later_raises_what_was_accepted(both: Both, doubter: Sender) -> None:
    """Rows P3, P4: the same record and bundle once more, with better evidence: verified now, and then a replay."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    assert only(both.receiver.intake(folder, both.sender, doubter))["tier"] == "auditable"
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle))
    assert only(both.receiver.intake(folder, both.sender, doubter))["tier"] == "verified"
    assert words(both.receiver.intake(folder, both.sender, doubter, status=7)) == ["replayed"]
    [shown] = both.receiver.shown()["records"]
    assert (shown["status"], shown["tier"]) == ("accepted", "verified")


def test_nobody_is_kept_from_signing_by_who_sent_his_record_first(both: Both) -> None:
    """Rows P2, P4: as reported it was accepted, under its own name and another; signed it is auditable."""
    both.receiver.keeps(both.sender, least_tier=REPORTED)
    record = genuine()
    both.intake(record, to="taken", unsigned=True)
    assert only(both.intake(record, to="signed"))["tier"] == "auditable"
    other = genuine(hour=6)
    both.intake(genuine(hour=6, record_id="renamed"), to="renamed", unsigned=True)
    assert only(both.intake(other, to="own"))["tier"] == "auditable"
    assert (both.receiver.store / f"records/{sha256_hex(record.canonical())}.sigstore.json").exists()


def _of_another_record(doubter: Sender, record: Record, bundle: bytes) -> bytes:
    return doubter.reproduced(genuine(hour=9), bundle)


def _of_another_bundle(doubter: Sender, record: Record, bundle: bytes) -> bytes:
    return doubter.reproduced(record, bundle + b" ")


def _by_nobody(doubter: Sender, record: Record, bundle: bytes) -> bytes:
    return Sender(doubter.home / "other").reproduced(record, bundle)


def _under_another_id(doubter: Sender, record: Record, bundle: bytes) -> bytes:
    return doubter.reproduced(record, bundle, verifier="https://somebody.invalid/")


@pytest.mark.parametrize("forged", [_of_another_record, _of_another_bundle, _by_nobody, _under_another_id])
def test_a_summary_that_is_not_about_this_record_by_a_listed_verifier_counts_for_nothing(
    both: Both, doubter: Sender, forged: Any
) -> None:
    """Row P3: tier auditable, as without it."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: forged(doubter, record, bundle))
    line = only(both.receiver.intake(folder, both.sender, doubter))
    assert (line["tier"], line["reproductions"]) == ("auditable", [])


@pytest.mark.parametrize(
    ("trials", "more", "tier"),
    [
        ((1, 2), "", "verified"),  # a sample, which the policy does not ask to be larger
        ((1, 2), "least_compared_share = 0.5\n", "verified"),
        ((1, 2), "least_compared_share = 0.51\n", "auditable"),
        ((1, 1), "", "auditable"),
        ((2, 3), "", "auditable"),
    ],
)
def test_a_reproduction_counts_by_the_trials_that_the_record_has(
    both: Both, doubter: Sender, trials: tuple[int, int], more: str, tier: str
) -> None:
    """Row P3: not by what a summary says that there are; and how many were run again is the policy's to ask."""
    both.receiver.keeps(both.sender, verifiers=[doubter], verifier_more=more)
    record = genuine()
    assert len(record.trials) == 2
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle, trials=trials))
    line = only(both.receiver.intake(folder, both.sender, doubter))
    assert (line["tier"], len(line["reproductions"])) == (tier, tier == "verified")


def test_one_summary_counts_once_however_often_it_is_written_down(both: Both, doubter: Sender) -> None:
    """Rows P3, P11: copies with other white space neither fill the index nor keep the submission out, and
    each is checked once, whichever records it lies beside."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle))
    both.sender.submission(genuine(hour=6))
    said = (folder / "verdicts/reproduced.sigstore.json").read_bytes()
    for at in range(1, 20):
        (folder / f"verdicts/{at}.sigstore.json").write_bytes(said + b" " * at)
    taken = both.receiver.intake(folder, both.sender, doubter)
    tiers = {one["record"]: (one["tier"], len(one["reproductions"])) for one in taken["records"]}
    assert tiers.pop(sha256_hex(record.canonical())) == ("verified", 1)
    assert list(tiers.values()) == [("auditable", 0)]
    assert taken["verdictsPassedOver"] == []


def test_each_summary_is_checked_once_whatever_record_it_is_about(
    both: Both, doubter: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row P11: what strangers send costs by its length, not by its length times the records; one that claims another
    name than a verifier's costs no verification at all."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle))
    [bundle] = (folder / "records").glob("*.sigstore.json")
    stranger = Sender(doubter.home / "stranger")
    (folder / "verdicts/other.sigstore.json").write_bytes(stranger.reproduced(record, bundle.read_bytes()))
    both.sender.submission(genuine(hour=6))
    checked: list[str] = []

    def counting(content: bytes, *held_to: Any) -> Any:
        checked.append(sha256_hex(content))
        return verify_statement(content, *held_to)

    monkeypatch.setattr(summaries, "verify_statement", counting)
    assert both.receiver.check(folder, both.sender, doubter)["accepted"] == 2
    assert checked == [sha256_hex((folder / "verdicts/reproduced.sigstore.json").read_bytes())]


def test_what_was_accepted_comes_to_a_person_where_a_listed_verifier_saw_it_fail(both: Both, doubter: Sender) -> None:
    """Rows P3, P8: whoever brings his word; once a person has released it, it stays."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    accepted = only(both.receiver.intake(folder, both.sender, doubter))["record"]
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle, "diverged"))
    doubted = both.receiver.intake(folder, both.sender, doubter, status=7)
    assert (only(doubted)["status"], words(doubted)) == ("quarantined", ["implausible"])
    kept = both.receiver.store
    assert [path.name[:64] for path in (kept / "quarantine").glob("*")] == [accepted, accepted]
    assert not list((kept / "records").glob("*"))
    both.receiver.json("submission", "release", str(kept), accepted, "--reason", "ran it again, it held")
    assert words(both.receiver.intake(folder, both.sender, doubter, status=7)) == ["replayed"]
    assert [one["status"] for one in both.receiver.shown()["records"]] == ["accepted"]


def test_a_listed_verifier_who_saw_it_diverge_puts_it_into_quarantine(both: Both, doubter: Sender) -> None:
    """Rows P3, P8: a person looks at it before it counts."""
    both.receiver.keeps(both.sender, verifiers=[doubter])
    record = genuine()
    folder = both.sender.submission(record)
    _with_summary(folder, lambda bundle: doubter.reproduced(record, bundle, "diverged"))
    refused = both.receiver.intake(folder, both.sender, doubter, status=7)
    assert (only(refused)["status"], words(refused)) == ("quarantined", ["implausible"])


def test_the_same_record_under_another_name_is_replayed(both: Both) -> None:
    """Rows P4, V22: later, and twice in one submission."""
    record = genuine()
    both.intake(record, to="one")
    folder = both.sender.home / "two"
    both.sender.add(folder, record, name="another")
    replayed = both.receiver.intake(folder, both.sender, status=7)
    assert (only(replayed)["status"], words(replayed)) == ("excluded", ["replayed"])
    assert only(replayed)["reasons"][0]["message"].startswith("this very record was received at ")
    assert not verdict_of(only(replayed)).passed
    assert [one["status"] for one in both.receiver.shown()["records"]] == ["accepted"]
    third = both.sender.home / "three"
    for name in ("a", "b"):
        both.sender.add(third, genuine(hour=7), name=name)
    found = both.receiver.intake(third, both.sender, status=7)["records"]
    assert [one["status"] for one in found] == ["accepted", "excluded"]
    assert found[1]["reasons"][0]["message"] == "the same record as records/a.json"


def test_the_same_trials_under_a_new_invocation_id_are_replayed(both: Both) -> None:
    """Row P4: what its trials hold is compared, whatever the record calls itself."""
    record = genuine()
    both.intake(record, to="one")
    renamed = genuine(record_id="0192f0c4-2222-7000-8000-000000000002")
    assert renamed.canonical() != record.canonical()
    replayed = both.intake(renamed, to="two", status=7)
    assert words(replayed) == ["replayed"]
    assert only(replayed)["reasons"][0]["where"] == "$.trials"


def test_an_excluded_record_may_come_again_once_it_is_mended(both: Both) -> None:
    """Row P6: what was missing is given; its state is the one that it has now."""
    record = genuine()
    lost = build.blob(build.PATCH).sha256
    assert words(both.intake(record, to="one", without=[lost], status=7)) == ["blob_missing"]
    assert only(both.intake(record, to="two"))["status"] == "accepted"
    assert [one["status"] for one in both.receiver.shown()["records"]] == ["accepted"]


@pytest.mark.parametrize(
    ("blob", "named"),
    [(build.PATCH, build.blob(build.PATCH).sha256), (build.PRINTED, build.blob(build.PRINTED).sha256)],
)
def test_a_blob_that_is_not_there_is_named(both: Both, blob: bytes, named: str) -> None:
    """Row P6."""
    refused = both.intake(genuine(), without=[named], status=7)
    assert words(refused) == ["blob_missing"]
    assert named in only(refused)["reasons"][0]["message"]


def test_a_required_blob_that_was_not_given_is_named(both: Both) -> None:
    """Row P6: the policy asks for the suite's archive, and the record has none."""
    both.receiver.keeps(both.sender, suite_more="any_image = true", more='[blobs]\nrequired = ["journal", "suite"]\n')
    refused = both.intake(genuine(), status=7)
    assert set(words(refused)) == {"blob_missing"}
    assert any("suite" in (reason["where"] or "") + reason["message"] for reason in only(refused)["reasons"])


def test_an_altered_blob_is_named(both: Both) -> None:
    """Rows P6, A43: of the same length, and of another."""
    for at, altered in enumerate((build.PRINTED.upper(), build.PRINTED + b"more")):
        folder = both.sender.submission(genuine(), to=f"sent{at}")
        (folder / "blobs/sha256" / build.blob(build.PRINTED).sha256).write_bytes(altered)
        refused = both.receiver.intake(folder, both.sender, status=7)
        assert words(refused) == ["blob_mismatch"]
        assert "streams.stdout" in only(refused)["reasons"][0]["where"]


def _other_suite(both: Both) -> str:
    return policy_text([both.sender], suite_digest=sha256_hex(b"another"))


def _other_image(both: Both) -> str:
    return policy_text([both.sender], suite_more=f'images = ["sha256:{"0" * 64}"]\nany_tasks = true')


def _other_limit(both: Both) -> str:
    return policy_text([both.sender]).replace("wall_seconds = 600.0", "wall_seconds = 60.0")


def _other_network(both: Both) -> str:
    return policy_text([both.sender]).replace('network = "none"', 'network = "open"')


@pytest.mark.parametrize(
    ("policy", "wanted", "found"),
    [
        (_other_suite, sha256_hex(b"another")[:12], sha256_hex(b"suite")[:12]),
        (_other_image, "0" * 12, build.pin().config[7:19]),
        (_other_limit, "60", "600"),
        (_other_network, "open", "none"),
    ],
)
def test_what_is_not_the_policys_is_excluded_with_field_wanted_and_found(
    both: Both, policy: Any, wanted: str, found: str
) -> None:
    """Rows P7, H5."""
    both.receiver.policy.write_text(policy(both))
    refused = both.intake(genuine(), status=7)
    assert only(refused)["status"] == "excluded"
    assert set(words(refused)) == {"policy"}
    said = [f"{reason['where']}: {reason['message']}" for reason in only(refused)["reasons"]]
    assert any(wanted in text and found in text for text in said), said


def test_what_is_beyond_belief_waits_for_a_person_with_every_check_that_failed(both: Both) -> None:
    """Row P8: neither counted nor dropped; the record and its blobs are kept."""
    refused = both.intake(equal_walls(), status=7)
    line = only(refused)
    assert line["status"] == "quarantined"
    assert set(words(refused)) == {"implausible"}
    assert (both.receiver.store / f"quarantine/{line['record']}.json").exists()
    assert not list((both.receiver.store / "records").glob("*"))
    assert not verdict_of(line).passed


def test_every_check_that_failed_is_said(both: Both) -> None:
    """Row P8: equal walls, and far beyond the limit that they ran under: two formulas, two reasons, one line."""
    record = equal_walls()
    late = [
        one.model_copy(update={"wall_seconds": 6001.234567891, "energy": build.estimated_energy(6001.234567891)})
        for one in record.trials
    ]
    told = build.record(record.plan, late, version="1.0", commit="1" * 40)
    refused = both.intake(told, status=7)
    assert only(refused)["status"] == "quarantined"
    messages = [reason["message"] for reason in only(refused)["reasons"]]
    assert len(messages) >= 2
    assert any("limit" in message for message in messages), messages
    details = verdict_of(only(refused)).details
    assert isinstance(details, vsa.Judged)
    assert [reason.message for reason in details.reasons] == messages


@pytest.mark.parametrize(
    ("act", "status", "tier"), [("release", "accepted", "auditable"), ("refuse", "excluded", None)]
)
def test_a_person_releases_or_refuses_it_and_signs_for_that(
    both: Both, act: str, status: str, tier: str | None
) -> None:
    """Row P8: the act names verdict and store; afterwards it can be neither done again nor sent again."""
    record = equal_walls()
    line = only(both.intake(record, status=7))
    store = str(both.receiver.store)
    done = both.receiver.json("submission", act, store, line["record"][:16], "--reason", "seen by hand")
    keeper, _ = open_or_init_local()
    signed = verify_statement(
        Path(done["statementPath"]).read_bytes(),
        keeper.root,
        keeper.identity,
        keeper.issuer,
        statement.SUBMISSION_ACT_TYPE,
    )
    assert statement.subject_sha256(signed.statement) == line["record"]
    assert signed.statement.predicate["verdict"] == line["verdict"]
    assert signed.statement.predicate["reason"] == "seen by hand"
    [shown] = both.receiver.shown()["records"]
    assert (shown["status"], shown["tier"], shown["act"]["act"]) == (status, tier, act)
    assert (both.receiver.store / f"records/{line['record']}.json").exists() == (act == "release")
    assert not list((both.receiver.store / "quarantine").glob("*.json"))
    both.receiver.json("submission", act, store, line["record"], "--reason", "again", status=2)
    assert words(both.intake(record, to="again", status=7))[0] == "replayed"


@pytest.mark.parametrize(
    ("reason", "says"), [("x" * 4097, "over the bound of 4096"), ("\udcff", "is not UTF-8"), (" ", "is empty")]
)
def test_a_reason_that_cannot_be_signed_is_refused_before_anything_is(both: Both, reason: str, says: str) -> None:
    """Row P8: status 2, and nothing is written."""
    waiting = only(both.intake(equal_walls(), status=7))["record"]
    before = files_of(both.receiver.store)
    refused = both.receiver.json(
        "submission", "release", str(both.receiver.store), waiting, "--reason", reason, status=2
    )
    assert says in refused["error"]["message"]
    assert refused["error"]["where"] == "--reason"
    assert files_of(both.receiver.store) == before


def test_no_reason_begins_a_line_of_its_own_where_a_store_is_shown(both: Both) -> None:
    """What a keeper or a sender wrote is a value, and forges no record's line."""
    waiting = only(both.intake(equal_walls(), status=7))["record"]
    store = str(both.receiver.store)
    both.receiver.json("submission", "refuse", store, waiting, "--reason", "late\naccepted    verified  " + "0" * 64)
    both.receiver.capsys.readouterr()
    assert run(["submission", "show", store]) == 0
    shown = both.receiver.capsys.readouterr().out.splitlines()
    assert [text for text in shown if text.startswith("accepted")] == []
    assert any("late\\naccepted" in text for text in shown)


def test_a_record_that_contradicts_itself_is_excluded_whoever_signed_it(both: Both) -> None:
    """Row P8's other side: what is refuted is not merely in doubt."""
    record = genuine()
    broken = record.model_copy(update={"complete": False})
    refused = both.intake(broken, status=7)
    assert (only(refused)["status"], words(refused)[0]) == ("excluded", "schema_mismatch")
    assert only(refused)["reasons"][0]["where"] == "$.complete"


def test_bytes_that_are_no_record_are_excluded(both: Both) -> None:
    """A submission may hold anything under records/: each gets its verdict, none a traceback."""
    folder = both.sender.submission(genuine())
    (folder / "records/zero.json").write_bytes(b"{}")
    (folder / "records/noise.json").write_bytes(b"\x00\xff")
    bundle_path(folder / "records/noise.json").write_bytes(b"{}")
    found = both.receiver.intake(folder, both.sender, status=7)
    assert sorted(one["status"] for one in found["records"]) == ["accepted", "excluded", "excluded"]
    assert both.receiver.shown()["checkpoint"]["size"] == 3


def test_a_signers_log_that_was_set_back_shows_itself(both: Both, tmp_path: Path) -> None:
    """Attest.md 3, row V22: a copy of his keys and log signs again where another record stands."""
    shutil.copytree(both.sender.home, tmp_path / "copy")
    both.intake(genuine(hour=1))
    copy = Sender(tmp_path / "copy")
    refused = both.receiver.intake(copy.submission(genuine(hour=2)), both.sender, status=7)
    assert (only(refused)["status"], words(refused)) == ("excluded", ["rollback"])
    assert only(both.receiver.intake(copy.submission(genuine(hour=3), to="next"), both.sender))["tier"] == "auditable"


def test_a_stranger_to_the_policy_is_excluded(both: Both, doubter: Sender) -> None:
    """Row V2 at a store's door: his signature holds, and nobody asked for it."""
    folder = doubter.submission(genuine())
    refused = both.receiver.intake(folder, both.sender, status=7)
    assert words(refused) == ["policy"]
    assert doubter.trust.identity in only(refused)["reasons"][0]["message"]


def _revoked(both: Both, after: str) -> str:
    name = both.sender.trust.identity
    return f'[[revoked]]\nidentity = "{name}"\nafter = "{after}"\nreason = "key lost"\n'


def test_a_revoked_signers_later_records_are_excluded_and_the_earlier_ones_stand(both: Both) -> None:
    """Row P12: a local clock is the signer's own, so that only what this store had seen before stands."""
    before = genuine(hour=5)
    lost = build.blob(build.PATCH).sha256
    folder = both.sender.submission(before, without=[lost])
    both.receiver.intake(folder, both.sender, status=7)
    received = both.receiver.shown()["records"][0]["receivedAt"]
    cut = received.replace("2026-", "2027-", 1)
    both.receiver.keeps(both.sender, version=2, more=_revoked(both, cut))
    later = datetime.fromisoformat(cut) + timedelta(hours=1)
    (folder / "blobs/sha256" / lost).write_bytes(build.blobs(before)[lost])
    [mended] = taken_at(both.receiver, both.sender, folder, later).lines
    assert mended.decision.status == "accepted"
    sent = both.sender.submission(genuine(hour=6), to="after")
    [refused] = taken_at(both.receiver, both.sender, sent, later).lines
    assert [reason.word for reason in refused.decision.reasons] == ["revoked"]
    assert "key lost" in refused.decision.reasons[0].message
    assert [one["status"] for one in both.receiver.shown()["records"]] == ["accepted", "excluded"]


def test_a_record_that_was_here_unsigned_is_no_alibi_for_a_signature_after_the_cut_off(both: Both) -> None:
    """Row P12: who has the stolen key had the record's bytes received before, and signs them with it after."""
    record = genuine(hour=5)
    both.intake(record, to="unsigned", unsigned=True, status=7)
    received = both.receiver.shown()["records"][0]["receivedAt"]
    cut = received.replace("2026-", "2027-", 1)
    both.receiver.keeps(both.sender, version=2, more=_revoked(both, cut))
    later = datetime.fromisoformat(cut) + timedelta(hours=1)
    [stolen] = taken_at(both.receiver, both.sender, both.sender.submission(record, to="signed"), later).lines
    assert [reason.word for reason in stolen.decision.reasons] == ["revoked"]


def test_nobody_is_kept_out_by_who_sent_his_bundle_with_white_space_and_without_a_blob(both: Both) -> None:
    """Rows P4, P9: the log's entry is of the record, not of the bytes that a carrier wrote it down in."""
    own = both.sender.submission(genuine())
    spoiled = both.sender.home / "spoiled"
    shutil.copytree(own, spoiled)
    [bundle] = (spoiled / "records").glob("*.sigstore.json")
    bundle.write_bytes(bundle.read_bytes() + b"\n")
    (spoiled / "blobs/sha256" / build.blob(build.PATCH).sha256).unlink()
    assert words(both.receiver.intake(spoiled, both.sender, status=7)) == ["blob_missing"]
    assert only(both.receiver.intake(own, both.sender))["tier"] == "auditable"


def test_a_quote_that_no_tpm_made_excludes_a_record_at_the_door_as_for_its_readers(both: Both) -> None:
    """Rows P6, T1: `check`, `intake` and `verify` see the same statement."""
    folder = both.sender.submission(genuine())
    [bundle] = (folder / "records").glob("*.sigstore.json")
    stated = json.loads(base64.b64decode(json.loads(bundle.read_bytes())["dsseEnvelope"]["payload"]))
    stated["predicate"]["tpm"] = dict.fromkeys(("quote", "sig", "akPub"), base64.b64encode(b"no quote").decode())
    bundle.write_bytes(Forge(both.sender.home / "trust").bundle(canonical.dumps(stated)))
    for look in (both.receiver.check, both.receiver.intake):
        refused = look(folder, both.sender, status=7)
        assert words(refused) == ["schema_mismatch"]
        assert only(refused)["reasons"][0]["where"].startswith("payload $.predicate.tpm")


def test_a_root_that_the_receiver_lacks_is_his_to_bring_and_is_held_against_nobody(both: Both, tmp_path: Path) -> None:
    """Of signers and of verifiers: status 7, what brings it, and nothing is written; his store has no line of it."""
    doubter = Sender(tmp_path / "doubter")
    folder = both.sender.submission(genuine())
    refused = both.receiver.intake(folder, status=7)
    both.receiver.keeps(both.sender, verifiers=[doubter])
    deaf = both.receiver.intake(folder, both.sender, status=7)
    unchecked = both.receiver.check(folder, status=7)
    for found, root in (
        (refused, both.sender.trust.root),
        (deaf, doubter.trust.root),
        (unchecked, both.sender.trust.root),
    ):
        assert found["error"]["reason"] == "trust_root"
        assert root.sha256 in found["error"]["message"]
        assert found["error"]["mend"].startswith("--trusted-root FILE")
    assert not both.receiver.store.exists()
    assert both.receiver.check(folder, both.sender)["accepted"] == 1  # its sender needs no root of a verifier


def test_a_verdict_that_counts_for_no_record_is_named(both: Both, tmp_path: Path) -> None:
    """Who brings one that does not count learns it, before and after he sends it; and why it may be (row P3)."""
    doubter = Sender(tmp_path / "doubter")
    record = genuine()
    folder = both.sender.submission(record)
    (folder / "verdicts").mkdir()
    bundle = bundle_path(next((folder / "records").glob(f"{sha256_hex(record.canonical())}.json"))).read_bytes()
    (folder / "verdicts/v.sigstore.json").write_bytes(doubter.reproduced(record, bundle))
    assert both.receiver.check(folder, both.sender)["verdictsPassedOver"] == ["verdicts/v.sigstore.json"]
    both.receiver.keeps(both.sender, verifiers=[doubter])
    both.receiver.capsys.readouterr()
    assert run(both.receiver.words("check", folder, both.sender)) == 0
    said = both.receiver.capsys.readouterr().err
    assert "passed over: verdicts/v.sigstore.json: " in said
    assert f"perhaps because {both.receiver.policy}: the policy's root {doubter.trust.root.sha256}" in said
    heard = both.receiver.intake(folder, both.sender, doubter)
    assert (only(heard)["tier"], heard["verdictsPassedOver"]) == ("verified", [])


def test_a_file_is_no_store_and_nobody_is_said_to_have_changed_it(both: Both) -> None:
    """Status 2, and another place is asked for."""
    folder = both.sender.submission(genuine())
    words = ["submission", "intake", str(folder), "--into", str(both.receiver.policy)]
    root = str(both.sender.trust.root_path)
    refused = both.receiver.json(*words, "--policy", str(both.receiver.policy), "--trusted-root", root, status=2)
    assert refused["error"]["where"] == str(both.receiver.policy)
    assert "a store is a folder" in refused["error"]["message"]


def test_a_store_under_another_root_is_said_to_be_that(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another person's machine: which file, whose root it is not, and which flag names the right one (row P9)."""
    both.intake(genuine())
    with home_of(both.receiver.home / "other", monkeypatch):
        open_or_init_local()
        refused = both.receiver.json("submission", "show", str(both.receiver.store), status=7)
    assert refused["error"]["where"] == str(both.receiver.store / "checkpoint.sigstore.json")
    assert "no certificate authority of the root local issued its certificate" in refused["error"]["message"]
    assert "--trust NAME" in refused["error"]["mend"]


def test_a_check_says_what_an_intake_would_and_writes_nothing(both: Both) -> None:
    """The submitter's own dry run (rows P1, P6, P8): the same reasons, no store."""
    good = both.sender.submission(genuine(), to="good")
    bad = both.sender.submission(genuine(hour=6), to="bad", without=[build.blob(build.PATCH).sha256])
    doubtful = both.sender.submission(equal_walls(), to="doubtful")
    before = files_of(both.sender.home)
    found = [
        both.receiver.check(folder, both.sender, status=status)
        for folder, status in ((good, 0), (bad, 7), (doubtful, 7))
    ]
    assert [only(one)["status"] for one in found] == ["accepted", "excluded", "quarantined"]
    assert files_of(both.sender.home) == before
    assert not both.receiver.store.exists()
    taken = [
        both.receiver.intake(folder, both.sender, status=status)
        for folder, status in ((good, 0), (bad, 7), (doubtful, 7))
    ]
    assert [only(one)["reasons"] for one in taken] == [only(one)["reasons"] for one in found]


def test_what_is_said_for_people_names_every_record_and_reason(both: Both) -> None:
    """The same as --json says, a line each."""
    folder = both.sender.submission(genuine(), without=[build.blob(build.PATCH).sha256])
    both.receiver.capsys.readouterr()
    assert run(both.receiver.words("intake", folder, both.sender)) == 7
    said = both.receiver.capsys.readouterr()
    assert said.out.startswith("excluded    -")
    assert "  blob_missing: " in said.out
    assert "1 of 1 records not accepted: blob_missing" in said.err
    assert json.dumps(both.receiver.shown()).count("blob_missing") == 2
