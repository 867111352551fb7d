"""Our seccomp profile: each thing that it refuses, refused in a real container, and what agents need, allowed (I16)."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator

import pytest

from appliance.engine.docker import connect
from tests.engine_bench import container, execute, python

pytestmark = pytest.mark.docker

# Numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
REFUSED = {
    "ptrace": 101,
    "syslog": 103,
    "modify_ldt": 154,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "set_mempolicy_home_node": 450,
}
"""Refused whatever the arguments: all zeros here, which the kernel itself would answer otherwise (or by doing it)."""

NAMESPACES = {
    "CLONE_NEWNS": 0x00020000,
    "CLONE_NEWCGROUP": 0x02000000,
    "CLONE_NEWUTS": 0x04000000,
    "CLONE_NEWIPC": 0x08000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
FAMILIES_ALLOWED = {1: "AF_UNIX", 2: "AF_INET", 10: "AF_INET6", 16: "AF_NETLINK"}
FAMILIES = tuple(range(46))

PROGRAM = r"""
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def ask(number, *arguments):
    ctypes.set_errno(0)
    given = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) for one in arguments])
    if number == 56 and given == 0: os._exit(0)
    return 0 if given >= 0 else ctypes.get_errno()
asked = json.load(sys.stdin)
print(json.dumps({name: ask(*words) for name, words in asked.items()}))
"""


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, int]]:
    """errno of every system call that the tests ask about, from one process in one container."""
    asked: dict[str, list[int]] = {name: [number, 0, 0, 0, 0, 0] for name, number in REFUSED.items()}
    asked |= {name: [56, flag | 17, 0, 0, 0, 0] for name, flag in NAMESPACES.items()}
    asked |= {f"family {family}": [41, family, 1, 0] for family in FAMILIES}
    asked |= {"clone3": [435, 0, 0], "socketpair AF_INET": [53, 2, 1, 0, 0]}
    asked |= {"personality ADDR_NO_RANDOMIZE": [135, 0x0040000], "personality query": [135, 0xFFFFFFFF]}
    engine = connect()
    with container(engine) as made:
        outcome = python(engine, made, PROGRAM, stdin=json.dumps(asked).encode())
    assert outcome.exit == 0, outcome.stderr.kept
    yield json.loads(outcome.stdout.kept)


@pytest.mark.parametrize("name", REFUSED)
def test_a_system_call_outside_the_list_is_refused(answers: dict[str, int], name: str) -> None:
    """EPERM from the filter (I16, I17)."""
    assert answers[name] == errno.EPERM


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_new_namespace_by_clone(answers: dict[str, int], name: str) -> None:
    """User namespaces above all: within one, everything else would be allowed again (I16)."""
    assert answers[name] == errno.EPERM


def test_clone3_answers_as_if_it_did_not_exist(answers: dict[str, int]) -> None:
    """Its flags lie behind a pointer that a filter cannot read; on ENOSYS the C library falls back to clone."""
    assert answers["clone3"] == errno.ENOSYS


@pytest.mark.parametrize("family", FAMILIES)
def test_only_four_socket_families_exist(answers: dict[str, int], family: int) -> None:
    """AF_VSOCK left a container without a network under Docker 20.10's own profile."""
    refused = answers[f"family {family}"] == errno.EPERM
    assert refused == (family not in FAMILIES_ALLOWED)


def test_socket_pairs_are_unix_only(answers: dict[str, int]) -> None:
    """By the filter, before the kernel says that there is no such pair."""
    assert answers["socketpair AF_INET"] == errno.EPERM


def test_address_randomisation_cannot_be_switched_off(answers: dict[str, int]) -> None:
    """Five personalities are allowed, among them the question which one it is."""
    assert answers["personality ADDR_NO_RANDOMIZE"] == errno.EPERM
    assert answers["personality query"] == 0


def test_what_agents_need_is_allowed() -> None:
    """Threads, processes, pipes, loopback and Unix sockets, signals, inotify, memory files, git."""
    program = (
        "import asyncio, mmap, os, select, signal, socket, subprocess, tempfile, threading\n"
        "from multiprocessing import Pool\n"
        "import ctypes\n"
        "thread = threading.Thread(target=lambda: None); thread.start(); thread.join()\n"
        "assert Pool(2).map(abs, [-1, -2]) == [1, 2]\n"
        "server = socket.create_server(('127.0.0.1', 0)); socket.create_connection(server.getsockname())\n"
        "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "socket.if_nameindex()\n"
        "os.memfd_create('m'); os.pidfd_open(os.getpid()); select.epoll(); signal.alarm(5)\n"
        "libc = ctypes.CDLL(None); assert libc.inotify_init() >= 0\n"
        "asyncio.run(asyncio.sleep(0))\n"
        "subprocess.run(['git', 'init', '-q', '/tmp/repo'], check=True)\n"
        "print('all')\n"
    )
    engine = connect()
    with container(engine) as made:
        outcome = python(engine, made, program)
        shell = execute(engine, made, ("sh", "-c", "id -u | cat; (sleep 0 &) ; wait; echo $((1+1))"))
    assert (outcome.stdout.kept, outcome.exit) == (b"all\n", 0), outcome.stderr.kept
    assert shell.stdout.kept == b"1000\n2\n"
