#!/bin/bash
# The rules that plain text search can see, in under a second: scripts/gate.sh [TREE].  Prints one
# line per violation, "PATH: what", and fails if there is any.  Exceptions to the limits of length
# stand in scripts/gate.allow, each with its reason.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}" || exit 1

violations=$(mktemp)
stripped=$(mktemp -d)
trap 'rm -rf "$violations" "$stripped"' EXIT
say() { awk -v what="$1" '{ print $0 ": " what }' >> "$violations"; }

folders=()
for folder in include src cli examples bench tests fuzz; do [ -d $folder ] && folders+=("$folder"); done
mapfile -t sources < <(find "${folders[@]}" -type f \
    \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -not -path 'bench/lab/*' | sort)
only() { printf '%s\n' "${sources[@]}" | grep -E "$1"; }

# ---- Length: files of 600 lines (kernels 450), functions of 80 (kernels 100) ---------------------------

# A function of this style is a line "{" and the next line "}" at the margin; its signature, which
# ends with ")", is before it.
# shellcheck disable=SC2016
lengths='
    function close_file() {
        if (path != "" && lines > (kernel ? 450 : 600)) print "file " path " - " lines
    }
    FNR == 1 {
        close_file()
        path = FILENAME; kernel = path ~ /\.cuh?$/; open = 0; signature = ""; start = 0
    }
    { lines = FNR }
    !open && /^[A-Za-z_]/ { signature = $0; start = FNR }
    !open && /^\{/ {
        open = 1
        name = signature; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
    }
    open && /^\}/ {
        open = 0
        length_ = FNR - start + 1
        if (length_ > (kernel ? 100 : 80)) print "function " path " " name " " length_
    }
    END { close_file() }'
# ---- Width: 100 columns; indented maps in comments and lines of a text may have a few more -------------
awk 'length($0) > 100 && $0 !~ /^ \*   +/ && $0 !~ /^ *"/ || length($0) > 160 {
         print FILENAME ": line " FNR " has " length($0) " columns; 100 are accepted" }' \
    "${sources[@]}" >> "$violations"

allow=scripts/gate.allow
[ -e $allow ] || allow=/dev/null
awk "$lengths" "${sources[@]}" > "$stripped/long"
while read -r kind path name lines; do
    if [ "$kind" = file ]; then entry="file $path "; else entry="function $path $name "; fi
    if ! grep -qE "^${entry}[^ ].{15,}" $allow; then
        [ "$kind" = file ] && name="the file"
        echo "$path: $name has $lines lines; split it or give the reason in scripts/gate.allow" >> "$violations"
    fi
done < "$stripped/long"
while read -r kind path name _; do
    case $kind in
    file) grep -q "^file $path " "$stripped/long" ;;
    function) grep -q "^function $path $name " "$stripped/long" ;;
    '#'* | '') true ;;
    *) false ;;
    esac || echo "scripts/gate.allow: $kind $path is not too long (any more)" >> "$violations"
done < $allow

# ---- Words: comments and strings are cut out first ---------------------------------------------------------

# shellcheck disable=SC2016
strip='
    FNR == 1 { inside = 0 }
    {
        line = $0; out = ""
        while (line != "") {
            if (inside) {
                i = index(line, "*/")
                if (!i) break
                inside = 0; line = substr(line, i + 2)
            } else if (match(line, /"(\\.|[^"\\])*"|\/\*|\/\//)) {
                piece = substr(line, RSTART, RLENGTH)
                out = out substr(line, 1, RSTART - 1)
                line = substr(line, RSTART + RLENGTH)
                if (piece == "/*") inside = 1
                else if (piece == "//") break
                else out = out "\"\""
            } else { out = out line; break }
        }
        if (out ~ /[^ ]/) print FILENAME ":" FNR ": " out
    }'
awk "$strip" "${sources[@]}" > "$stripped/code"
code() { grep -E "^$1" "$stripped/code" | grep -E "$2" | cut -d: -f1,2; }

code 'src/' '(^|[^A-Za-z_])(secure_)?getenv *\(' | grep -v '^src/core/env.c:' |
    say "getenv belongs to src/core/env.c"
# The command may ask about the terminal, nothing else.
only '^cli/' | xargs -r grep -nE '[^A-Za-z_]getenv *\(' /dev/null | grep -vE '"(TERM|NO_COLOR|COLUMNS)"' |
    cut -d: -f1,2 | say "getenv belongs to src/core/env.c"
code 'src/' '[^A-Za-z_](v?printf|puts|putchar|exit|_exit|_Exit|quick_exit) *\(' |
    say "the library neither prints nor exits"
code 'src/' '[^A-Za-z_](abort *\(|stderr[^A-Za-z_]|stdout[^A-Za-z_])' | grep -v '^src/core/base.c:' |
    say "aborting and logging belong to src/core/base.c"
code '' '(^|[^A-Za-z_])[a-z_0-9]+_t;|^[^"]*typedef .*[^A-Za-z_][a-z_0-9]+_t;' | say "no type ends in _t"
grep -nE '(^|[^A-Za-z_])(TODO|FIXME|XXX|HACK)([^A-Za-z_]|$)' "${sources[@]}" | cut -d: -f1,2 |
    say "say it in an issue or do it"
grep -nE '^ *# *if +0' "${sources[@]}" | cut -d: -f1,2 | say "code that is switched off"

# ---- Who may name and include whom ---------------------------------------------------------------------------

names=$(sed -n 's/^SG_[A-Z]*(\([a-z_0-9]*\)).*/\1/p' src/strategy/strategies.h src/backend/backends.h 2> /dev/null |
    paste -sd'|')
if [ -n "$names" ]; then
    only '^src/core/' | xargs -r grep -nE "\"($names)[\"{]|sg_(strategy|backend)_($names)([^a-z_]|$)" /dev/null |
        cut -d: -f1,2 | say "the core names a strategy or a backend"
fi

own='"(shingle\.h|core/[a-z_]+\.h)"'
libc='<(assert|complex|ctype|dirent|dlfcn|errno|fcntl|fenv|float|inttypes|limits|locale|math|poll|pthread|sched|semaphore|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|threads|time|unistd|sys/mman|sys/stat|sys/types)\.h>'
includes() { # FILES ALLOWED WHAT
    only "$1" | xargs -r grep -nE '^ *# *include' /dev/null | grep -vE "$2" | cut -d: -f1,2 | say "$3"
}
includes '^src/core/' "$own|$libc" "src/core includes the core and libc"
includes '^src/strategy/' "$own|\"strategy/[a-z_]+\.h\"|$libc" "a strategy includes the core, libc and a header of its own"
only '^src/strategy/' | xargs -r grep -nHE '^ *# *include +"strategy/' /dev/null |
    grep -vE '^src/strategy/([a-z_0-9]+)[a-z_0-9]*\.[ch]:[0-9]+: *# *include +"strategy/\1\.h"' | cut -d: -f1,2 |
    say "a strategy includes no other strategy's header"
includes '^src/draw/' "$own|\"draw/|$libc" "src/draw includes the core and libc"
includes '^src/kernel/' '"(core/(walk|blocks)\.h|kernel/)|"[a-z_0-9]+\.(h|cuh)"|<(cuda|std)' "a kernel includes core/walk.h, core/blocks.h and kernels"
includes '^examples/' '"(shingle|attention)\.h"|<' "an example includes shingle.h"
only '^cli/' | xargs -r grep -nE '^ *# *include +"' /dev/null | grep -E '"(core|strategy|backend|draw|kernel)/' |
    cut -d: -f1,2 | say "the command includes shingle.h alone"
for folder in $(only '^src/backend/[^/]+/' | cut -d/ -f3 | sort -u); do
    only "^src/backend/$folder/" | xargs -r grep -nE '^ *# *include +"' /dev/null |
        grep -vE "$own|\"(backend/$folder/|backend/nccl/collect\.h|kernel/)|\"[a-z_]+\.h\"" | cut -d: -f1,2 |
        say "a backend includes the core and itself"
done
foreign() { # HEADERS HOME
    grep -nE "^ *# *include +[<\"]($1)" "${sources[@]}" | grep -vE "^($2)" | cut -d: -f1,2 |
        say "$1 stays in $2"
}
foreign 'libxsmm' 'src/backend/cpu/|bench/'
foreign 'cblas|openblas' 'src/backend/cpu/|bench/'
foreign 'dnnl|oneapi' 'bench/'
foreign 'jansson|popt' 'cli/|fuzz/|tests/|bench/'
foreign 'cuda|cublas|nvml|nvrtc' 'src/backend/cuda/|src/kernel/|tests/kernel/|tests/fake_cuda/|tests/gpu/|bench/|examples/[a-z_]*_cuda'
foreign 'nccl' 'src/backend/nccl/|tests/fake_cuda/|bench/'
foreign 'mpi' 'src/backend/mpi/|tests/mpi/'
foreign 'cmocka' 'tests/'

# ---- Things that stand in two places ---------------------------------------------------------------------------

printf '%s\n' "${sources[@]}" | sed 's|.*/||' | sort | uniq -d | say "two files have this name"

if [ -e src/core/env.c ]; then
    # shellcheck disable=SC2013 # names have no spaces
    for name in $(sed -n 's/^ *{"\(SHINGLE_[A-Z_]*\)".*/\1/p' src/core/env.c); do
        only '^src/' | grep -v '^src/core/env.c$' | xargs grep -qF "(\"$name\"" /dev/null ||
            echo "src/core/env.c" | say "nobody reads $name"
    done
fi
if [ -e src/core/backend.h ]; then
    # shellcheck disable=SC2013
    for slot in $(sed -n '/^typedef struct sg_backend {/,/^}/s/^[^*]*(\*\([a-z_]*\)[^)]*).*/\1/p' src/core/backend.h); do
        only '^src/core/' | xargs grep -qE "(->|\.)$slot(\[[^]]*\])?( *\(| *[!=]= *NULL| *\?)" /dev/null ||
            echo "src/core/backend.h" | say "nobody calls the slot $slot"
    done
fi
if [ -e docs/strategies.md ]; then
    # shellcheck disable=SC2013
    for name in $(sed -n 's/^SG_STRATEGY(\([a-z_0-9]*\)).*/\1/p' src/strategy/strategies.h); do
        grep -qE "^#+ .*\`?$name\`?" docs/strategies.md ||
            echo "docs/strategies.md" | say "no paragraph about $name"
    done
fi

# What reads only the beginning of a pipe kills its writer, sometimes, and with pipefail the script.
find .ci scripts tests -type f \( -name '*.sh' -o -name run -o -path '*/cases/*' \) -print0 2> /dev/null |
    xargs -0r grep -nE '\| *(grep +-[a-zA-Z]*q|head( |$))' /dev/null | cut -d: -f1,2 |
    say "a reader that stops may kill the writer of its pipe: grep -q P <<< \"\$(...)\", sed -n 1p"

# Absolute paths of somebody's machine.
find . -type f -not -path './.git' -not -path './.git/*' -not -path './build*' -not -path './.lab/*' -print0 |
    xargs -0 grep -nIE '(^|[^A-Za-z0-9_./$}-])/(home|root|Users|work|mnt|data|farm|opt)/[A-Za-z0-9_.]' 2> /dev/null |
    cut -d: -f1,2 | say "the path of a machine"

if [ -s "$violations" ]; then
    sort -u "$violations"
    echo "gate: $(sort -u "$violations" | wc -l) violations"
    exit 1
fi
echo "gate: ${#sources[@]} files keep the rules"
