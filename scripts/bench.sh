#!/bin/bash
# The tile engine against the vendors' products, then the default suite of overlapped products:
# bench.sh BUILD.  The other programs of bench/ are for questions of their own, and want to be told what.
set -euo pipefail
cd "$(dirname "$0")/.."
"$1/bench_gemm"
"$1/shingle" bench
