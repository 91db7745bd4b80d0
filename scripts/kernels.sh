#!/bin/bash
# Compiles every device kernel for every GPU it is for, as the library's build does:
# scripts/kernels.sh [OUT] [JOBS].  The Hopper product is for sm_90a alone.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-build/kernels}
jobs=${2:-$(nproc)}
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null || true)
if [ -z "$nvcc" ]; then
    echo "no nvcc here: device code is not compiled"
    exit 0
fi
mkdir -p "$out"

compile() { # NVCC OUT SOURCE
    local name targets=()
    name=$(basename "$3" .cu)
    case $name in
    gemm_bf16* | gemm_f16*) targets=('-gencode=arch=compute_90a,code=sm_90a') ;;
    *) targets=('-gencode=arch=compute_80,code=sm_80' '-gencode=arch=compute_89,code=sm_89'
        '-gencode=arch=compute_90,code=sm_90') ;;
    esac
    scripts/nvcc.sh "$1" -std=c++17 -O3 "${targets[@]}" -Xcompiler -Wall -Isrc -c "$3" -o "$2/$name.o"
    echo "-- $3"
}
export -f compile
# The longest first.
# shellcheck disable=SC2016 # the inner shell expands them
printf '%s\n' src/kernel/gemm_bf16*.cu src/kernel/gemm_f16*.cu src/kernel/*.cu | awk '!seen[$0]++' |
    xargs -P "$jobs" -I{} bash -c 'set -euo pipefail; compile "$0" "$1" "$2"' "$nvcc" "$out" {}
