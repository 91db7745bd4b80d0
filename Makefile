# Thin: sets up what is missing and drives CMake.  The build itself is CMakeLists.txt.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS
configured = CMAKE_ARGS="$(CMAKE_ARGS) -DCMAKE_INSTALL_PREFIX=$(PREFIX)"

all: build

# What the main job looks like: a model's products, planned, run, checked.  Only the command is built for it.
demo: setup
	@$(configured) scripts/build.sh release shingle_command
	@scripts/demo.sh build/release

setup:
	@scripts/setup.sh

build: setup
	@$(configured) scripts/build.sh release

# The whole suite in release; assertions are on in check.
test: setup
	@scripts/test.sh release

# Assertions on, under sanitizers: address and undefined behaviour, then threads.
check: setup
	@scripts/test.sh 'asan:unit|concurrent|cli|fuzz' tsan:concurrent

bench: build
	@scripts/bench.sh build/release

format:
	@scripts/format.sh

# Neither tests nor benchmarks are built for it.
install: setup
	@$(configured) scripts/build.sh release shingle shingle_static shingle_command
	@cmake --install build/release

clean:
	rm -rf build

.PHONY: all demo setup build test check bench format install clean
