#!/usr/bin/env bash
# The native tests under AddressSanitizer and UBSan: `tools/sanitize.sh [pytest arguments]`.
# Builds a copy of the core with both (kept in build/), in a copy of the tree, so the usual one stays.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

tree=build/sanitize-tree
mkdir -p "$tree"
tar --exclude='./build' --exclude='./.git' --exclude='*.so' -cf - . | tar -xf - -C "$tree"
cd "$tree"
MINIGLUON_SANITIZE=1 "$python" setup.py build_ext --inplace

# Python itself is not instrumented: the runtime goes first, and what Python leaks is not ours.
library() { "${CXX:-g++}" -print-file-name="$1"; }
export LD_PRELOAD="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} PYTHONPATH=.
# The sanitizers write to the process's own stderr: pytest must not catch it.
exec "$python" -m pytest -q --capture=sys -p no:cacheprovider "${@:-tests/native}"
