"""The command line as a whole: what it imports, what it prints, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys

from appliance.cli.main import VERBS

_HEAVY = ("docker", "sigstore", "pydantic", "jsonschema", "cryptography")


def _appliance(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], capture_output=True, text=True, check=False
    )


def test_help_names_every_verb_and_imports_nothing_heavy() -> None:
    """`appliance --help` lists the verbs without docker, sigstore or pydantic."""
    probe = (
        "import sys; from appliance.cli.main import run\n"
        "status = run(['--help'])\n"
        f"heavy = [name for name in {_HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'{status} {heavy}' if status or heavy else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert all(verb in ended.stdout for verb in VERBS)


def test_no_words_at_all_is_help() -> None:
    """`appliance` alone answers with help."""
    assert "Usage: appliance" in _appliance().stdout


def test_the_version_needs_no_verb() -> None:
    """`appliance --version` prints the version and ends with 0."""
    ended = _appliance("--version")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("appliance ")


def test_an_unknown_verb_is_status_two() -> None:
    """A word that is no verb ends with 2 and names it."""
    ended = _appliance("resolv")
    assert ended.returncode == 2
    assert "resolv" in ended.stderr


def test_an_error_under_json_is_one_document() -> None:
    """With `--json`, standard output is one JSON document also when the words are wrong."""
    ended = _appliance("verify", "--json", "--no-such-flag")
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["error"]["status"] == 2


def test_every_verb_has_help() -> None:
    """Each verb's module loads and explains itself."""
    for verb in VERBS:
        ended = _appliance(verb, "--help")
        assert ended.returncode == 0, (verb, ended.stderr)
        assert "Usage" in ended.stdout
