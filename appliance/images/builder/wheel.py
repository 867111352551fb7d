"""Unpacking wheels (PEP 427) into a tree: purelib and platlib, data, scripts and entry points."""

from __future__ import annotations

import configparser
import io
import posixpath
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from appliance.errors import InputRefused
from appliance.images.builder.tar import Entry

_SCRIPT = """\
#!{interpreter}
import sys
from {module} import {first}
sys.exit({call}())
"""


@dataclass(frozen=True)
class Scheme:
    """Where a wheel's parts go, relative to the image's root."""

    library: str
    scripts: str
    data: str
    interpreter: str


def read_wheel(content: bytes, name: str, scheme: Scheme, mtime: int) -> Iterator[Entry]:
    """Every file of the wheel at its place. Raises InputRefused where it cannot be read or leads out of the tree."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                target = _target(item.filename, scheme)
                if target is None:
                    continue
                body = archive.read(item)
                script = target.startswith(f"{scheme.scripts}/")
                if script and body.startswith(b"#!python"):
                    body = f"#!{scheme.interpreter}".encode() + body[body.index(b"\n") :]
                executable = script or bool(stat.S_IMODE(item.external_attr >> 16) & 0o111)
                yield Entry(target, "file", 0o755 if executable else 0o644, mtime=mtime, content=body)
            yield from _entry_points(archive, scheme, mtime)
    except (zipfile.BadZipFile, ValueError, KeyError, configparser.Error, OSError, NotImplementedError) as error:
        raise InputRefused(f"not a wheel that can be read: {error}", where=name) from error


def _target(member: str, scheme: Scheme) -> str | None:
    if member != posixpath.normpath(member) or member.startswith(("/", "../")):
        raise ValueError(f"a path that leads out of the image: {member}")
    top, _, rest = member.partition("/")
    if not top.endswith(".data"):
        return f"{scheme.library}/{member}"
    part, _, inner = rest.partition("/")
    where = {"purelib": scheme.library, "platlib": scheme.library, "scripts": scheme.scripts, "data": scheme.data}
    # Headers are for compiling against; nothing is compiled in an image.
    return f"{where[part]}/{inner}" if part in where else None


def _entry_points(archive: zipfile.ZipFile, scheme: Scheme, mtime: int) -> Iterator[Entry]:
    listed = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    for name in listed:
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]  # names of scripts keep their case
        parser.read_string(archive.read(name).decode())
        if not parser.has_section("console_scripts"):
            continue
        for script, value in sorted(parser.items("console_scripts")):
            module, _, call = value.partition("[")[0].strip().partition(":")
            if not script or "/" in script or not call:
                raise ValueError(f"a console script that is none: {script} = {value}")
            body = _SCRIPT.format(
                interpreter=scheme.interpreter,
                module=module.strip(),
                first=call.strip().split(".")[0],
                call=call.strip(),
            )
            yield Entry(f"{scheme.scripts}/{script}", "file", 0o755, mtime=mtime, content=body.encode())
