#!/bin/bash
# Runs every example that the command's help prints, in the order it is printed: examples.sh SHINGLE.
#
# They run in a folder of their own, as for who has installed the command: machines, models and suites
# are found by name.
#
# What takes long is shortened by the rules of `shorter`, which go by the command and its options: of an
# option that is given twice the last one counts.  An example of a backend that this build has not is left
# out.  Closes with "N passed, N failed".
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || { echo "usage: examples.sh SHINGLE"; exit 2; }
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
shingle() { "$program" "$@"; }
# shellcheck source=tests/cli/data.sh
. "$here/data.sh"
export TERM=dumb LC_ALL=C

# What examples read: the matrices of ag_gemm:f32:512x1024x768:r4, and a suite.
npy_head x.npy '<f4' False '(512, 768)'
head -c $((4 * 512 * 768)) /dev/zero >> x.npy
npy_head w.npy '<f4' False '(4096, 768)'
head -c $((4 * 4096 * 768)) /dev/zero >> w.npy
echo 'gemm_rs:f32:64x32x16:r2' > my-problems.txt

shorter() { # ARGUMENTS: prints options that make them brief
    case "$1 $*" in
    check*--random*) echo '--random 100' ;;
    model*) echo '--plan' ;;
    tune*--model*) echo '--seconds 0.01 --tokens 4 --type f32' ;;
    tune*) echo '--seconds 0.01' ;;
    run*) echo '-n 1 -w 0' ;;
    bench*) echo '-n 1 -w 0 --seconds 1' ;;
    calibrate*) echo '--seconds 30' ;;
    esac
}

missing() { # EXAMPLE: names the backend that it wants and this build has not
    local backend
    backend=$(sed -n 's/.*--backend \([a-z]*\).*/\1/p' <<< "$1")
    [ -n "$backend" ] && ! grep -q "\"name\": \"$backend\"" <<< "$(shingle info --json)" && echo "$backend"
}

passed=0
failed=0
left=0
commands=$(shingle --help | sed -n '/^Usage:/,/^Exit/s/^  \([a-z][a-z]*\)  *.*/\1/p')
for command in '' $commands; do
    count=0
    while IFS= read -r example; do
        count=$((count + 1))
        if backend=$(missing "$example"); then
            echo "left out, there is no $backend here: $example"
            left=$((left + 1))
            continue
        fi
        read -r -a words <<< "${example#*shingle }"
        if (eval "$example $(shorter "${words[@]}")") > out 2> err < /dev/null && [ ! -s err ]; then
            passed=$((passed + 1))
        else
            echo "FAILED $example $(shorter "${words[@]}")"
            sed 's/^/    | /' err
            failed=$((failed + 1))
        fi
    done < <(shingle ${command:+"$command"} --help | sed -n '/^Examples:/,/^$/s/^  //p')
    if [ $count = 0 ]; then
        echo "FAILED shingle $command --help has no examples"
        failed=$((failed + 1))
    fi
done
echo "$left left out"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 10 ]
