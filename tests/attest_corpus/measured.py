"""Records of counted joules that a cheat changed and signed again, and readings that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.files import store_blob
from appliance.records.record import Record
from appliance.records.summarise import summarise
from attest import canonical
from tests import record_builder as build
from tests.attest_corpus import Attested, Case, slug
from tests.attest_corpus.records import Mutation
from tests.attest_corpus.workshop import Workshop
from tests.property.test_audit_energy import BAD
from tests.property.test_audit_energy import CASES as OF_READINGS
from tests.property.test_audit_mutations import at


def _mended(value: dict[str, Any]) -> dict[str, Any]:
    """With its summary as its trials give it, where they are still trials."""
    try:
        record = Record.from_canonical(canonical.dumps(value), "changed")
    except InputRefused:
        return value
    value["summary"] = summarise(record.plan, record.trials).json_value()
    return value


def measured(name: str, words: str, reason: str, mutate: Mutation, where: str | None = None) -> Case:
    def make(shop: Workshop) -> Attested:
        value = shop.measured.record.json_value()
        mutate(value)
        return shop.signed_again(_mended(value), shop.measured_blobs)

    return Case(f"joules-{name}", words, reason, "6 (energy), J44", make, where, signed_again=True)


def joules() -> Iterator[Case]:
    """Everything that a counter said: moved by one microjoule, exchanged, given another name."""

    def one_less(path: str) -> Mutation:
        return at(path, lambda number: number - 1)

    total = "trials.0.energy.total"
    for name, words, path in (
        ("total-gross-less-by-one", "a microjoule less of the gross", f"{total}.grossUj"),
        ("total-net-less-by-one", "a microjoule less of the net", f"{total}.netUj"),
        ("total-idle-more", "a microjoule less of the idle", f"{total}.idleUj"),
        ("total-system-less-by-one", "a microjoule less of the system's share", f"{total}.systemUj"),
        ("zone-gross-less-by-one", "a microjoule less in one zone", "trials.0.energy.zones.package-0.grossUj"),
        ("zone-net-less-by-one", "a microjoule less net in one zone", "trials.0.energy.zones.package-0.netUj"),
        ("last-trial-net-less-by-one", "a microjoule less in the last trial", "trials.1.energy.total.netUj"),
        ("look-less-by-one", "a microwatt less at rest", "meter.idle.0.zones.package-0.meanUw"),
    ):
        yield measured(name, words, "energy", one_less(path))
    for words, (_, mutate) in OF_READINGS.items():
        yield measured(slug(words), words, "energy", mutate)
    yield measured("uncertainty-gone", "no uncertainty", "energy", at(f"{total}.uncertaintyUj", None))
    yield measured("a-better-provenance", "a shunt for a model", "energy", at(f"{total}.basis", "sampled_power"))


def readings() -> Iterator[Case]:
    """Blobs that are named as a trial's readings, and are none."""
    for words, make_readings in BAD.items():
        yield Case(
            f"readings-{slug(words)}",
            f"readings: {words}",
            "energy",
            "6 (energy), 4.1 (bounds)",
            _with_readings(make_readings),
            "$.trials[0].energy.readings",
            signed_again=True,
        )


def _with_readings(make_readings: Callable[[], bytes]) -> Callable[[Workshop], Attested]:
    def make(shop: Workshop) -> Attested:
        content = make_readings()
        folder = shop.shelf("readings")
        for digest, blob in {**shop.measured.blobs, sha256_hex(content): content}.items():
            store_blob(folder, blob, digest)
        before = shop.measured.record
        trials = list(before.trials)
        energy = trials[0].energy
        assert energy is not None
        named = energy.model_copy(update={"readings": build.blob(content)})
        trials[0] = trials[0].model_copy(update={"energy": named})
        record = build.record(before.plan, trials, before.baselines, meter=before.meter, record_id=before.record_id)
        for digest, blob in build.blobs(record).items():
            store_blob(folder, blob, digest)
        return shop.signed_again(record.canonical(), folder)

    return make


def cases() -> list[Case]:
    return [*joules(), *readings()]
