"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from datetime import date
from billing.export import export_line
for name, signup, months in json.load(sys.stdin):
    print(export_line(name, date.fromisoformat(signup), months))
"""


def exported(*customers):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps(customers),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_31st_falls_on_the_last_day_of_short_months():
    assert exported(("a", "2023-01-31", 1), ("b", "2024-01-31", 1), ("c", "2024-03-31", 1)) == (
        "a;2023-02-28\nb;2024-02-29\nc;2024-04-30\n"
    )


def test_the_30th_falls_on_the_last_day_of_february():
    assert exported(("a", "2023-01-30", 2), ("b", "2020-01-30", 2)) == (
        "a;2023-02-28,2023-03-30\nb;2020-02-29,2020-03-30\n"
    )


def test_the_29th_waits_for_a_leap_year():
    assert exported(("a", "2022-12-29", 3), ("b", "2023-12-29", 3)) == (
        "a;2023-01-29,2023-02-28,2023-03-29\nb;2024-01-29,2024-02-29,2024-03-29\n"
    )


def test_a_year_of_due_dates_comes_back_to_the_31st():
    assert exported(("ada", "2021-08-31", 12)) == (
        "ada;2021-09-30,2021-10-31,2021-11-30,2021-12-31,2022-01-31,2022-02-28,"
        "2022-03-31,2022-04-30,2022-05-31,2022-06-30,2022-07-31,2022-08-31\n"
    )


def test_days_that_every_month_has():
    assert exported(("a", "2023-01-15", 3), ("b", "2023-05-28", 2)) == (
        "a;2023-02-15,2023-03-15,2023-04-15\nb;2023-06-28,2023-07-28\n"
    )


def test_december_is_followed_by_january():
    assert exported(("a", "2023-11-05", 3)) == "a;2023-12-05,2024-01-05,2024-02-05\n"
