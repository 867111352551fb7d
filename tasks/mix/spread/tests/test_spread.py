"""The solution is built and run as another user, behind /run/appliance/subject; only text comes back."""

import subprocess

import pytest


def subject(*argv, stdin=""):
    return subprocess.run(
        ["/run/appliance/subject", *argv], input=stdin, capture_output=True, text=True, timeout=50
    )


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subject("make", "-B", "-s", "spread")
    assert done.returncode == 0, done.stderr[-2000:]


def spread(**series):
    text = "".join(f"-- {name}\n" + "".join(f"{value}\n" for value in values) for name, values in series.items())
    done = subject("./spread", stdin=text)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_large_values_that_lie_close_together():
    assert spread(a=[1000000004, 1000000007, 1000000013, 1000000016]) == [
        "a 4 1.00000001e+09 4.74342",
        "all 4 1.00000001e+09 4.74342",
    ]
    assert spread(up=[10**12 + n for n in (1, 2, 3)], down=[-(10**12) - n for n in (1, 2, 3)])[:2] == [
        "up 3 1e+12 0.816497",
        "down 3 -1e+12 0.816497",
    ]


def test_the_same_value_again_and_again():
    assert spread(a=[0.1] * 1000, b=[1e9 + 0.1] * 7, c=[-123456789.123] * 3)[1:3] == [
        "b 7 1e+09 0",
        "c 3 -123456789 0",
    ]


def test_a_small_wave_on_a_large_value():
    wave = [50000000 + (n * 37 % 101) / 100 for n in range(10100)]
    assert spread(a=wave) == ["a 10100 50000000.5 0.291548", "all 10100 50000000.5 0.291548"]


def test_series_far_away_from_each_other():
    assert spread(low=[1, 2, 3], high=[1e9 + 1, 1e9 + 2, 1e9 + 3]) == [
        "low 3 2 0.816497",
        "high 3 1e+09 0.816497",
        "all 6 500000002 5e+08",
    ]


def test_many_series_of_large_values():
    series = {f"s{day}": [7e9 + day * 3 + n for n in range(24)] for day in range(31)}
    seen = spread(**series)
    assert seen[0] == "s0 24 7.00000001e+09 6.92219"
    assert seen[30] == "s30 24 7.0000001e+09 6.92219"
    assert seen[31] == "all 744 7.00000006e+09 27.7113"


def test_series_of_different_lengths():
    assert spread(a=[3e8 + 5], b=[], c=[3e8 + n for n in range(11)], d=[3e8 + 100, 3e8 + 200]) == [
        "a 1 300000005 0",
        "b 0 - -",
        "c 11 300000005 3.16228",
        "d 2 300000150 50",
        "all 14 300000026 54.2171",
    ]


def test_small_values():
    assert spread(a=[2, 4, 4, 4, 5, 5, 7, 9], b=[-1.5, 1.5]) == ["a 8 5 2", "b 2 0 1.5", "all 10 4 2.76586"]


def test_one_value_and_none():
    assert spread(a=[42], b=[]) == ["a 1 42 0", "b 0 - -", "all 1 42 0"]
    assert spread() == ["all 0 - -"]


def test_what_is_no_number():
    done = subject("./spread", stdin="-- a\n1\n2x\n")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "spread: line 3: no number\n")
