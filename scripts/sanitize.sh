#!/bin/sh
# The compiled kernels under AddressSanitizer and UBSan: `make sanitize`. The first error ends it with a report.
# The package is copied, so that the ordinary build is left alone. KEEP=1 keeps the copy.
#
# usage: scripts/sanitize.sh PYTHON
set -eu

python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/rota-sanitize-XXXXXX")
if [ -z "${KEEP:-}" ]; then trap 'rm -rf "$folder"' EXIT; fi
trap 'exit 130' HUP INT TERM
compiler=${CC:-cc}

say() { printf '== sanitize: %s ==\n' "$1"; }

cat >"$folder/probe.c" <<'PROBE'
int main(void) { return 0; }
PROBE
if ! $compiler -fsanitize=address,undefined -o "$folder/probe" "$folder/probe.c" 2>"$folder/probe.txt"; then
    echo "sanitize: $compiler cannot build with -fsanitize=address,undefined; install gcc with libasan and libubsan, or" >&2
    echo "set CC to a compiler that has them:" >&2
    cat "$folder/probe.txt" >&2
    exit 2
fi
asan=$($compiler -print-file-name=libasan.so)
if [ ! -e "$asan" ]; then
    echo "sanitize: $compiler has no libasan.so to load into Python (clang has another runtime); set CC=gcc" >&2
    exit 2
fi

say "build"
cp -R "$root/src/rota" "$folder/rota"
rm -f "$folder"/rota/kernels/_compiled*.so
"$python" "$root/hatch_build.py" --sanitize "$folder/rota/kernels"

# Leaks: Python itself leaves much to the end of the process, and what kernels allocate they free in the same call.
# A request for too much memory must fail as it does without the sanitizer. The stack check is of the C++ of solvers.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:halt_on_error=1:abort_on_error=1:alloc_dealloc_mismatch=0"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export PYTHONPATH="$folder:$root/tests"
export PYTHONDONTWRITEBYTECODE=1
export PYTHONMALLOC=malloc

sanitized() { LD_PRELOAD="$asan" "$python" "$@"; }

sanitized - "$folder" <<'CHECK'
import sys
from rota import kernels
from rota.kernels import _compiled
if not kernels.COMPILED or not _compiled.__file__.startswith(sys.argv[1]):
    sys.exit(f"sanitize: {_compiled.__file__} is in use, not the one that was built here")
CHECK

say "that an error would be found"
if sanitized "$root/tests/kernel_calls.py" --prove-the-sanitizer >"$folder/proof.txt" 2>&1; then
    echo "sanitize: a write after the end of memory went unnoticed" >&2
    exit 1
fi
grep -q AddressSanitizer "$folder/proof.txt" || { cat "$folder/proof.txt" >&2; exit 1; }

say "wrong calls of every kernel"
sanitized "$root/tests/kernel_calls.py" --calls "${CALLS:-60000}" --seed "${SEED:-1}"

say "damaged event logs"
sanitized "$root/tests/damaged_logs.py" --mutations "${LOGS:-4000}" --seed "${SEED:-1}" --seconds 180

say "simulations"
sanitized "$root/tests/small_simulations.py" --runs "${RUNS:-50}"

say "unit tests of kernels, engine, mechanisms and sim"
cd "$root"
sanitized -m pytest -q -p no:cacheprovider -p no:xdist --basetemp "$folder/tests" \
    --deselect tests/unit/kernels/test_left_over_builds.py \
    tests/unit/kernels tests/unit/engine tests/unit/mechanisms tests/unit/sim
say "nothing found"
