"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from payroll.slip import slip
for name, shifts, rate in json.load(sys.stdin):
    print(slip(name, shifts, rate))
"""


def slips(*people):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps([[name, shifts.split(), rate] for name, shifts, rate in people]),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_shift_over_midnight():
    assert slips(("Ada", "22:30-06:30", 2000), ("Bo", "23:00-00:00", 1000)) == (
        "Ada: 8:00 h, 7:30 h at night, 197.50\nBo: 1:00 h, 1:00 h at night, 12.50\n"
    )


def test_from_the_evening_to_the_morning():
    assert slips(("Cy", "20:00-07:00", 1600), ("Di", "21:59-06:01", 1)) == (
        "Cy: 11:00 h, 8:00 h at night, 208.00\nDi: 8:02 h, 8:00 h at night, 0.10\n"
    )


def test_a_day_with_two_ends_at_night():
    assert slips(("Ed", "05:00-23:00", 1000), ("Flo", "03:30-22:15", 1000)) == (
        "Ed: 18:00 h, 2:00 h at night, 185.00\nFlo: 18:45 h, 2:45 h at night, 194.38\n"
    )


def test_the_clock_round():
    assert slips(("Gus", "08:00-08:00", 1000), ("Hal", "00:00-00:00", 1000), ("Ida", "23:00-23:00", 1000)) == (
        "Gus: 24:00 h, 8:00 h at night, 260.00\n"
        "Hal: 24:00 h, 8:00 h at night, 260.00\n"
        "Ida: 24:00 h, 8:00 h at night, 260.00\n"
    )


def test_nights_that_reach_into_the_next_one():
    assert slips(("Jo", "23:30-22:30", 1200), ("Kim", "02:00-01:00", 1200)) == (
        "Jo: 23:00 h, 7:00 h at night, 297.00\nKim: 23:00 h, 7:00 h at night, 297.00\n"
    )


def test_a_month_of_mixed_shifts():
    assert slips(("Lou", "08:00-16:30 22:00-06:00 14:00-22:30 05:45-10:00", 1777)) == (
        "Lou: 29:15 h, 8:45 h at night, 558.64\n"
    )


def test_day_shifts():
    assert slips(("Max", "08:00-16:30 09:15-12:00", 1500), ("Nia", "06:00-22:00", 999)) == (
        "Max: 11:15 h, 0:00 h at night, 168.75\nNia: 16:00 h, 0:00 h at night, 159.84\n"
    )


def test_one_end_at_night():
    assert slips(("Oz", "05:00-09:00", 1000), ("Pia", "18:00-23:30", 1000), ("Quin", "01:00-04:00", 1000)) == (
        "Oz: 4:00 h, 1:00 h at night, 42.50\n"
        "Pia: 5:30 h, 1:30 h at night, 58.75\n"
        "Quin: 3:00 h, 3:00 h at night, 37.50\n"
    )


def test_no_shift():
    assert slips(("Ray", "", 1000)) == "Ray: 0:00 h, 0:00 h at night, 0.00\n"
