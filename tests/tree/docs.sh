#!/bin/bash
# What the README shows is true: its C compiles, its command lines run, the files it names exist:
# docs.sh COMMAND CC.  (`shingle model` is left to `make demo`.)
set -euo pipefail
shingle=$(realpath "$1")
cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What its commands write, they write there.
for folder in bench machines models; do ln -s "$PWD/$folder" "$work/$folder"; done

echo "== C"
{
    echo '#include "shingle.h"'
    echo 'void readme(float **a, float **b, float **c);'
    echo 'void readme(float **a, float **b, float **c)'
    echo '{'
    # shellcheck disable=SC2016 # the backticks are the README's
    sed -n '/^```c$/,/^```$/{/^```/!p}' README.md
    echo '}'
} > "$work/readme.c"
[ "$(wc -l < "$work/readme.c")" -gt 8 ]
"$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iinclude "$work/readme.c"

echo "== commands"
count=0
while read -r line; do
    read -ra words <<< "$line"
    case "${words[0]} ${words[1]}" in
    'shingle model') ;;
    shingle\ *)
        count=$((count + 1))
        if ! (cd "$work" && "$shingle" "${words[@]:1}") > "$work/said" 2>&1; then
            echo "$line"
            cat "$work/said"
            exit 1
        fi
        ;;
    make\ *)
        make -n "${words[1]}" > /dev/null
        ;;
    esac
done < <(sed -n 's/^    //p' README.md)
[ $count -gt 0 ]

echo "== problems"
# Texts of problems that are written out in docs/problem.md are problems.
count=0
while read -r problem; do
    count=$((count + 1))
    "$shingle" plan "$problem" --machine plain > /dev/null
done < <(sed -nE 's/^    ((ag_gemm|gemm_rs|gemm_ar|a2a_gemm|gemm_a2a):[^ ]+).*/\1/p' docs/problem.md | grep -v '\.\.\.')
[ $count -gt 7 ]
# So is the schedule that is explained there.
line=$(sed -n 's/^    \$ shingle \(.* --schedule .*\)/\1/p' docs/problem.md)
read -ra words <<< "$line"
"$shingle" "${words[@]}" | sed -n '/^rank /,$p' > "$work/schedule"
sed -n '/^    \$ shingle .*--schedule/,/^$/p' docs/problem.md | sed '1d; s/^    //; /^$/d' | diff "$work/schedule" -

echo "== tables"
# A row behind an empty line is the head of another table, which its rule follows.
broken=$(awk 'FNR == 1 { row = ""; blank = 1 }
    row != "" && !/^\| *---/ { print row ": a row without its table" }
    { row = "" }
    blank && /^\|/ { row = FILENAME ":" FNR }
    { blank = /^ *$/ }' README.md DESIGN.md CONTRIBUTING.md docs/*.md)
echo -n "$broken"
[ -z "$broken" ]

echo "== files"
missing=0
for file in README.md DESIGN.md CONTRIBUTING.md docs/*.md; do
    while read -r target; do
        if ! [ -e "$(dirname "$file")/$target" ] && ! [ -e "$target" ]; then
            echo "$file names $target, which does not exist"
            missing=1
        fi
    done < <(grep -oE '\]\([^)#:]+\)' "$file" | sed 's/^](//; s/)$//')
done
exit $missing
