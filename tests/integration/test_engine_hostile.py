"""What a hostile solver tries in a real container, in both kinds of workspace: contained, seen, the host unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.docker import DockerEngine, connect
from appliance.engine.workspaces import HostWorkspaces
from appliance.ports import RUN_LABEL, Changes, DiskUse, Evidence, ExecOutcome
from tests.engine_bench import LIMITS, container, new_run, python

pytestmark = [pytest.mark.docker, pytest.mark.root]


class Trial:
    """One program as the solver, and all that came of it."""

    def __init__(self, engine: DockerEngine, kind: str, before: Path):
        self._engine, self._before = engine, before
        self._workspaces = HostWorkspaces(engine, kind)  # type: ignore[arg-type]  # the two words of `Kind`
        self.outcome: ExecOutcome
        self.evidence: Evidence
        self.disk: DiskUse
        self.changes: Changes

    def run(self, program: str, **limits: object) -> Trial:
        held = LIMITS.model_copy(update={"memory_mib": 128} | limits)
        workspace = self._workspaces.open(self._before, held.disk_mib, {RUN_LABEL: new_run()})
        try:
            with container(self._engine, mounts=(workspace.mount,), limits=held) as made:
                workspace.seed(made)
                self.outcome = python(self._engine, made, program, timeout_seconds=120.0)
                self.evidence = self._engine.evidence(made)
                self.disk = workspace.disk()
            self.changes = workspace.harvest()
            self.entries = {one.path: one for one in self.changes.entries}
            self.dropped = dict(self.changes.dropped)
        finally:
            workspace.close()
        return self


@pytest.fixture(params=["overlay", "volume"])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    before = tmp_path / "before"
    before.mkdir()
    (before / "kept.txt").write_text("kept\n")
    yield Trial(connect(), request.param, before)
    assert (before / "kept.txt").read_text() == "kept\n"


def test_a_link_out_of_the_workspace_is_a_link_and_nothing_more(trial: Trial) -> None:
    """Not followed by the harvest: neither the host's nor the container's file is read (I17, I28)."""
    trial.run(
        "import os\n"
        "os.symlink('/etc/shadow', 'file'); os.symlink('/', 'root'); os.symlink('../../../../etc', 'up')\n"
        "os.remove('kept.txt'); os.symlink('/etc/hostname', 'kept.txt')\n"
    )
    assert {path: (one.kind, one.content) for path, one in trial.entries.items()} == {
        b"file": ("link", b"/etc/shadow"),
        b"root": ("link", b"/"),
        b"up": ("link", b"../../../../etc"),
        b"kept.txt": ("link", b"/etc/hostname"),
    }


def test_devices_cannot_be_made_and_setuid_does_nothing(trial: Trial) -> None:
    """No capability makes a device; a setuid bit is named, and its file kept (I17)."""
    trial.run(
        "import os, stat\n"
        "for kind in (stat.S_IFCHR, stat.S_IFBLK):\n"
        "    try: os.mknod('device', kind | 0o666, os.makedev(8, 0))\n"
        "    except PermissionError: pass\n"
        "    else: raise SystemExit('made a device')\n"
        "try: os.mknod('white', stat.S_IFCHR, 0)\n"
        "except PermissionError: pass\n"
        "else: raise SystemExit('made a whiteout')\n"
        "open('suid', 'w').write('x'); os.chmod('suid', 0o4755)\n"
        "try: os.setuid(0)\n"
        "except PermissionError: pass\n"
        "else: raise SystemExit('became root')\n"
    )
    assert (trial.outcome.exit, trial.outcome.stderr.kept) == (0, b"")
    assert trial.dropped == {b"suid": "setuid"}
    assert trial.entries[b"suid"].executable


def test_fifos_and_sockets_are_named_and_not_opened(trial: Trial) -> None:
    """Opening one would wait for ever (I17, I28)."""
    trial.run(
        "import os, socket\n"
        "os.mkfifo('fifo'); os.remove('kept.txt'); os.mkfifo('kept.txt')\n"
        "os.mkdir('empty'); os.mkdir('held'); socket.socket(socket.AF_UNIX).bind('held/socket')\n"
    )
    assert trial.dropped == {
        b"fifo": "fifo",
        b"kept.txt": "fifo",
        b"empty": "empty_directory",
        b"held/socket": "socket",
    }
    assert [(one.path, one.kind) for one in trial.changes.entries] == [(b"kept.txt", "deleted")]


def test_names_may_be_any_bytes(trial: Trial) -> None:
    """New lines, invalid UTF-8, what looks like options or whiteouts (I17, H19)."""
    names = [b"new\nline", b"\xff\xfe", b"--help", b" ", b".wh.kept.txt", b"..a", "\u202e".encode()]
    trial.run(f"for name in {names!r}: open(name, 'wb').write(name)")
    assert {path: one.content for path, one in trial.entries.items()} == {name: name for name in names}


def test_a_hundred_thousand_files_end_within_bounds(trial: Trial) -> None:
    """What is past the caps is counted, not held; the trial goes on (I17, H24)."""
    trial.run(
        "import os\n"
        "for folder in range(100):\n"
        "    os.mkdir(f'd{folder:03}')\n"
        "    for name in range(1000): open(f'd{folder:03}/{name:04}', 'w').close()\n",
        disk_mib=420,
        memory_mib=1024,
    )
    assert trial.outcome.exit == 0, trial.outcome.stderr.kept
    assert len(trial.changes.entries) == 50_000
    assert trial.changes.dropped[-1] == (b"and 49000 more", "not_listed")


def test_a_full_disk_is_the_disks_doing(trial: Trial) -> None:
    """10 GB meet the end of the workspace, not of the host (I17, I21)."""
    trial.run(
        "import errno, os\n"
        "block = bytes(1 << 20)\n"
        "try:\n"
        "    with open('huge', 'wb', buffering=0) as out:\n"
        "        for _ in range(10_000): out.write(block)\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
    )
    assert trial.outcome.stdout.kept == b"ENOSPC\n"
    assert trial.disk.full
    assert trial.evidence.oom_kills == 0
    assert trial.disk.used_mib <= LIMITS.disk_mib * 1.1


def test_deep_folders_and_sparse_giants_are_too_large(trial: Trial) -> None:
    """A harvest reads what is there, and no more than its caps (I17)."""
    trial.run(
        "import os\n"
        "with open('sparse', 'wb') as out: out.truncate(70 << 20)\n"
        "for _ in range(150): os.mkdir('d'); os.chdir('d')\n"
        "open('bottom', 'w').close()\n"
    )
    assert trial.outcome.exit == 0, trial.outcome.stderr.kept
    assert trial.dropped.pop(b"sparse") == "too_large"
    assert list(trial.dropped.values()) == ["too_large"]
    assert trial.entries == {}


def test_git_folders_never_leave_the_container(trial: Trial) -> None:
    """Hooks and configuration would run on the host of whoever applied them (I28)."""
    trial.run(
        "import os, subprocess\n"
        "subprocess.run(['git', 'init', '-q', '.'], check=True)\n"
        "os.makedirs('sub/.GIT/hooks'); open('sub/.GIT/hooks/pre-commit', 'w').write('rm -rf ~')\n"
        "open('real', 'w').write('r')\n"
    )
    assert trial.dropped == {b".git": "git", b"sub/.GIT": "git"}
    assert list(trial.entries) == [b"real"]


def test_a_memory_hog_is_killed_by_its_own_limit(trial: Trial) -> None:
    """And the evidence says so; nothing else of the host is touched (I17, I27)."""
    trial.run("b = []\nwhile True: b.append(bytearray(8 << 20))", memory_mib=64)
    assert trial.outcome.exit == 137
    assert trial.evidence.oom_kills == 1


def test_the_host_is_out_of_reach(trial: Trial) -> None:
    """Mounts, other processes, abstract sockets and kernel files of the host (I17)."""
    host_socket = f"\0engine_test_{os.getpid()}"
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(host_socket)
        listening.listen()
        trial.run(
            "import ctypes, os, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "assert libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == -1\n"
            "assert libc.ptrace(16, 1, 0, 0) == -1\n"
            f"try: socket.socket(socket.AF_UNIX).connect({host_socket!r})\n"
            "except OSError: pass\n"
            "else: raise SystemExit('reached an abstract socket of the host')\n"
            "pids = [name for name in os.listdir('/proc') if name.isdigit()]\n"
            "assert len(pids) < 8, pids\n"
            "for path in ('/proc/kcore', '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/sys/fs/cgroup/x'):\n"
            "    try: open(path, 'w').write('x')\n"
            "    except OSError: pass\n"
            "    else: raise SystemExit('wrote ' + path)\n"
            "assert not os.path.exists('/sys/class/powercap/intel-rapl')\n"
        )
    assert (trial.outcome.exit, trial.outcome.stderr.kept) == (0, b"")


def test_a_gigabyte_of_output_leaves_the_harness_small() -> None:
    """Its memory does not grow with what a solver prints (H18, H24)."""
    engine = connect()

    def resident_kib() -> int:
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))

    program = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, block)"
    with container(engine) as made:
        python(engine, made, "print(1)")
        Path("/proc/self/clear_refs").write_text("5")
        began = resident_kib()
        outcome = python(engine, made, program, timeout_seconds=300.0)
        grown = resident_kib() - began
    assert outcome.stdout.total_bytes == 1 << 30
    assert grown < 50 * 1024


@pytest.mark.parametrize("kind", ["overlay", "volume"])
def test_a_pristine_tree_looks_the_same_whatever_its_copy_was(kind: str, tmp_path: Path) -> None:
    """Owner 1000, modes 644 and 755, one time, wherever and however it was checked out (J20)."""
    seen = []
    for mode in (0o600, 0o664):
        before = tmp_path / f"{mode:o}"
        (before / "d").mkdir(parents=True)
        (before / "d" / "f").write_text("f")
        (before / "d" / "f").chmod(mode)
        (before / "d").chmod(0o700)
        engine = connect()
        workspace = HostWorkspaces(engine, kind).open(before, 16, {RUN_LABEL: new_run()})  # type: ignore[arg-type]
        try:
            with container(engine, mounts=(workspace.mount,)) as made:
                workspace.seed(made)
                program = (
                    "import os\n"
                    "for path in ('.', 'd', 'd/f'):\n"
                    "    s = os.stat(path)\n"
                    "    print(path, oct(s.st_mode), s.st_uid, s.st_gid, path > '.' and s.st_mtime)\n"
                )
                seen.append(python(engine, made, program).stdout.kept.decode())
        finally:
            workspace.close()
    assert seen[0] == seen[1]
    assert f"d/f {oct(stat.S_IFREG | 0o644)} 1000 1000 1577836800" in seen[0]
