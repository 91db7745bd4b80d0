#!/bin/bash
# scripts/gate.sh passes a small tree that keeps the rules, and names each of them when it is broken.
set -euo pipefail
gate=$PWD/scripts/gate.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
tried=0

# The small tree: a strategy, a backend, a variable that is read.
fresh() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/"{include,src/core,src/strategy,src/backend/cpu,src/backend/gpu,cli,examples,scripts,docs}
    cd "$work/tree"
    echo '/* api */' > include/shingle.h
    echo 'SG_STRATEGY(wave)' > src/strategy/strategies.h
    echo 'SG_BACKEND(cpu)' > src/backend/backends.h
    printf '#include "core/base.h"\n' > src/strategy/wave.c
    printf '#include <stdlib.h>\nconst char *x = getenv("A");\n    {"SHINGLE_LOG", "", ""},\n' > src/core/env.c
    printf '#include <stdio.h>\n#include "core/base.h"\nint f(void)\n{\n    return sg_env("SHINGLE_LOG") != 0;\n}\n' > src/core/base.c
    echo '/* base */' > src/core/base.h
    printf 'typedef struct sg_backend {\n    int (*open)(void);\n} sg_backend;\n' > src/core/backend.h
    printf '#include "core/backend.h"\nint g(sg_backend *b)\n{\n    return b->open();\n}\n' > src/core/comm.c
    printf '#include <libxsmm.h>\n#include "core/base.h"\n#include "backend/cpu/cpu.h"\n' > src/backend/cpu/lane.c
    echo '/* cpu */' > src/backend/cpu/cpu.h
    printf '#include "shingle.h"\nint h(void)\n{\n    return getenv("TERM") != 0; /* printf(x) exit(1) */\n}\n' > cli/main.c
    printf '# Strategies\n## wave\n' > docs/strategies.md
}

lines() { for ((i = 0; i < $1; i++)); do echo "    x$2 += 1;"; done; }

# Each case: what the gate must say, and the change that it must say it of.
refuse() { # TEXT COMMAND
    tried=$((tried + 1))
    fresh
    eval "$2"
    if "$gate" . > "$work/said" 2>&1; then
        echo "not refused: $2"
        failed=$((failed + 1))
    elif ! grep -qF -- "$1" "$work/said"; then
        echo "refused for another reason: $2"
        cat "$work/said"
        failed=$((failed + 1))
    fi
}
accept() { # COMMAND
    tried=$((tried + 1))
    fresh
    eval "$1"
    if ! "$gate" . > "$work/said" 2>&1; then
        echo "refused: $1"
        cat "$work/said"
        failed=$((failed + 1))
    fi
}

accept 'true'
refuse 'src/core/wide.c: line 1 has 101 columns' 'printf "/*%97s*/\n" x > src/core/wide.c'
refuse 'src/core/long.c: the file has 601 lines' 'lines 601 a > src/core/long.c'
accept 'lines 600 a > src/core/long.c'
accept 'lines 601 a > src/core/long.c; echo "file src/core/long.c one table, generated" > scripts/gate.allow'
refuse 'the file has 601 lines' 'lines 601 a > src/core/long.c; echo "file src/core/long.c ok" > scripts/gate.allow'
refuse 'is not too long (any more)' 'echo "file src/core/base.c one table, generated" > scripts/gate.allow'
refuse 'src/core/f.c: deep has 81 lines' '{ printf "int deep(int a,\n         int b)\n{\n"; lines 77 a; echo "}"; } > src/core/f.c'
accept '{ printf "int deep(int a,\n         int b)\n{\n"; lines 76 a; echo "}"; } > src/core/f.c'
accept '{ printf "int deep(void)\n{\n"; lines 90 a; echo "}"; } > src/core/f.c; echo "function src/core/f.c deep a table of cases, flat" > scripts/gate.allow'
refuse 'getenv belongs to src/core/env.c' 'echo "char *p = getenv(\"A\");" >> src/core/base.c'
refuse 'getenv belongs to src/core/env.c' 'echo "char *p = getenv(\"SHINGLE_X\");" >> cli/main.c'
refuse 'the library neither prints nor exits' 'echo "int p = (printf(\"x\"), 1);" >> src/core/comm.c'
refuse 'the library neither prints nor exits' 'echo "void q(void) { exit(1); }" >> src/strategy/wave.c'
accept 'echo "int p = snprintf(t, 1, \"printf(x)\");" >> src/core/comm.c'
refuse 'aborting and logging belong' 'echo "void q(void) { abort(); }" >> src/core/comm.c'
refuse 'aborting and logging belong' 'echo "void q(void) { fputs(a, stderr); }" >> src/core/comm.c'
refuse 'no type ends in _t' 'echo "typedef struct a a_t;" >> src/core/base.h'
refuse 'say it in an issue' 'echo "/* TODO: later */" >> src/core/comm.c'
refuse 'switched off' 'printf "#if 0\n#endif\n" >> src/core/comm.c'
refuse 'names a strategy' 'echo "const char *s = \"wave\";" >> src/core/comm.c'
refuse 'names a strategy' 'echo "const char *s = \"cpu\";" >> src/core/comm.c'
refuse 'names a strategy' 'echo "extern int sg_strategy_wave;" >> src/core/comm.c'
refuse 'src/core includes the core and libc' 'echo "#include \"strategy/strategies.h\"" >> src/core/comm.c'
refuse 'src/core includes the core and libc' 'echo "#include <jansson.h>" >> src/core/comm.c'
refuse 'a strategy includes the core' 'echo "#include \"backend/cpu/cpu.h\"" >> src/strategy/wave.c'
refuse "no other strategy's header" 'echo "#include \"strategy/waves.h\"" >> src/strategy/wave.c'
accept 'echo "#include \"strategy/wave.h\"" >> src/strategy/wave.c'
refuse 'the command includes shingle.h' 'echo "#include \"core/base.h\"" >> cli/main.c'
refuse 'an example includes shingle.h' 'echo "#include \"core/base.h\"" > examples/e.c'
refuse 'a backend includes the core and itself' 'echo "#include \"backend/cpu/cpu.h\"" > src/backend/gpu/stream.c'
refuse 'libxsmm stays in' 'echo "#include <libxsmm.h>" >> cli/main.c'
refuse 'jansson|popt stays in' 'echo "#include <jansson.h>" >> src/backend/cpu/lane.c'
refuse 'two files have this name' 'cp src/core/comm.c src/backend/cpu/comm.c'
refuse 'nobody reads SHINGLE_LOG' 'sed -i s/SHINGLE_LOG/SHINGLE_LAG/ src/core/base.c'
refuse 'nobody calls the slot open' 'sed -i "s/b->open()/0/" src/core/comm.c'
refuse 'no paragraph about wave' 'echo "# Strategies" > docs/strategies.md'
refuse 'kill the writer of its pipe' 'echo "ls | ""grep -qE a" > scripts/a.sh'
refuse 'kill the writer of its pipe' 'echo "ls | ""head -n 1" > scripts/a.sh'
accept 'echo "ls | grep -E a; grep -q b file; head -n 1 file" > scripts/a.sh'
refuse 'the path of a machine' 'echo "see /""home/me/x" > docs/notes.md'

echo "$tried trees, $failed wrong"
[ "$failed" -eq 0 ]
