"""Commands that a refusal offers: as they can be typed here, by whoever is told (standard library only).

`sudo` looks for programs in folders of root's own, where an installation in a virtual environment is not: it is named
by its path then. A service is offered only where its unit is installed.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

UNIT: Final = "bench-appliance-meter"
_ROOTS_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""sudo's own (`secure_path`), as distributions ship it."""
_UNITS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_SYSTEMD: Final = Path("/run/systemd/system")
_NAME: Final = "appliance"


def program(called: str | None = None, python: str | None = None, roots_path: str = _ROOTS_PATH) -> str:
    """How root calls this program: by its name where root finds it by that, else by its path.

    `called`: sys.argv[0], which is another file where a module was started by the interpreter, `python`.
    """
    named = Path(called if called is not None else sys.argv[0] if sys.argv else "")
    python = python or sys.executable
    own = named.absolute() if named.name == _NAME else Path(python).with_name(_NAME)
    if not own.is_file():
        return f"{shlex.quote(python)} -m appliance"
    usual = shutil.which(_NAME, path=roots_path)
    same = usual is not None and own.samefile(usual)
    return _NAME if same else shlex.quote(str(own))


def as_root(words: str) -> str:
    """`meter serve` as it is typed by whoever asks; root needs no sudo."""
    return sudo(f"{program()} {words}")


def sudo(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"


def start_meter(socket: Path | None = None) -> str:
    """`socket`: where it must listen; None: at the usual place, where its service does."""
    if socket is not None:
        return as_root(f"meter serve --socket {shlex.quote(str(socket))}")
    if has_unit():
        return sudo(f"systemctl start {UNIT}")
    return as_root("meter serve")


def restart_meter() -> str:
    return sudo(f"systemctl restart {UNIT}") if has_unit() else "end it, then " + as_root("meter serve")


def has_unit() -> bool:
    return _SYSTEMD.is_dir() and any(Path(folder, f"{UNIT}.service").exists() for folder in _UNITS)


def user() -> str:
    """The login name; the number of a user who has none (a container's, LDAP's that does not answer)."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
