#!/usr/bin/env bash
# The native tests under AddressSanitizer and UBSan: `tools/sanitize.sh [pytest arguments]`.
# Builds a copy of the core with both (kept in build/), in a copy of the tree, so the usual one stays.
# `tools/sanitize.sh thread [rounds]`: the engine and its stress test, without Python, under
# ThreadSanitizer; the last line says how many checks went well, a finding ends it with an error.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if [ "${1:-}" = thread ]; then
  mkdir -p build
  ${CXX:-g++} -std=c++17 -O1 -g -fsanitize=thread -pthread -Isrc \
    tests/device/engine_stress.cpp src/engine/engine.cpp -o build/engine_stress_thread
  # The stress test forks while threads run, and its child starts new ones.
  export TSAN_OPTIONS="die_after_fork=0 halt_on_error=1 exitcode=66${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
  exec build/engine_stress_thread "${2:-20}"
fi

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
