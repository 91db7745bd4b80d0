# shellcheck shell=bash
# data.sh -- makes .npy files without Python, for tests/cli/run.sh.

npy_head() { # FILE DESCR FORTRAN SHAPE: version 1.0, the dict filled up to 128 bytes
    local dict
    printf -v dict "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" "$2" "$3" "$4"
    { printf '\x93NUMPY\x01\x00\x76\x00'; printf '%-117s\n' "$dict"; } > "$1"
}

npy_fill() { # FILE DESCR FORTRAN SHAPE COUNT BYTES: COUNT times the same number
    npy_head "$1" "$2" "$3" "$4"
    { for ((i = 0; i < $5; i++)); do printf '%b' "$6"; done; } >> "$1"
}

npy_random() { # FILE DESCR FORTRAN SHAPE COUNT SEED: numbers between 1/8 and 2, of both signs
    npy_head "$1" "$2" "$3" "$4"
    local numbers
    numbers=$(awk -v count="$5" -v seed="$6" -v kind="$2" 'BEGIN {
        srand(seed)
        low = kind == "<f4" ? 3 : 1
        for (i = 0; i < count; i++) {
            for (j = 0; j < low; j++) printf "\\x%02x", int(256 * rand())
            sign = rand() < 0.5 ? 0 : 128
            if (kind == "<f2") printf "\\x%02x", 48 + int(16 * rand()) + sign
            else printf "\\x%02x", 63 - (rand() < 0.5) + sign
        }
    }')
    printf '%b' "$numbers" >> "$1"
}

bytes_of() { # FILE: its length
    stat -c %s "$1"
}

data_of() { # FILE: what stands behind a header of 64 or 128 bytes, as hexadecimal numbers
    local head
    head=$(($(od -An -tu2 -j8 -N2 "$1") + 10))
    tail -c +$((head + 1)) "$1" | od -An -v -tx1 | tr -d ' \n'
}
