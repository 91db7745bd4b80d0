#!/bin/bash
# The main job: reads an unmodified config.json, derives the products of a layer on four ranks, plans,
# runs and checks each, as a scale model of four H200s, and draws what every rank did: demo.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
exec "$1/shingle" model models/llama-3-8b.json --tp 4 --tokens 512 --as h200x4 -n 3 --measure 3 \
    --timeline "$1/demo.svg"
