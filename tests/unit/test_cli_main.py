"""The command line as a whole: what it imports, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from appliance.cli.main import VERBS, _application

_HEAVY = ("docker", "sigstore", "pydantic", "jsonschema", "cryptography")


def _appliance(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
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


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_to_the_letter(verb: str) -> None:
    """Each verb's module loads and explains itself and its verbs, every option in the very words that were written: a
    bracket is none of a terminal's style."""
    found = list(_explained(verb))
    assert found
    for words, options in found:
        ended = _appliance(*words, "--help", COLUMNS="1000")
        assert ended.returncode == 0, (words, ended.stderr)
        assert "Usage" in ended.stdout
        shown = " ".join(ended.stdout.split())
        for help_text in options:
            assert " ".join(help_text.split()) in shown, words


def test_a_bracket_in_help_stays() -> None:
    """`[mode]` is a table of a solver's TOML."""
    shown = _appliance("run", "--help", COLUMNS="1000").stdout
    for told in ("own [mode] table", "own [auto] table", "[default: device-total]"):
        assert told in shown


def _explained(verb: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Words -> the help of each option, as its module has it."""
    command = typer.main.get_command(_application(verb)).commands[verb]  # type: ignore[attr-defined]
    below = getattr(command, "commands", {})
    for name, one in below.items() if below else ((None, command),):
        shown = (parameter for parameter in one.params if not getattr(parameter, "hidden", False))
        yield (verb, name) if name else (verb,), [told for one in shown if (told := getattr(one, "help", None))]
