#!/bin/bash
# Builds presets and runs their tests: scripts/test.sh PRESET[:LABEL[|LABEL]...]...  Of labels (unit,
# concurrent, cli, fuzz) only what they need is built; none means all tests.  Closes with "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# A test more than there are cores, and one that mostly waits: tests/CMakeLists.txt says what counts how.
jobs=$((2 * ${JOBS:-$(nproc)} + 3))
passed=0
failed=0
for argument in "$@"; do
    preset=${argument%%:*}
    labels=()
    targets=()
    if [ "$preset" != "$argument" ]; then
        labels=(-L "^(${argument#*:})\$")
        IFS='|' read -r -a targets <<< "${argument#*:}"
        targets=("${targets[@]/%/_tests}")
    fi
    if ! scripts/build.sh "$preset" "${targets[@]}"; then
        echo "$preset: the build failed"
        failed=$((failed + 1))
        continue
    fi
    echo "== $preset: tests"
    log=build/$preset.tests.log
    ctest --preset "$preset" -j "$jobs" "${labels[@]}" --output-junit junit.xml 2>&1 |
        tee "$log" | grep -vE '^ +Start +[0-9]+: |^$'
    # "95% tests passed, 1 tests failed out of 20"; nothing of the kind means ctest itself failed.
    counts=$(sed -n 's/.* \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
    read -r bad all <<< "${counts:-1 1}"
    failed=$((failed + bad))
    passed=$((passed + all - bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
