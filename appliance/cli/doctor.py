"""`appliance doctor`: is this host fit for a bench, and what mends what is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from appliance.cli import output
from appliance.errors import HostRefused, Refusal

if TYPE_CHECKING:
    from appliance.host.doctor import Finding
    from appliance.host.local import LocalHost
    from appliance.ports import Engine
    from appliance.records.record import Check, EngineStamp

app = typer.Typer()

_MARKS: Final = {"ok": ("✓", "green"), "info": ("·", "cyan"), "warn": ("!", "yellow"), "error": ("✗", "red")}


@app.command()
def doctor(
    strict_host: Annotated[
        bool, typer.Option("--strict-host", help="A noisy host is no host: warnings refuse.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Engine, cgroups, counters, signing, disk, images, noise: each with the one command that mends it."""
    import platform

    from appliance.host.doctor import refuse_foreign_platform
    from appliance.host.local import LocalHost

    refuse_foreign_platform(platform.system(), platform.machine())
    host = LocalHost(dirty=_dirty())
    fitness = host.fitness()
    findings = tuple(_findings(host, fitness, strict=strict_host))
    lacking = [found for found in findings if found.level == "error"]
    if as_json:
        output.emit_json(
            {
                "status": HostRefused.status if lacking else 0,
                "findings": [vars(found) for found in findings],
                "fitness": [check.json_value() for check in fitness],
            }
        )
    else:
        _show(findings)
        for found in lacking[:1]:
            output.note("")
            output.note(f"this host is not fit: {found.part}: {found.message}")
    if lacking:
        raise typer.Exit(HostRefused.status)


def _findings(host: LocalHost, fitness: tuple[Check, ...], *, strict: bool) -> Iterator[Finding]:
    import shutil
    from importlib.metadata import PackageNotFoundError, requires, version

    from appliance import bundle
    from appliance.cgroups import runs_with_cgroups
    from appliance.host import doctor as checks

    engine, stamp = _engine(), None
    if isinstance(engine, Refusal):
        yield checks.refused("engine", engine)
    else:
        stamp = engine.stamp()
        yield from checks.engine(stamp)
        yield from checks.bridge(stamp, _interfaces(), _restart())
    yield _cgroups(host, stamp)
    yield from checks.leavings(runs_with_cgroups(host.facts.cgroups))
    yield from _meter()
    yield checks.signing((bundle.state_home() / "trust" / "local").is_dir())
    yield from _disks(stamp)
    if not isinstance(engine, Refusal):
        yield from _images(engine)

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    try:
        yield from checks.requirements(requires("bench-appliance") or (), installed)
    except PackageNotFoundError:
        yield checks.Finding("python", "warn", "the program is not installed as a package", "make bench")
    yield checks.builders(name for name in ("nix", "nix-portable") if shutil.which(name))
    yield from checks.noise(fitness, strict=strict)


def _engine() -> Engine | Refusal:
    from appliance.engine.docker import connect
    from appliance.ports import EngineFailed

    try:
        engine = connect()
        engine.stamp()
    except Refusal as refusal:
        return refusal
    except EngineFailed as error:
        return HostRefused(str(error), mend=_restart())
    return engine


def _cgroups(host: LocalHost, stamp: EngineStamp | None) -> Finding:
    import os

    from appliance.host import doctor as checks

    trees = host.facts.cgroups
    counted = [one for one in (trees.unified, trees.v1("cpuacct")) if one is not None]
    writable = any(os.access(one.mount, os.W_OK) for one in counted)
    return checks.cgroups(trees, stamp, root=os.geteuid() == 0, writable=writable)


def _meter() -> Iterator[Finding]:
    """The daemon, and the counters that a run of ours would find through it or without."""
    import os

    from appliance.errors import MeterRefused
    from appliance.host import doctor as checks
    from appliance.meter.client import SOCKET
    from appliance.meter.counters.search import look_for_counters
    from appliance.meter.opening import at_socket

    root = os.geteuid() == 0
    search = look_for_counters()
    if not root and search.found:
        search = replace(search, found=(), lack="PrivilegeRequired", reason="only a meter gives trials their cgroups")
    version: str | None = None
    refused: Refusal | None = None
    if SOCKET.exists():
        try:
            line, search = at_socket(SOCKET)
        except MeterRefused as refusal:
            refused = refusal
        else:
            version = str(line.status["version"])
            line.close()
    yield checks.meter(str(SOCKET), version, refused, root=root)
    yield checks.counters(search.found, search.reason, privilege=search.lack == "PrivilegeRequired", mend=search.mend)


def _disks(stamp: EngineStamp | None) -> Iterator[Finding]:
    """The engine's own folder where it is on this machine, ours, and the current one, where runs are written."""
    import shutil
    from pathlib import Path

    from appliance import bundle
    from appliance.host import doctor as checks

    engine_folder = Path("/var/lib/containers" if stamp is not None and stamp.name == "podman" else "/var/lib/docker")
    here = stamp is not None and not stamp.remote and not stamp.rootless
    seen: set[int] = set()
    wanted = [(engine_folder, "docker system prune")] if here else []
    wanted += [(Path.cwd(), "appliance gc"), (bundle.cache_home(), f"rm -r {bundle.cache_home()}")]
    for folder, mend in wanted:
        existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
        try:
            device, free = existing.stat().st_dev, shutil.disk_usage(existing).free
        except OSError:
            continue
        # One file system, one line.
        if device not in seen:
            seen.add(device)
            yield checks.disk(str(folder), free // 2**20, mend)


def _images(engine: Engine) -> Iterator[Finding]:
    from appliance.host import doctor as checks
    from appliance.images.catalog import Catalog
    from appliance.ports import EngineFailed

    catalog = Catalog.default()
    for name in catalog.names():
        try:
            yield checks.image(name, engine.resolve(catalog.lock(name).pin) is not None)
        except Refusal as refusal:
            yield checks.refused("images", refusal)
        except EngineFailed as error:
            yield checks.Finding("images", "error", f"{name}: {error}", f"appliance images load {name}")


def _interfaces() -> tuple[str, ...]:
    import socket

    try:
        return tuple(name for _, name in socket.if_nameindex())
    except OSError:
        return ()


def _restart() -> str:
    from pathlib import Path

    from appliance import mends

    return mends.sudo("systemctl restart docker" if Path("/run/systemd/system").is_dir() else "service docker restart")


def _dirty() -> bool | None:
    """Of the checkout that this program runs from; None for a wheel, or without git."""
    import subprocess
    from pathlib import Path

    import appliance

    top = Path(appliance.__file__).resolve().parents[1]
    if not (top / ".git").exists():
        return None
    try:
        said = subprocess.run(
            ["git", "-C", str(top), "status", "--porcelain"], capture_output=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(said.stdout.strip()) if said.returncode == 0 else None


def _show(findings: Iterable[Finding]) -> None:
    """A table on a terminal, one line a finding elsewhere."""
    import sys

    if not sys.stdout.isatty():
        for found in findings:
            mend = f"  ({found.mend})" if found.mend else ""
            output.line(f"{found.level:<5} {found.part:<9} {found.message}{mend}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "", "found", "what mends it"):
        table.add_column(heading, overflow="fold")
    part = ""
    for found in findings:
        mark, colour = _MARKS[found.level]
        table.add_row(
            Text(mark, style=colour),
            Text("" if found.part == part else found.part, style="bold"),
            Text(output.printable(found.message)),
            Text(output.printable(found.mend or ""), style="dim" if found.level in ("ok", "info") else colour),
        )
        part = found.part
    Console().print(table)
