#!/bin/bash
# A stage of .ci/run that is not there is an error, and nothing runs; make builds what its targets need: ci.sh.
set -euo pipefail
code=0
said=$(.ci/run nosuch gate 2>&1) || code=$?
echo "$said"
[ $code = 2 ]
[ "$said" = 'no stage "nosuch"; there are: setup test demo prove asan tsan clang bare format shell gate fuzz cuda' ]

# The demo wants the command alone: not the tests, nor what they need.
does() { grep "scripts/$2\$" <<< "$(make -n "$1")"; }
does demo 'build.sh release shingle_command'
if does demo 'build.sh release'; then exit 1; fi
does test 'test.sh release'
does build 'build.sh release'
