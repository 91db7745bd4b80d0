#!/bin/bash
# Runs the command lines of tests/cli/cases: run.sh SHINGLE [CASES...], SHINGLE being the program or a
# folder that holds it.  Closes with "N passed, N failed".
#
# A file of cases is a list of
#
#     + COMMANDS          run first, in the case's own folder; may use the functions of data.sh
#     $ ARGUMENTS         what is tested: shingle ARGUMENTS, through the shell
#     exit N              its exit code (0 if not said)
#     out PATTERN         an extended regular expression that some line of stdout matches
#     err PATTERN         the same of stderr
#     no PATTERN          matches no line of either
#     + COMMANDS          run afterwards: the case fails if they do
#     # TEXT              a comment
#
# and of empty lines, which end a case.  Any other line is an error, and so is a check that stands in no
# case.  A "+" before the "$" belongs to that case.  Whatever a case says: a program that ends with 2 or 3
# says why in one line on stderr, and prints nothing else; one that ends with 0 says nothing on stderr; and
# none dies of a signal.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { echo "usage: run.sh SHINGLE [CASES...]"; exit 2; }
program=$1
shift
[ -d "$program" ] && program=$program/shingle
program=$(realpath "$program")
[ -x "$program" ] || { echo "$program is no program"; exit 2; }
[ $# -gt 0 ] || set -- "$here"/cases/*.txt

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bench" # copies, so that no case writes into the source
cp -r "$root/machines" "$root/models" "$work"
cp -r "$root/bench/suites" "$work/bench"
# The cases use both.
export configs=$here/configs
export models=$root/models
export program
shingle() { "$program" "$@"; }
# shellcheck source=tests/cli/data.sh
. "$here/data.sh"
cd "$work" || exit 2
export TERM=dumb LC_ALL=C

passed=0
failed=0

wrong_line() { # WHY: the file itself is wrong
    echo "FAILED $file:$number: $1"
    failed=$((failed + 1))
}

fail() { # WHAT: the case does not hold
    [ "$broken" = 1 ] || echo "FAILED $where: shingle $arguments"
    broken=1
    echo "    $1"
}

check() { # WORD TEXT: a line below the case that is open
    case $1 in
    exit) want=$2 ;;
    out | err) grep -qE -- "$2" "$1" || fail "std$1 has no $2" ;;
    no) # 1: no line matches; 2 would be a pattern that is none
        grep -qE -- "$2" out err
        [ $? = 1 ] || fail "there is $2"
        ;;
    esac
}

finish() { # ends the case that is open
    [ "$open" = 1 ] || return 0
    open=0
    if [ "$code" != "$want" ]; then fail "exit code $code, not $want"; fi
    if [ "$code" -gt 3 ]; then fail "died of a signal or of a sanitizer"; fi
    if [ "$code" = 2 ] || [ "$code" = 3 ]; then
        [ "$(wc -l < err)" = 1 ] || fail "not one line on stderr"
        [ "$code" = 3 ] || [ ! -s out ] || fail "something on stdout"
    elif [ -s err ]; then
        fail "something on stderr"
    fi
    if [ "$broken" = 1 ]; then
        failed=$((failed + 1))
        head -n 5 out err | cut -c1-200 | sed 's/^/    | /'
    else
        passed=$((passed + 1))
    fi
}

for file in "$@"; do
    number=0
    open=0
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        case $line in
        '$'*)
            finish
            open=1
            arguments=${line#'$'}
            where=${file##*/}:$number
            want=0
            broken=0
            # Progress and colour must not show: neither stream is a terminal.
            ( eval "shingle $arguments" ) > out 2> err < /dev/null
            code=$?
            ;;
        '+ '*)
            if [ "$open" = 1 ]; then
                ( eval "${line#+ }" ) > after 2>&1 || { fail "${line#+ }"; cat after; }
            else
                eval "${line#+ }" || wrong_line "${line#+ }"
            fi
            ;;
        'exit '* | 'out '* | 'err '* | 'no '*)
            if [ "$open" = 1 ]; then check "${line%% *}" "${line#* }"; else wrong_line "in no case: $line"; fi
            ;;
        '') finish ;;
        '#'*) ;;
        *) wrong_line "no such line: $line" ;;
        esac
    done < "$file"
    finish
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
