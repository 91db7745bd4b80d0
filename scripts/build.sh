#!/bin/bash
# Configures and builds a preset, quietly unless it fails or warns: scripts/build.sh PRESET [TARGET...]
# CMAKE_ARGS, if set, go to the configuration.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

preset=$1
shift
targets=()
if [ $# -gt 0 ]; then targets=(--target "$@"); fi
mkdir -p build
log=build/$preset.build.log
echo "== $preset: build (log in $log)"
# shellcheck disable=SC2086 # CMAKE_ARGS are several words
if ! cmake --preset "$preset" ${CMAKE_ARGS:-} > "$log" 2>&1 ||
    ! cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" "${targets[@]}" >> "$log" 2>&1; then
    tail -n 100 "$log"
    exit 1
fi
grep -A 5 'warning:' "$log" || true
