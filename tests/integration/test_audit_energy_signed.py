"""Measured records that a cheat signed again with the genuine key: the signature holds, the joules do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.checks import record_checks
from appliance.audit.trust import agreement_check, claims_of, sign_file
from appliance.cli.main import run
from appliance.files import store_blob
from appliance.records.record import Record
from appliance.records.summarise import summarise
from attest import Refused, Report, canonical, verify
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests.measured_builder import Measured, measured, plan
from tests.readings_builder import simulated

SIGNATURE_CHECKS = 18
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("signed") / "local")


@pytest.fixture(scope="module")
def genuine() -> Measured:
    return measured()


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory, genuine: Measured) -> Path:
    folder = tmp_path_factory.mktemp("blobs")
    for digest, content in genuine.blobs.items():
        store_blob(folder, content, digest)
    return folder


def verified(trust: LocalTrust, content: bytes, blobs: Path) -> Report:
    bundle = sign_record(trust, content, claims_of(Record.model_validate_json(content)))
    checks = [*record_checks(blobs, allow_missing=False), agreement_check()]
    return verify(content, bundle, trust.root, trust.identity, ISSUER, checks)


def one_more(*way: str | int) -> Change:
    """A microjoule more in `trials[1].energy`, and whatever it is added up in."""

    def change(value: dict[str, Any]) -> None:
        inner: Any = value["trials"][1]["energy"]
        for part in way[:-1]:
            inner = inner[part]
        inner[way[-1]] += 1

    return change


def all_along(value: dict[str, Any]) -> None:
    """A microjoule from the system to the trial, in zone, role and total alike: every sum still holds."""
    energy = value["trials"][1]["energy"]
    zone = energy["zones"]["package-0/dram"]
    for figure in (zone, energy["total"]):
        figure["netUj"] += 1
        figure["systemUj"] -= 1
    zone["byRoleUj"]["solver"] += 1
    energy["byRole"]["solver"]["netUj"] += 1


CASES: dict[str, tuple[str, Change]] = {
    "in the zone alone": ("$.trials[1].energy.zones.package-0.grossUj", one_more("zones", "package-0", "netUj")),
    "in the total alone": ("$.trials[1].energy.total.grossUj", one_more("total", "netUj")),
    "in the role alone": ("$.trials[1].energy.byRole", one_more("byRole", "solver", "netUj")),
    "in the uncertainty": (
        "$.trials[1].energy.zones.psys.uncertaintyUj",
        one_more("zones", "psys", "uncertaintyUj"),
    ),
    "wherever it stands": ("$.trials[1].energy.zones.package-0/dram.", all_along),
    "in the idle": (
        "$.meter.idle[1].zones.package-0.meanUw",
        lambda value: value["meter"]["idle"][1]["zones"]["package-0"].update(meanUw=10_000_001),
    ),
}


def test_the_genuine_measured_record_holds_with_every_check_run(
    trust: LocalTrust, genuine: Measured, blobs: Path
) -> None:
    """The premise: nothing changed, nothing refused, nothing left unchecked."""
    report = verified(trust, genuine.record.canonical(), blobs)
    assert {outcome.status for outcome in report.outcomes} == {"passed"}


@pytest.mark.parametrize("name", CASES)
def test_one_microjoule_in_a_record_signed_again_is_refused_naming_zone_and_trial(
    name: str, trust: LocalTrust, genuine: Measured, blobs: Path
) -> None:
    """Signed with the genuine key, summed up again: class energy, and the place to the field (issue 4; J44)."""
    where, change = CASES[name]
    value = genuine.record.json_value()
    change(value)
    changed = Record.from_canonical(canonical.dumps(value), "changed")
    value["summary"] = summarise(changed.plan, changed.trials).json_value()
    with pytest.raises(Refused) as caught:
        verified(trust, canonical.dumps(value), blobs)
    assert caught.value.reason == "energy"
    assert (caught.value.where or "").startswith(where), str(caught.value)
    assert caught.value.report is not None
    assert {outcome.status for outcome in caught.value.report.outcomes[:SIGNATURE_CHECKS]} == {"passed"}


def test_verify_says_of_simulated_joules_that_they_are_nothing_to_publish(
    tmp_path: Path, trust: LocalTrust, capsys: pytest.CaptureFixture[str]
) -> None:
    """`verify` passes them as what they are: a note of the check that looked, in its place, the verdict's line, and the
    provenance (formats 6).
    """
    fake = measured(plan(["t1"]), counters=[simulated()])
    path = tmp_path / "records" / "agent.json"
    path.parent.mkdir()
    path.write_bytes(fake.record.canonical())
    for digest, content in fake.blobs.items():
        store_blob(tmp_path / "blobs", content, digest)
    sign_file(path, trust)
    root = ["--trusted-root", str(trust.root_path), "--root-sha256", trust.root.sha256]
    who = ["--identity", trust.identity, "--issuer", ISSUER]
    assert run(["verify", str(path), *root, *who, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["provenance"] == "simulated"
    assert [check["why"] for check in told["checks"] if check["status"] == "noted"] == [
        "its counters are simulated, so it is nothing to publish: $.trials[0].energy.total"
    ]
    assert all(check["status"] != "not_run" for check in told["checks"])
    assert run(["verify", str(path), *root, *who]) == 0
    shown = capsys.readouterr().out.splitlines()
    numbers = [int(line.split()[0]) for line in shown[: shown.index("")]]
    assert numbers == sorted(numbers)
    (note,) = (line for line in shown if "nothing of it is simulated" in line)
    assert note.split()[1:2] == ["NOTE"]
    assert shown[-1].split(maxsplit=1)[1] == "verified (simulated counters: nothing to publish)"
