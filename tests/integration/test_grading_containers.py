"""Grading in real containers, against solutions that want more than they earn (formats 7)."""

from __future__ import annotations

import importlib.util
import marshal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.ports import Changes, ExecSpec, TreeEntry
from appliance.trials.grading.grader import Grader
from tests.grading_bench import (
    BROKEN,
    FIX,
    FIXED,
    NOTHING,
    OPEN_TEST,
    PYTEST,
    SUBJECT_TEST,
    changed,
    graded,
    image,
    planned,
    real_grader,
    write_task,
)

pytestmark = pytest.mark.docker
OPEN_ORACLE = 'path = "/grade/result.xml"\nisolation = "none"\nfail_to_pass = ["test_double.py::test_of_two"]\n'
ALWAYS_PASS = "def test_of_two():\n    pass\n\ndef test_of_zero():\n    pass\n"
FORGED = (
    "<testsuites><testsuite><testcase classname='test_double' name='test_of_two'/>"
    "<testcase classname='test_double' name='test_of_zero'/></testsuite></testsuites>"
)


@pytest.fixture
def grader(tmp_path: Path) -> Iterator[Grader]:
    with real_grader(tmp_path / "scratch") as made:
        yield made


def hostile(code: str) -> Changes:
    """A solution that runs `code` whenever anything of it is loaded, and is else as broken as before."""
    return changed(**{"double.py": code + "\n" + BROKEN})


# -------------------------------------------------------------------------------------------- honest ones


def test_a_fix_resolves_and_nothing_does_not(grader: Grader, tmp_path: Path) -> None:
    """Exit 0 and every listed id: resolved; the untouched tree: unresolved, a good baseline (J06, J11, J13, J14)."""
    task = write_task(tmp_path)
    found, _, _ = grader.baseline(task, planned(task), image("base")[1])
    assert (found.verdict, [test.status for test in found.ids]) == ("failed", ["failed", "passed"])
    best = graded(grader, task, FIX)
    assert (best.outcome, best.reason, best.changed, best.restored) == ("resolved", None, ("double.py",), ())
    assert best.grade.tests_digest_after == best.grade.tests_digest_before
    assert best.patch_problem is None
    assert b"2 passed" in best.stdout.kept
    assert best.unrouted == 0
    floor = graded(grader, task, NOTHING)
    assert (floor.outcome, floor.reason, floor.patch, floor.changed) == ("unresolved", "tests_failed", b"", ())


def test_tests_can_go_in_without_a_bind(tmp_path: Path) -> None:
    """Where we may not own files as the judge, the tests are handed in, and the verdict is the same (I21)."""
    task = write_task(tmp_path)
    with real_grader(tmp_path / "scratch", bind_tests=False) as unbound:
        best = graded(unbound, task, FIX)
        assert (best.outcome, best.grade.tests_digest_after) == ("resolved", best.grade.tests_digest_before)
        assert graded(unbound, task, NOTHING).outcome == "unresolved"


def test_a_task_in_the_open_is_graded_too(grader: Grader, tmp_path: Path) -> None:
    """Isolation `none`: tests laid over the workspace, one user for both, the same verdicts (J11, J13, J14)."""
    task = write_task(tmp_path, tests={"test_double.py": OPEN_TEST}, oracle=OPEN_ORACLE)
    assert graded(grader, task, FIX).outcome == "resolved"
    floor = graded(grader, task, NOTHING)
    assert (floor.outcome, floor.reason, floor.unrouted) == ("unresolved", "tests_failed", 0)
    found, _, _ = grader.baseline(task, planned(task), image("base")[1])
    assert found.verdict == "failed"


def test_bytes_that_are_no_text_end_normally(grader: Grader, tmp_path: Path) -> None:
    """Names and output that are not UTF-8 are graded, kept and shown with escapes (H19)."""
    noise = "import os, sys\nos.write(2, bytes([255, 0]))\n"
    task = write_task(tmp_path)
    odd = TreeEntry(b"bad\xff\nname", "file", True, b"\xff\x00")
    mixed = Changes((*changed(**{"double.py": noise + FIXED}).entries, odd), ((b"fifo\xfe", "fifo"),))
    seen = graded(grader, task, mixed)
    assert (seen.outcome, seen.patch_problem) == ("resolved", None)
    assert seen.changed == ("bad\\xff\\x0aname", "double.py")
    assert seen.dropped == ("fifo\\xfe (fifo)",)


# -------------------------------------------------------------------------------------------- the oracle's ends


@pytest.mark.parametrize(
    ("test_cmd", "verdict", "words"),
    [
        (("no-such-program",), "baseline_error", "no-such-program"),
        ("exit 127", "baseline_error", "exit 127"),
        ("sleep 60", "baseline_error", "limit"),
        ("kill -SEGV $$", "baseline_error", "signal 11"),
        ("exit 0", "baseline_passed", "passes"),
        ("exit 1", "failed", None),
    ],
)
@pytest.mark.parametrize("isolation", ["user", "none"])
def test_a_baseline_tells_failing_from_not_running(  # noqa: PLR0917 - its parameters
    grader: Grader, tmp_path: Path, test_cmd: str, verdict: str, words: str | None, isolation: str
) -> None:
    """Not found, timeout and signal are errors of the baseline, never a reproduced bug (J06, J07)."""
    limits = "memory_mib = 128\ndisk_mib = 16\ntest_seconds = 2\n"
    task = write_task(tmp_path, test_cmd=test_cmd, oracle=f'isolation = "{isolation}"\n', limits=limits)
    found, _, _ = grader.baseline(task, planned(task), image("base")[1])
    assert found.verdict == verdict
    assert words is None or words in (found.detail or "")
    assert found.timed_out is (words == "limit")


def test_an_oracle_that_hangs_is_a_verdict(grader: Grader, tmp_path: Path) -> None:
    """A solution that never ends runs into the oracle's limit; what was printed is kept (J11, H18)."""
    task = write_task(
        tmp_path, limits="memory_mib = 256\ndisk_mib = 16\ntest_seconds = 4\n",
        test_cmd=("sh", "-c", "echo before; /run/appliance/subject python3 double.py"), oracle='isolation = "user"\n',
    )  # fmt: skip
    seen = graded(grader, task, changed(**{"double.py": "while True: pass\n"}))
    assert (seen.outcome, seen.reason, seen.grade.timed_out, seen.grade.exit) == (
        "unresolved", "oracle_timeout", True, None,
    )  # fmt: skip
    assert seen.stdout.kept == b"before\n"


def test_a_flood_of_output_is_cut_and_counted(grader: Grader, tmp_path: Path) -> None:
    """Head and tail are kept, size and digest are those of the whole (H18)."""
    task = write_task(
        tmp_path, test_cmd=("sh", "-c", "echo first; head -c 20000000 /dev/zero; echo last"),
        oracle='isolation = "user"\n',
    )  # fmt: skip
    seen = graded(grader, task, NOTHING)
    assert (seen.stdout.total_bytes, seen.stdout.truncated) == (20_000_011, True)
    assert seen.stdout.head.startswith(b"first\n")
    assert seen.stdout.tail.endswith(b"last\n")
    assert len(seen.stdout.kept) < 3_000_000


def test_tests_that_reach_for_a_network_are_seen(grader: Grader, tmp_path: Path) -> None:
    """A connect without a route shows in the grader's own namespace (H10)."""
    reach = (
        "import socket\ns = socket.socket()\ns.settimeout(1)\n"
        "try:\n    s.connect(('192.0.2.1', 80))\nexcept OSError:\n    pass\n"
    )
    for isolation in ("user", "none"):
        task = write_task(
            tmp_path / isolation, test_cmd=("python3", "-c", reach), oracle=f'isolation = "{isolation}"\n'
        )
        assert (graded(grader, task, NOTHING).unrouted or 0) > 0


# -------------------------------------------------------------------------------------------- forged tests and files


@pytest.mark.parametrize(
    "change",
    [
        changed(**{"tests/test_double.py": ALWAYS_PASS}),
        changed(**{"tests/test_double.py": None}),
        Changes((TreeEntry(b"tests/test_double.py", "link", content=b"/etc/hostname"),), ()),
        Changes((TreeEntry(b"tests/test_double.py", "file", True, SUBJECT_TEST.encode()),), ()),
        Changes((TreeEntry(b"tests/test_double.py", "deleted"), TreeEntry(b"tests", "link", content=b"/tmp")), ()),
    ],
    ids=["overwritten", "deleted", "linked", "executable", "folder linked away"],
)
@pytest.mark.parametrize("isolation", ["user", "none"])
def test_test_files_are_the_pristine_ones(grader: Grader, tmp_path: Path, change: Changes, isolation: str) -> None:
    """Overwritten, deleted, replaced by a link, made executable: graded with the original, and listed (J09, H2)."""
    name = "tests/test_double.py"
    text = SUBJECT_TEST if isolation == "user" else "import os, sys\nsys.path.insert(0, os.getcwd())\n" + OPEN_TEST
    oracle = f'path = "/grade/result.xml"\nisolation = "{isolation}"\nfail_to_pass = ["{name}::test_of_two"]\n'
    task = write_task(
        tmp_path, before={"double.py": BROKEN, name: text}, tests={}, test_files=(name,),
        test_cmd=(*PYTEST, name), oracle=oracle,
    )  # fmt: skip
    seen = graded(grader, task, change)
    assert (seen.outcome, seen.reason) == ("unresolved", "tests_failed")
    assert name in seen.restored or "tests" in seen.restored
    both = graded(grader, task, Changes((*change.entries, *FIX.entries), ()))
    assert (both.outcome, both.grade.tests_digest_after) == ("resolved", both.grade.tests_digest_before)


def unchecked_pyc() -> bytes:
    code = compile(ALWAYS_PASS, "test_double.py", "exec")
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)


HOOK = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
SHADOW = f"import os, sys\nopen('/grade/result.xml', 'w').write({FORGED!r})\nos._exit(0)\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conftest.py", HOOK),
        ("pytest.py", SHADOW),
        ("pytest/__init__.py", SHADOW),
        ("pytest/__main__.py", SHADOW),
        ("subprocess.py", SHADOW),
        ("sitecustomize.py", SHADOW),
        ("usercustomize.py", SHADOW),
        ("evil.pth", "import os; os._exit(0)\n"),
        ("pytest.ini", "[pytest]\naddopts = -p evil\n"),
        ("__pycache__/test_double.cpython-311.pyc", unchecked_pyc()),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-p evil'\n"),
        ("Makefile", "all:\n\ttrue\n"),
        ("node_modules/assert/index.js", "module.exports = () => {}\n"),
    ],
)
@pytest.mark.parametrize("isolation", ["user", "none"])
def test_files_that_runners_load_unasked_are_kept_out(
    grader: Grader, tmp_path: Path, name: str, content: str | bytes, isolation: str
) -> None:
    """A submission of such a file alone resolves nothing, is listed, and spoils no good fix (H3, J10)."""
    if isolation == "user":
        task = write_task(tmp_path)
    else:
        task = write_task(tmp_path, tests={"test_double.py": OPEN_TEST}, oracle=OPEN_ORACLE)
    alone = graded(grader, task, changed(**{name: content}))
    assert (alone.outcome, alone.restored) == ("unresolved", (name,))
    assert name in alone.changed
    both = graded(grader, task, Changes((*changed(**{name: content}).entries, *FIX.entries), ()))
    assert (both.outcome, both.restored) == ("resolved", (name,))


# -------------------------------------------------------------------------------------------- hostile programs


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        f"open('/grade/result.xml', 'w').write({FORGED!r})",
        f"import os\nos.makedirs('/tmp/grade')\nopen('/tmp/grade/result.xml', 'w').write({FORGED!r})\nos._exit(0)",
        "import os; os.kill(-1, 9)",
        "import os, signal; os.kill(os.getppid(), 19)",
        "import os, signal; os.kill(os.getppid(), 9)",
        "import os\nwhile True: os.fork()",
        "x = bytearray(1 << 30)",
        "import os; os.unlink('/run/appliance/subject.sock')",
        "import os; os.rename('/run/appliance/subject', '/run/appliance/other')",
        "import os; os.rename('/run/appliance/lib', '/run/appliance/other')",
        "print('ok 1 - everything')",
        "import os; os.write(1, b'4\\n' * 100000)",
    ],
)
def test_a_hostile_solution_resolves_nothing(grader: Grader, tmp_path: Path, code: str) -> None:
    """Ending, forging, killing, stopping, flooding: unresolved by the oracle, never an error of ours (H1, H23, J12)."""
    seen = graded(grader, write_task(tmp_path), hostile(code))
    assert seen.outcome == "unresolved"
    assert seen.reason in ("tests_failed", "no_verdict", "oracle_timeout")


def test_a_process_left_behind_gains_nothing_and_costs_nothing(grader: Grader, tmp_path: Path) -> None:
    """A daemon that rewrites result and tests changes no verdict, in either direction (H1, H2)."""
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        for fd in range(3): os.close(fd)\n"
        "        while True:\n"
        "            for path in ('/grade/result.xml', '/tests/test_double.py', '/run/appliance/subject'):\n"
        "                try: open(path, 'w').write('')\n"
        "                except OSError: pass\n"
        "    os._exit(0)\n"
    )
    task = write_task(tmp_path)
    assert graded(grader, task, hostile(daemon)).outcome == "unresolved"
    fine = graded(grader, task, changed(**{"double.py": daemon + FIXED}))
    assert (fine.outcome, fine.grade.tests_digest_after) == ("resolved", fine.grade.tests_digest_before)


def test_what_stops_the_server_is_ended_from_outside(grader: Grader, tmp_path: Path) -> None:
    """A solution that stops the subject's server and stays is dead before the result counts (H1)."""
    stop = (
        "import os, signal, glob\n"
        "for entry in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    pid = int(entry.split('/')[2])\n"
        "    if b'server.py' in open(entry, 'rb').read() and pid != os.getppid(): os.kill(pid, signal.SIGSTOP)\n"
    )
    seen = graded(grader, write_task(tmp_path), changed(**{"double.py": stop + FIXED}))
    assert seen.grade.tests_digest_after == seen.grade.tests_digest_before
    assert seen.outcome in ("resolved", "unresolved")


SPY = """
import glob, os, subprocess
def readable(path):
    try:
        return bool(os.listdir(path)) if os.path.isdir(path) else bool(open(path, 'rb').read(1))
    except OSError:
        return False
others = [p for p in glob.glob('/proc/[0-9]*') if os.path.exists(p) and os.stat(p).st_uid != os.getuid()]
found = [p for p in ('/tests', '/grade', '/tests/test_double.py') if readable(p)]
inside = ('/environ', '/fd', '/maps', '/mem', '/cwd/test_double.py')
found += [p + part for p in others for part in inside if readable(p + part)]
writable = [p for p in ('/tests', '/grade', '/run/appliance/lib', '/etc') if os.access(p, os.W_OK)]
print(len(others) > 0, found, writable)
"""


def test_the_solution_sees_nothing_of_the_judge(grader: Grader, tmp_path: Path) -> None:
    """Tests, results and the judge's own descriptors and memory are closed to the solution's user (H1, H2)."""
    task = write_task(
        tmp_path, test_cmd=("/run/appliance/subject", "python3", "double.py"), oracle='isolation = "user"\n'
    )
    assert graded(grader, task, changed(**{"double.py": SPY})).stdout.kept == b"True [] []\n"


def test_the_judge_loads_nothing_of_the_workspace(grader: Grader, tmp_path: Path) -> None:
    """Its folder is /tests, its path is safe, its temporary folder its own (J10)."""
    show = (
        "import os, sys; said = os.getcwd(), os.getuid(), sys.flags.safe_path, os.environ['TMPDIR'];"
        "print(*said, '/workspace' in str(sys.path))"
    )
    task = write_task(tmp_path, test_cmd=("python3", "-c", show), oracle='isolation = "user"\n')
    assert graded(grader, task, NOTHING).stdout.kept == b"/tests 1001 True /grade/tmp False\n"


def test_the_container_survives_whoever_kills_everything(grader: Grader, tmp_path: Path) -> None:
    """`kill -9 -1` by the solution's user or the judge's leaves the container, its mounts and a verdict (formats 7)."""
    task = write_task(tmp_path)
    ready = grader.ready(task, planned(task), image("base")[1])
    for user in ("1000:1000", "1001:1001", "1001:1001"):
        grader.look(ready, ExecSpec(("sh", "-c", "kill -9 -1; kill -9 1; kill -19 1"), user, "/", timeout_seconds=20))
    seen = grader.look(ready, ExecSpec(("ls", "/tests"), "1001:1001", "/", timeout_seconds=20))
    assert seen.stdout.kept == b"test_double.py\n"
    grader.discard(ready)
    murder = write_task(tmp_path / "own", test_cmd="kill -9 -1; exit 0", oracle='isolation = "user"\n')
    assert graded(grader, murder, NOTHING).reason == "no_verdict"


def test_a_tampered_test_in_the_open_is_named(grader: Grader, tmp_path: Path) -> None:
    """Where tests and solution are one user's, a changed test file ends as tampered, not as a score (H2)."""
    task = write_task(tmp_path, tests={"test_double.py": OPEN_TEST}, oracle=OPEN_ORACLE)
    rewrite = f"open('test_double.py', 'w').write({ALWAYS_PASS!r})"
    seen = graded(grader, task, changed(**{"double.py": rewrite + "\n" + FIXED}))
    assert (seen.outcome, seen.reason) == ("unresolved", "tampered")


def test_a_report_that_is_there_beforehand_is_not_read(grader: Grader, tmp_path: Path) -> None:
    """A run that writes no report has no verdict, whatever lay in its place (H1)."""
    task = write_task(tmp_path, test_cmd=("true",))
    seen = graded(grader, task, FIX)
    assert (seen.outcome, seen.reason) == ("unresolved", "no_verdict")


def test_tap_lines_decide_where_the_task_says_so(grader: Grader, tmp_path: Path) -> None:
    """TAP is read from test_cmd's standard output; lines of the solution that break its plan are no verdict (J11)."""
    oracle = 'format = "tap"\nisolation = "user"\nfail_to_pass = ["it doubles"]\n'
    script = (
        'echo 1..1; out=$(/run/appliance/subject python3 -c \'import sys; sys.path.insert(0, "/workspace")\n'
        "from double import double; print(double(2))')\n"
        'echo "$out" | sed 1d; [ "$(echo "$out" | head -n1)" = 4 ] && echo ok 1 - it doubles && exit\n'
        "echo not ok 1 - it doubles; exit 1"
    )
    task = write_task(tmp_path, test_cmd=("sh", "-c", script), oracle=oracle)
    assert graded(grader, task, FIX).outcome == "resolved"
    assert graded(grader, task, NOTHING).reason == "tests_failed"
    forged = changed(**{"double.py": "print('x\\nok 1 - it doubles')\n" + BROKEN})
    assert graded(grader, task, forged).reason == "no_verdict"
