"""What starts work by the clock, and whether it is about to: cron's tables (crontab(5)) and systemd's timers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from appliance.host.facts import Roots, text

SOON: Final = timedelta(minutes=10)
_CRONS: Final = frozenset({"cron", "crond", "anacron", "fcron"})
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES: Final = (
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
)
_WORDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SHOWN: Final = 60


@dataclass(frozen=True)
class Entry:
    """A line of a table: its five fields of time, and what it starts."""

    when: tuple[str, str, str, str, str]
    command: str


def due(roots: Roots, now: datetime, timers: Iterable[tuple[str, datetime]]) -> tuple[str, ...]:
    """What starts within `SOON`: units of systemd, commands of cron where it runs. `now` is the local time."""
    found = [unit for unit, at in timers if now <= at <= now + SOON]
    names = {(text(path) or "").strip() for path in roots.proc.glob("[0-9]*/comm")}
    if names & _CRONS:
        found += [entry.command[:_SHOWN] for entry in entries(roots) if _is_due(entry, now)]
    return tuple(dict.fromkeys(found))


def entries(roots: Roots) -> Iterator[Entry]:
    """Of every table that we may read; users' own are root's to read."""
    for path in (roots.etc / "crontab", *sorted((roots.etc / "cron.d").glob("*"))):
        yield from _parsed(text(path) or "", user=True)
    for path in sorted((roots.var / "spool" / "cron" / "crontabs").glob("*")):
        yield from _parsed(text(path) or "", user=False)


def systemd_timers() -> tuple[tuple[str, datetime], ...]:
    """Units and when each fires next; none where there is no systemd. Untested on a systemd host."""
    try:
        ended = subprocess.run(
            ["systemctl", "list-timers", "--output=json", "--no-pager"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
        told = json.loads(ended.stdout) if ended.returncode == 0 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ()
    return parse_timers(told)


def parse_timers(told: Any) -> tuple[tuple[str, datetime], ...]:
    """Of `systemctl list-timers --output=json`: microseconds since 1970, null for one that will not fire."""
    if not isinstance(told, list):
        return ()
    return tuple(
        (str(one["unit"]), datetime.fromtimestamp(one["next"] / 1e6).astimezone())
        for one in told
        if isinstance(one, dict) and "unit" in one and isinstance(one.get("next"), int) and one["next"] > 0
    )


def _parsed(table: str, *, user: bool) -> Iterator[Entry]:
    for line in table.splitlines():
        words = line.split()
        if words and words[0] in _WORDS:
            words[:1] = _WORDS[words[0]].split()
        first = 6 if user else 5
        if len(words) > first and not words[0].startswith("#") and "=" not in words[0]:
            minute, hour, day, month, weekday = words[:5]
            yield Entry((minute, hour, day, month, weekday), " ".join(words[first:]))


def _is_due(entry: Entry, now: datetime) -> bool:
    allowed = [_values(field, number) for number, field in enumerate(entry.when)]
    if any(values is None for values in allowed):
        return False
    minutes, hours, days, months, weekdays = (values or frozenset() for values in allowed)
    first = now.replace(second=0, microsecond=0)
    for ahead in range(int(SOON.total_seconds() // 60) + 1):
        at = first + timedelta(minutes=ahead)
        by_day, by_week = at.day in days, at.isoweekday() % 7 in weekdays
        # Where both fields are restricted, either of them is enough.
        either = not entry.when[2].startswith("*") and not entry.when[4].startswith("*")
        on_day = (by_day or by_week) if either else (by_day and by_week)
        if on_day and at.minute in minutes and at.hour in hours and at.month in months:
            return True
    return False


def _values(field: str, number: int) -> frozenset[int] | None:
    """What a field allows; None for one that is none of cron's."""
    low, high = _RANGES[number]
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        try:
            first = low if span == "*" else _number(begin, number)
            last = high if span == "*" or (step and not end) else _number(end or begin, number)
            found.update(range(max(first, low), min(last, high) + 1, int(step or 1)))
        except ValueError:
            return None
    # Sunday has two numbers.
    return frozenset(value % 7 for value in found) if number == 4 else frozenset(found)


def _number(word: str, number: int) -> int:
    if number >= 3 and word in _NAMES[number - 3]:
        return _NAMES[number - 3].index(word) + (1 if number == 3 else 0)
    return int(word)
