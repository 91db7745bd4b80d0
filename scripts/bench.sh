#!/bin/bash
# The tile engine against the vendors' products, then the default suite of overlapped products:
# bench.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
for program in "$1"/bench_*; do
    if [ -x "$program" ]; then "$program"; fi
done
"$1/shingle" bench
