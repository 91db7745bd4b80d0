#!/bin/bash
# A stage of .ci/run that is not there is an error, and nothing runs: ci.sh.
set -euo pipefail
code=0
said=$(.ci/run nosuch gate 2>&1) || code=$?
echo "$said"
[ $code = 2 ]
[ "$said" = 'no stage "nosuch"; there are: setup test demo prove asan tsan clang bare format shell gate fuzz cuda' ]
