"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from sessions.cache import SessionCache
limit, steps = json.load(sys.stdin)
cache = SessionCache(limit)
for step, *values in steps:
    print(step, json.dumps(getattr(cache, step)(*values)), json.dumps(cache.ids()))
"""


def trace(limit, *steps):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps([limit, steps]),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_reading_a_session_keeps_it():
    assert trace(2, ("put", "a", 1), ("put", "b", 2), ("get", "a"), ("put", "c", 3), ("get", "a"), ("get", "b")) == [
        'put null ["a"]',
        'put null ["a", "b"]',
        'get 1 ["b", "a"]',
        'put null ["a", "c"]',
        'get 1 ["c", "a"]',
        'get null ["c", "a"]',
    ]


def test_storing_a_known_id_again_pushes_nobody_out():
    assert trace(2, ("put", "a", 1), ("put", "b", 2), ("put", "b", 20), ("get", "a"), ("get", "b")) == [
        'put null ["a"]',
        'put null ["a", "b"]',
        'put null ["a", "b"]',
        'get 1 ["b", "a"]',
        'get 20 ["a", "b"]',
    ]


def test_storing_a_known_id_again_counts_as_use():
    assert trace(3, ("put", "a", 1), ("put", "b", 2), ("put", "a", 10), ("put", "c", 3), ("put", "d", 4)) == [
        'put null ["a"]',
        'put null ["a", "b"]',
        'put null ["b", "a"]',
        'put null ["b", "a", "c"]',
        'put null ["a", "c", "d"]',
    ]


def test_asking_for_a_stranger_changes_nothing():
    assert trace(2, ("put", "a", 0), ("put", "b", None), ("get", "x"), ("put", "c", 3)) == [
        'put null ["a"]',
        'put null ["a", "b"]',
        'get null ["a", "b"]',
        'put null ["b", "c"]',
    ]


def test_a_dropped_session_can_come_back():
    assert trace(1, ("put", "a", 1), ("put", "b", 2), ("put", "a", 3), ("get", "a")) == [
        'put null ["a"]',
        'put null ["b"]',
        'put null ["a"]',
        'get 3 ["a"]',
    ]
