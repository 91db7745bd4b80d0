#!/bin/bash
# Installs a build to a prefix of its own, moves it, and uses it as a stranger would: by pkg-config,
# by find_package with either library, and by running the command: install.sh BUILD CC
set -euo pipefail
build=$1
cc=$2
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" > "$work/log"
# Nothing of it may know where it was installed.
mv "$work/first" "$work/prefix"
folder=$(dirname "$(find "$work/prefix" -name shingle.pc)")
libraries=$(dirname "$folder")
for file in include/shingle.h share/shingle/machines share/shingle/models \
    share/doc/shingle/docs/problem.md share/doc/shingle/docs/pictures/scatter.svg share/doc/shingle/examples/gemm_rs.c; do
    [ -e "$work/prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done

echo "== pages"
pages=$work/prefix/share/doc/shingle
while IFS=: read -r page link; do
    link=${link#](}
    [ -e "$(dirname "$page")/${link%)}" ] || { echo "$page links to ${link%)}, which is not installed"; exit 1; }
done < <(find "$pages" -name '*.md' -exec grep -oHE '\]\([^)#: ]+\)' {} +)

echo "== pkg-config"
export PKG_CONFIG_PATH=$folder
# shellcheck disable=SC2046 # flags are several words
"$cc" -std=c11 -o "$work/by_pkg_config" examples/gemm_rs.c $(pkg-config --cflags --libs shingle)
LD_LIBRARY_PATH=$libraries "$work/by_pkg_config"
[ -e "$(pkg-config --variable=datadir shingle)/machines/h200x4.machine" ]
# Machines that are installed have names, in whatever folder a program is.
(cd "$work" && SHINGLE_MACHINE=h200x4 LD_LIBRARY_PATH=$libraries ./by_pkg_config)

echo "== pkg-config --static"
mkdir "$work/static" && cp "$libraries/libshingle.a" "$work/static/"
# The folder of the archive alone stands in for -L, so that the shared library is not found.
# shellcheck disable=SC2046
"$cc" -std=c11 -o "$work/by_static" examples/gemm_rs.c $(pkg-config --cflags shingle) \
    $(pkg-config --static --libs shingle | sed "s|-L[^ ]*|-L$work/static|")
"$work/by_static"
# One that is installed beside the machines finds them, too.
mkdir -p "$work/prefix/bin" && cp "$work/by_static" "$work/prefix/bin/"
(cd "$work" && SHINGLE_MACHINE=h200x4 prefix/bin/by_static)

echo "== find_package"
mkdir "$work/user"
cat > "$work/user/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(shingle 0.1 REQUIRED)
add_executable(shared ${EXAMPLE})
target_link_libraries(shared PRIVATE shingle::shingle)
add_executable(static ${EXAMPLE})
target_link_libraries(static PRIVATE shingle::shingle_static)
END
if ! { cmake -S "$work/user" -B "$work/user/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DEXAMPLE="$source/examples/gemm_rs.c" > "$work/log" 2>&1 &&
    cmake --build "$work/user/build" >> "$work/log" 2>&1; }; then
    cat "$work/log"
    exit 1
fi
"$work/user/build/shared"
"$work/user/build/static"
if ldd "$work/user/build/static" | grep shingle; then
    echo "the static program needs the shared library"
    exit 1
fi

if [ -e "$work/prefix/bin/shingle" ]; then
    echo "== command"
    "$work/prefix/bin/shingle" info > /dev/null
    # Its machines and models have moved with it.
    (cd "$work/static" && "$work/prefix/bin/shingle" model llama-3-70b --tp 8 --tokens 64 --plan --as h100x8) > /dev/null
    # Papers name their machines, so that no other one is advised where a file is missing.
    rm "$work"/prefix/share/shingle/machines/npux4.machine
    if (cd "$work/static" && "$work/prefix/bin/shingle" paper commfuse) > "$work/log" 2>&1 ||
        ! grep -q '^shingle paper: machine "npux4" is neither in .*/machines; its figures need that file in one of the two$' \
            "$work/log"; then
        cat "$work/log"
        exit 1
    fi
fi
