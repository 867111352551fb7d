"""Commands that a refusal offers: they work where they are typed (row W11)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance import mends


def _program(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


def test_a_program_that_root_finds_by_its_name_is_called_by_it(tmp_path: Path) -> None:
    """Also through a link; another one of that name is not ours."""
    ours = _program(tmp_path / "opt/appliance")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/appliance").symlink_to(ours)
    assert mends.program(str(ours), "/usr/bin/python3", str(tmp_path / "bin")) == "appliance"
    _program(tmp_path / "sbin/appliance")
    assert mends.program(str(ours), "/usr/bin/python3", str(tmp_path / "sbin")) == str(ours)


def test_a_program_of_a_virtual_environment_is_called_by_its_path(tmp_path: Path) -> None:
    """sudo has no PATH of the user's: by the path, quoted, also where the interpreter was started by module."""
    ours = _program(tmp_path / "my venv/bin/appliance")
    python = ours.with_name("python")
    assert mends.program(str(ours), str(python), "/nonexistent") == f"'{ours}'"
    assert mends.program("/x/appliance/__main__.py", str(python), "/nonexistent") == f"'{ours}'"
    assert mends.program("-c", "/nonexistent/python3", "/nonexistent") == "/nonexistent/python3 -m appliance"


def test_a_service_is_offered_only_where_its_unit_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And never for a socket that is not the service's own."""
    monkeypatch.setattr(mends, "_SYSTEMD", tmp_path)
    monkeypatch.setattr(mends, "_UNITS", (str(tmp_path),))
    assert mends.start_meter().endswith("appliance meter serve")
    (tmp_path / "bench-appliance-meter.service").touch()
    assert mends.start_meter().endswith("systemctl start bench-appliance-meter")
    assert mends.start_meter(Path("/tmp/a b.sock")).endswith("meter serve --socket '/tmp/a b.sock'")


@pytest.mark.root
def test_a_user_without_an_entry_is_told_by_his_number() -> None:
    """No name of his is known: the refusal of the engine's socket is a refusal still, and no traceback."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from appliance import bundle, mends\n"
        "from appliance.engine.connection import engine_address, unreachable\n"
        "from appliance.errors import HostRefused\n"
        "os.setgroups([]); os.setgid(65533); os.setuid(65533)\n"
        "print(unreachable(engine_address('unix:///root/x.sock'), OSError()).reason, mends.user())\n"
        "print(unreachable(engine_address('unix://' + sys.argv[1]), OSError()))\n"
        "os.environ.pop('HOME')\n"
        "try: bundle.home()\n"
        "except HostRefused as refusal: print(refusal)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(_closed())], capture_output=True, text=True, check=False, env=os.environ
    )
    assert ended.returncode == 0, ended.stderr
    first, second, third = ended.stdout.splitlines()
    assert first == "permission 65533"
    assert "usermod -aG docker 65533" in second
    assert "HOME: this user has no home folder (export HOME=DIR)" in third


def _closed() -> Path:
    return Path("/etc/shadow")
