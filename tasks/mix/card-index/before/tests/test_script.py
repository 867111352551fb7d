"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import subprocess

DRIVER = """
import os, sys
sys.path.insert(0, os.getcwd())
from cards.script import run
for answer in run(sys.stdin.read().splitlines(), "city", "role"):
    print(answer)
"""


def told(*lines):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_cards_are_found_by_their_fields():
    assert told(
        "put ada city=Oslo role=cook",
        "put bo city=Rome role=cook",
        "put cy city=Oslo",
        "find city Oslo",
        "find role cook",
        "find role baker",
        "values city",
        "get bo",
        "get eve",
        "keys",
    ) == ["ada cy", "ada bo", "none", "Oslo Rome", "city=Rome role=cook", "none", "ada bo cy"]


def test_a_transaction_that_is_kept():
    assert told("begin", "put ada city=Oslo", "commit", "find city Oslo", "delete ada", "find city Oslo") == ["ada", "none"]


def test_a_new_card_is_taken_back():
    assert told("begin", "put ada role=cook", "keys", "rollback", "keys", "get ada") == ["ada", "none", "none"]
