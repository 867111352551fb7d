"""The engine's pure parts: captured streams, cgroup files of v1, v2 and hybrid, refusals, the container's body."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.cgroups import parse_membership, parse_mountinfo
from appliance.engine import cgroups, connection
from appliance.engine.capture import Demultiplexer, StreamCapture
from appliance.engine.connection import Address, agreed_version, engine_address, unreachable
from appliance.engine.hardening import PROFILE, container_body
from appliance.engine.laying import lay_entries, refuse_unsafe
from appliance.engine.mounting import copy_sparse
from appliance.engine.places import Places
from appliance.errors import HostRefused
from appliance.ports import ContainerSpec, EngineFailed, Evidence, Mount, TreeEntry
from appliance.tasks.model import Limits


def frame(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


@pytest.mark.parametrize("cap", [0, 1, 7, 1000, 10_000])
@pytest.mark.parametrize("size", [0, 1, 6, 7, 8, 999, 1000, 1001, 5000])
def test_a_capture_keeps_head_and_tail_and_counts_the_whole(cap: int, size: int) -> None:
    """Whatever the chunks; nothing is lost below the cap, exactly the cap is kept above it (H18)."""
    dice = random.Random(cap * 10_007 + size)
    whole = dice.randbytes(size)
    capture = StreamCapture(cap)
    place = 0
    while place < size:
        step = dice.randint(1, 300)
        capture.feed(whole[place : place + step])
        place += step
    captured = capture.captured()
    assert (captured.total_bytes, captured.sha256) == (size, hashlib.sha256(whole).hexdigest())
    assert captured.truncated == (size > cap)
    if size <= cap:
        assert captured.kept == whole
    else:
        assert captured.head == whole[: cap // 2]
        assert captured.tail == whole[size - (cap - cap // 2) :]
        assert f"[... {size - cap} bytes not kept ...]".encode() in captured.kept


def test_a_capture_fed_single_bytes_holds_no_more_than_its_cap() -> None:
    """A queue of a million one-byte chunks would (H18, H24)."""
    capture = StreamCapture(20_000)
    for _ in range(60_000):
        capture.feed(b"x")
    assert len(capture._tail) <= 4_096
    assert len(capture.captured().kept) < 20_100


def test_frames_may_be_cut_anywhere() -> None:
    """Also within a header; streams stay apart."""
    stream = frame(1, b"out") + frame(2, b"error") + frame(1, b"") + frame(3, b"passed over") + frame(1, b"put")
    for cut in range(len(stream)):
        out, err = StreamCapture(100), StreamCapture(100)
        frames = Demultiplexer({1: out, 2: err})
        frames.feed(stream[:cut])
        frames.feed(stream[cut:])
        assert (out.captured().kept, err.captured().kept) == (b"output", b"error")


def tree(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)


def mounts(root: Path, *kinds: str) -> str:
    """A mountinfo with `cgroup2` or v1 controllers mounted under `root`."""
    lines = []
    for number, kind in enumerate(kinds):
        words = "cgroup2 none rw" if kind == "unified" else f"cgroup none rw,{kind}"
        lines.append(f"{30 + number} 20 0:{number} / {root / kind} rw - {words}")
    return "\n".join(lines)


def test_evidence_on_v2(tmp_path: Path) -> None:
    """memory.events, memory.peak, pids.events, cpu.max (I16, I27)."""
    tree(
        tmp_path / "unified" / "trial",
        {
            "memory.events": "low 0\nmax 9\noom 2\noom_kill 2\n",
            "memory.peak": "67108864\n",
            "memory.max": "67108864\n",
            "pids.events": "max 5\n",
            "pids.max": "32\n",
            "cpu.max": "50000 100000\n",
            "cgroup.procs": "1\n2\n",
            "below/cgroup.procs": "3\n",
        },
    )
    found = cgroups.places_of(parse_mountinfo(mounts(tmp_path, "unified")), parse_membership("0::/trial\n"))
    assert cgroups.read_evidence(found) == Evidence(2, 5, 64.0)
    assert (cgroups.memory_limit_mib(found), cgroups.pids_limit(found), cgroups.cpus_limit(found)) == (64.0, 32, 0.5)
    assert cgroups.member_count(found) == 3


def test_evidence_on_v1_and_hybrid(tmp_path: Path) -> None:
    """v1's own files, also where an empty v2 tree is mounted beside them (I16, I27)."""
    tree(tmp_path / "unified" / "trial", {"cgroup.procs": ""})
    tree(
        tmp_path / "memory" / "trial",
        {
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            "memory.max_usage_in_bytes": "1048576",
            "memory.limit_in_bytes": "2097152",
        },
    )
    tree(tmp_path / "pids" / "trial", {"pids.events": "max 3\n", "pids.max": "8\n", "cgroup.procs": "1\n"})
    tree(tmp_path / "cpu" / "trial", {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"})
    text = "3:pids:/trial\n2:memory:/trial\n1:cpu:/trial\n0::/trial\n"
    for kinds in (("memory", "pids", "cpu"), ("memory", "pids", "cpu", "unified")):
        found = cgroups.places_of(parse_mountinfo(mounts(tmp_path, *kinds)), parse_membership(text))
        assert cgroups.read_evidence(found) == Evidence(1, 3, 1.0)
        assert (cgroups.memory_limit_mib(found), cgroups.pids_limit(found), cgroups.cpus_limit(found)) == (2.0, 8, 1.5)
        assert cgroups.member_count(found) == 1


def test_what_cannot_be_read_is_none_and_no_limit_is_none(tmp_path: Path) -> None:
    """Missing is not zero (I27)."""
    tree(tmp_path / "unified" / "trial", {"memory.max": "max\n", "pids.max": "max\n", "cpu.max": "max 100000\n"})
    found = cgroups.places_of(parse_mountinfo(mounts(tmp_path, "unified")), parse_membership("0::/trial\n"))
    assert cgroups.read_evidence(found) == Evidence(None, None, None)
    assert (cgroups.memory_limit_mib(found), cgroups.pids_limit(found), cgroups.cpus_limit(found)) == (None, None, None)
    nowhere = cgroups.places_of(parse_mountinfo(""), {})
    assert cgroups.read_evidence(nowhere) == Evidence(None, None, None)
    assert cgroups.member_count(nowhere) is None


def test_an_absent_engine_is_refused_with_the_command_that_installs_one(tmp_path: Path) -> None:
    """Status 4, one mend each (I22)."""
    missing = Address("unix:///none", str(tmp_path / "none.sock"), "", 0, None)
    assert unreachable(missing, OSError()).reason == "absent"
    silent = tmp_path / "silent.sock"
    silent.touch()
    refusal = unreachable(Address("unix:///silent", str(silent), "", 0, None), OSError("refused"))
    assert (refusal.reason, refusal.status) == ("silent", 4)
    assert unreachable(Address("tcp://h:1", None, "h", 1, None), OSError()).mend == "unset DOCKER_HOST"


def test_no_permission_names_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's answer for a user outside the group (I22)."""
    closed = tmp_path / "closed.sock"
    closed.touch()
    monkeypatch.setattr(connection.os, "access", lambda *_: False)
    refusal = unreachable(Address("unix:///closed", str(closed), "", 0, None), PermissionError())
    assert refusal.reason == "permission"
    assert "usermod -aG docker" in (refusal.mend or "")


def test_nothing_answering_at_docker_host_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real client, through `connect` (I22)."""
    from appliance.engine.docker import connect

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HostRefused, match="no container engine"):
        connect()
    monkeypatch.setenv("DOCKER_HOST", "ssh://somewhere")
    with pytest.raises(HostRefused, match="neither unix nor tcp"):
        connect()


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the Docker client reads DOCKER_HOST."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    assert engine_address().path == "/var/run/docker.sock"
    assert engine_address("unix:///run/user/1000/docker.sock").path == "/run/user/1000/docker.sock"
    plain = engine_address("tcp://10.0.0.1")
    assert (plain.host, plain.port, plain.certificates, plain.remote) == ("10.0.0.1", 2375, None, True)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/certs")
    assert engine_address("tcp://h:1").certificates == Path("/certs")


def test_an_engine_older_than_20_10_is_refused() -> None:
    """What 1.41 added is what holds our limits (I22)."""
    assert agreed_version("1.41") == "1.41"
    assert agreed_version("1.52") == "1.47"
    with pytest.raises(HostRefused) as caught:
        agreed_version("1.40")
    assert caught.value.reason == "too_old"


SPEC = ContainerSpec(
    image="sha256:" + "a" * 64,
    role="solver",
    labels={"x": "y"},
    limits=Limits(cpus=1.5, memory_mib=256, pids=40, disk_mib=32),
    network="none",
    cgroup_parent="/bench-appliance/r/00000/solver",
    mounts=(Mount("bind", "/w", "/workspace"), Mount("tmpfs", "", "/grade", options="uid=1001,mode=0700")),
    env={"LANG": "C"},
)


def test_the_body_of_a_container_holds_every_wall() -> None:
    """The list of images.md, as the engine's API writes it (I16)."""
    body = container_body(SPEC)
    host = body["HostConfig"]
    assert (body["Image"], body["User"], body["Hostname"], body["Labels"]) == (
        SPEC.image,
        "1000:1000",
        "bench",
        {"x": "y", "org.bench-appliance.role": "solver"},
    )
    assert "LANG=C" in body["Env"] and "HOME=/home/bench" in body["Env"]
    assert (host["NetworkMode"], host["CapDrop"], host["ReadonlyRootfs"], host["Init"]) == ("none", ["ALL"], True, True)
    assert host["SecurityOpt"][0] == "no-new-privileges:true"
    assert json.loads(host["SecurityOpt"][1].removeprefix("seccomp=")) == json.loads(PROFILE.read_text())
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert (host["PidsLimit"], host["CpuQuota"], host["CpuPeriod"]) == (40, 150_000, 100_000)
    assert {one["Name"] for one in host["Ulimits"]} == {"nofile", "core", "fsize"}
    assert (host["IpcMode"], host["CgroupnsMode"], host["OomScoreAdj"]) == ("private", "private", 500)
    assert (host["LogConfig"], host["CgroupParent"]) == ({"Type": "none"}, SPEC.cgroup_parent)
    assert set(host["Tmpfs"]) == {"/tmp", "/home/bench", "/grade"}
    assert "Privileged" not in host and "Devices" not in host and "Binds" not in host


def test_podman_is_told_the_same_in_its_own_words() -> None:
    """A path for the profile, `U` for a tmpfs of the container's user, a number of processes it may set."""
    host = container_body(SPEC, podman=True)["HostConfig"]
    assert host["SecurityOpt"][1] == f"seccomp={PROFILE}"
    assert host["Tmpfs"]["/home/bench"].endswith("mode=0700,U")
    assert "uid" not in host["Tmpfs"]["/grade"]
    assert {one["Name"] for one in host["Ulimits"]} == {"nofile", "core", "fsize", "nproc"}


def test_the_profile_allows_by_name_and_refuses_the_rest() -> None:
    """An allow-list: what is not in it is refused, also what kernels learn later (I16)."""
    profile = json.loads(PROFILE.read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile["architectures"] == ["SCMP_ARCH_X86_64"]
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}


@pytest.mark.parametrize("path", [b"../a", b"a/../../b", b"/etc/passwd", b"", b"a//b", b"./a", b"a\0b"])
def test_a_path_that_leaves_the_workspace_is_not_laid(path: bytes) -> None:
    """Entries come from a record too (R1)."""
    with pytest.raises(EngineFailed):
        refuse_unsafe([TreeEntry(path, "file")])


def test_nothing_is_laid_through_a_link(tmp_path: Path) -> None:
    """Neither through one that is laid with it, nor through one that lies there already (I28)."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    with pytest.raises(EngineFailed, match="below something that is no folder"):
        lay_entries(root, [TreeEntry(b"l", "link", content=b"../outside"), TreeEntry(b"l/x", "file", content=b"x")])
    (root / "l").symlink_to("../outside")
    with pytest.raises(EngineFailed, match="could not be laid"):
        lay_entries(root, [TreeEntry(b"l/x", "file", content=b"x")])
    lay_entries(root, [TreeEntry(b"l/x", "deleted")])
    assert list(outside.iterdir()) == []


def test_a_sparse_copy_is_equal_and_sparse(tmp_path: Path) -> None:
    """Only what is written is copied (I21)."""
    source, target = tmp_path / "a", tmp_path / "b"
    with source.open("wb") as out:
        out.truncate(64 << 20)
        for place in (0, 5 << 20, (64 << 20) - 3):
            out.seek(place)
            out.write(b"abc")
    copy_sparse(source, target)
    assert source.read_bytes() == target.read_bytes()
    assert target.stat().st_blocks * 512 < 1 << 20


def test_a_workspace_opens_while_another_of_its_run_closes_as_the_last(tmp_path: Path) -> None:
    """The run's folder goes with its last workspace; whoever opens one in that moment makes it anew (H13)."""
    where = Places(tmp_path / "locks", tmp_path / "state")

    def opened_and_closed() -> None:
        for _ in range(2000):
            folder = where.workspace_scratch("run")
            folder.rmdir()
            with contextlib.suppress(OSError):
                folder.parent.rmdir()

    with ThreadPoolExecutor(4) as pool:
        for ended in [pool.submit(opened_and_closed) for _ in range(4)]:
            ended.result()
    assert list((tmp_path / "state" / "scratch").iterdir()) == []


def test_a_sidecar_has_no_network_of_its_own_and_a_model_server_may_have_gpus() -> None:
    """Who shares another's network has neither a hostname nor a word about networks (M19, issue 6: GPU)."""
    beside = container_body(replace(SPEC, network_of="abc"))
    assert beside["HostConfig"]["NetworkMode"] == "container:abc"
    assert "Hostname" not in beside
    assert "NetworkDisabled" not in beside
    assert "DeviceRequests" not in beside["HostConfig"]
    asked = container_body(replace(SPEC, gpus=True))["HostConfig"]["DeviceRequests"]
    assert [(one["Driver"], one["Count"]) for one in asked] == [("nvidia", -1)]
