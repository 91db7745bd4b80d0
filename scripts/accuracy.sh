#!/bin/bash
# How near predictions come on scale models: accuracy.sh BUILD [TOKENS] > results/cpu/accuracy.json.
# Every strategy, the products of Llama 3 8B and 70B on four ranks.  Wants a machine that does nothing
# else, and takes some minutes a machine.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$(find "$1" -name bench_accuracy -type f | sed -n 1p)
tokens=${2:-256}
echo "{\"commit\": \"$(git describe --always --dirty)\", \"cores\": $(nproc),"
echo "\"processor\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p)\", \"machines\": ["
comma=
for machine in h200x4 a100-pcie-x8 rtx4090x4; do
    echo "$comma"
    "$bench" --as machines/$machine.machine --tokens "$tokens" --rounds 3 --json
    comma=,
done
echo "]}"
