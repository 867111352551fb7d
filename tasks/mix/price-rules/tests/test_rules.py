"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import subprocess

DRIVER = """
import os, runpy, sys
sys.path.insert(0, os.getcwd())
runpy.run_module("rules", run_name="__main__")
"""

def printed(source):
    done = subprocess.run(
        ["/run/appliance/subject", "--timeout", "5", "python3", "-c", DRIVER],
        input=source,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_signs_of_the_same_rank_go_from_left_to_right():
    assert printed("print 10 - 4 - 3; print 100 / 5 * 2; print 2 - 3 + 4 - 5; print 17 % 10 * 3; print 10 - 2 * 3 - 1;") == [
        "3",
        "40",
        "-2",
        "21",
        "3",
    ]
    assert printed('print "a" + "b" + "c"; print 8 / 4 / 2 - -1; print -2 * 3 % 4;') == ["abc", "2", "-2"]


def test_the_second_half_is_only_looked_at_where_it_counts():
    assert printed(
        """
        fn loud(value) { print "asked"; return value; }
        print true or loud(1);
        print false and loud(1);
        print false or loud(2);
        print 0 and loud(nil);
        print nil == nil or 1 / 0 == 1;
        let n = 0;
        print not (n > 0 and 10 / n > 3);
        """
    ) == ["true", "false", "asked", "2", "asked", "nil", "true", "true"]


def test_a_function_sees_where_it_was_written():
    assert printed(
        """
        let rate = 10;
        fn reduced(price) { return price - price * rate / 100; }
        fn special() { let rate = 50; return reduced(200); }
        print special();
        fn outer(x) { fn inner(y) { return x * 100 + y; } return inner; }
        let one = outer(1);
        let two = outer(2);
        let x = 9;
        print one(5);
        print two(6);
        print outer(3)(7);
        """
    ) == ["180", "105", "206", "307"]


def test_a_function_keeps_what_it_counts():
    assert printed(
        """
        fn counter() { let n = 0; return fn () { n = n + 1; return n; }; }
        let a = counter();
        let b = counter();
        a(); a();
        print a();
        print b();
        """
    ) == ["3", "1"]


def test_names_of_the_caller_are_unknown():
    assert printed("fn f() { return hidden; } fn g() { let hidden = 1; return f(); } print g();") == [
        "error: unknown name hidden"
    ]


def test_blocks_change_what_is_outside():
    assert printed(
        """
        let total = 0;
        let i = 1;
        while i <= 4 {
            if i % 2 == 0 { total = total + i; } else { let total = 100; total = total + 1; }
            i = i + 1;
        }
        print total;
        fn add(n) { total = total + n; }
        add(10);
        print total;
        """
    ) == ["6", "16"]


def test_return_ends_the_function_from_anywhere():
    assert printed(
        """
        fn first(limit) {
            let i = 0;
            while i < 60 {
                i = i + 1;
                if i * i > limit { if true { return i; } print "not reached"; }
            }
        }
        print first(50);
        fn early(x) { if x { return "yes"; } return "no"; }
        print early(true);
        print early(false);
        fn nothing(x) { if x { return; } print "went on"; return 1; }
        print nothing(true);
        print nothing(false);
        fn no() { return false; print "not reached"; }
        print no();
        """
    ) == ["8", "yes", "no", "nil", "went on", "1", "false"]


def test_functions_that_call_themselves():
    assert printed(
        """
        fn fib(n) { if n < 2 { return n; } return fib(n - 1) + fib(n - 2); }
        print fib(15);
        fn even(n) { if n == 0 { return true; } return odd(n - 1); }
        fn odd(n) { if n == 0 { return false; } return even(n - 1); }
        print even(10);
        fn gcd(a, b) { while b != 0 { let rest = a % b; a = b; b = rest; } return a; }
        print gcd(1071, 462);
        """
    ) == ["610", "true", "21"]


def test_functions_as_values():
    assert printed(
        """
        fn twice(f) { return fn (x) { return f(f(x)); }; }
        let x = 1000;
        print twice(twice(fn (n) { return n * 3; }))(1);
        fn compose(f, g) { return fn (x) { return f(g(x)); }; }
        print compose(fn (f) { return f + 1; }, fn (g) { return g * 2; })(20);
        """
    ) == ["81", "41"]


def test_plain_sums():
    assert printed("print 1 + 2 * 3; print (1 + 2) * 3; print -7 / 2; print -7 % 3; print 2 < 3;") == [
        "7",
        "9",
        "-3",
        "-1",
        "true",
    ]


def test_plain_statements():
    assert printed(
        'let a = "x"; print a; a = "y"; print a; if a == "y" { print 1; } else { print 2; } # no more\nprint nil;'
    ) == ["x", "y", "1", "nil"]


def test_plain_functions():
    assert printed("fn add(a, b) { return a + b; } print add(1, add(2, 3)); fn none() { } print none(); print add;") == [
        "6",
        "nil",
        "a function",
    ]


def test_mistakes():
    assert printed("print 1;\nprint nobody;") == ["1", "error: unknown name nobody"]
    assert printed('print 1 + "a";') == ["error: 1 + a makes no sense"]
    assert printed("x = 1;") == ["error: unknown name x"]
    assert printed("print (1;") == ["error: ) expected before ;"]
    assert printed("print 1 / 0;") == ["error: division by 0"]
