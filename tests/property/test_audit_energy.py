"""Records of measured joules, changed by a cheat who has the key and mends what can be mended: what refuses them."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.audit.blobs import journal_agrees
from appliance.audit.checks import record_checks
from appliance.digests import sha256_hex
from appliance.energy.readings import MAX_LINE_BYTES, Event, block_line, event_line, pack, unpack
from appliance.energy.readings import header_line as written_header
from appliance.errors import InputRefused
from appliance.files import store_blob
from appliance.records.plan import PlannedEnergy
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from attest import canonical
from attest.checks import Check, Noted, NotRun, Verified
from attest.errors import Refused
from tests import record_builder as build
from tests.measured_builder import HOUR_NS, Measured, measured, plan, window, zones
from tests.property.test_audit_mutations import BUSY, Mutation, at, both, refusal, resummarised
from tests.readings_builder import PERIOD_NS, header, packed, simulated, zone

_MEASURED = measured()


def shelf(folder: Path, *several: Measured) -> Path:
    for one in several:
        for digest, content in one.blobs.items():
            store_blob(folder, content, digest)
    return folder


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf(tmp_path_factory.mktemp("measured"), _MEASURED)


def changed(mutate: Mutation, of: Measured = _MEASURED) -> dict[str, Any]:
    value = of.record.json_value()
    mutate(value)
    return value


def told_again(of: Measured, trials: list[TrialResult], folder: Path, **stamped: Any) -> Record:
    """A record of these trials whose journal tells them too: what a cheat's own tool would fold."""
    before = of.record
    record = build.record(
        before.plan, trials, before.baselines, **{"meter": before.meter, "record_id": before.record_id, **stamped}
    )
    for digest, content in build.blobs(record).items():
        store_blob(folder, content, digest)
    return record


def with_readings(content: bytes, folder: Path, number: int = 0, of: Measured = _MEASURED) -> Record:
    """The record with other bytes named as a trial's readings."""
    store_blob(folder, content, sha256_hex(content))
    trials = list(of.record.trials)
    energy = trials[number].energy
    assert energy is not None
    other = energy.model_copy(update={"readings": build.blob(content)})
    trials[number] = trials[number].model_copy(update={"energy": other})
    return told_again(of, trials, folder)


def test_a_measured_record_that_nobody_changed_passes_every_check(blobs: Path) -> None:
    """The premise: its joules are made again from its readings, and all of them agree (J44)."""
    assert refusal(_MEASURED.record.json_value(), blobs, allow_missing=False) is None
    by_kind = measured(plan(["t1"], solver="noop", kind="noop"))
    assert by_kind.record.trials[0].energy.total.below_floor  # type: ignore[union-attr]
    assert refusal(by_kind.record.json_value(), shelf(blobs, by_kind), allow_missing=False) is None


# ------------------------------------------------------------------------------------- every figure, by one


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for key, item in enumerate(value):
            yield from _leaves(item, (*path, key))
    else:
        yield path


def _energies() -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of the first and last trial's energy and of the idle's looks."""
    value = json.loads(_MEASURED.record.canonical())
    roots = [("trials", number, "energy") for number in (0, len(value["trials"]) - 1)]
    for root in [*roots, ("meter", "idle", 0), ("meter", "idle", 1)]:
        inner = value
        for part in root:
            inner = inner[part]
        for leaf in _leaves(inner):
            found = inner
            for part in leaf:
                found = found[part]
            if leaf != ("when",):  # only the run itself knows which look was which
                yield (*root, *leaf), found


ENERGIES = list(_energies())
NUMBERS = [path for path, value in ENERGIES if isinstance(value, int) and not isinstance(value, bool)]
OTHERS = [
    (path, value)
    for path, value in ENERGIES
    if path[1] in (0, "idle") and (not isinstance(value, int) or isinstance(value, bool))
]


def _set(path: tuple[Any, ...], change: Callable[[Any], Any]) -> Mutation:
    def mutate(value: dict[str, Any]) -> None:
        inner: Any = value
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = change(inner[path[-1]])

    return mutate


def _to(other: Any) -> Callable[[Any], Any]:
    return lambda _: other


def _named(path: tuple[Any, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _mended(value: dict[str, Any]) -> dict[str, Any]:
    """With its summary as its trials give it, where they are still trials."""
    with contextlib.suppress(InputRefused, canonical.NotCanonical):  # what no model takes stays as it is
        resummarised()(value)
    return value


@pytest.mark.parametrize("step", [1, -1])
def test_one_microjoule_anywhere_is_refused_naming_trial_and_zone(step: int, blobs: Path) -> None:
    """Every number of every trial's energy and of idle, moved by one, summary mended: refused where it stands (J44)."""
    assert len(NUMBERS) > 150
    for path in NUMBERS if step > 0 else NUMBERS[::3]:
        value = _mended(changed(_set(path, lambda number: number + step)))
        refused = refusal(value, blobs)
        assert refused is not None, _named(path)
        assert refused.reason in ("energy", "blob", "record"), f"{_named(path)}: {refused}"
        place = refused.where or ""
        trial_or_look = _named(path[:2] if path[0] == "trials" else path[:3])
        assert place.startswith(trial_or_look), f"{_named(path)}: {place}"
        if "zones" in path and refused.reason == "energy":
            assert f".zones.{path[path.index('zones') + 1]}" in place or "total" in place


def test_no_word_or_flag_of_a_figure_can_be_another(blobs: Path) -> None:
    """Provenance, basis, scope, source, flags, missing and the rest are made again too (J44, J46)."""
    for number, (path, word) in enumerate(OTHERS):
        # One alternative of a list each, so that every leaf and every alternative has its turn.
        other = (not word, None, "model_based", ["ran_on"], "x", {"solver": 1})[number % 6]
        value = changed(_set(path, _to(other)))
        if canonical.dumps(value) != _MEASURED.record.canonical():
            assert refusal(_mended(value), blobs) is not None, f"{_named(path)} = {other!r}"


@BUSY
@given(
    path=st.sampled_from([path for path, _ in ENERGIES]),
    # Half of what canonical JSON holds: the mended summary adds up two trials.
    other=st.one_of(st.none(), st.booleans(), st.integers(-5, 2**52 - 1), st.floats(0, 1e6), st.text(max_size=5)),
)
def test_whatever_an_energy_holds_the_checks_end_in_a_refusal_or_none(
    blobs: Path, path: tuple[Any, ...], other: Any
) -> None:
    """No value of any field is a traceback."""
    refusal(_mended(changed(_set(path, lambda _: other))), blobs)


# --------------------------------------------------------------------------------- readings of something else

READINGS = "trials.{}.energy.readings"


def swapped(value: dict[str, Any]) -> None:
    first, second = (trial["energy"] for trial in value["trials"])
    first["readings"], second["readings"] = second["readings"], first["readings"]


def exchanged(value: dict[str, Any]) -> None:
    """Joules, readings and CPU time of two trials change places; wall and key stay."""
    first, second = value["trials"]
    for field in ("energy", "cpuSeconds"):
        first[field], second[field] = second[field], first[field]


def used_twice(value: dict[str, Any]) -> None:
    first, second = value["trials"]
    for field in ("energy", "cpuSeconds"):
        second[field] = copy.deepcopy(first[field])


def without_readings(value: dict[str, Any]) -> None:
    for trial in value["trials"]:
        trial["energy"]["readings"] = None


def flagged(value: dict[str, Any]) -> None:
    energy = value["trials"][0]["energy"]
    for figure in (energy["total"], *energy["byRole"].values(), *energy["zones"].values()):
        figure["flags"] = ["ran_on"]


def one_look(value: dict[str, Any]) -> None:
    first, second = value["meter"]["idle"]
    second["readings"] = first["readings"]


def looked_at_work(value: dict[str, Any]) -> None:
    value["meter"]["idle"][0]["readings"] = value["trials"][0]["energy"]["readings"]


CASES: dict[str, tuple[str, Mutation]] = {
    # name: (where it points, mutation)
    "readings of two trials, swapped": ("$.trials[0].cpuSeconds.solver", swapped),
    "joules of two trials, swapped": ("$.trials[1].energy.readings", exchanged),
    "one trial's readings twice": ("$.trials[1].energy.readings", used_twice),
    "readings of an idle machine": (
        "$.trials[0].energy.readings",
        lambda v: v["trials"][0]["energy"].update(readings=v["meter"]["idle"][0]["readings"]),
    ),
    "another run's id": ("$.meter.idle[0].readings", at("recordId", "run2.agent")),
    "no readings": ("$.trials[0].energy.total.basis", without_readings),
    "a longer wall": ("$.trials[0].energy.readings", at("trials.0.wallSeconds", 2.1)),
    "a wall that is not there": ("$.trials[0].energy.readings", at("trials.0.wallSeconds", None)),
    "a nanosecond less of CPU": ("$.trials[0].cpuSeconds.solver", at("trials.0.cpuSeconds.solver", 0.999999999)),
    "another role charged": (
        "$.trials[0].cpuSeconds",
        lambda v: v["trials"][0].update(cpuSeconds={"model": 0.5, "solver": 0.5}),
    ),
    "another source of CPU time": ("$.trials[0].cpuSource", at("trials.0.cpuSource", "stats_one_shot")),
    "a run-on that never was": ("$.trials[0].energy.zones.package-0.flags", flagged),
    "one look's readings as the other's": ("$.meter.idle[1].readings", one_look),
    "a look with the readings of a trial": ("$.trials[0].energy.readings", looked_at_work),
    "only the idle before": ("$.trials[0].energy.zones.package-0.", lambda v: v["meter"]["idle"].pop()),
    "no idle at all": ("$.trials[0].energy", at("meter.idle", [])),
}


@pytest.mark.parametrize("name", CASES)
def test_readings_of_something_else_are_refused_where_they_stand(name: str, blobs: Path) -> None:
    """Another run's, another trial's, another window's, another look's: class energy, naming the place (J44)."""
    where, mutate = CASES[name]
    refused = refusal(_mended(changed(mutate)), blobs)
    assert refused is not None, "accepted"
    assert refused.reason in ("energy", "aggregate"), str(refused)
    assert (refused.where or "").startswith(where), str(refused)


def test_a_run_on_that_the_readings_show_cannot_be_left_out(tmp_path: Path) -> None:
    """Strangers at the close and CPU time after it: `ran_on`, whatever the record says; never at the limit."""
    ran = measured(
        plan(["t1"]), readings=lambda number: window(number, strangers_at_close=True, cpu_after_close_ns=10**7)
    )
    folder = shelf(tmp_path, ran)
    energy = ran.record.trials[0].energy
    assert energy is not None
    assert "ran_on" in energy.total.flags
    assert refusal(ran.record.json_value(), folder, allow_missing=False) is None

    def silenced(value: dict[str, Any]) -> None:
        found = value["trials"][0]["energy"]
        for figure in (found["total"], *found["byRole"].values(), *found["zones"].values()):
            figure["flags"] = []

    refused = refusal(_mended(changed(silenced, ran)), folder)
    assert refused is not None
    assert (refused.reason, refused.where) == ("energy", "$.trials[0].energy.zones.package-0.flags")
    at_limit = both(silenced, at("trials.0.cause", "timeout"), at("trials.0.solverExit", None))
    refused = refusal(_mended(changed(at_limit, ran)), folder)
    assert refused is None or refused.reason != "energy"


def test_a_window_far_longer_than_the_trial_is_refused(tmp_path: Path) -> None:
    """The exec's start lies inside it, a minute of something else does not."""
    long = measured(plan(["t1"]), readings=lambda number: window(number, seconds=60.0, period_ns=10**9))
    folder = shelf(tmp_path, long)
    assert refusal(long.record.json_value(), folder) is None
    for seconds in (1.0, 50.0, 60.1):
        refused = refusal(_mended(changed(at("trials.0.wallSeconds", seconds), long)), folder)
        assert refused is not None
        assert (refused.reason, refused.where) == ("energy", "$.trials[0].energy.readings")


def test_windows_of_an_exclusive_run_that_overlap_are_refused(tmp_path: Path) -> None:
    """One at a time is what the plan says; in a shared run they may (design 8)."""

    def close_together(number: int) -> bytes:
        return window(number, opened_boottime_ns=str(HOUR_NS + number * 10**9))

    overlapping = measured(readings=close_together)
    refused = refusal(overlapping.record.json_value(), shelf(tmp_path, overlapping))
    assert refused is not None
    assert (refused.reason, refused.where) == ("energy", "$.trials[1].energy.readings")
    energy = PlannedEnergy(mode="measured", active_watts=None, scheduling="shared")
    shared = measured(plan(energy=energy), readings=close_together)
    assert refusal(shared.record.json_value(), shelf(tmp_path, shared)) is None


def test_a_modelled_figure_where_counters_were_asked_for_is_refused_also_beside_readings(blobs: Path) -> None:
    """No silent fallback, and no estimate under the cover of readings (J34, L4)."""
    trial = _MEASURED.record.trials[0]
    estimated = build.estimated_energy(trial.wall_seconds or 0, cpu=trial.cpu_seconds["solver"] or 0)
    for readings in (None, trial.energy.readings):  # type: ignore[union-attr]
        energy = estimated.model_copy(update={"readings": readings})
        record = told_again(
            _MEASURED, [trial.model_copy(update={"energy": energy}), *_MEASURED.record.trials[1:]], blobs
        )
        refused = refusal(record.json_value(), blobs)
        assert refused is not None
        assert (refused.reason, (refused.where or "")[:19]) == ("energy", "$.trials[0].energy.")


# -------------------------------------------------------------------------------------------- simulated counters


def checks(value: dict[str, Any], folder: Path, *, publishing: bool) -> dict[str, Refused | Noted | NotRun | None]:
    """Every check by name with what it came to."""
    content = canonical.dumps(value)
    verified = Verified(content, canonical.loads(content), {}, "who", "issuer", build.SIGNED_AT, "local")
    found: dict[str, Refused | Noted | NotRun | None] = {}
    for check in record_checks(folder, True, publishing=publishing):
        found[check.name] = _ended(check, verified)
    return found


def _ended(check: Check, verified: Verified) -> Refused | Noted | NotRun | None:
    try:
        check.run(verified)
    except (Refused, Noted, NotRun) as ended:
        return ended
    return None


def test_simulated_counters_are_said_and_never_published(tmp_path: Path) -> None:
    """A reader is told; who publishes is refused, class policy; and nobody calls them a shunt (formats 6, J34)."""
    fake = measured(plan(["t1"]), counters=[simulated()])
    folder = shelf(tmp_path, fake)
    value = fake.record.json_value()
    name = "nothing of it is simulated"
    found = checks(value, folder, publishing=False)
    said = found.pop(name)
    assert isinstance(said, Noted)
    assert "simulated" in said.what
    assert set(found.values()) == {None}
    refused = checks(value, folder, publishing=True)[name]
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.where) == ("policy", "$.trials[0].energy.total.provenance")
    assert checks(_MEASURED.record.json_value(), folder, publishing=True)[name] is None

    def genuine(value: dict[str, Any]) -> None:
        energy = value["trials"][0]["energy"]
        for figure in (energy["total"], *energy["byRole"].values(), *energy["zones"].values()):
            figure.update(provenance="hw_shunt", claimed=None, comparable=True)

    refused = refusal(_mended(changed(genuine, fake)), folder)
    assert isinstance(refused, Refused)
    assert refused.reason == "energy"
    assert refused.where == "$.trials[0].energy.zones.package-0.provenance"


# ------------------------------------------------------------------------------------------------ hostile blobs


def long_line() -> bytes:
    head = written_header(header(zones(), (), 10**9, trial=0))
    return pack(head) + pack(b"[" + b"0," * MAX_LINE_BYTES + b"0]\n")


def bomb(line: bytes = b"[0,0,0]\n", times: int = 8_000_000) -> bytes:
    """Valid to its last line but one, and a hundred times what two seconds can hold."""
    head = written_header(header([zone()], (), 2 * 10**9, trial=0))
    return pack(head) + pack(block_line(["z-package-0"], [], [0, 0]) + line * times)


WINDOW = window(0)
BAD: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "no gzip": lambda: b"readings",
    "cut off": lambda: WINDOW[:-9],
    "cut off in its header": lambda: WINDOW[:40],
    "a changed byte": lambda: bytes([*WINDOW[:-30], WINDOW[-30] ^ 1, *WINDOW[-29:]]),
    "something after it": lambda: WINDOW + b"x",
    "no JSON": lambda: pack(b"{\n"),
    "no header": lambda: pack(b"[1]\n"),
    "a header alone": lambda: pack(written_header(header(zones(), (), 2 * 10**9, trial=0))),
    "one line without end": long_line,
    "a bomb": bomb,
    "deep JSON": lambda: pack(b"[" * 100_000 + b"\n"),
    "a length that no number holds": lambda: pack(written_header(header(zones(), (), 10**4000, trial=0)) + b"[0]\n"),
    "an opening at no moment": lambda: window(0, opened_boottime_ns="soon"),
    "a flag that no list has": lambda: window(0, flags=("fine",)),
    "a provenance that no list has": lambda: packed([simulated(provenance="best")], [1.0]),
    "another layer of gzip": lambda: gzip.compress(WINDOW, mtime=0),
}


@pytest.mark.parametrize("name", BAD)
def test_readings_that_are_none_are_refused_and_bounded(name: str, tmp_path: Path) -> None:
    """Malformed, cut off, a bomb: class energy at the blob's place, no traceback, no hours of work (attest 6)."""
    shelf(tmp_path, _MEASURED)
    record = with_readings(BAD[name](), tmp_path)
    refused = refusal(record.json_value(), tmp_path)
    assert refused is not None
    assert (refused.reason, (refused.where or "")[:19]) == ("energy", "$.trials[0].energy.")


@pytest.mark.parametrize(
    ("line", "words"),
    [(b"[0,0,0]\n", "over 7000 samples"), (event_line(Event("late", number=1)), "over 4096 events")],
)
def test_a_bomb_is_refused_for_its_size_and_before_its_end(line: bytes, words: str, tmp_path: Path) -> None:
    """What a window can hold is known from its length: millions of lines are none of two seconds (attest 6)."""
    shelf(tmp_path, _MEASURED)
    content = bomb(line)
    assert len(content) < 1_000_000
    refused = refusal(with_readings(content, tmp_path).json_value(), tmp_path)
    assert refused is not None
    assert words in refused.message


def test_a_bomb_of_long_lines_is_refused_for_its_bytes(tmp_path: Path) -> None:
    """Few samples, and far more bytes than their columns need."""
    shelf(tmp_path, _MEASURED)
    content = bomb(b"[0," + b" " * 2_000 + b"0,0]\n", 10_000)
    refused = refusal(with_readings(content, tmp_path).json_value(), tmp_path)
    assert refused is not None
    assert "bytes in all" in refused.message


@BUSY
@given(data=st.data())
def test_readings_with_any_line_changed_end_in_a_refusal_or_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whoever makes readings by hand gets no traceback out of a verifier."""
    lines = gzip.decompress(WINDOW).splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    value = json.loads(lines[number])
    paths = list(_leaves(value))
    path = data.draw(st.sampled_from(paths))
    other = data.draw(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=4), st.just([]), st.just({}))
    )
    inner = value
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = other
    lines[number] = json.dumps(value).encode()
    folder = tmp_path_factory.mktemp("fuzz")
    shelf(folder, _MEASURED)
    content = pack(b"".join(line + b"\n" for line in lines))
    refusal(with_readings(content, folder).json_value(), folder)


def test_readings_that_are_not_there_are_not_run(tmp_path: Path) -> None:
    """As any other blob: said, and passed only where the caller said so beforehand (formats 8)."""
    shelf(tmp_path, _MEASURED)
    energy = _MEASURED.record.trials[1].energy
    assert energy is not None
    assert energy.readings is not None
    (tmp_path / "sha256" / energy.readings.sha256).unlink()
    found = checks(_MEASURED.record.json_value(), tmp_path, publishing=False)["its joules are those of its readings"]
    assert isinstance(found, NotRun)
    assert "$.trials[1].energy.readings" in found.why
    (tmp_path / "sha256" / _MEASURED.record.meter.idle[0].readings.sha256).unlink()  # type: ignore[index]
    found = checks(_MEASURED.record.json_value(), tmp_path, publishing=False)["its joules are those of its readings"]
    assert isinstance(found, NotRun)
    assert "$.meter.idle[0].readings" in found.why


def test_a_journal_with_other_readings_is_refused_and_one_with_provisional_joules_is_not(tmp_path: Path) -> None:
    """Idle after the last trial changes joules, never readings: the journal vouches for the latter."""
    shelf(tmp_path, _MEASURED)
    record = _MEASURED.record
    provisional = []
    for trial in record.trials:
        assert trial.energy is not None
        energy = trial.energy.model_copy(update={"total": build.counted_figure(1)})
        provisional.append(trial.model_copy(update={"energy": energy}))
    journal = build.journal_bytes(record.plan, record.baselines, provisional, record.hosts, record.meter)
    store_blob(tmp_path, journal, sha256_hex(journal))
    honest = record.model_copy(update={"journal": build.blob(journal)})
    assert refusal(honest.json_value(), tmp_path, allow_missing=False) is None
    told = provisional[0].energy
    assert told is not None
    others = told.model_copy(update={"readings": build.blob(b"others")})
    provisional[0] = provisional[0].model_copy(update={"energy": others})
    journal = build.journal_bytes(record.plan, record.baselines, provisional, record.hosts, record.meter)
    store_blob(tmp_path, journal, sha256_hex(journal))
    refused = refusal(record.model_copy(update={"journal": build.blob(journal)}).json_value(), tmp_path)
    assert refused is not None
    assert (refused.reason, refused.where) == ("aggregate", "$.trials[0]")


def test_the_readings_builder_writes_what_the_reader_reads() -> None:
    """The premise of all of these: samples at the period, first at 0, last at the length."""
    samples = list(unpack(packed([], [], seconds=1.05)).samples())
    assert [sample.at_ns for sample in samples[:3]] == [0, PERIOD_NS, 2 * PERIOD_NS]
    assert samples[-1].at_ns == 1_050_000_000


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("$.meter.idle", lambda record: {"meter": record.meter.model_copy(update={"idle": record.meter.idle[:1]})}),
        ("$.hosts", lambda record: {"hosts": (record.hosts[0].model_copy(update={"noisy": True}),)}),
    ],
)
def test_a_record_whose_looks_or_hosts_are_not_those_of_its_journal_is_refused(
    tmp_path: Path, where: str, change: Callable[[Any], dict[str, Any]]
) -> None:
    """A look or a noisy host left out of the record stands in the journal that it was folded from (formats 6)."""
    shelf(tmp_path, _MEASURED)
    record = _MEASURED.record
    journal_agrees(record, tmp_path, False)
    with pytest.raises(Refused, match="the journal tells it otherwise") as caught:
        journal_agrees(record.model_copy(update=change(record)), tmp_path, False)
    assert (caught.value.reason, caught.value.where) == ("aggregate", where)
