"""`appliance meter`: the daemon that reads the counters, and what a person asks it. One file a verb."""

from __future__ import annotations

import typer

from appliance.cli.meter_calibrate import calibrate
from appliance.cli.meter_export import export
from appliance.cli.meter_probe import probe
from appliance.cli.meter_selftest import selftest
from appliance.cli.meter_serve import serve
from appliance.cli.meter_status import status
from appliance.cli.meter_watch import watch

app = typer.Typer()

for verb in (serve, status, watch, export, probe, calibrate, selftest):
    app.command()(verb)
