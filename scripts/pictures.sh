#!/bin/bash
# Draws the pictures of docs/strategies.md anew, from the simulator: pictures.sh BUILD [FOLDER].  Each
# strategy stands below not overlapping; gather.svg and scatter.svg have all of them.  measured.svg alone
# is a run on this computer, which should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
shingle=$1/shingle
folder=${2:-docs/pictures}
mkdir -p "$folder"

draw() { # NAME ARGUMENTS of shingle sim
    "$shingle" sim "${@:2}" --timeline "$folder/$1.svg" > /dev/null
    echo "$folder/$1.svg"
}

# The attention's output projection of a 70B model and its mirror image: product and collective take
# about as long as each other, so that all that is not hidden shows.
gather=ag_gemm:bf16:8192x2048x8192:r4
scatter=gemm_rs:bf16:8192x8192x2048:r4

draw serial "$scatter" -m h200x4 -s serial
draw sliced "$scatter" -m h200x4 -s sliced
draw direct "$scatter" -m h200x4 -s direct
draw ring "$scatter" -m h200x4 -s ring
draw fused_in "$gather" -m h200x4 -s fused_in
draw fused_out "$scatter" -m h200x4 -s fused_out
draw fused_add gemm_rs:bf16:8192x8192x4096:r2 -m h200x2 -s fused_add
draw signal gemm_ar:bf16:8192x8192x8192:r4 -m rtx4090x4 -s signal
draw dma "${gather/r4/r8}" -m mi300x8 -s dma
draw mesh "${gather/r4/r8}" -m mi300x8 --all
draw gather "$gather" -m h200x4 --all
draw scatter "$scatter" -m h200x4 --all

"$shingle" run ag_gemm:bf16:512x1536x4096:r4 --as h200x4 -s direct -n 5 \
    --timeline "$folder/measured.svg" > /dev/null
echo "$folder/measured.svg"
