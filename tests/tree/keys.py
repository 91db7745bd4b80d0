"""Every key of the command's JSON stands in docs/cli.md.

    keys.py SHINGLE DOC
"""
import json
import re
import subprocess
import sys

PROBLEM = "gemm_rs:f32:64x64x64:r2"
MODEL = ["model", "llama-3-8b", "--tp", "2", "--tokens", "4"]
COMMANDS = [
    ["info", "--env"],
    ["plan", PROBLEM, "--why", "--schedule", "0"],
    ["sim", PROBLEM, "--all", "--why"],
    ["check", PROBLEM],
    ["check", "--random", "3"],
    ["run", PROBLEM, "-n", "1", "--all"],
    ["bench", "-n", "1", "--seconds", "1", "--strategies", "ring"],
    MODEL + ["-n", "1", "--type", "f32"],
    MODEL + ["--plan"],
    ["tune", PROBLEM, "--seconds", "0.05"],
    ["calibrate", "--ranks", "1", "--seconds", "4"],
    ["paper", "flux"],
]
NAMES = {"declined"}  # objects whose keys are names of strategies


def keys_of(value):
    if isinstance(value, list):
        for one in value:
            yield from keys_of(one)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in NAMES:
                yield from keys_of(inner)


def main(shingle, doc):
    quoted = " ".join(re.findall(r"`([^`\n]+)`", open(doc).read()))
    known = set(re.findall(r"[a-z_0-9]+", quoted))
    missing, keys = set(), set()
    for command in COMMANDS:
        run = subprocess.run([shingle, *command, "--json"], capture_output=True, text=True, timeout=120)
        if run.returncode != 0:
            print("FAILED", " ".join(command), run.stderr.strip())
            return 1
        found = set(keys_of(json.loads(run.stdout)))
        keys |= found
        missing |= {f"{command[0]}: {key}" for key in found - known}
    for one in sorted(missing):
        print("FAILED not in", doc, one)
    print(len(keys), "keys,", len(missing), "missing")
    return 1 if missing or len(keys) < 80 else 0


sys.exit(main(*sys.argv[1:]))
