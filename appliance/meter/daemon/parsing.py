"""A line of the meter's socket to a request: checked here, once, and to the letter (formats 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, get_args

from appliance.cgroups import METER
from appliance.energy.readings import GpuSharing
from appliance.meter.daemon.messages import (
    Adopt,
    Close,
    Driver,
    Open,
    Prepare,
    Refused,
    Release,
    Request,
    Role,
    Status,
    Watch,
)

_RUN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,63}")
_MOST_TRIALS: Final = 100_000
_LONGEST_LABEL: Final = 256
_LONGEST_ID: Final = 64


def parse(line: bytes) -> Request:
    """Raises Refused with `bad_message` or `bad_version`."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused("bad_message", f"no JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise Refused("bad_message", "no JSON object")
    version = value.get("v")
    if type(version) is not int or version != 1:
        raise Refused("bad_version", f"this meter speaks version 1, not {str(version)[:20]}")
    op = str(value.get("op"))
    if op not in _PARSERS or op != value.get("op"):
        raise Refused("bad_message", f"no op is called {op[:40]!r}; one of {', '.join(_PARSERS)}")
    kind, known = _PARSERS[op]
    unknown = set(value) - set(known) - {"op", "v"}
    if unknown:
        raise Refused("bad_message", f"{op} has no {sorted(unknown)[0][:40]!r}")
    asked = {_FIELDS.get(name, name): check(value[name], name) for name, check in known.items() if name in value}
    missing = [name for name in _REQUIRED[op] if name not in asked]
    if missing:
        raise Refused("bad_message", f"{op} lacks {missing[0]!r}")
    return kind(op=op, v=1, **asked)


def _identifier(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        raise Refused("bad_message", f"{name} is no id")
    return value


def _optional(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, name: None if value is None else check(value, name)


def _label(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_LABEL:
        raise Refused("bad_message", f"{name} is no text of at most {_LONGEST_LABEL} characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused("bad_message", f"{name} holds half a character") from error
    return value


def _run(value: Any, name: str) -> str:
    if not isinstance(value, str) or not _RUN.fullmatch(value) or value == METER:
        raise Refused("bad_message", f"{name} is no run id: up to 64 letters, digits, `_` and `.`")
    return value


def _trial(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < _MOST_TRIALS:
        raise Refused("bad_message", f"{name} is no index below {_MOST_TRIALS}")
    return value


def _roles(value: Any, name: str) -> tuple[Role, ...]:
    known = get_args(Role)
    if not isinstance(value, list) or any(one not in known for one in value) or len(set(value)) != len(value):
        raise Refused("bad_message", f"{name} is no list of {', '.join(known)}, each once")
    return tuple(value)


def _driver(value: Any, name: str) -> Driver:
    if value not in get_args(Driver):
        raise Refused("bad_message", f"{name} is none of {', '.join(get_args(Driver))}")
    driver: Driver = value
    return driver


def _sharing(value: Any, name: str) -> GpuSharing:
    if value not in get_args(GpuSharing):
        raise Refused("bad_message", f"{name} is none of {', '.join(get_args(GpuSharing))}")
    sharing: GpuSharing = value
    return sharing


def _adopt(value: Any, name: str) -> Adopt:
    pid = value.get("pid") if isinstance(value, dict) and set(value) == {"pid"} else None
    if type(pid) is not int or not 0 < pid < 2**31:
        raise Refused("bad_message", f'{name} is no {{"pid": number}}')
    return Adopt(pid)


_PARSERS: Final[dict[str, tuple[Callable[..., Request], dict[str, Callable[[Any, str], Any]]]]] = {
    "prepare": (
        Prepare,
        {"run": _run, "trial": _optional(_trial), "roles": _roles, "driver": _driver, "adopt": _optional(_adopt)},
    ),
    "open": (
        Open,
        {"handle": _identifier, "label": _optional(_label), "inside": _optional(_identifier), "gpuSharing": _sharing},
    ),
    "close": (Close, {"window": _identifier}),
    "release": (Release, {"handle": _identifier}),
    "status": (Status, {}),
    "watch": (Watch, {}),
}
_FIELDS: Final = {"gpuSharing": "gpu_sharing"}
_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "prepare": ("run",),
    "open": ("handle",),
    "close": ("window",),
    "release": ("handle",),
    "status": (),
    "watch": (),
}
