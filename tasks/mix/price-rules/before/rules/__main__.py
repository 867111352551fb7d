import sys

from rules.interpreter import RuleError, run

try:
    run(sys.stdin.read(), print)
except RuleError as error:
    print(f"error: {error}")
