"""What a record is replayed from, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.files import store_blob
from appliance.gateway.cassette import told_of
from appliance.records.blob import BlobRef
from appliance.records.plan import PlannedBudget, PlannedUpstream, TrialKey, trial_keys
from appliance.records.record import Record
from appliance.reproduce.replays import cassettes_of, mode_of
from tests import record_builder as build
from tests.cassette_builder import asked, exchange, written

UPSTREAM = PlannedUpstream(
    provider="compatible",
    base_url="http://127.0.0.1:1",
    forwarder=build.pin(),
    server=None,
    budget=PlannedBudget(),
    run_budget=PlannedBudget(),
)


def kept(folder: Path, exchanges: int = 2) -> BlobRef:
    """A cassette among the blobs of `folder`, its last exchange a refusal of another model."""
    pairs = [(exchange(at, asked({"n": at})), b"") for at in range(exchanges)]
    pairs[-1] = (exchange(exchanges - 1, asked({"n": 9}), status=404, refused="model"), b"")
    path = written(folder / "cassette", pairs)
    content = path.read_bytes()
    path.unlink()
    store_blob(folder / "blobs", content, sha256_hex(content))
    return BlobRef(sha256=sha256_hex(content), bytes=len(content))


def record(*trials: dict[str, Any], model: str | None = "m1", upstream: PlannedUpstream | None = UPSTREAM) -> Record:
    of = build.plan(solver="agent", kind="command", model=model, upstream=upstream, rollouts=len(trials))
    return build.record(of, [build.trial(key, **one) for key, one in zip(trial_keys(of), trials, strict=True)])


def key(rollout: int) -> TrialKey:
    return TrialKey(task="t1", pass_=0, rollout=rollout)


@pytest.mark.parametrize(
    ("trial", "asked_for", "mode"),
    [
        ({"exchanges": 0}, None, "replay"),
        ({"exchanges": 0}, True, "replay"),
        ({"exchanges": 0}, False, "live"),
        ({"exchanges": 2}, False, "live"),
        ({"exchanges": 2}, None, "asks for --live"),
        ({"exchanges": 2}, True, "asks for --live"),
    ],
)
def test_a_model_is_replayed_by_default_and_asked_again_on_demand(
    trial: Any, asked_for: bool | None, mode: str
) -> None:
    """Row R3: without cassettes a model solver asks for --live (status 2)."""
    of = record(trial)
    if mode != "asks for --live":
        assert mode_of(of, trial_keys(of.plan), asked_for) == mode
        return
    with pytest.raises(UsageRefused) as refused:
        mode_of(of, trial_keys(of.plan), asked_for)
    assert "--live" in str(refused.value)


def test_a_solver_without_a_model_runs(tmp_path: Path) -> None:
    """Row R3: nothing of it was recorded, and nothing needs to be; --replay says so (status 2)."""
    of = build.record()
    assert mode_of(of, trial_keys(of.plan), None) == mode_of(of, trial_keys(of.plan), False) == "plain"
    with pytest.raises(UsageRefused, match="no recorded model responses") as refused:
        mode_of(of, trial_keys(of.plan), True)
    assert "leave it away" in str(refused.value)
    assert "--live" not in str(refused.value)


def test_each_trial_is_given_its_own_cassette_and_an_empty_one_where_it_asked_nothing(tmp_path: Path) -> None:
    """Row R3; trials that never were are left out, and exchanges of the gateway's own are not counted."""
    ref = kept(tmp_path)
    of = record(
        {"cassette": ref, "exchanges": 2},
        {"exchanges": 0},
        {"outcome": "excluded", "reason": "budget"},
    )
    found = cassettes_of(of, trial_keys(of.plan), tmp_path / "blobs", "r.json", tmp_path)
    assert found.paths[key(0)] == tmp_path / "blobs/sha256" / ref.sha256
    assert told_of(found.paths[key(1)])[1] == ()
    assert (found.recorded, found.left_out) == ({key(0): 1, key(1): 0}, (key(2),))


def test_every_missing_cassette_is_named_before_anything_runs(tmp_path: Path) -> None:
    """Row R3: status 3, the trials' paths, and what mends it; a trial that is not asked for may lack its own."""
    ref = kept(tmp_path)
    gone = BlobRef(sha256="0" * 64, bytes=3)
    of = record({"cassette": gone, "exchanges": 1}, {"cassette": ref, "exchanges": 2}, {"exchanges": 4})
    with pytest.raises(InputRefused) as refused:
        cassettes_of(of, trial_keys(of.plan), tmp_path / "blobs", "r.json", tmp_path)
    assert refused.value.status == 3
    assert "$.trials[0].cassette, $.trials[2].cassette" in str(refused.value)
    assert "--live" in str(refused.value)
    assert list(cassettes_of(of, [key(1)], tmp_path / "blobs", "r.json", tmp_path).paths) == [key(1)]
    with pytest.raises(InputRefused, match="no cassette for 1 of the trials: "):
        cassettes_of(of, [key(1)], None, "r.json", tmp_path)


@pytest.mark.parametrize("change", ["a byte", "another cassette", "its count", "no cassette at all", "a link"])
def test_a_cassette_that_is_not_what_the_record_says_is_refused(tmp_path: Path, change: str) -> None:
    """Found by digest and held to it; read through to its end beforehand (status 3)."""
    ref = kept(tmp_path)
    blob = tmp_path / "blobs/sha256" / ref.sha256
    if change == "a byte":
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 1
        blob.write_bytes(content)
    if change == "another cassette":
        other = [(exchange(at, asked({"n": -at})), b"") for at in range(2)]
        blob.write_bytes(written(tmp_path / "other", other).read_bytes())
    if change == "no cassette at all":
        store_blob(tmp_path / "blobs", b"{}", sha256_hex(b"{}"))
        ref = BlobRef(sha256=sha256_hex(b"{}"), bytes=2)
    if change == "a link":
        blob.rename(tmp_path / "elsewhere")
        blob.symlink_to(tmp_path / "elsewhere")
    of = record({"cassette": ref, "exchanges": 3 if change == "its count" else 2})
    with pytest.raises(InputRefused) as refused:
        cassettes_of(of, trial_keys(of.plan), tmp_path / "blobs", "r.json", tmp_path)
    assert refused.value.status == 3


def test_a_record_whose_trials_all_never_were_has_nothing_to_replay(tmp_path: Path) -> None:
    """A model, and no trial that reached it."""
    of = record({"outcome": "excluded", "reason": "budget"})
    with pytest.raises(InputRefused, match="nothing to replay"):
        cassettes_of(of, trial_keys(of.plan), tmp_path, "r.json", tmp_path)
