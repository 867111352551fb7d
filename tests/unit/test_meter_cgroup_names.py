"""Where cgroups lie and what ours are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance import cgroups

HYBRID = """\
22 1 0:20 / /proc rw - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
CONTAINED = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


def test_hierarchies_are_found_on_hybrid_v1_and_v2() -> None:
    """Joined controllers, names, escaped mount points (C15)."""
    hybrid = cgroups.parse_mountinfo(HYBRID)
    assert hybrid.kind == "hybrid"
    accounting = hybrid.v1("cpuacct")
    assert accounting is not None
    assert accounting.folder("/a/b") == Path("/sys/fs/cgroup/cpu,cpuacct/a/b")
    assert hybrid.unified is not None
    assert hybrid.unified.mount == Path("/sys/fs/cgroup/uni fied")
    assert cgroups.parse_mountinfo(V2).kind == "v2"
    assert cgroups.parse_mountinfo("\n".join(HYBRID.splitlines()[:4])).kind == "v1"
    assert cgroups.parse_mountinfo("").kind == "unknown"
    assert len(list(hybrid.folders("/x"))) == 4


def test_a_cgroup_outside_of_what_is_mounted_has_no_folder() -> None:
    """Inside a container only its own cgroups are there; `..` leaves nothing (energy 2.3, Path resolution)."""
    (one,) = cgroups.parse_mountinfo(CONTAINED).all
    assert one.folder("/docker/abc/x") == Path("/sys/fs/cgroup/x")
    assert one.folder("/docker/abc") == Path("/sys/fs/cgroup")
    assert one.folder("/docker/abcd") is None
    assert one.folder("/docker/abc/../../x") is None


def test_of_two_mounts_of_a_hierarchy_the_one_that_shows_more_is_taken() -> None:
    """A bind mount of a subtree does not hide the whole."""
    (one,) = cgroups.parse_mountinfo(CONTAINED + V2 + CONTAINED).all
    assert one.root == "/"


def test_membership_names_a_path_for_each_controller() -> None:
    """(energy 2.3, Path resolution)"""
    found = cgroups.parse_membership("9:name=systemd:/x\n2:cpu,cpuacct:/a:b\n0::/u\n")
    assert found == {"name=systemd": "/x", "cpu": "/a:b", "cpuacct": "/a:b", "": "/u"}


def test_a_trials_cgroup_has_five_digits_and_its_role() -> None:
    """(formats 5, Paths)"""
    assert cgroups.role_cgroup("r1", 3, "solver") == "/bench-appliance/r1/00003/solver"
    assert cgroups.harness_cgroup("r1") == "/bench-appliance/r1/harness"


@pytest.mark.parametrize("run", ["", "..", ".", "a/b", "a-b", "a b", "a\n", ".x"])
def test_a_run_id_that_would_leave_the_base_is_a_value_error(run: str) -> None:
    """Neither slashes nor dashes (formats 5: names and run ids have none)."""
    with pytest.raises(ValueError, match="cannot name a cgroup"):
        cgroups.run_cgroup(run)


def test_under_systemd_a_dash_nests() -> None:
    """The unit's name and where systemd puts it: systemd.slice(5) (I20)."""
    unit = cgroups.slice_of(cgroups.role_cgroup("r1", 3, "solver"))
    assert unit == "bench-appliance-r1-00003-solver.slice"
    assert cgroups.slice_path(unit) == (
        "/bench.slice/bench-appliance.slice/bench-appliance-r1.slice"
        "/bench-appliance-r1-00003.slice/bench-appliance-r1-00003-solver.slice"
    )
    assert cgroups.engine_parent("/bench-appliance/r1/harness", "systemd") == "bench-appliance-r1-harness.slice"
    assert cgroups.engine_parent("/bench-appliance/r1/harness", "cgroupfs") == "/bench-appliance/r1/harness"


def test_runs_are_known_by_their_folders_under_both_drivers(tmp_path: Path) -> None:
    """What the reaper looks at: cgroups carry no labels, their path names the run (formats 9)."""
    trees = cgroups.Hierarchies((cgroups.Hierarchy(2, frozenset(), tmp_path),))
    (tmp_path / "bench-appliance/r1/00000/solver").mkdir(parents=True)
    nested = tmp_path / cgroups.slice_path("bench-appliance-r2-00000.slice").lstrip("/")
    nested.mkdir(parents=True)
    assert cgroups.runs_with_cgroups(trees) == {"r1", "r2"}
    assert cgroups.remove_run_cgroups(trees, "r2") == ()
    assert cgroups.remove_run_cgroups(trees, "r1") == ()
    assert cgroups.runs_with_cgroups(trees) == frozenset()


def test_a_cgroup_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    """A file stands for a live task: rmdir refuses both."""
    trees = cgroups.Hierarchies((cgroups.Hierarchy(2, frozenset(), tmp_path),))
    busy = tmp_path / "bench-appliance/r1/00000"
    busy.mkdir(parents=True)
    (busy / "held").touch()
    assert cgroups.remove_run_cgroups(trees, "r1", patience_seconds=0) == (tmp_path / "bench-appliance/r1",)


def test_tasks_are_those_of_all_below_but_the_engines_own_monitor(tmp_path: Path) -> None:
    """Podman starts its conmon under the parent that we name (C14, energy 2.3: conmon is not the load)."""
    for folder, tasks in (
        ("", ""),
        ("abc", "7\n"),
        ("abc/deep", "8\n9\n"),
        ("conmon", "10\n"),
        ("libpod-conmon-x", "11\n"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.procs").write_text(tasks)
    assert cgroups.tasks_below(tmp_path) == {7, 8, 9}
    assert cgroups.tasks_below(tmp_path / "gone") == frozenset()
