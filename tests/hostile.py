"""`appliance` typed at hostile files, and what every refusal must look like. No test of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_MEMORY_BYTES: Final = 2 << 30
_PATIENCE_SECONDS: Final = 120
"""Only against a hang; no test asserts on it."""


@dataclass(frozen=True)
class Refused:
    status: int
    line: str
    """What stood on standard error, without the program's name."""
    error: Mapping[str, Any]
    """`error` of the JSON document; empty where none was asked for."""


def typed(
    home: Path, *words: str | bytes, environment: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """With homes of its own, in `home`, with bounded memory: what reads without end fails instead of taking all."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "appliance.cli.main", *words],
        cwd=home,
        env={
            **os.environ,
            "XDG_DATA_HOME": str(home / ".share"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "DOCKER_HOST": f"unix://{home}/none.sock",
            "PYTHONPATH": str(_ROOT),
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
        preexec_fn=_bounded,
    )


def refused(
    home: Path,
    *words: str | bytes,
    status: int | Sequence[int] = (2, 3, 7),
    remarks: tuple[str, ...] = (),
    **more: Any,
) -> Refused:
    """One line on standard error, one JSON document where it was asked for, a status that was foreseen, and nothing
    that drives a terminal in either. Before that line may stand one that begins with one of `remarks`."""
    ended = typed(home, *words, **more)
    said = ended.stderr.decode()
    assert "Traceback" not in said, said
    wanted = (status,) if isinstance(status, int) else tuple(status)
    assert ended.returncode in wanted, f"{words!r}: {ended.returncode}\n{said}"
    lines = [line for line in said.splitlines() if not (remarks and line.startswith(remarks))]
    assert len(lines) == 1, f"{words!r}: {said!r}"
    assert lines[0].startswith("appliance: ")
    assert lines[0].isprintable(), ascii(lines[0])
    assert len(lines[0]) < _LONGEST_LINE
    error = {}
    if "--json" in words:
        document = ended.stdout.decode()
        assert document.replace("\n", "").isprintable(), ascii(document)
        error = json.loads(document)["error"]
        assert error["status"] == ended.returncode
    else:
        assert ended.stdout == b""
    return Refused(ended.returncode, lines[0].removeprefix("appliance: "), error)


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


_LONGEST_LINE: Final = 3000
