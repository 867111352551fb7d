#!/bin/sh
# aider offers its model only the files that git knows. Sets of file names come into its prompts in the order of their
# hashes, so these are fixed; and a list of prices that is there need not be fetched.
set -u
git init -q . 2>/dev/null
echo '.aider*' >> .git/info/exclude
git add -A
mkdir -p "$HOME/.aider/caches"
echo '{"none": {}}' > "$HOME/.aider/caches/model_prices_and_context_window.json"
env -u PYTHONPATH -u PYTHONHOME PYTHONHASHSEED=0 python3.11 -sP /opt/solvers/aider/bin/aider "$@"
status=$?
rm -rf .git .aider*
exit $status
