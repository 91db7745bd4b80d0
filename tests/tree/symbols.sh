#!/bin/bash
# The shared library exports what shingle.h declares, all of it and nothing else: symbols.sh LIBRARY
set -euo pipefail
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A declaration may run over several lines: from SHINGLE_API to the bracket.
grep -v '^ *#' include/shingle.h | tr '\n' ' ' | grep -oE 'SHINGLE_API [^(]*\(' |
    sed -E 's/.*[ *](shingle_[a-z_]+) *\($/\1/' | sort -u > "$work/declared"
nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' |
    grep -vE '^(__asan|__ubsan|__tsan|__odr_asan|_fini$|_init$)' | sort -u > "$work/exported"
[ -s "$work/declared" ]
if ! diff "$work/declared" "$work/exported" > "$work/difference"; then
    echo "< is declared but not exported, > is exported but not declared:"
    cat "$work/difference"
    exit 1
fi
name=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
major=$(sed -n 's/#define SHINGLE_VERSION_MAJOR //p' include/shingle.h)
if [ "$name" != "libshingle.so.$major" ]; then
    echo "SONAME is $name, not libshingle.so.$major"
    exit 1
fi
echo "$(wc -l < "$work/declared") functions, SONAME $name"
