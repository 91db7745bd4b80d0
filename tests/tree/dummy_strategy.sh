#!/bin/bash
# Adding a strategy is one file and one line: adds one to a copy of the tree by exactly that, builds,
# and asks the command to list it, prove it and run it: dummy_strategy.sh CC
set -euo pipefail
cc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
cp -r CMakeLists.txt cmake include src cli machines models "$work/tree/"
cd "$work/tree"

# The file.  A gather in which every rank sends all its rows to every peer in one piece, and starts
# with its own product meanwhile.
cat > src/strategy/dummy.c << 'END'
#include "core/moves.h"
#include "core/strategy.h"

enum { TILE_M, TILE_N };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (p->op != SG_OP_AG_GEMM) return sg_decline(why, "only gathers");
    return sg_accepts_moves(p, why);
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    sets[0].value[TILE_M] = machine->tile[0].m;
    sets[0].value[TILE_N] = machine->tile[0].n;
    return 1;
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_FIXED);
    sg_arrival arrival[SG_MAX_RANKS];
    int order[SG_MAX_RANKS];
    for (int i = 0; i < p->ranks; i++) {
        const int peer = (rank + p->ranks - i) % p->ranks;
        const sg_arrival sent = {.chunk = (int32_t)sg_max(p->share[rank].rows, 1)};
        if (i > 0) sg_moves_send(s, 1, peer, gathered, &sent);
        order[i] = (rank + i) % p->ranks;
        arrival[i] = (sg_arrival){.by = (int16_t)i, .chunk = (int32_t)sg_max(p->share[i].rows, 1)};
    }
    sg_gathering gathering = {.gathered = gathered, .arrival = arrival};
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    sg_moves_gather_patches(s, &gathering, order, p->ranks);
}

const sg_strategy sg_strategy_dummy = {
    .name = "dummy",
    .brief = "sends everything in one piece",
    .knob = {"tile_m", "tile_n"},
    .least = {1, 1},
    .most = {4096, 4096},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
END
# The line.
echo 'SG_STRATEGY(dummy)' >> src/strategy/strategies.h

if ! { cmake -S . -B build -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DSHINGLE_TESTS=OFF \
    -DSHINGLE_EXAMPLES=OFF -DSHINGLE_BENCH=OFF -DSHINGLE_WERROR=ON > "$work/log" 2>&1 &&
    cmake --build build -j 2 >> "$work/log" 2>&1; }; then
    cat "$work/log"
    exit 1
fi

shingle=build/shingle
problem=ag_gemm:f32:210x64x48:r3:rows=100,30,80
"$shingle" info | tee "$work/info"
grep -q 'dummy.*sends everything in one piece' "$work/info"
"$shingle" check $problem --strategy dummy
"$shingle" run $problem --strategy dummy --json | tee "$work/run"
grep -qE '"strategy": *"dummy' "$work/run"
grep -qE '"wrong": *0[,}\n ]*' "$work/run"
"$shingle" plan $problem --why | tee "$work/why"
grep -q dummy "$work/why"
# What it declines, it declines with its reason.
if "$shingle" run gemm_rs:f32:64x64x64:r2 --strategy dummy > "$work/declined" 2>&1; then
    echo "dummy runs a scatter"
    exit 1
fi
grep -q 'only gathers' "$work/declined"

# One whose ranks wait for flags that nobody raises is refuted by name.
sed 's/dummy/stuck/g; s/\.by = (int16_t)i/.by = (int16_t)rank/' src/strategy/dummy.c > src/strategy/stuck.c
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
    if grep VIOLATION "$work/refuted" | grep -v stuck; then exit 1; fi
done
# Who plans or runs is told its name, too.
for command in plan run; do
    code=0
    "$shingle" $command $problem > "$work/out" 2> "$work/stuck" || code=$?
    cat "$work/stuck"
    [ $code = 3 ]
    grep -q "^shingle $command: stuck{tile_m=" "$work/stuck"
done
