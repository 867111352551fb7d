"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from rooms import screen_text
for bookings in json.load(sys.stdin):
    print(screen_text([tuple(booking) for booking in bookings]))
"""


def screens(*days):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps([[text.split("-") for text in day.split()] for day in days]),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_meeting_inside_another_frees_nothing():
    assert screens("09:00-12:00 10:00-10:30", "10:00-10:30 09:00-12:00") == (
        "free 08:00-09:00, 12:00-18:00\nfree 08:00-09:00, 12:00-18:00\n"
    )


def test_several_meetings_inside_one():
    assert screens("09:00-15:00 09:30-10:00 11:00-11:15 13:00-16:30 14:00-14:10") == "free 08:00-09:00, 16:30-18:00\n"


def test_a_whole_day_swallows_the_rest():
    assert screens("08:00-18:00 09:00-09:15 12:00-13:00", "08:00-18:00 08:00-08:30") == (
        "booked all day\nbooked all day\n"
    )


def test_an_empty_day_is_free():
    assert screens("") == "free 08:00-18:00\n"


def test_meetings_apart_leave_gaps():
    assert screens("09:00-10:00 14:00-15:30") == "free 08:00-09:00, 10:00-14:00, 15:30-18:00\n"


def test_back_to_back_meetings_leave_no_gap():
    assert screens("08:00-09:00 09:00-10:00 10:00-11:00") == "free 11:00-18:00\n"


def test_overlapping_meetings_are_one():
    assert screens("09:00-11:00 10:30-12:00") == "free 08:00-09:00, 12:00-18:00\n"
