"""The parsers by the name that a solver's `output` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from appliance.solvers.outputs import aider, claude, codex, gemini, mini, opencode, qwen
from appliance.solvers.outputs.claimed import Claimed

Parser = Callable[[bytes, Mapping[str, bytes]], Claimed]

PARSERS: Final[Mapping[str, Parser]] = {
    "aider-text": aider.parse,
    "claude-json": claude.parse_json,
    "claude-stream-json": claude.parse_stream,
    "codex-jsonl": codex.parse,
    "gemini-json": gemini.parse,
    "mini-trajectory": mini.parse,
    "opencode-jsonl": opencode.parse,
    "qwen-json": qwen.parse,
}


def parse(name: str, stdout: bytes, files: Mapping[str, bytes]) -> Claimed:
    """`stdout` as captured (`Captured.kept`). `files`: under `output_file`, what lay there in the container, if any;
    under `stderr`, what it printed there.

    Never raises for what a program printed: an output that is none is `incomplete`.
    """
    return PARSERS[name](stdout, files)
