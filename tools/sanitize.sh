#!/usr/bin/env bash
# The native tests under AddressSanitizer and UBSan: `tools/sanitize.sh [pytest arguments]`.
# Builds a copy of the core with both (kept in build/), in a copy of the tree, so the usual one stays.
# `tools/sanitize.sh leaks [pytest arguments]`: the same with LeakSanitizer; an error if the core has
# allocated what leaks.
# `tools/sanitize.sh thread [rounds]`: the engine and the team behind parallel_for, each with its
# stress test and without Python, under ThreadSanitizer; the last line of each says how many checks
# went well, a finding ends it with an error.
# `tools/sanitize.sh thread-kvstore [pytest arguments]`: the native part of the parameter server, with
# the whole core, driven by Python's threads, under ThreadSanitizer; a finding ends it with an error.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if [ "${1:-}" = thread ]; then
  mkdir -p build
  # The stress tests fork while threads run, and the engine's child starts new ones.
  export TSAN_OPTIONS="die_after_fork=0 halt_on_error=1 exitcode=66${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
  # OpenMP's library is not instrumented; the team only asks it how many threads there may be.
  for part in engine/engine team; do
    program="build/$(basename "$part")_stress_thread"
    ${CXX:-g++} -std=c++17 -O1 -g -fsanitize=thread -pthread -fopenmp -Isrc \
      "tests/device/$(basename "$part")_stress.cpp" "src/$part.cpp" -o "$program"
    "$program" "${2:-20}"
  done
  exit
fi

kind=1 leaks=0 tree=build/sanitize-tree
case "${1:-}" in
  leaks) leaks=1; shift ;;
  thread-kvstore) kind=thread tree=build/sanitize-thread-tree; shift ;;
esac

mkdir -p "$tree"
rm -rf "$tree/src" "$tree/tests"  # files that are gone here must not be built or run there
tar --exclude='./build' --exclude='./.git' --exclude='*.so' -cf - . | tar -xf - -C "$tree"
cd "$tree"
built=$(MINIGLUON_SANITIZE=$kind "$python" setup.py build_ext --inplace)
echo "$built"
case "$built" in
  *"native core not built"*) exit 1 ;;  # else tests would run on NumPy alone, or on an older core
esac

# Python itself is not instrumented: the runtime goes first, and what Python leaks is not ours.
library() { "${CXX:-g++}" -print-file-name="$1"; }
if [ "$kind" = thread ]; then
  # Python's mutexes are seen, though not its own accesses: what the GIL protects is in order.
  options="die_after_fork=0 halt_on_error=1 exitcode=66"
  options+=" suppressions=$PWD/tests/kvstore/thread_suppressions.txt"
  export TSAN_OPTIONS="$options${TSAN_OPTIONS:+ $TSAN_OPTIONS}" PYTHONPATH=.
  export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1  # their libraries are not instrumented
  [ $# -gt 0 ] || set -- tests/kvstore/test_dist_threads.py tests/kvstore/test_dist_rounds.py
  LD_PRELOAD=$(library libtsan.so) exec "$python" -m pytest -q --capture=sys -p no:cacheprovider "$@"
fi
runtime="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=$leaks:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} PYTHONPATH=.
if [ "$leaks" = 1 ]; then
  rm -f leaks.*
  # Python's own allocator would hide which objects still point to ours.
  export PYTHONMALLOC=malloc LSAN_OPTIONS="exitcode=0:log_path=$PWD/leaks"
fi
# The sanitizers write to the process's own stderr: pytest must not catch it.
LD_PRELOAD=$runtime "$python" -m pytest -q --capture=sys -p no:cacheprovider "${@:-tests/native}"
if [ "$leaks" = 1 ]; then
  if cat leaks.* 2> /dev/null | grep -E '_(core|onednn)\.|fatal error'; then
    exit 1
  fi
  echo "leaks: none of the core's"
fi
