"""What every engine must do for a trial, on Docker and on podman's Docker-compatible socket; docs/engine.md has it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies, remove_run_cgroups
from appliance.engine.docker import DockerEngine, connect
from appliance.engine.workspaces import HostWorkspaces
from appliance.images.catalog import Catalog
from appliance.ports import RUN_LABEL, ContainerSpec, EngineFailed, TreeEntry
from tests.contract.table import PODMAN_LACKS
from tests.engine_bench import LIMITS, base_image, container, execute, new_run, podman_service, python


@pytest.fixture(scope="session")
def podman_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with podman_service(tmp_path_factory.mktemp("podman")) as address:
        yield address


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("podman", marks=[pytest.mark.podman, pytest.mark.docker]),
    ]
)
def engine(request: pytest.FixtureRequest) -> DockerEngine:
    if request.param == "docker":
        return connect()
    lacks = PODMAN_LACKS.get(request.node.originalname)
    if lacks:
        request.applymarker(pytest.mark.xfail(reason=lacks, strict=True))
    return connect(request.getfixturevalue("podman_address"))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A small pristine tree."""
    root = tmp_path / "before"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\n")
    (root / "src" / "b.py").write_text("y = 1\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/a.py")
    return root


def test_an_image_is_found_by_its_pin_and_refused_by_other_layers(engine: DockerEngine) -> None:
    """The config or manifest digest finds it, the diffIDs must agree (I3, I5)."""
    base_image(engine)
    pin = Catalog.default().lock("base").pin
    assert engine.resolve(pin)
    other = pin.model_copy(update={"diff_ids": ("sha256:" + "0" * 64,)})
    with pytest.raises(EngineFailed, match="other layers"):
        engine.resolve(other)


def test_an_image_that_is_absent_is_never_pulled(engine: DockerEngine) -> None:
    """Create by id fails at once where the image is not there (I6, H17)."""
    spec = ContainerSpec("sha256:" + "1" * 64, "test", {}, LIMITS, "none", None)
    with pytest.raises(EngineFailed, match="not in the engine"):
        engine.create(spec)


def test_a_container_has_loopback_only_and_a_read_only_root(engine: DockerEngine) -> None:
    """Network none, root read-only, /tmp and HOME writable and executable (I16)."""
    program = (
        "import os, socket, subprocess\n"
        "assert os.listdir('/sys/class/net') == ['lo'], os.listdir('/sys/class/net')\n"
        "for place in ('/', '/usr', '/etc', '/opt'):\n"
        "    try: open(place + '/mark', 'w')\n"
        "    except OSError: pass\n"
        "    else: raise SystemExit('wrote ' + place)\n"
        "for place in ('/tmp', os.environ['HOME']):\n"
        "    path = place + '/run.sh'\n"
        "    open(path, 'w').write('#!/bin/sh\\nexit 7\\n'); os.chmod(path, 0o755)\n"
        "    assert subprocess.run([path]).returncode == 7\n"
    )
    with container(engine) as made:
        outcome = python(engine, made, program)
    assert (outcome.exit, outcome.stderr.kept) == (0, b"")


def test_a_process_has_no_capability_no_new_privileges_and_our_filter(engine: DockerEngine) -> None:
    """As the kernel states it in /proc/self/status (I16)."""
    with container(engine) as made:
        status = execute(engine, made, ("cat", "/proc/self/status")).stdout.kept.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert fields["Uid"].split() == ["1000"] * 4


def test_hostname_locale_and_home_are_the_same_everywhere(engine: DockerEngine) -> None:
    """Nothing of the host or the task is in them (formats 3, H25)."""
    with container(engine) as made:
        said = execute(engine, made, ("sh", "-c", "hostname; echo $HOME $LANG $TZ; pwd")).stdout.kept
    assert said == b"bench\n/home/bench C.UTF-8 UTC\n/workspace\n"


def test_limits_read_back_are_those_asked(engine: DockerEngine) -> None:
    """From the runtime, not from what we sent (I16)."""
    limits = LIMITS.model_copy(update={"cpus": 0.5, "memory_mib": 96, "pids": 24})
    with container(engine, limits=limits) as made:
        held = engine.in_force(made, limits)
    assert (held.limits, held.network) == (limits, "none")


def test_a_container_lives_in_the_cgroup_that_was_named(engine: DockerEngine) -> None:
    """So that the trial's own parent counts its CPU time (I19)."""
    run = new_run()
    try:
        with container(engine, cgroup_parent=f"/bench-appliance/{run}/00000/solver", run=run) as made:
            pid = engine.client.inspect_container(made)["State"]["Pid"]
            assert f"/bench-appliance/{run}/00000/solver/" in Path(f"/proc/{pid}/cgroup").read_text()
    finally:
        assert remove_run_cgroups(hierarchies(), run, 5.0) == ()


def test_a_program_gives_its_status_and_both_streams(engine: DockerEngine) -> None:
    """Apart, whole, with the true status."""
    with container(engine) as made:
        outcome = execute(engine, made, ("sh", "-c", "printf out; printf err >&2; exit 37"))
    assert (outcome.exit, outcome.stdout.kept, outcome.stderr.kept) == (37, b"out", b"err")
    assert not outcome.stdout.truncated


def test_bytes_that_are_no_text_go_in_and_come_out(engine: DockerEngine) -> None:
    """Standard input to its end, output untouched (H19)."""
    content = bytes(range(256)) * 2000
    with container(engine) as made:
        assert execute(engine, made, ("cat",), stdin=content).stdout.kept == content
        assert execute(engine, made, ("cat",), stdin=b"").stdout.total_bytes == 0


def test_a_program_that_is_not_there_is_told_from_one_that_ends_127(engine: DockerEngine) -> None:
    """Only the exec's own failure is a start error (formats 3)."""
    with container(engine) as made:
        absent = execute(engine, made, ("no-such-program",))
        ended = execute(engine, made, ("sh", "-c", "exit 127"))
        denied = execute(engine, made, ("sh", "-c", "exit 126"))
    assert absent.start_error is not None
    assert (ended.exit, ended.start_error) == (127, None)
    assert (denied.exit, denied.start_error) == (126, None)


def test_a_limit_keeps_what_was_printed_so_far(engine: DockerEngine) -> None:
    """And leaves the process for the caller to kill (H6, H18)."""
    with container(engine) as made:
        outcome = execute(engine, made, ("sh", "-c", "echo early; sleep 100"), timeout_seconds=0.7)
        assert (outcome.exit, outcome.timed_out, outcome.stdout.kept) == (None, True, b"early\n")
        assert engine.processes(made) > 1
        engine.remove(made)
        assert engine.processes(made) == 0


def test_a_process_left_behind_does_not_hold_the_exec_open(engine: DockerEngine) -> None:
    """Though it holds the output open, silent or writing: what comes after the exit is not waited for (H1)."""
    for loop in ("sleep 1.5; echo late; sleep 60", "while :; do echo x; sleep 0.05; done"):
        with container(engine) as made:
            outcome = execute(engine, made, ("sh", "-c", f"echo mine; ({loop}) & sleep 0.3; exit 5"))
            assert (outcome.exit, outcome.timed_out) == (5, False)
            assert outcome.stdout.kept.startswith(b"mine\n")
            assert b"late" not in outcome.stdout.kept


def test_output_past_the_cap_is_counted_and_digested_whole(engine: DockerEngine) -> None:
    """Head and tail are kept (I18, H18)."""
    line = b"0123456789abcdef"
    program = "import sys\nfor i in range(4096): sys.stdout.buffer.write(b'0123456789abcdef' * 1024)"
    with container(engine) as made:
        out = python(engine, made, program, capture_bytes=100_000).stdout
    whole = line * 1024 * 4096
    assert (out.total_bytes, out.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert out.truncated
    assert (out.head, out.tail) == (whole[:50_000], whole[-50_000:])


def test_an_out_of_memory_kill_is_counted_before_the_container_goes(engine: DockerEngine) -> None:
    """From the container's own cgroup; the peak reaches the limit (I27)."""
    with container(engine) as made:
        assert engine.evidence(made).oom_kills == 0
        outcome = python(engine, made, "b = bytearray(200 << 20)")
        seen = engine.evidence(made)
    assert outcome.exit == 137
    assert seen.oom_kills is not None and seen.oom_kills >= 1
    assert seen.peak_memory_mib is not None and 60 <= seen.peak_memory_mib <= 64


def test_a_refused_fork_is_counted(engine: DockerEngine) -> None:
    """The fork bomb ends at the limit on pids, and the host has none of it (I17, I27)."""
    program = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 200:\n"
        "        if os.fork() == 0: time.sleep(30); os._exit(0)\n"
        "        made += 1\n"
        "except OSError: pass\n"
        "print(made)\n"
    )
    with container(engine) as made:
        outcome = python(engine, made, program, timeout_seconds=10.0)
        seen, alive = engine.evidence(made), engine.processes(made)
        engine.remove(made)
        assert engine.processes(made) == 0
    assert int(outcome.stdout.kept) < LIMITS.pids
    assert seen.pids_denied is not None and seen.pids_denied >= 1
    assert 2 < alive <= LIMITS.pids


def test_removing_is_killing_and_may_be_repeated(engine: DockerEngine) -> None:
    """A main process that ignores SIGTERM delays nothing (H14, H15)."""
    with container(engine) as made:
        execute(engine, made, ("sh", "-c", "trap '' TERM; sleep 60"), timeout_seconds=0.3)
        engine.remove(made)
        engine.remove(made)
        assert not engine.client.containers(all=True, filters={"id": made})


def _changed(engine: DockerEngine, workspaces: HostWorkspaces, before: Path) -> None:
    workspace = workspaces.open(before, LIMITS.disk_mib, {RUN_LABEL: new_run()})
    laid = TreeEntry(b"laid/by/us", "file", True, b"#!/bin/sh\necho laid\n")
    try:
        with container(engine, mounts=(workspace.mount,)) as made:
            workspace.seed(made)
            workspace.lay(made, [laid, TreeEntry(b"src/b.py", "deleted")])
            script = "laid/by/us && test ! -e src/b.py && cat link && echo x = 2 > src/a.py && mkdir -p d && mkfifo d/f"
            outcome = execute(engine, made, ("sh", "-c", script))
            assert (outcome.exit, outcome.stdout.kept, outcome.stderr.kept) == (0, b"laid\nx = 1\n", b"")
            assert not workspace.disk().full
            execute(engine, made, ("sh", "-c", "head -c 100M /dev/zero > huge"))
            assert workspace.disk().full
            execute(engine, made, ("rm", "huge"))
        changes = workspace.harvest()
        assert changes.entries == (
            laid,
            TreeEntry(b"src/a.py", "file", False, b"x = 2\n"),
            TreeEntry(b"src/b.py", "deleted"),
        )
        assert changes.dropped == ((b"d/f", "fifo"),)
    finally:
        workspace.close()


def test_a_volume_is_filled_bounded_and_read_back(engine: DockerEngine, before: Path) -> None:
    """The workspace of who is not root: seed, lay, use, a full disk, harvest after the container's end (I21, I28)."""
    _changed(engine, HostWorkspaces(engine, "volume"), before)


@pytest.mark.root
def test_an_overlay_is_laid_bounded_and_read_back(engine: DockerEngine, before: Path) -> None:
    """The same with root's workspace (I21, I28)."""
    _changed(engine, HostWorkspaces(engine, "overlay"), before)
    assert (before / "src" / "a.py").read_text() == "x = 1\n"


def test_a_container_may_share_anothers_network_and_nothing_else(engine: DockerEngine) -> None:
    """What listens on 127.0.0.1 in one is reached from the other; processes and files are not seen (M12, M19)."""
    serve = (
        "import socket\n"
        "listening = socket.create_server(('127.0.0.1', 8089))\n"
        "while True:\n"
        "    listening.accept()[0].sendall(b'heard')\n"
    )
    with container(engine) as first:
        spec = ContainerSpec(
            image=base_image(engine),
            role="forwarder",
            labels={RUN_LABEL: new_run()},
            limits=LIMITS,
            network="none",
            cgroup_parent=None,
            workdir="/",
            command=("python3", "-I", "-c", serve),
            init=False,
            network_of=first,
        )
        beside = engine.create(spec)
        try:
            engine.start(beside)
            ask = (
                "import os, socket, time\n"
                "for _ in range(200):\n"
                "    try: found = socket.create_connection(('127.0.0.1', 8089)); break\n"
                "    except OSError: time.sleep(0.05)\n"
                "print(found.recv(9).decode(), os.listdir('/sys/class/net'))\n"
                "print(sum('create_server' in open('/proc/' + pid + '/cmdline').read()\n"
                "          for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()))\n"
            )
            outcome = python(engine, first, ask)
            assert outcome.stdout.kept.decode().splitlines() == ["heard ['lo']", "0"]
            assert engine.processes(beside) == 1
        finally:
            engine.remove(beside)
        assert engine.processes(beside) == 0
