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


def test_what_was_stored_is_found():
    assert trace(2, ("put", "a", {"user": 1}), ("get", "a"), ("get", "b"), ("get", "b", "none")) == [
        'put null ["a"]',
        'get {"user": 1} ["a"]',
        'get null ["a"]',
        'get "none" ["a"]',
    ]


def test_the_first_one_in_goes_first():
    assert trace(2, ("put", "a", 1), ("put", "b", 2), ("put", "c", 3), ("get", "a")) == [
        'put null ["a"]',
        'put null ["a", "b"]',
        'put null ["b", "c"]',
        'get null ["b", "c"]',
    ]
