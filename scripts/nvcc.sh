#!/bin/bash
# Runs nvcc and fails as well if ptxas reports spilled registers, ignored setmaxnreg or serialised
# matrix instructions, each of which costs a product a multiple of what tests would notice:
#
#     scripts/nvcc.sh /usr/local/cuda/bin/nvcc -O3 ... -c src/kernel/gemm_bf16.cu -o gemm_bf16.o
set -uo pipefail

report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$@" -Xptxas -v > "$report" 2>&1
status=$?
if [ $status -ne 0 ]; then
    cat "$report"
    exit $status
fi
grep -E 'warning' "$report"
if grep -E 'C75[0-9][0-9]|[1-9][0-9]* bytes spill' "$report"; then
    echo "nvcc: a kernel spills registers or serialises its matrix instructions"
    exit 1
fi
