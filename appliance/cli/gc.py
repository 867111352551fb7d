"""`appliance gc`: free what interrupted runs left on this host, and nothing of a run that is alive."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()

_WORDS = {
    "containers": "containers",
    "volumes": "volumes",
    "networks": "networks",
    "mounts": "mounts",
    "folders": "folders",
    "cgroups": "cgroups",
    "builds": "folders of image builds",
    "scratch": "scratch folders",
    "cached": "cached trees and templates",
}


@app.command()
def gc(
    cache: Annotated[bool, typer.Option("--cache", help="Also cached trees and disk templates.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Remove what interrupted commands left on this host: one's own; as root, everybody's runs."""
    import os
    from dataclasses import asdict

    from appliance.cli.output import emit_json, line
    from appliance.engine.docker import connect
    from appliance.engine.reap import clear_caches, reap_leavings
    from appliance.images.leavings import remove_leavings
    from appliance.scratch import shared_home, sweep

    everyone = os.geteuid() == 0
    # First what asks for no engine.
    builds = remove_leavings(everyone=everyone)
    scratch = sweep(shared_home(), everyone=everyone)
    freed = asdict(reap_leavings(connect(), everyone=everyone))
    freed["builds"] = builds
    freed["scratch"] = scratch
    freed["cached"] = clear_caches() if cache else 0
    if as_json:
        emit_json(freed)
        return
    parts = [f"{freed[name]} {word}" for name, word in _WORDS.items() if freed[name]]
    of_runs = f" of {freed['runs']} runs" if freed["runs"] else ""
    line(f"removed {', '.join(parts)}{of_runs}" if parts else "nothing was left behind")
