"""What starts work by the clock while a run is measured."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from appliance.host import fitness
from appliance.host.facts import Roots
from appliance.host.timers import parse_timers

NOON = datetime(2026, 3, 4, 12, 0, 30).astimezone()
"""A Wednesday."""


def told(root: Path, table: str, *, cron: bool = True, spool: str = "") -> tuple[str, str]:
    files = {"proc/7/comm": "cron\n" if cron else "sshd\n", "etc/crontab": table, "var/spool/cron/crontabs/me": spool}
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    check = fitness.timers(Roots(root / "proc", root / "sys", root / "etc", root / "var"), NOON)
    return check.level, check.message


@pytest.mark.parametrize(
    ("when", "due"),
    [
        ("5 12 * * *", True),
        ("5 13 * * *", False),
        ("*/15 * * * *", True),
        ("20 * * * *", False),
        ("0-10/5 12 * mar wed", True),
        ("5 12 1 * 3", True),
        ("5 12 1 * 4", False),
        ("5 12 * * 7", False),
        ("5 12 4 * *", True),
        ("@hourly", True),
        ("@daily", False),
        ("61 nonsense * * *", False),
    ],
)
def test_cron_lines_that_are_due_within_ten_minutes_are_a_warning(tmp_path: Path, when: str, due: bool) -> None:
    """By crontab(5): lists, ranges, steps, names, and either of two restricted days (harness: Machine fitness)."""
    level, message = told(tmp_path, f"SHELL=/bin/sh\n# a comment\n{when} root run-parts /etc/cron.hourly\n")
    assert level == ("warn" if due else "info")
    assert ("run-parts /etc/cron.hourly" in message) == due


def test_a_table_is_nobodys_without_a_cron_that_reads_it(tmp_path: Path) -> None:
    """Files alone start nothing (harness: Machine fitness)."""
    assert told(tmp_path, "* * * * * root work\n", cron=False)[0] == "info"


def test_users_own_tables_have_no_field_for_a_user(tmp_path: Path) -> None:
    """(harness: Machine fitness)"""
    level, message = told(tmp_path, "", spool="* * * * * backup --all\n")
    assert (level, "backup --all" in message) == ("warn", True)


def test_a_timer_of_systemd_that_fires_soon_is_a_warning(tmp_path: Path) -> None:
    """And one that fires later, or never, is none (harness: Machine fitness)."""
    soon, later = NOON + timedelta(minutes=4), NOON + timedelta(hours=2)
    units = parse_timers(
        [
            {"next": int(soon.timestamp() * 1e6), "unit": "apt-daily.timer"},
            {"next": int(later.timestamp() * 1e6), "unit": "fstrim.timer"},
            {"next": None, "unit": "never.timer"},
            "no entry",
        ]
    )
    roots = Roots(tmp_path, tmp_path, tmp_path, tmp_path)
    check = fitness.timers(roots, NOON, units)
    assert (check.level, "apt-daily.timer" in check.message, "fstrim" in check.message) == ("warn", True, False)
    assert fitness.timers(roots, NOON, units[1:]).level == "info"
    assert parse_timers({"no": "list"}) == ()
