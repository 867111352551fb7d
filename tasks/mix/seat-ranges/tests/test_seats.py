"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest


def subject(*argv):
    return subprocess.run(["/run/appliance/subject", *argv], capture_output=True, text=True, timeout=50)


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subject("make", "-B", "-s", "seats")
    assert done.returncode == 0, done.stderr[-2000:]


def seats(*lists):
    done = subject("./seats", *lists)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


def refused(*lists):
    done = subject("./seats", *lists)
    assert (done.returncode, done.stderr) == (1, "")
    return done.stdout


def test_lists_come_out_in_order():
    assert seats("7,1-3", "30,20,10", "5-6,1") == "1-3,7 (4)\n10,20,30 (3)\n1,5-6 (3)\n"


def test_ranges_that_overlap_are_one():
    assert seats("1-5,3-8", "10-20,12-14", "4,4,4", "2-9,1-10,9-11") == "1-8 (8)\n10-20 (11)\n4 (1)\n1-11 (11)\n"


def test_ranges_that_touch_are_one():
    assert seats("5-8,1-3,4", "1,2", "3-4,1-2,6") == "1-8 (8)\n1-2 (2)\n1-4,6 (5)\n"


def test_many_ranges():
    odd = ",".join(str(seat) for seat in range(9999, 0, -2))
    assert seats(odd) == ",".join(str(seat) for seat in range(1, 10000, 2)) + " (5000)\n"
    twenty = ",".join(f"{seat}-{seat + 2}" for seat in range(1, 100, 5))
    assert seats(twenty) == twenty + " (60)\n"


def test_the_same_range_many_times():
    assert seats(",".join(["7-9", "1"] * 3000), "1-9999") == "1,7-9 (4)\n1-9999 (9999)\n"


def test_backward_ranges_are_refused():
    assert refused("5-3", "1-2,9-8") == "no list of seats: 5-3\nno list of seats: 1-2,9-8\n"


def test_a_missing_number_is_refused():
    assert refused("1-3,", "-4", "2-", "1,,2") == (
        "no list of seats: 1-3,\nno list of seats: -4\nno list of seats: 2-\nno list of seats: 1,,2\n"
    )


def test_numbers_that_are_too_large_are_refused():
    assert refused("10000", "4294967297", "1-18446744073709551617,2") == (
        "no list of seats: 10000\nno list of seats: 4294967297\nno list of seats: 1-18446744073709551617,2\n"
    )


def test_lists_that_are_in_order_already():
    assert seats("1-3,7,10-12", "9999", "1") == "1-3,7,10-12 (7)\n9999 (1)\n1 (1)\n"


def test_other_things_are_refused():
    assert refused("", "x", "1-3;4", "0", "3", "1 2") == (
        "no list of seats: \nno list of seats: x\nno list of seats: 1-3;4\nno list of seats: 0\n3 (1)\n"
        "no list of seats: 1 2\n"
    )
