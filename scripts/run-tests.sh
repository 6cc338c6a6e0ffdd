#!/usr/bin/env bash
# run-tests.sh PYTHON ARGUMENTS: the tests, side by side. Many of them start real processes and look at the clock, so a
# few that failed beside others on a busy machine are tried once more, one after the other; who fails again has failed.
set -u
python="$1"
shift
most=8

rm -f .pytest_cache/v/cache/lastfailed
"$python" -m pytest "$@"
code=$?
[ "$code" -eq 1 ] || exit "$code"
failed=$("$python" -c 'import json; print(len(json.load(open(".pytest_cache/v/cache/lastfailed"))))')
if [ "$failed" -eq 0 ] || [ "$failed" -gt "$most" ]; then
  exit "$code"
fi
echo "== tests: $failed failed beside others; once more, one after the other =="
exec "$python" -m pytest -n 0 --last-failed --last-failed-no-failures none
