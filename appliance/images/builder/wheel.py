"""Unpacking wheels (PEP 427) into a tree: purelib and platlib, data, scripts and entry points."""

from __future__ import annotations

import configparser
import posixpath
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from appliance.errors import InputRefused
from appliance.images.builder.spool import Spool
from appliance.images.builder.tar import Entry

_SCRIPT = """\
#!{interpreter}
import sys
{found}from {module} import {first}
sys.exit({call}())
"""


@dataclass(frozen=True)
class Scheme:
    """Where a wheel's parts go, relative to the image's root."""

    library: str
    scripts: str
    data: str
    interpreter: str
    own: bool = False
    """The interpreter does not look into `library` by itself: each script says where it is, and to nobody else, so
    that programs which it starts see the image's own modules alone."""

    @property
    def found(self) -> str:
        """A line of a script, after `import sys`."""
        return f'sys.path.insert(0, "/{self.library}")\n' if self.own else ""


def read_wheel(stream: BinaryIO, name: str, scheme: Scheme, mtime: int, spool: Spool) -> Iterator[Entry]:
    """Every file of the wheel at its place. Raises InputRefused where it cannot be read or leads out of the tree."""
    try:
        with zipfile.ZipFile(stream) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                target = _target(item.filename, scheme)
                if target is None:
                    continue
                script = target.startswith(f"{scheme.scripts}/")
                executable = script or bool(stat.S_IMODE(item.external_attr >> 16) & 0o111)
                mode = 0o755 if executable else 0o644
                if script:
                    yield Entry(target, "file", mode, mtime=mtime, content=_script(archive.read(item), scheme))
                    continue
                with archive.open(item) as body:
                    yield Entry(target, "file", mode, mtime=mtime, content=spool.keep(body))
            yield from _entry_points(archive, scheme, mtime)
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        KeyError,
        EOFError,
        configparser.Error,
        OSError,
        NotImplementedError,
    ) as error:
        raise InputRefused(f"not a wheel that can be read: {error}", where=name) from error


def _script(body: bytes, scheme: Scheme) -> bytes:
    if not body.startswith(b"#!python"):
        return body
    found = f"\nimport sys\n{scheme.found}" if scheme.own else "\n"
    return f"#!{scheme.interpreter}{found}".encode() + body.partition(b"\n")[2]


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
                found=scheme.found,
                module=module.strip(),
                first=call.strip().split(".")[0],
                call=call.strip(),
            )
            yield Entry(f"{scheme.scripts}/{script}", "file", 0o755, mtime=mtime, content=body.encode())
