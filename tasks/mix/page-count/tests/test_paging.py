"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from paging import page_count, page_links
for entries, per_page in json.load(sys.stdin):
    print(page_count(entries, per_page), "pages:", page_links(entries, per_page))
"""


def pages(*tables):
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps(tables),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_full_last_page():
    assert pages([20, 10], [10, 10], [36, 12]) == "2 pages: 1 2\n1 pages: 1\n3 pages: 1 2 3\n"


def test_one_entry_a_page():
    assert pages([4, 1], [1, 1]) == "4 pages: 1 2 3 4\n1 pages: 1\n"


def test_an_empty_table():
    assert pages([0, 10], [0, 1]) == "0 pages: \n0 pages: \n"


def test_a_last_page_with_room_left():
    assert pages([21, 10], [5, 10], [29, 10], [1, 2]) == "3 pages: 1 2 3\n1 pages: 1\n3 pages: 1 2 3\n1 pages: 1\n"
