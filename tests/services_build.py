"""The real Sigstore programs, and other judges: each built by Go at one version, once a machine, outside the tree.

    python3 -m tests.services_build          builds what is lacking and prints the folder; minutes the first time

Needs the standard library alone, so that it can run before anything else is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    module: str
    version: str
    command: str = ""
    """The package of its `main`, seen from the module."""

    @property
    def path(self) -> Path:
        return cache_folder() / self.name


TSA: Final = Program("tsa", "github.com/sigstore/timestamp-authority/v2", "v2.1.3", "/cmd/timestamp-server")
REKOR: Final = Program("rekor", "github.com/sigstore/rekor-tiles/v2", "v2.3.0", "/cmd/rekor-server/posix")
TESSERACT: Final = Program("tesseract", "github.com/transparency-dev/tesseract", "v0.1.1", "/cmd/tesseract/posix")
FULCIO: Final = Program("fulcio", "github.com/sigstore/fulcio", "v1.8.8")
COSIGN: Final = Program("cosign", "github.com/sigstore/cosign/v3", "v3.1.2", "/cmd/cosign")
GH: Final = Program("gh", "github.com/cli/cli/v2", "v2.95.0", "/cmd/gh")
ACTIONLINT: Final = Program("actionlint", "github.com/rhysd/actionlint", "v1.7.12", "/cmd/actionlint")
PROGRAMS: Final = (TSA, REKOR, TESSERACT, FULCIO, ACTIONLINT, COSIGN, GH)
_FLAGS: Final = ("-mod=mod", "-trimpath", "-ldflags=-s -w")
_MODULE: Final = """\
module bench-appliance.invalid/services

go 1.26

require {module} {version}
"""


class CannotBuild(Exception):
    """One line: which program, and what Go said of it."""


def cache_folder() -> Path:
    """One for each list of versions."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    wanted = [f"{program.module}{program.command}@{program.version}" for program in PROGRAMS]
    named = hashlib.sha256("\n".join([*wanted, *_FLAGS]).encode()).hexdigest()[:16]
    return home / "bench-appliance" / "services" / named


def why_not() -> str | None:
    """Why these programs can be neither found nor built here; None where they can."""
    if all(program.path.exists() for program in PROGRAMS) or shutil.which("go"):
        return None
    return "no go to build the Sigstore services with (Go 1.26 or newer)"


def build(programs: Sequence[Program] = PROGRAMS) -> Path:
    """Whatever is lacking, one after another; whoever comes second waits. Raises CannotBuild."""
    folder = cache_folder()
    if all(program.path.exists() for program in programs):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        with _locked(folder / ".lock"):
            if not program.path.exists():
                _build(program, folder)
    return folder


def _build(program: Program, folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise CannotBuild(f"{program.name}: no go on PATH (install Go 1.26 or newer)")
    print(f"services: building {program.name} {program.version}", file=sys.stderr, flush=True)  # noqa: T201
    for old in folder.glob(".draft.*"):
        shutil.rmtree(old, ignore_errors=True)  # of a build that was killed
    with tempfile.TemporaryDirectory(prefix=".draft.", dir=folder) as draft:
        # Not `go install X@V`: it asks for the list of versions too, and a proxy need not have one of every module.
        (Path(draft) / "go.mod").write_text(_MODULE.format(module=program.module, version=program.version))
        made = Path(draft) / "made"
        ended = subprocess.run(
            ["nice", "-n", "10", go, "build", *_FLAGS, "-o", made, program.module + program.command],
            cwd=draft,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if ended.returncode:
            said = [line for line in ended.stderr.splitlines() if "downloading" not in line]
            raise CannotBuild(f"{program.name} {program.version}: {' / '.join(said[-3:])}")
        made.rename(program.path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def main() -> int:
    try:
        print(build())  # noqa: T201
    except (CannotBuild, OSError) as error:
        print(f"services: {error}", file=sys.stderr)  # noqa: T201
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
