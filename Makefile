# Thin: sets up what is missing and drives CMake.  The build itself is CMakeLists.txt.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

all: build

# What the main job looks like: a model's products, planned, run, checked.
demo: build
	@scripts/demo.sh build/release

setup:
	@scripts/setup.sh

build: setup
	@mkdir -p build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) > build/release.log || (cat build/release.log; false)
	@cmake --build --preset release -j $(JOBS) -- --no-print-directory -s

# The whole suite in release, what has assertions to hit in debug.
test: setup
	@mkdir -p build
	@scripts/test.sh release 'debug:unit|concurrent'

# The same under sanitizers: address and undefined behaviour, then threads.
check: setup
	@mkdir -p build
	@scripts/test.sh 'asan:unit|concurrent|cli|fuzz' tsan:concurrent

bench: build
	@scripts/bench.sh build/release

format:
	@scripts/format.sh

install: build
	@cmake --install build/release

clean:
	rm -rf build

.PHONY: all demo setup build test check bench format install clean
