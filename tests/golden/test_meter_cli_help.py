"""What `appliance meter` offers, word by word: a flag that goes, goes on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

VERBS = {
    "serve": {
        "--socket", "--group", "--powercap-root", "--period-ms", "--counter", "--cpu-backend", "--json", "--help",
    },
    "status": {"--meter-socket", "--json", "--help"},
    "watch": {"--meter-socket", "--once", "--seconds", "--json", "--help"},
    "export": {"--listen", "--meter-socket", "--json", "--help"},
    "probe": {"--seconds", "--powercap-root", "--json", "--help"},
    "calibrate": {"--seconds", "--force", "--show", "--meter-socket", "--powercap-root", "--json", "--help"},
    "selftest": {
        "--seconds", "--idle-seconds", "--containers", "--cgroups", "--cross-check", "--validation",
        "--meter-socket", "--powercap-root", "--json", "--help",
    },
}  # fmt: skip


def _appliance(*words: str, **environment: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    return ended.stdout


def test_the_group_names_its_verbs_in_order() -> None:
    """design.md 8: serve, status, watch, export, probe, calibrate, selftest."""
    listed = re.findall(r"^. ([a-z]+)  +[A-Z]", _appliance("meter", "--help"), re.M)
    assert listed == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_these_flags_and_says_what_it_does(verb: str) -> None:
    """And a sentence that a person can choose by."""
    said = _appliance("meter", verb, "--help")
    assert set(re.findall(r"^.\s+(--[a-z-]+)", said, re.M)) | set(re.findall(r",?(--cgroups)", said)) == VERBS[verb]
    assert len(said.splitlines()[3].strip()) > 40


def test_completion_finds_the_verbs() -> None:
    """`appliance meter <TAB>` (completed by the shell's own words)."""
    found = _appliance(_APPLIANCE_COMPLETE="complete_bash", COMP_WORDS="appliance meter ", COMP_CWORD="2")
    assert set(VERBS) <= set(found.split())


def test_help_of_the_group_imports_nothing_heavy() -> None:
    """Verbs import what they need when they run."""
    heavy = ("docker", "sigstore", "jsonschema", "prometheus_client", "pynvml", "rich.live")
    program = (
        "import sys; from appliance.cli.main import run; run(['meter', '--help'])\n"
        f"sys.exit(', '.join(name for name in {heavy!r} if name in sys.modules) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
