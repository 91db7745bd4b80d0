#!/bin/bash
# bench_floor: every product beside its transfer, by every means, and what it makes of their times: floor.sh BENCH_FLOOR
set -euo pipefail
command -v python3 > /dev/null || exit 77
suite=$(mktemp)
trap 'rm -f "$suite" "$suite.why"' EXIT
printf '%s\n' '# three operators, rows that do not fill tiles, a rank without rows' ag_gemm:bf16:201x256x192:r3 \
    gemm_rs:f32:130x192x256:r3:rows=30,0,100 gemm_ar:bf16:96x192x256:r3 > "$suite"
grep -q '^all  *3 problems: floor / bound [0-9.]*, chosen / bound' <<< "$("$1" "$suite" --ranks 3 --seconds 0.1)"
"$1" "$suite" --ranks 3 --seconds 0.1 --json --commit x | python3 -c '
import json, sys
told = json.load(sys.stdin)
assert told["commit"] == "x" and len(told["results"]) == told["all"]["problems"] == 3, told
for row in told["results"]:
    coll = min(row["coll_us"], row.get("coll_in_windows_us", row["coll_us"]))
    ways = [way for means in row["halves"].values() for way in means if min(way) > 0]
    floor = sum(min(ways, key=lambda way: way[half])[1 - half] for half in (0, 1)) / 2
    assert row["bound_us"] == max(row["gemm_us"], coll), row
    assert abs(row["floor_us"] - floor) < 0.02 < floor, row
    assert len(row["loose"]) == 3 and all(name.startswith("loose_") for name in row["loose"]), row
    assert ("windows_us" in row) == row["problem"].startswith("ag_gemm"), row
'
refuses() { # TEXT COMMAND... : with a reason that has TEXT
    local status=0
    "${@:2}" > /dev/null 2> "$suite.why" || status=$?
    [ $status -eq 2 ] && grep -q "$1" "$suite.why"
}
refuses 'header says' "$1" "$suite" --rank 3
echo a2a_gemm:bf16:96x64x64:r3 > "$suite"
refuses a2a_gemm "$1" "$suite" --ranks 3
