"""May the daemon start here: its rights, the group that may ask it, the place of its socket. Then its command line."""

from __future__ import annotations

import grp
import os
import socket as sockets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from appliance import mends
from appliance.errors import HostRefused
from appliance.meter.client import SOCKET
from appliance.meter.counters.search import POWERCAP, look_for_counters
from appliance.meter.fitting import refuse_absent_root

# linux/capability.h
_DAC_OVERRIDE: Final = 1
_DAC_READ_SEARCH: Final = 2
_NAMES: Final = {_DAC_OVERRIDE: "CAP_DAC_OVERRIDE", _DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH"}


def refuse_unable(given: Path | None, group: str, powercap: Path | None) -> Path:
    """The socket's place; raises HostRefused. A socket that nobody listens on any more is removed."""
    refuse_absent_root(powercap)
    _refuse_unprivileged(Path("/proc/self/status").read_text(), powercap or POWERCAP, given)
    _refuse_unknown_group(group)
    place = given or SOCKET
    _clear(place)
    return place


def daemon_argv(
    python: str,
    *,
    socket: Path,
    group: str,
    powercap: Path | None,
    period_ms: int,
    counters: Sequence[str] = (),
    cpu_backend: str | None = None,
) -> list[str]:
    """Isolated (-I): nothing of the user's folders or environment is imported by what root runs."""
    argv = [python, "-I", "-m", "appliance.meter.daemon.serve", "--socket", str(socket), "--group", group]
    argv += ["--period-ms", str(period_ms)]
    argv += ["--powercap-root", str(powercap)] if powercap is not None else []
    for name in counters:
        argv += ["--counter", name]
    return argv + (["--cpu-backend", cpu_backend] if cpu_backend is not None else [])


def capabilities(status: str) -> frozenset[int]:
    """Effective ones, by number, of a /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            mask = int(line.split()[1], 16)
            return frozenset(bit for bit in range(64) if mask >> bit & 1)
    return frozenset()


def _refuse_unprivileged(status: str, powercap: Path, given: Path | None = None) -> None:
    """Cgroups are made by whoever may write anywhere, counters read by whoever may read anywhere."""
    held = capabilities(status)
    # The greater right holds the lesser one.
    needed = _DAC_OVERRIDE
    if needed in held:
        return
    search = look_for_counters(powercap)
    if search.lack == "PrivilegeRequired" and _DAC_READ_SEARCH not in held:
        raise HostRefused(
            f"the counters are for root: {search.reason}",
            where=str(powercap),
            mend=mends.start_meter(given),
            reason="PrivilegeRequired",
        )
    raise HostRefused(
        f"cannot make cgroups: neither root nor {_NAMES[needed]}",
        mend=mends.start_meter(given),
        reason="PrivilegeRequired",
    )


def _refuse_unknown_group(group: str) -> None:
    try:
        grp.getgrnam(group)
    except KeyError as error:
        raise HostRefused(
            f"there is no group {group!r}: nobody but root could ask the meter",
            mend=f"{mends.sudo(f'groupadd --system {group}')}, or --group GROUP",
            reason="no_group",
        ) from error


def _clear(place: Path) -> None:
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise HostRefused("something that is no socket lies there", where=str(place), mend="--socket PATH")
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(os.fspath(place))
        except ConnectionRefusedError:
            place.unlink(missing_ok=True)
            return
        except OSError as error:
            words = f"a socket that does not answer: {error.strerror or error}"
            raise HostRefused(words, where=str(place), mend="--socket PATH") from error
    ask = "appliance meter status" + ("" if place == SOCKET else f" --meter-socket {place}")
    raise HostRefused(
        "a meter is running already",
        where=str(place),
        mend=f"{ask}, or serve at another --socket",
        reason="running",
    )
