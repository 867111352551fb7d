"""The suite reader: what is taken, and how each thing that is not is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from appliance.errors import InputRefused, UsageRefused
from appliance.tasks.model import Limits
from appliance.tasks.reader import find_suite, list_suites, read_suite, require_reference
from tests.tasks_made import TASK_TOML, make_task

SYNTAX_ERROR = TASK_TOML + "\n[limits\n"


def refused(suite: Path) -> str:
    with pytest.raises(InputRefused) as caught:
        read_suite(suite)
    said = str(caught.value)
    assert "\n" not in said
    assert caught.value.status == 3
    return said


def test_tasks_are_sorted_by_name_and_hold_their_defaults(tmp_path: Path) -> None:
    """Two valid folders are two tasks, sorted; what task.toml leaves out has formats 1's defaults (J01)."""
    make_task(tmp_path, "zulu")
    make_task(tmp_path, "alpha")
    suite = read_suite(tmp_path)
    assert [task.spec.name for task in suite.tasks] == ["alpha", "zulu"]
    assert (suite.name, suite.version, suite.timeout_resolves) == (tmp_path.name, "1", True)
    spec = suite.tasks[0].spec
    assert (spec.image, spec.network, spec.limits) == ("base", "none", Limits())
    assert (spec.oracle.format, spec.oracle.path, spec.oracle.isolation) == ("exit_code", None, "none")


def test_a_missing_reference_is_refused_for_the_reference_solver_alone(tmp_path: Path) -> None:
    """A task without a reference loads; asking for its reference is what is refused, with its path (J01)."""
    folder = make_task(tmp_path, reference=False)
    task = read_suite(tmp_path).tasks[0]
    with pytest.raises(InputRefused, match=r"neither reference/ nor reference\.patch") as caught:
        require_reference(task)
    assert caught.value.where == str(folder)
    (folder / "reference.patch").write_text("")
    assert require_reference(read_suite(tmp_path).tasks[0]) == folder / "reference.patch"


@pytest.mark.parametrize("lacking", ["task.toml", "before"])
def test_a_folder_that_lacks_a_part_is_named(tmp_path: Path, lacking: str) -> None:
    """A folder without task.toml, or without before/, ends the load and is named (J01)."""
    make_task(tmp_path, "fine")
    folder = make_task(tmp_path, "torn")
    shutil.rmtree(folder / lacking) if lacking == "before" else (folder / lacking).unlink()
    assert refused(tmp_path).startswith(f"{folder}: no {lacking}")


def test_an_empty_before_is_refused(tmp_path: Path) -> None:
    """No archive and no git keeps an empty folder, so before/ must hold a file (J01)."""
    folder = make_task(tmp_path)
    (folder / "before" / "it.py").unlink()
    assert "before/ holds no file" in refused(tmp_path)


@pytest.mark.parametrize("key", ["name", "prompt", "test_cmd", "test_files"])
def test_each_of_the_four_keys_is_required(tmp_path: Path, key: str) -> None:
    """Each of joule-bench's four keys, removed in turn, is the key that is named (J02)."""
    lines = [line for line in TASK_TOML.splitlines() if not line.startswith(f"{key} =")]
    folder = make_task(tmp_path, toml="\n".join(lines) + "\n")
    assert refused(tmp_path) == f"{folder}/task.toml: {key}: required key is missing (add it)"


@pytest.mark.parametrize(
    ("extra", "dotted"),
    [
        ("retries = 3", "retries"),
        ("[limits]\nwall_secs = 3", "limits.wall_secs"),
        ("[oracle]\n'odd key' = 3", "oracle.'odd key'"),
        ("[limits.cpus]\nx = 1", "limits.cpus"),
    ],
)
def test_an_unknown_key_is_named_dotted(tmp_path: Path, extra: str, dotted: str) -> None:
    """Strict: what nobody knows is refused, with its dotted key (J02)."""
    folder = make_task(tmp_path, toml=f"{TASK_TOML}\n{extra}\n")
    assert refused(tmp_path).startswith(f"{folder}/task.toml: {dotted}: ")


def test_a_syntax_error_has_line_and_column(tmp_path: Path) -> None:
    """A file that is not TOML is refused at its line and column (J02)."""
    folder = make_task(tmp_path, toml=SYNTAX_ERROR)
    assert refused(tmp_path).startswith(f"{folder}/task.toml:6:8: not TOML: ")


def test_a_command_is_a_list_or_one_shell_line(tmp_path: Path) -> None:
    """`test_cmd` as a string is run by sh -c; as a list it is an argv (J02)."""
    make_task(tmp_path, "a-list")
    line = TASK_TOML.replace('["python3", "test_it.py"]', '"python3 test_it.py && echo done"')
    make_task(tmp_path, "b-line", line)
    listed, lined = (task.spec.test_cmd for task in read_suite(tmp_path).tasks)
    assert listed == ("python3", "test_it.py")
    assert lined == ("sh", "-c", "python3 test_it.py && echo done")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ('["/etc/passwd"]', "test_files[0]: '/etc/passwd' is absolute"),
        ('["test_it.py", "../x.py"]', "test_files[1]: '../x.py' climbs with .."),
        ('["nowhere.py"]', "test_files[0]: 'nowhere.py' is in neither tests/ nor before/"),
        ('["./test_it.py"]', "test_files[0]: './test_it.py' is not in its shortest form"),
        ('["test_it.py", "test_it.py"]', "test_files: 'test_it.py' stands twice"),
        ('["sub"]', "test_files[0]: 'sub' is not a regular file in before/"),
        ('["linked.py"]', "test_files[0]: 'linked.py' is not a regular file in before/"),
        ("[3]", "test_files[0]: a whole number where a text belongs"),
        ('"test_it.py"', "test_files: a text where a list of texts belongs"),
    ],
)
def test_test_files_are_regular_files_of_the_task(tmp_path: Path, files: str, reason: str) -> None:
    """Absolute, climbing, in neither tests/ nor before/, twice, or no file: each is a load error (J02)."""
    folder = make_task(tmp_path, toml=TASK_TOML.replace('["test_it.py"]\n', f"{files}\n"))
    (folder / "before" / "sub").mkdir()
    (folder / "before" / "sub" / "x").write_text("")
    (folder / "before" / "linked.py").symlink_to("it.py")
    assert refused(tmp_path).startswith(f"{folder}/task.toml: {reason}")


def test_a_test_file_of_before_is_found_where_the_solver_sees_it(tmp_path: Path) -> None:
    """tests/ is looked in first, then before/ (J02)."""
    folder = make_task(tmp_path, toml=TASK_TOML.replace('["test_it.py"]\n', '["test_it.py", "seen.py"]\n'))
    (folder / "before" / "seen.py").write_text("")
    (folder / "before" / "test_it.py").write_text("the solver's copy\n")
    task = read_suite(tmp_path).tasks[0]
    assert task.test_file("seen.py") == folder / "before" / "seen.py"
    assert task.test_file("test_it.py") == folder / "tests" / "test_it.py"


@pytest.mark.parametrize(
    ("oracle", "reason"),
    [
        ('fail_to_pass = ["a"]', "oracle.path: required with junit"),
        ('fail_to_pass = ["a"]\npath = "/tmp/r.xml"', "oracle.path: '/tmp/r.xml' is not a file in /grade/"),
        ('fail_to_pass = ["a"]\npath = "/grade/../r.xml"', "oracle.path: "),
        ('fail_to_pass = ["a"]\nformat = "tap"\npath = "/grade/r.xml"', "oracle.path: is for junit only"),
        ('fail_to_pass = ["a"]\nformat = "exit_code"', "oracle.format: an exit code names no test ids"),
        ('format = "tap"', "oracle.format: tap needs fail_to_pass or pass_to_pass"),
        ('format = "xunit"', "oracle.format: 'xunit' is none of junit, tap, exit_code"),
        ('format = "tap"\nfail_to_pass = ["a", "a"]', "oracle.fail_to_pass: 'a' stands twice"),
        ('format = "tap"\nfail_to_pass = ["a"]\npass_to_pass = ["a"]', "oracle.pass_to_pass: 'a' stands in"),
        ('format = "tap"\nfail_to_pass = [" "]', "oracle.fail_to_pass: holds an empty id"),
        ('isolation = "root"', "oracle.isolation: 'root' is none of user, none"),
    ],
)
def test_an_oracle_that_could_not_decide_is_refused(tmp_path: Path, oracle: str, reason: str) -> None:
    """What the oracle is asked and where it answers must fit together (J02)."""
    folder = make_task(tmp_path, toml=f"{TASK_TOML}\n[oracle]\n{oracle}\n")
    assert refused(tmp_path).startswith(f"{folder}/task.toml: {reason}")


def test_listed_ids_are_read_from_junit_by_default(tmp_path: Path) -> None:
    """The default is junit where ids are listed, and exit_code elsewhere (J02)."""
    make_task(tmp_path, toml=f'{TASK_TOML}\n[oracle]\nfail_to_pass = ["t"]\npath = "/grade/r.xml"\n')
    oracle = read_suite(tmp_path).tasks[0].spec.oracle
    assert (oracle.format, oracle.path, oracle.fail_to_pass) == ("junit", "/grade/r.xml", ("t",))


@pytest.mark.parametrize(
    "line",
    [
        "wall_seconds = 0",
        "wall_seconds = inf",
        "wall_seconds = nan",
        "cpus = true",
        'cpus = "1"',
        "cpus = 0.001",
        "memory_mib = 1.5",
        "memory_mib = 1",
        "pids = -1",
        "disk_mib = 99999999999",
        "test_seconds = 1979-05-27",
    ],
)
def test_limits_have_bounds(tmp_path: Path, line: str) -> None:
    """A limit that no engine could hold is refused by its dotted key (H5)."""
    folder = make_task(tmp_path, toml=f"{TASK_TOML}\n[limits]\n{line}\n")
    assert refused(tmp_path).startswith(f"{folder}/task.toml: limits.{line.split(maxsplit=1)[0]}: ")


@pytest.mark.parametrize(
    "name", ["with space", "reward-_1", "größe", "任务-七", "x" * 200, "a.b", "-", "e\u0301"[0] + "é"]
)
def test_names_may_be_what_people_write(tmp_path: Path, name: str) -> None:
    """Spaces, `-_`, 200 characters, Unicode: nothing is derived from a name (H25)."""
    make_task(tmp_path, name)
    assert read_suite(tmp_path).tasks[0].spec.name == name


@pytest.mark.parametrize("name", ["bell\x07", " padded", "x" * 201, "rtl\u202e", "e\u0301"])
def test_names_that_disguise_themselves_are_refused(tmp_path: Path, name: str) -> None:
    """Control and format characters, outer spaces, 201 characters, another normal form (H25)."""
    make_task(
        tmp_path, name, TASK_TOML.replace("{name}", name.encode("unicode_escape").decode().replace("\\x", "\\u00"))
    )
    assert "task.toml" in refused(tmp_path)


@pytest.mark.parametrize("key", ["prompt", "test_cmd", "test_files"])
def test_a_nul_is_refused_where_it_stands(tmp_path: Path, key: str) -> None:
    """No command line, no file name and no prompt can carry a NUL (J02)."""
    lines = [rf'{key} = ["a\u0000b"]' if line.startswith(f"{key} =") else line for line in TASK_TOML.splitlines()]
    toml = "\n".join(lines).replace('prompt = ["a\\u0000b"]', 'prompt = "a\\u0000b"')
    folder = make_task(tmp_path, toml=toml)
    said = refused(tmp_path)
    assert said.startswith(f"{folder}/task.toml: {key}")
    assert "NUL" in said


def test_a_name_is_its_folders(tmp_path: Path) -> None:
    """Two places that name a task must agree (J02)."""
    folder = make_task(tmp_path, "one", TASK_TOML.replace("{name}", "two"))
    assert refused(tmp_path) == (f"{folder}/task.toml: name: 'two' is not the folder's name, 'one' (make them equal)")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/etc/passwd", "absolute target"),
        ("../tests/test_it.py", "leaves before/"),
        ("../../../x", "leaves before/"),
        ("loop", "leads nowhere"),
    ],
)
def test_a_link_stays_within_its_part(tmp_path: Path, target: str, reason: str) -> None:
    """before/ travels without the rest of the task: a link out of it would show the tests, or dangle (J02)."""
    folder = make_task(tmp_path)
    (folder / "before" / "loop").symlink_to(target)
    said = refused(tmp_path)
    assert said.startswith(f"{folder}/before/loop: ")
    assert reason in said


def test_a_link_through_a_link_cannot_climb(tmp_path: Path) -> None:
    """`b -> .` and `a -> b/../x`: lexically inside, really outside (J02)."""
    folder = make_task(tmp_path)
    (folder / "before" / "b").symlink_to(".")
    (folder / "before" / "a").symlink_to("b/../tests")
    assert "leaves before/" in refused(tmp_path)


def test_a_link_within_before_is_fine(tmp_path: Path) -> None:
    """Links are part of a tree like any file (J02)."""
    folder = make_task(tmp_path)
    (folder / "before" / "alias.py").symlink_to("it.py")
    (folder / "before" / "later").symlink_to("not-there-yet")
    assert read_suite(tmp_path).tasks


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A fifo (or device, or socket) in a task has no digest (J02)."""
    folder = make_task(tmp_path)
    os.mkfifo(folder / "before" / "pipe")
    assert refused(tmp_path).startswith(f"{folder}/before/pipe: neither a file")


def test_suite_toml_is_as_strict_as_a_task(tmp_path: Path) -> None:
    """Unknown keys and wrong kinds in suite.toml are named (J02)."""
    make_task(tmp_path)
    toml = tmp_path / "suite.toml"
    toml.write_text('name = "s"\nversion = "2"\nlicense = "MIT"\ntimeout_resolves = false\nweight = 2\n')
    suite = read_suite(tmp_path)
    assert (suite.name, suite.version, suite.license, suite.timeout_resolves, suite.weight) == (
        "s",
        "2",
        "MIT",
        False,
        2.0,
    )
    toml.write_text("versions = 3\n")
    assert refused(tmp_path).startswith(f"{toml}: versions: unknown key")
    toml.write_text("version = 3\n")
    assert refused(tmp_path) == f"{toml}: version: a whole number where a text belongs"


def test_a_folder_without_tasks_is_no_suite(tmp_path: Path) -> None:
    """An empty folder, or a file, is refused with its path (J01)."""
    assert refused(tmp_path).startswith(f"{tmp_path}: holds no task")
    assert refused(tmp_path / "nowhere").startswith(f"{tmp_path}/nowhere: not a folder")


def test_a_suite_is_found_by_path_then_in_tasks_then_in_the_bundle(tmp_path: Path) -> None:
    """`--suite` takes a path or a name; ./tasks hides what is bundled (J03)."""
    assert find_suite("smoke", tmp_path).name == "smoke"
    make_task(tmp_path / "tasks" / "smoke")
    assert find_suite("smoke", tmp_path) == tmp_path / "tasks" / "smoke"
    assert find_suite("./tasks/smoke", tmp_path) == tmp_path / "tasks" / "smoke"
    assert [(found.name, found.source) for found in list_suites(tmp_path)] == [("mix", "bundled"), ("smoke", "tasks")]


@pytest.mark.parametrize("asked", ["nowhere", "./nowhere", "", "a\0b", "x" * 5000])
def test_an_unknown_suite_lists_the_known(tmp_path: Path, asked: str) -> None:
    """A name that is not there ends with status 2 and the names that are (J03)."""
    with pytest.raises(UsageRefused) as caught:
        find_suite(asked, tmp_path)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    if len(asked) < 100:
        assert "known suites: mix, smoke" in str(caught.value)


def test_the_digest_is_of_content_alone(tmp_path: Path) -> None:
    """Clocks, owners, group bits, checks.json and loose files beside the tasks change nothing; a byte does (H21)."""
    folder = make_task(tmp_path / "s")
    first = read_suite(tmp_path / "s")
    os.utime(folder / "before" / "it.py", (1, 1))
    (folder / "before" / "it.py").chmod(0o600)
    (tmp_path / "s" / "README.md").write_text("about\n")
    (tmp_path / "s" / ".git").mkdir()
    (tmp_path / "s" / "checks.json").write_text(
        '{"schema": "checks-v1", "suiteDigest": "' + "0" * 64 + '", "runs": 1, "rates": [], '
        '"quarantined": {}, "forgeable": {}}'
    )
    again = read_suite(tmp_path / "s")
    assert (again.digest, again.tasks[0].spec.digest) == (first.digest, first.tasks[0].spec.digest)
    (folder / "before" / "it.py").chmod(0o700)
    executable = read_suite(tmp_path / "s").digest
    (folder / "before" / "it.py").write_text("VALUE = 2\n")
    assert len({first.digest, executable, read_suite(tmp_path / "s").digest}) == 3
