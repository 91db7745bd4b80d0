#!/bin/bash
# Measures what the README and the documents quote of the CPU and prints it as JSON, with machine,
# versions and commit: record.sh BUILD > results/cpu/NAME.json.  Wants a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

# Lines of standard input as a JSON list of texts.
lines() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&"/' | paste -sd, | sed 's/^.*$/[&]/'; }

bench=$(find "$build" -name bench_gemm -type f | sed -n 1p)
[ -n "$bench" ] || { echo "record.sh: no bench_gemm in $build; configure with -DSHINGLE_BENCH=ON" >&2; exit 1; }

# A command that fails inside a text that is printed would go unseen; in an assignment it ends the script.
commit=$(git describe --always --dirty)
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p)
cores=$(nproc)
kernel=$(uname -r)
compiler=$(cc --version | sed -n 1p)
demo=$("$build/shingle" model models/llama-3-8b.json --tp 4 --tokens 512 --as h200x4 -n 5 --measure 3 --json)
check=$("$build/shingle" check --random 100000 --seed 1 --json)
bench_gemm=$("$bench" 2048x4096x4096 9 2>&1 | lines)
cat <<JSON
{
"commit": "$commit",
"processor": "$processor",
"cores": $cores,
"kernel": "$kernel",
"compiler": "$compiler",
"command_demo": "shingle model models/llama-3-8b.json --tp 4 --tokens 512 --as h200x4 -n 5 --measure 3 --json",
"demo": $demo,
"command_check": "shingle check --random 100000 --seed 1 --json",
"check": $check,
"command_bench_gemm": "bench_gemm 2048x4096x4096 9",
"bench_gemm": $bench_gemm
}
JSON
