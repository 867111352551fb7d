#!/bin/sh
# What `--self-correct` runs after each edit: the tests that the workspace itself holds. Nothing there: nothing to mend.
unset PYTHONHASHSEED
if [ -n "$(find . -name 'test_*.py' -o -name '*_test.py' | head -n 1)" ]; then
    exec python3 -m pytest -q -p no:cacheprovider
elif [ -f package.json ] && command -v node >/dev/null; then
    exec node --test
elif [ -f Makefile ] && grep -q '^\(test\|check\):' Makefile; then
    exec make "$(grep -o '^\(test\|check\):' Makefile | head -n 1 | tr -d :)"
elif [ -f Makefile ]; then
    exec make
fi
