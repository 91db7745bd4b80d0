#!/bin/bash
# A stage of .ci/run that is not there is an error, and nothing runs; make builds what its targets need: ci.sh.
set -euo pipefail
code=0
said=$(.ci/run nosuch gate 2>&1) || code=$?
echo "$said"
[ $code = 2 ]
[ "$said" = 'no stage "nosuch"; there are: setup test demo prove asan tsan clang bare format shell gate fuzz cuda' ]

# The demo wants the command alone: not the tests, nor what they need.
make -n demo | tee /dev/stderr | grep -q 'scripts/build.sh release shingle_command$'
if make -n demo | grep -q 'scripts/build.sh release$'; then exit 1; fi
make -n test | grep -q 'scripts/test.sh release debug:unit$'
make -n build | grep -q 'scripts/build.sh release$'
