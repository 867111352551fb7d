"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import subprocess

DRIVER = """
import os, sys
sys.path.insert(0, os.getcwd())
from roastery.book import answers
for answer in answers(sys.stdin.read().splitlines()):
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


def test_what_is_left_of_a_lot_stays():
    assert told("buy 60000 450", "use 15000", "stock", "use 45000", "stock") == [
        "67.50",
        "45000 g in 1 lots",
        "202.50",
        "0 g in 0 lots",
    ]


def test_a_batch_out_of_several_lots():
    assert told("buy 1000 400", "buy 2000 500", "buy 5000 620", "use 4500", "stock", "use 100", "stock") == [
        "23.30",
        "3500 g in 1 lots",
        "0.62",
        "3400 g in 1 lots",
    ]


def test_a_batch_is_rounded_once():
    assert told("buy 1 400", "buy 1 400", "buy 1 400", "use 3", "buy 1 500", "buy 1 499", "use 2") == ["0.01", "0.01"]
    assert told("buy 3 450", "buy 3 450", "use 6", "buy 10 50", "use 10") == ["0.03", "0.01"]


def test_a_batch_that_is_too_large_takes_nothing():
    assert told("buy 1000 400", "buy 500 800", "use 2000", "stock", "use 1200", "use 301", "stock") == [
        "out of stock: 500 g short",
        "1500 g in 2 lots",
        "5.60",
        "out of stock: 1 g short",
        "300 g in 1 lots",
    ]


def test_whole_lots():
    assert told("buy 1000 400", "buy 2000 500", "stock", "use 1000", "stock", "use 2000", "stock") == [
        "3000 g in 2 lots",
        "4.00",
        "2000 g in 1 lots",
        "10.00",
        "0 g in 0 lots",
    ]


def test_an_empty_store():
    assert told("stock", "use 20", "use 0") == ["0 g in 0 lots", "out of stock: 20 g short", "0.00"]
