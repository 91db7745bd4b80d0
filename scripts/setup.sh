#!/bin/bash
# Installs what a build needs and is missing, by apt-get, without questions.  Quick when nothing is.
# `scripts/setup.sh ci` adds what the checks of .ci/run need.
#
# Accepted: Debian 12, Ubuntu 22.04 and later; elsewhere any cmake >= 3.22, C11 compiler, make,
# pkg-config, jansson, popt and cmocka.  LIBXSMM (x86-64 only) and a CBLAS make products fast.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()  # cannot do without
wanted=()   # products are slower without

need() { # PACKAGE COMMAND...: the package is missing unless the command succeeds
    local package=$1
    shift
    "$@" > /dev/null 2>&1 || missing+=("$package")
}
want() {
    local package=$1
    shift
    "$@" > /dev/null 2>&1 || wanted+=("$package")
}
compiles() { echo "#include <$1>" | cc -E - ; }
has_cmake() {
    local version
    version=$(cmake --version | sed -n '1s/[^0-9]*//p')
    [ "$(printf '%s\n' 3.22 "$version" | sort -V | sed -n 1p)" = 3.22 ]
}

need build-essential cc --version
need build-essential make --version
need build-essential compiles stdio.h
need cmake has_cmake
need pkg-config pkg-config --version
need libjansson-dev pkg-config --exists jansson
need libpopt-dev pkg-config --exists popt
need libcmocka-dev pkg-config --exists cmocka
want libopenblas-dev pkg-config --exists openblas
if [ "$(uname -m)" = x86_64 ]; then want libxsmm-dev compiles libxsmm.h; fi
if [ "${1:-}" = ci ]; then
    need clang clang --version
    need clang-format clang-format --version
    need g++ g++ --version
    need shellcheck shellcheck --version
    if command -v clang > /dev/null; then
        # The runtimes of sanitizers and libFuzzer are a package of the compiler's major version.
        major=$(clang -dumpversion | cut -d. -f1)
        need "libclang-rt-$major-dev" test -e \
            "$(clang -print-runtime-dir)/libclang_rt.fuzzer-$(uname -m).a"
    else
        missing+=(libclang-rt-dev)
    fi
fi

[ ${#missing[@]} -gt 0 ] || [ ${#wanted[@]} -gt 0 ] || exit 0
# What only makes things faster is asked for once; `make clean` forgets that.
if [ ${#missing[@]} -eq 0 ] && [ -e build/.setup ]; then exit 0; fi

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u | sed '/^$/d')
root=()
if [ "$(id -u)" != 0 ]; then root=(sudo -n); fi
if ! command -v apt-get > /dev/null || ! "${root[@]}" true 2> /dev/null; then
    {
        [ ${#missing[@]} -eq 0 ] || echo "shingle needs, and does not find: ${missing[*]}"
        [ ${#wanted[@]} -eq 0 ] || echo "products are slower without: ${wanted[*]}"
        echo "install by (Debian, Ubuntu): apt-get install ${missing[*]} ${wanted[*]}"
    } >&2
    [ ${#missing[@]} -eq 0 ] || exit 1
    exit 0
fi

echo "setup: installing ${missing[*]} ${wanted[*]}"
apt() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Use-Pty=0 "$@" < /dev/null
}
apt update || echo "setup: apt-get update failed, going on with the lists that are here" >&2
if [ ${#missing[@]} -gt 0 ] && ! apt install --no-install-recommends "${missing[@]}" > /dev/null; then
    echo "setup: apt-get install ${missing[*]} failed; the reason is above" >&2
    exit 1
fi
for package in "${wanted[@]}"; do
    apt install --no-install-recommends "$package" > /dev/null ||
        echo "setup: $package is not to be had here; products are slower without it" >&2
done
mkdir -p build && touch build/.setup
if ! has_cmake; then
    echo "setup: cmake $(cmake --version | sed -n '1s/[^0-9]*//p') is too old; 3.22 or later" >&2
    exit 1
fi
