"""Solver TOML: strict, one refusal a defect, each with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused, UsageRefused
from appliance.solvers.definition import read_definition
from appliance.solvers.finding import find_solver, find_solvers, known_solvers
from appliance.solvers.placeholders import fill, with_flags
from tests.trials_suites import write_solver

WHOLE = """model = "required"
argv = ["example", "--message-file", "{prompt_file}", "--model", "{model}", "{flags}", "{prompt}"]
stdin = "prompt"
self_correct = ["--auto-test"]
version_argv = ["example", "--version"]

[env]
BUDGET = "{budget_seconds}"

[files]
"{home}/.example.yml" = "example.yml"

[mode]
build = ["--mode", "build"]

[auto]
high = ["--yes"]
"""


def test_a_whole_definition_is_read_with_its_templates(tmp_path: Path) -> None:
    """Every key of formats 3 that this version serves (S: solvers)."""
    (tmp_path / "example.yml").write_text("model: {model}\n")
    found = read_definition(write_solver(tmp_path, "example", WHOLE))
    assert found.needs_model
    assert found.templates == {"{home}/.example.yml": "model: {model}\n"}
    assert found.flags(mode="build", auto="high", self_correct=True) == ("--mode", "build", "--yes", "--auto-test")
    assert found.flags(mode=None, auto=None, self_correct=False) == ()


def test_a_changed_template_is_another_solver(tmp_path: Path) -> None:
    """The digest covers TOML and templates (H21)."""
    (tmp_path / "example.yml").write_text("a: 1\n")
    path = write_solver(tmp_path, "example", WHOLE)
    before = read_definition(path).digest
    (tmp_path / "example.yml").write_text("a: 2\n")
    assert read_definition(path).digest != before
    (tmp_path / "example.yml").write_text("a: 1\n")
    assert read_definition(path).digest == before


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('model = "none"\nargv = ["a"]\nfoo = 1\n', "foo", "unknown key"),
        ('model = "none"\nargv = "a b"\n', "argv", "array"),
        ('argv = ["a"]\n', "model", "missing"),
        ('model = "none"\n', "argv", "missing"),
        ('model = "none"\nargv = ["{promt}"]\n', "argv[0]", "no placeholder {promt}"),
        ('model = "none"\nargv = ["a", "-f{flags}"]\n', "argv[1]", "an argument of its own"),
        ('model = "none"\nargv = ["a"]\n[env]\nA = "{base_url}"\n', "env.A", "model gateway"),
        ('model = "none"\nargv = ["a"]\n[mode]\nx = ["y"]\n', "argv", "need a place"),
        ('model = "none"\nargv = ["a"]\n[auto]\nextreme = ["y"]\n', "auto", "low"),
        ('model = "none"\nargv = ["a"]\noutput = "unheard"\n', "output", "no output parser"),
        ('model = "none"\nargv = ["a"]\noutput_file = "{home}/x"\n', "output_file", "no parser to read it"),
        ('model = "none"\nargv = ["a"]\nwire = "anthropic"\n', "wire", "has no wire"),
        ('model = "required"\nargv = ["a"]\nwire = "telnet"\n', "wire", "anthropic"),
        ('model = "required"\nargv = ["a", "{dummy_key}"]\n', "argv[1]", "no wire says how"),
        ('model = "none"\nargv = ["a"]\nversion_pattern = "("\n', "version_pattern", "regular expression"),
        ('model = "none"\nargv = ["a"]\n[files]\n"/etc/x" = "x"\n', 'files."/etc/x"', "under {home}/"),
        ('model = "none"\nargv = ["a"]\n[files]\n"{home}/x" = "../x"\n', 'files."{home}/x"', "beside the TOML"),
        ('model = "none"\nargv = ["a"]\n[files]\n"{home}/x" = "none.yml"\n', 'files."{home}/x"', "No such file"),
        ('model = "none"\nargv = ["a" 1]\n', "", "bad.toml:4:13: not TOML"),
    ],
)
def test_every_defect_is_one_refusal_with_file_and_key(tmp_path: Path, text: str, place: str, says: str) -> None:
    """File, place, mend; status 3 (issue: Bad input)."""
    path = write_solver(tmp_path, "bad", text)
    with pytest.raises(InputRefused) as refused:
        read_definition(path)
    assert refused.value.status == 3
    assert str(refused.value).startswith(f"{path}: {place}" if place else str(path))
    assert says in str(refused.value)


@pytest.mark.parametrize("kind", ["chat"])
def test_kinds_of_later_versions_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    """A clear message, not an unknown word (issue 3: solvers)."""
    path = tmp_path / "later.toml"
    path.write_text(f'name = "later"\nkind = "{kind}"\nmodel = "required"\n')
    with pytest.raises(InputRefused, match=f"kind '{kind}' is not available in this version"):
        read_definition(path)


def test_reference_and_noop_ship_with_the_program() -> None:
    """Both kinds, without a model (J13, J14)."""
    assert {"reference", "noop"} <= set(known_solvers())
    assert [found.kind for found in find_solvers("reference,noop")] == ["reference", "noop"]
    assert not find_solver("noop").needs_model


@pytest.mark.parametrize("listed", ["reference,nosuch", "noop,noop", "noop,", "nowhere/x.toml"])
def test_unknown_and_repeated_solvers_are_refused_before_anything_runs(listed: str) -> None:
    """Status 2, with the known ones listed (J04)."""
    with pytest.raises(UsageRefused) as refused:
        find_solvers(listed)
    assert refused.value.status == 2
    if "nosuch" in listed:
        assert "noop, " in str(refused.value)


def test_a_solver_here_hides_a_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search order: a path, ./solvers, the bundle (formats 3)."""
    write_solver(tmp_path / "solvers", "noop", 'model = "none"\nargv = ["true"]\n')
    monkeypatch.chdir(tmp_path)
    assert find_solver("noop").kind == "command"


@pytest.mark.parametrize("asked", [{"mode": "plan"}, {"auto": "low"}, {"self_correct": True}])
def test_a_flag_that_a_solver_lacks_is_named(tmp_path: Path, asked: dict[str, object]) -> None:
    """A key, table or entry that isn't there: status 2, naming the flag (formats 3)."""
    found = read_definition(write_solver(tmp_path, "plain", 'model = "none"\nargv = ["a", "{flags}"]\n'))
    wanted: dict[str, object] = {"mode": None, "auto": None, "self_correct": False} | asked
    with pytest.raises(UsageRefused) as refused:
        found.flags(**wanted)  # type: ignore[arg-type]
    flag = next(iter(asked)).replace("_", "-")
    assert f"--{flag}" in str(refused.value)


def test_a_required_model_that_is_absent_is_a_usage_error(tmp_path: Path) -> None:
    """decisions: Model."""
    (tmp_path / "example.yml").write_text("")
    found = read_definition(write_solver(tmp_path, "example", WHOLE))
    with pytest.raises(UsageRefused, match="requires a model"):
        found.check_model(None)


def test_filled_text_is_not_read_for_placeholders_again() -> None:
    """A prompt that says {model} stays as it is: the program gets it verbatim (J15)."""
    assert fill("{prompt} {{prompt}} ${HOME} {print $1}", {"prompt": "say {model}"}) == (
        "say {model} {prompt} ${HOME} {print $1}"
    )


def test_flags_stand_where_their_marker_stood() -> None:
    """None, one or many arguments; never a shell string (formats 3)."""
    assert with_flags(("a", "{flags}", "b"), ()) == ("a", "b")
    assert with_flags(("a", "{flags}", "b"), ("-x", "y z")) == ("a", "-x", "y z", "b")


def test_a_solver_with_a_wire_may_name_the_gateway(tmp_path: Path) -> None:
    """In argv, environment and templates; its output goes to a parser by name (formats 3)."""
    (tmp_path / "conf").write_text("url = {base_url}\n")
    text = (
        'model = "required"\nwire = "anthropic"\nargv = ["a", "{base_url}"]\noutput = "claude-json"\n'
        'output_file = "{home}/out.json"\n[env]\nKEY = "{dummy_key}"\n[files]\n"{home}/conf" = "conf"\n'
    )
    found = read_definition(write_solver(tmp_path, "agent", text))
    assert (found.wire, found.output, found.output_file) == ("anthropic", "claude-json", "{home}/out.json")
