#!/bin/bash
# shingle.h alone compiles as C11 and as C++17, strictly: header.sh CC [CXX]
set -euo pipefail
cc=$1
cxx=${2:-}
strict=(-Iinclude -Wall -Wextra -pedantic -Werror -fsyntax-only)

printf '#include "shingle.h"\nint main(void) { return shingle_version() == 0; }\n' |
    "$cc" -std=c11 "${strict[@]}" -Wconversion -Wstrict-prototypes -x c -
if [ -z "$cxx" ] || [[ $cxx == *NOTFOUND ]]; then
    echo "no C++ compiler: C++ is not tried"
else
    printf '#include "shingle.h"\nint main() { return shingle_version() == nullptr; }\n' |
        "$cxx" -std=c++17 "${strict[@]}" -Wold-style-cast -x c++ -
fi
# It includes nothing but the two headers of plain types.
if grep -E '^ *# *include' include/shingle.h | grep -vE '<(stddef|stdint)\.h>'; then
    echo "shingle.h includes more than stddef.h and stdint.h"
    exit 1
fi
