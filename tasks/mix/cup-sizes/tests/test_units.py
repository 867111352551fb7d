"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from units import to_ml
for amount, unit in json.load(sys.stdin):
    try:
        print(f"{to_ml(amount, unit):.1f}")
    except KeyError as error:
        print("KeyError", error)
"""


def millilitres(*measures):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps(measures),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_fluid_ounces():
    assert millilitres([1, "fl oz"], [8, "fl oz"], [0.5, "fl oz"]) == "29.6\n236.6\n14.8\n"


def test_a_can_of_twelve_fluid_ounces():
    assert millilitres([12, "fl oz"], [0, "fl oz"]) == "354.9\n0.0\n"


def test_spoons_and_cups():
    assert millilitres([1, "cup"], [2, "tbsp"], [3, "tsp"], [1.5, "cup"]) == "236.6\n29.6\n14.8\n354.9\n"


def test_an_unknown_unit_is_an_error():
    assert millilitres([1, "pint"], [1, "cup"]) == "KeyError 'pint'\n236.6\n"
