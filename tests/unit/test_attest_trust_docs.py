"""docs/signing.md names options that exist, and says of the services what the code says."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from attest.trust.services import SERVICES

_TEXT = (Path(__file__).resolve().parents[2] / "docs/signing.md").read_text()
_BLOCKS = re.findall(r"```sh\n(.*?)```", _TEXT, re.DOTALL)
LINES = [line for block in _BLOCKS for line in block.replace("\\\n", " ").splitlines() if line.startswith("appliance ")]


def _options(words: list[str]) -> set[str]:
    command = typer.main.get_command(importlib.import_module(f"appliance.cli.{words[1]}").app)
    group = getattr(command, "commands", None)
    if group is not None:
        command = group[words[2]]
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("line", LINES)
def test_every_option_of_every_command_in_the_guide_exists(line: str) -> None:
    """A reader types them as they stand (design 12: documentation)."""
    words = shlex.split(line, comments=True)
    assert {word for word in words if word.startswith("--")} <= _options(words)


def test_the_guide_has_commands_of_every_verb_that_it_is_about() -> None:
    """Nothing is checked where nothing is found."""
    verbs = {" ".join(line.split()[1:3]) for line in LINES}
    assert {"trust init", "trust checkpoint", "trust anchor"} <= verbs
    assert {line.split()[1] for line in LINES} == {"trust", "sign", "run", "verify"}


def test_the_guide_names_the_class_of_every_service_that_may_fail() -> None:
    """The table is the code's own."""
    table = _TEXT.partition("| service | class |")[2].partition("\n\n")[0]
    for role, service in SERVICES.items():
        if role != "person":
            name = {"oidc": "identity provider", "tsa": "timestamp authority"}.get(role, role)
            row = next(line for line in table.splitlines() if line.lower().startswith(f"| {name}"))
            assert f"`{service.reason}`" in row
