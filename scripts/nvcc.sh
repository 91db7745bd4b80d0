#!/bin/bash
# Runs nvcc and fails as well if ptxas reports spilled registers, ignored setmaxnreg or serialised
# matrix instructions, each of which costs a product a multiple of what tests would notice, or if it
# has made a register be read too soon (sass.py, where there is a Python), which tests notice at times:
#
#     scripts/nvcc.sh /usr/local/cuda/bin/nvcc -O3 ... -c src/kernel/gemm_bf16.cu -o gemm_bf16.o
set -uo pipefail

kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
report=$kept/report
"$@" -Xptxas -v --keep --keep-dir "$kept" > "$report" 2>&1
status=$?
if [ $status -ne 0 ]; then
    cat "$report"
    exit $status
fi
grep -E 'warning' "$report"
if grep -E -B 1 'C75[0-9][0-9]|[1-9][0-9]* bytes spill' "$report"; then
    echo "nvcc: a kernel spills registers or serialises its matrix instructions"
    exit 1
fi
command -v python3 > /dev/null || exit 0
if ! python3 "$(dirname "$0")/sass.py" "$kept"/*.cubin; then
    echo "nvcc: ptxas has made wrong code of a kernel (scripts/sass.py says which and why)"
    exit 1
fi
