#!/bin/bash
# Adding a strategy is one file and one line: adds one to a copy of the tree by exactly that, builds,
# and asks the command to list it, prove it and run it: dummy_strategy.sh CC
set -euo pipefail
cc=$1
page=$PWD/docs/first_strategy.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
cp -r CMakeLists.txt cmake include src cli machines models "$work/tree/"
cd "$work/tree"

# The file: the code of docs/first_strategy.md.
# shellcheck disable=SC2016 # the backticks are the page's
sed -n '/^```c$/,/^```$/p' "$page" | grep -v '^```' > src/strategy/whole.c
# The line.
echo 'SG_STRATEGY(whole)' >> src/strategy/strategies.h

if ! { cmake -S . -B build -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release -DSHINGLE_TESTS=OFF \
    -DSHINGLE_EXAMPLES=OFF -DSHINGLE_BENCH=OFF -DSHINGLE_WERROR=ON > "$work/log" 2>&1 &&
    cmake --build build -j 2 >> "$work/log" 2>&1; }; then
    cat "$work/log"
    exit 1
fi

shingle=build/shingle
problem=ag_gemm:f32:210x64x48:r3:rows=100,30,80
"$shingle" info | tee "$work/info"
grep -q 'whole.*sends everything in one piece' "$work/info"
for each in $problem gemm_rs:f32:210x64x48:r3:rows=100,30,80 gemm_rs:bf16:97x40x24:r4:cyclic=3:bias; do
    "$shingle" check "$each" --strategy whole
    "$shingle" run "$each" --strategy whole --json | tee "$work/run"
    grep -qE '"strategy": *"whole' "$work/run"
    grep -qE '"wrong": *0[,}\n ]*' "$work/run"
    "$shingle" plan "$each" --why | tee "$work/why"
    grep -q whole "$work/why"
done
# What it declines, it declines with its reason.
if "$shingle" run gemm_ar:f32:64x64x64:r2 --strategy whole > "$work/declined" 2>&1; then
    echo "whole runs an all-reduce"
    exit 1
fi
grep -q 'only gathers and scatters' "$work/declined"

# One whose ranks wait for flags that nobody raises is refuted by name.
sed 's/whole/stuck/g; s/\.by = (int16_t)i/.by = (int16_t)rank/' src/strategy/whole.c > src/strategy/stuck.c
grep -q 'by = (int16_t)rank' src/strategy/stuck.c
echo 'SG_STRATEGY(stuck)' >> src/strategy/strategies.h
cmake --build build -j 2 > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for strategy in '' '--strategy stuck'; do
    code=0
    # shellcheck disable=SC2086 # two words or none
    "$shingle" check $problem $strategy > "$work/refuted" || code=$?
    cat "$work/refuted"
    [ $code = 1 ]
    grep -q '^VIOLATION.* stuck' "$work/refuted"
    grep -q 'waits for a flag that nobody raises: flag 0 of rank 0; rank 0 raises it at rank 1' "$work/refuted"
    if grep VIOLATION "$work/refuted" | grep -v stuck; then exit 1; fi
done
# Who plans or runs is told its name, too.
for command in plan run; do
    code=0
    "$shingle" $command $problem > "$work/out" 2> "$work/stuck" || code=$?
    cat "$work/stuck"
    [ $code = 3 ]
    grep -q "^shingle $command: stuck{blocks=" "$work/stuck"
    grep -q 'waits for a flag that nobody raises' "$work/stuck"
done
