#!/bin/bash
# scripts/gpu_table.py on the CPU backend, and its merging with what peers took: gpu_table.sh COMMAND.
set -euo pipefail
shingle=$(realpath "$1")
cd "$(dirname "$0")/../.."
command -v python3 > /dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== the suite alone"
printf 'gemm_rs:bf16:64x64x64:r2\nag_gemm:bf16:64x64x64:r2\nag_gemm:bf16:64x64x32:r2 fused_out\n' > "$work/suite"
python3 -B scripts/gpu_table.py "$(dirname "$shingle")" --backend cpu --no-peers --suite "$work/suite" --seconds 1 \
    --measure 2 --knob-sets 1 --out "$work/a.json" > "$work/said" 2> "$work/log" && exit 1 # a line fails
grep -q '^FAILED ag_gemm:bf16:64x64x32:r2: fused_out' "$work/said"
grep -q '^wrong elements: 0' "$work/said"

echo "== what an earlier run left is not taken for this one's"
echo '{"problem":"gemm_rs:bf16:64x64x64:r2"}' > "$work/old.json.bench.json.log"
echo nonsense > "$work/nonsense"
python3 -B scripts/gpu_table.py "$(dirname "$shingle")" --backend cpu --no-peers --suite "$work/nonsense" --seconds 1 \
    --out "$work/old.json" > "$work/said" 2> "$work/log" && exit 1
grep -q '^no result of the suite' "$work/log"
[ ! -e "$work/old.json.bench.json.log" ] && [ ! -e "$work/old.json" ]

echo "== without PyTorch"
# An empty module stands in the way of one that is installed.
mkdir "$work/none"
echo 'raise ImportError("No module named torch")' > "$work/none/torch.py"
python3 -B bench/peers.py --help > /dev/null
PYTHONPATH=$work/none python3 -B bench/peers.py --suite "$work/suite" 2> "$work/log" && exit 1
grep -q '^peers.py: .*PyTorch with CUDA is needed' "$work/log"
[ "$(wc -l < "$work/log")" = 1 ]
python3 -B bench/peers.py --suite nowhere 2> "$work/log" && exit 1
grep -q 'suite nowhere: no such file' "$work/log"
python3 -B scripts/gpu_table.py nowhere --no-peers 2> "$work/log" && exit 1
grep -q 'nowhere: no program shingle in it' "$work/log"

echo "== whose turn it is"
python3 -B - << 'PYTHON'
import sys
sys.path.insert(0, "bench")
import peers
for count in range(1, 12):
    rounds = 2 * count if count % 2 else count
    behind = []
    for r in range(rounds):
        order = peers.turns(r, count)
        assert sorted(order) == list(range(count))
        behind += zip(order[1:], order)
    assert all(behind.count((a, b)) == rounds // count for a in range(count) for b in range(count) if a != b)
PYTHON

echo "== with peers"
python3 -B - "$work" << 'PYTHON'
import json, sys
work = sys.argv[1]
bench = json.load(open(work + "/a.json.bench.json"))
done = [r for r in bench["results"] if "error" not in r]
assert len(done) == 2 and bench["failed"] == 1
for r, gemm, coll, serial, ours in zip(done, (100, 50), (20, 80), (120, 140), (110, 100)):
    r.update(gemm_us=gemm, coll_us=coll, serial_us=serial, overlapped_us=ours, hidden=0.5)
json.dump(bench, open(work + "/b.json", "w"))
peer = dict(problem=done[1]["problem"], gemm_us=60, coll_us=70, bound_us=70, best="async_tp", best_us=90,
            peers={"serial": 130, "async_tp": 90})
json.dump(dict(torch="none", results=[peer]), open(work + "/p.json", "w"))
PYTHON
python3 -B scripts/gpu_table.py --merge "$work/b.json" "$work/p.json" --out "$work/t.json" > "$work/said"
python3 -B - "$work" << 'PYTHON'
import json, sys
t = json.load(open(sys.argv[1] + "/t.json"))
near = lambda x, y: abs(x - y) < 1e-9
first, second = t["results"]
assert near(first["ratios"]["ours/bound"], 1.1) and near(first["ratios"]["serial/ours"], 120 / 110)
assert "peer/ours" not in first["ratios"]
assert second["bound_us"] == 70 and second["own_bound_us"] == 80  # the better of both, alone
assert near(second["ratios"]["peer/ours"], 0.9) and near(second["ratios"]["peer/bound"], 90 / 70)
assert near(second["ratios"]["peer/ours_relative"], (90 / 70) / (100 / 80))
assert near(t["all"]["ours/bound"], (1.1 * 100 / 70) ** 0.5) and t["all"]["cells"] == 2
assert near(t["by_op"]["gemm_rs"]["ours/bound"], 1.1)
assert t["slower_than_serial"] == {} and list(t["behind_the_best_peer"]) == [second["problem"]]
assert t["behind_relative"] == {} and len(t["failed"]) == 1 and t["wrong"] == 0
PYTHON

echo "== parts of another day"
python3 -B scripts/gpu_table.py --merge "$work/b.json" "$work/nowhere.json" --out "$work/m.json" > "$work/said" \
    2> "$work/log" && exit 1
grep -q '/nowhere.json: no file' "$work/log" && [ "$(wc -l < "$work/log")" = 1 ] && [ ! -e "$work/m.json" ]
python3 -B scripts/gpu_table.py --merge "$work/nonsense" 2> "$work/log" && exit 1
grep -q '/nonsense: no file, or no object in JSON' "$work/log"
python3 -B - "$work" << 'PYTHON'
import json, sys
work = sys.argv[1]
bench, peers = (json.load(open(f"{work}/{name}.json")) for name in "bp")
assert bench["commit"] == json.load(open(work + "/a.json"))["commit"] and bench["date"]  # as they were taken
bench.update(date="2026-01-02", commit="abc")
peers.update(date="2026-01-01", commit="def")
json.dump(bench, open(work + "/b2.json", "w"))
json.dump(peers, open(work + "/p2.json", "w"))
del bench["date"], bench["commit"]
json.dump(bench, open(work + "/b3.json", "w"))
PYTHON
python3 -B scripts/gpu_table.py --merge "$work/b2.json" "$work/p2.json" --commit ghi --out "$work/m2.json" > "$work/said"
python3 -B scripts/gpu_table.py --merge "$work/b3.json" "$work/p2.json" --out "$work/m3.json" > "$work/said"
python3 -B scripts/gpu_table.py --merge "$work/b3.json" --commit ghi --out "$work/m4.json" > "$work/said"
python3 -B - "$work" << 'PYTHON'
import json, sys
both, old, told = (json.load(open(f"{sys.argv[1]}/m{i}.json")) for i in (2, 3, 4))
assert (both["date"], both["commit"]) == ("2026-01-02", "abc")
assert (both["peers_software"]["date"], both["peers_software"]["commit"]) == ("2026-01-01", "def")
assert (old["date"], old["commit"]) == (None, None) and old["peers_software"]["commit"] == "def"
assert (told["date"], told["commit"]) == (None, "ghi")
PYTHON

echo "== a table that cannot be written whole leaves the old one"
python3 -B - "$work" << 'PYTHON'
import os, sys
sys.path.insert(0, "scripts")
import gpu_table
path = sys.argv[1] + "/kept.json"
gpu_table.save(path, {"a": 1})
try:
    gpu_table.save(path, {"b": 2, "c": object()})
except TypeError:  # it is no JSON, which shows behind b
    pass
assert gpu_table.load(path) == {"a": 1}
gpu_table.save(path, {"b": 2})
assert gpu_table.load(path) == {"b": 2} and not os.path.exists(path + ".part")
PYTHON

echo "== without serial plans"
python3 -B - "$work" << 'PYTHON'
import json, sys
work = sys.argv[1]
bench = json.load(open(work + "/b.json"))
first, second = [r for r in bench["results"] if "error" not in r]
first["serial_us"] = 0
del second["serial_us"]
assert any(s.get("us") for s in first["strategies"])
json.dump(bench, open(work + "/n.json", "w"))
PYTHON
python3 -B scripts/gpu_table.py --merge "$work/n.json" "$work/p.json" --out "$work/n.t.json" > "$work/said"
grep -q 'serial/it     -,' "$work/said"
python3 -B - "$work" << 'PYTHON'
import json, sys
t = json.load(open(sys.argv[1] + "/n.t.json"))
first, second = t["results"]
assert list(first["ratios"]) == ["ours/bound", "ours/own_bound"] and first["serial_us"] is None
assert "peer/ours" in second["ratios"] and "serial/ours" not in second["ratios"]
assert "serial/bound" not in t["all"] and t["all"]["cells"] == 2 and t["slower_than_serial"] == {}
assert all(s["cells"] > 0 and s["serial/it"] is None and s["it/bound"] for s in t["by_strategy"].values())
PYTHON

echo "== what takes too long, or is stopped, leaves nothing running"
mkdir "$work/slow"
printf '#!/bin/bash\nsleep 30 &\necho begun >&2\nwait\n' > "$work/slow/shingle"
chmod +x "$work/slow/shingle"
python3 -B - "$work" << 'PYTHON'
import os, signal, subprocess, sys, threading, time, types
sys.path.insert(0, "scripts")
import gpu_table

def ends(script):
    """Does all of SCRIPT, which says that it has begun, when its time is over?"""
    out, into = os.pipe()
    assert not gpu_table.run(["bash", "-c", script], 2, stdout=into)
    os.close(into)
    assert os.read(out, 100) == b"begun\n"
    os.set_blocking(out, False)
    for _ in range(100):  # the pipe ends with the last who holds it
        try:
            return os.read(out, 1) == b""
        except BlockingIOError:
            time.sleep(0.1)
    return False

gpu_table.GRACE = 5
assert ends("sleep 30 & echo begun; wait")
assert ends("setsid sleep 30 & echo begun; trap 'kill $!; exit' TERM; wait")  # as torchrun does
gpu_table.GRACE = 1
assert ends("trap '' TERM; sleep 30 & echo begun; wait")

class Lock:
    """Popen's own; whoever takes it first is told to stop in that very moment."""
    told = False

    def __init__(self):
        self.lock = threading.Lock()
        self.release = self.lock.release

    def acquire(self, *how):
        taken = self.lock.acquire(*how)
        if not Lock.told:
            Lock.told = True
            os.kill(os.getpid(), signal.SIGTERM)
        return taken

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

subprocess.threading = types.SimpleNamespace(Lock=Lock)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
signal.alarm(10)  # what waits for a lock that nobody gives back ends by this
try:
    gpu_table.run(["sleep", "30"], 20)
    assert False, "a stop was not heard"
except SystemExit:
    assert Lock.told
signal.alarm(0)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
subprocess.threading = threading

work = sys.argv[1]
words = [sys.executable, "-B", "scripts/gpu_table.py", work + "/slow", "--no-peers", "--suite", work + "/suite",
         "--out", work + "/slow.json"]
table = subprocess.Popen(words, stderr=subprocess.PIPE)
assert any(line == b"begun\n" for line in table.stderr)
table.terminate()
table.communicate(timeout=10)
assert table.returncode == 1
PYTHON

echo "== each plan once, and the fastest of all"
python3 -B - << 'PYTHON'
import sys
sys.path.insert(0, "scripts")
import gpu_table
plan = lambda name, us, predicted: dict(strategy=name, us=us, predicted_us=predicted)
cell = dict(serial_us=150, ours=plan("ring{sub=1}", 100, 110), prediction=dict(strategy="dma{form=1}", us=120),
            strategies=[plan("ring{sub=1}", 100, 110), plan("dma{form=1}", 120, 150), plan("direct{chunks=1}", 200, 300),
                        dict(strategy="signal", declined="nothing leaves")])
said = gpu_table.predictions([cell])
assert abs(said["median_error"] - 0.25) < 1e-9, said  # of 0.1, 0.25 and 0.5
assert abs(said["mean_regret"] - 0.2) < 1e-9, said

# The fastest may be chosen, predicted or serial, and no strategy's row.
best = lambda: {name: row["best_in"] for name, row in gpu_table.by_strategy([cell]).items()}
cell.update(bound_us=50, ours=plan("dma{form=2}", 90, 90))
assert best() == {"ring": 0, "dma": 1, "direct": 0}, best()
cell["prediction"] = dict(strategy="direct{chunks=2}", us=80)
assert best() == {"ring": 0, "dma": 0, "direct": 1}, best()
assert gpu_table.predictions([cell])["mean_regret"] == 0
cell["serial_us"] = 64
assert best() == {"ring": 0, "dma": 0, "direct": 0}, best()
assert gpu_table.predictions([cell])["mean_regret"] == 0.25
PYTHON
