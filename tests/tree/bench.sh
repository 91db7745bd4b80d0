#!/bin/bash
# `make bench` runs the tile engine's benchmark and the default suite, and none that want arguments.
set -euo pipefail
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
for program in bench_gemm bench_predict shingle; do
    printf '#!/bin/sh\necho "%s" "$@" >> "%s/ran"\n[ %s != bench_predict ]\n' $program "$build" $program > "$build/$program"
    chmod +x "$build/$program"
done
scripts/bench.sh "$build"
diff - "$build/ran" <<< 'bench_gemm
shingle bench'
