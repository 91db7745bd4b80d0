#!/bin/bash
# Formats all C, C++ and CUDA files; `scripts/format.sh --check` only says which are not.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=$(command -v clang-format-14 || command -v clang-format)
mapfile -t files < <(find include src cli examples bench tests fuzz \
    \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -not -path 'bench/lab/*' | sort)
if [ "${1:-}" = --check ]; then
    "$formatter" --dry-run -Werror "${files[@]}"
    echo "${#files[@]} files are formatted"
else
    "$formatter" -i "${files[@]}"
fi
