#!/usr/bin/env python3
"""The speed table of a machine with GPUs: peers, then the suite, then both in one file.

    scripts/gpu_table.py BUILD [--suite h200x2] [--seconds 200] [--peers-seconds 100]
                         [--measure 8] [--knob-sets 3]
                         [--peers bench/peers.py | --no-peers] [--out table.json]
    scripts/gpu_table.py --merge BENCH.json [PEERS.json] [--out table.json]

BUILD holds the program shingle.  What each of the two wrote stays beside OUT (OUT.bench.json,
OUT.peers.json), and what a step has got done counts even if it fails.  docs/measuring.md says what
stands in the file.  Ends with 1 if an element was wrong or a step failed.
"""
import argparse
import datetime
import importlib.util
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time

# Whose idea a strategy carries out (README.md).
IDEA = {"sliced": "rows in slices, each with its collective", "signal": "FlashOverlap",
        "direct": "CommFuse, asynchronous tensor parallelism", "ring": "CommFuse",
        "fused_in": "FLUX", "fused_out": "FLUX", "fused_add": "ParallelKittens",
        "dma": "FiCCO"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
GRACE = 40  # seconds; torchrun gives its ranks 30 before it kills them
LOOK = 0.05  # seconds from one look at a child to the next


# ---- Running ----------------------------------------------------------------------------------------

def run(words, limit, **more):
    """Did it end well within LIMIT seconds?"""
    print("+", " ".join(words), file=sys.stderr, flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        child = subprocess.Popen(
            words, cwd=ROOT, start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS), **more)
        try:
            return ends_well(child, limit)
        finally:
            if child.poll() is None:
                end(child)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def ends_well(child, limit):
    """Stops are heard between looks alone: one that interrupts Popen.wait() may leave its lock behind, and
    who asks for the child then waits for ever."""
    until = time.monotonic() + limit
    while child.poll() is None:
        if time.monotonic() >= until:
            print(f"! not done after {limit:.0f} s", file=sys.stderr, flush=True)
            return False
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        try:
            time.sleep(LOOK)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    return child.returncode == 0


def end(child):
    """With all that it started.  torchrun's ranks have sessions of their own: only it ends them."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:  # all ended by themselves
        pass
    child.wait()


def forget(path):
    """What an earlier run left there is not this one's."""
    if os.path.exists(path):
        os.remove(path)


def ranks_of(suite):
    found = re.search(r":r(\d+)", "".join(open(suite, encoding="utf-8")))
    if not found:
        sys.exit(f"{suite}: no problem in it")
    return int(found.group(1))


def run_peers(args, suite, path):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
             str(ranks_of(suite)), args.peers, "--suite", suite, "--json", path, "--seconds",
             str(args.peers_seconds)]
    forget(path)
    return run(words, 2 * args.peers_seconds + 60, stdout=sys.stderr)


def run_bench(args, suite, path):
    """The whole JSON, or what the log has of it."""
    log = path + ".log"
    forget(log)
    words = [os.path.join(args.build, "shingle"), "bench", suite, "--backend", args.backend,
             "--choose", "measure", "--measure", str(args.measure), "--strategies", "all",
             "--seconds", str(args.seconds),
             "--knob-sets", str(args.knob_sets), "--warmup", "0", "--keep-going", "--log", log,
             "--json"]
    # A plan that hangs must not cost the machine's time ten seconds a wait.
    env = dict({"SHINGLE_TIMEOUT": "5"}, **os.environ)
    with open(path, "w", encoding="utf-8") as out:
        done = run(words, 1.5 * args.seconds + 60, stdout=out, env=env)
    if os.path.exists(log):
        if load(path) is None:
            with open(log, encoding="utf-8") as text:
                rows = [json.loads(line) for line in text if line.endswith("\n")]
            save(path, {"results": rows})
        os.remove(log)
    return done


def load(path):
    try:
        with open(path, encoding="utf-8") as text:
            return json.load(text)
    except (OSError, ValueError):
        return None


def part(path):
    """What --merge names has to be there."""
    found = load(path)
    if not isinstance(found, dict):
        sys.exit(f"{path}: no file, or no object in JSON")
    return found


def save(path, data):
    """Whoever is stopped here leaves what was there before."""
    with open(path + ".part", "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1)
        out.write("\n")
    os.replace(path + ".part", path)


def stamped(path, about):
    """What a step wrote, in whose file then stands when and of what, for a merge on another day."""
    found = load(path)
    if found is not None:
        found = dict(about, **found)
        save(path, found)
    return found


# ---- Merging ----------------------------------------------------------------------------------------

def geomean(values):
    values = [x for x in values if x]
    return math.exp(statistics.fmean(math.log(x) for x in values)) if values else None


def least(values):
    values = [x for x in values if x]
    return min(values) if values else None


def most(values):
    return max((x for x in values if x), default=None)


def over(a, b):
    """None where one is not known: a group without collectives has no serial plan."""
    return a / b if a and b else None


def shape_of(problem):
    part = problem.split(":")
    m, n, k = (int(x) for x in part[2].split("x"))
    return {"op": part[0], "m": m, "n": n, "k": k, "ranks": int(part[3][1:])}


def ratios(cell):
    ours, bound, serial = cell["ours"]["us"], cell["bound_us"], cell["serial_us"]
    peer, own = cell["best_peer_us"], over(ours, cell["own_bound_us"])
    r = {"ours/bound": over(ours, bound), "ours/own_bound": own,
         "serial/bound": over(serial, bound), "serial/ours": over(serial, ours),
         "peer/bound": over(peer, bound), "peer/ours": over(peer, ours),
         # Each beside what the same program took for product and collective alone: clocks cancel.
         "peer/ours_relative": over(over(peer, cell["peers_bound_us"]), own)}
    return {name: ratio for name, ratio in r.items() if ratio}


def hidden_part(row):
    """Of whatever was chosen and however short the collective: the command leaves out what says little."""
    gemm, coll = row["gemm_us"], row["coll_us"]
    return (gemm + coll - row["overlapped_us"]) / min(gemm, coll) if gemm and coll else None


def merge_cell(row, peer):
    peer = peer or {}
    both = most([least([row["gemm_us"], peer.get("gemm_us")]),
                 least([row["coll_us"], peer.get("coll_us")])])
    cell = dict(
        problem=row["problem"], **shape_of(row["problem"]), gemm_us=row["gemm_us"],
        coll_us=row["coll_us"], peers_gemm_us=peer.get("gemm_us"), peers_coll_us=peer.get("coll_us"),
        bound_us=both, own_bound_us=most([row["gemm_us"], row["coll_us"]]),
        peers_bound_us=peer.get("bound_us"), serial_us=row.get("serial_us") or None,
        peers=peer.get("peers", {}), best_peer=peer.get("best"), best_peer_us=peer.get("best_us"),
        ours=dict(strategy=row["strategy"], us=row["overlapped_us"],
                  predicted_us=row["predicted_us"], enqueue_us=row["enqueue_us"],
                  hidden=hidden_part(row)),
        prediction=dict(strategy=row["prediction"], us=row["prediction_us"]),
        strategies=row.get("strategies", []), mhz=row["mhz"], iterations=row["iterations"],
        checks=row["checks"], compared_by=row["compared_by"], wrong=row["wrong"])
    cell["ratios"] = ratios(cell)
    return cell


def means(cells):
    names = dict.fromkeys(name for cell in cells for name in cell["ratios"])
    return dict({name: geomean(c["ratios"][name] for c in cells if name in c["ratios"])
                 for name in names}, cells=len(cells))


def grouped(cells, key):
    return {str(value): means([c for c in cells if c[key] == value])
            for value in dict.fromkeys(c[key] for c in cells)}


def kind(plan):
    return plan["strategy"].split("{")[0]


def plans(cell):
    """All that were timed, each once: what was chosen is often the best of its strategy too."""
    serial = {"strategy": "serial", "us": cell["serial_us"]}
    named = [serial, cell["prediction"], *cell["strategies"], cell["ours"]]
    return list({p["strategy"]: p for p in named if p.get("us")}.values())


def by_strategy(cells):
    """Of each strategy: where it ran, how it did beside serial and the bound, and where it was best."""
    table = {}
    for cell in cells:
        timed = plans(cell)
        least_us = min(p["us"] for p in timed)
        best = {kind(p) for p in timed if p["us"] == least_us}
        for s in (s for s in cell["strategies"] if s.get("us")):
            name = kind(s)
            entry = table.setdefault(name, {"cells": 0, "best": 0, "serial": [], "bound": []})
            entry["cells"] += 1
            entry["best"] += name in best
            entry["serial"].append(over(cell["serial_us"], s["us"]))
            entry["bound"].append(over(s["us"], cell["bound_us"]))
    return {name: {"idea": IDEA.get(name), "cells": e["cells"], "best_in": e["best"],
                   "serial/it": geomean(e["serial"]), "it/bound": geomean(e["bound"])}
            for name, e in table.items()}


def predictions(cells):
    errors, regrets = [], []
    for cell in cells:
        timed = plans(cell)
        errors += [abs(p["predicted_us"] - p["us"]) / p["us"] for p in timed
                   if p.get("predicted_us")]
        fastest = min(p["us"] for p in timed)
        if cell["prediction"]["us"]:
            regrets.append(cell["prediction"]["us"] / fastest - 1)
    return {"median_error": statistics.median(errors) if errors else None,
            "mean_regret": statistics.fmean(regrets) if regrets else None}


def below_one(cells, ratio):
    return {c["problem"]: c["ratios"][ratio] for c in cells if c["ratios"].get(ratio, 1) < 1}


def merge(bench, peers, commit=None):
    """COMMIT: of a bench that does not say it itself."""
    peer_of = {row["problem"]: row for row in (peers or {}).get("results", [])}
    rows = bench.get("results", [])
    cells = [merge_cell(row, peer_of.get(row["problem"])) for row in rows if "error" not in row]
    hidden = [c["ours"]["hidden"] for c in cells if c["m"] >= 2048 and c["ours"]["hidden"] is not None]
    group = (bench.get("groups") or [{}])[0]
    return dict(
        date=bench.get("date"), commit=bench.get("commit") or commit,
        **{key: group.get(key) for key in ("ranks", "device", "software", "most_mhz",
                                           "most_watts")},
        version=bench.get("version"), peers_software={k: v for k, v in (peers or {}).items()
                                                      if k != "results"},
        planned_for=group.get("machine"), all=means(cells), by_op=grouped(cells, "op"),
        by_m=grouped(cells, "m"), by_strategy=by_strategy(cells),
        hidden_median_from_m_2048=statistics.median(hidden) if hidden else None,
        predictions=predictions(cells),
        slower_than_serial=below_one(cells, "serial/ours"),
        behind_the_best_peer=below_one(cells, "peer/ours"),
        behind_relative=below_one(cells, "peer/ours_relative"),
        failed={row["problem"]: row["error"] for row in rows if "error" in row},
        wrong=sum(c["wrong"] for c in cells), results=cells)


# ---- Printing ---------------------------------------------------------------------------------------

def number(value, form):
    return format(value, form) if value is not None else "-".rjust(int(form.split(".")[0]))


def print_means(name, m):
    print(f"{name:10s} {m['cells']:3d} cells: " + ", ".join(
        f"{key} {number(m.get(key), '5.3f')}" for key in
        ("ours/bound", "ours/own_bound", "peer/bound", "serial/bound", "serial/ours", "peer/ours",
         "peer/ours_relative") if key in m))


def print_table(t):
    print("problem                           gemm     coll   serial best peer              ours"
          "                 ours/bound serial/ours peer/ours")
    for c in t["results"]:
        r = c["ratios"]
        print(f"{c['problem']:30s} {c['gemm_us']:8.1f} {c['coll_us']:8.1f} "
              f"{number(c['serial_us'], '8.1f')} {number(c['best_peer_us'], '8.1f')} "
              f"{c['best_peer'] or '':12s} {c['ours']['us']:8.1f} {kind(c['ours']):12s} "
              f"{number(r.get('ours/bound'), '6.3f')} {number(r.get('serial/ours'), '10.3f')} "
              f"{number(r.get('peer/ours'), '10.3f')}")
    print_means("all", t["all"])
    for key in ("by_op", "by_m"):
        for name, m in t[key].items():
            print_means(name, m)
    for name, e in t["by_strategy"].items():
        print(f"{name:10s} {e['cells']:3d} cells: best in {e['best_in']}, "
              f"serial/it {number(e['serial/it'], '5.3f')}, "
              f"it/bound {number(e['it/bound'], '5.3f')}")
    print("hidden, median from m 2048:", number(t["hidden_median_from_m_2048"], "5.3f"),
          "; predictions:", t["predictions"])
    for key in ("slower_than_serial", "behind_the_best_peer", "behind_relative"):
        worst = sorted(t[key].items(), key=lambda item: item[1])
        print(f"{key}: {len(worst)}", *(f"{problem} {ratio:.3f}" for problem, ratio in worst))
    for problem, why in t["failed"].items():
        print(f"FAILED {problem}: {why}")
    print(f"wrong elements: {t['wrong']}", flush=True)


# ---- The command ------------------------------------------------------------------------------------

def facts(commit):
    if commit is None:
        try:
            commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                                    check=False, capture_output=True, text=True).stdout.strip()
        except OSError:  # no git here
            commit = None
    return {"date": datetime.date.today().isoformat(), "commit": commit or None}


def check_tools(parser, args, suite):
    """What is missing is told before the first step, which takes minutes."""
    if not os.path.exists(suite):
        parser.error(f"--suite {args.suite}: a file or a name in bench/suites/ is accepted")
    if not os.access(os.path.join(args.build, "shingle"), os.X_OK):
        parser.error(f"{args.build}: no program shingle in it; the folder of a build is accepted")
    if not args.no_peers and importlib.util.find_spec("torch") is None:
        parser.error("PyTorch, which the peers need, is not installed here; --no-peers leaves them out")


def measure(parser, args):
    """Did both end well, and what they wrote."""
    if not args.build:
        parser.error("BUILD or --merge is needed")
    args.build, args.out = os.path.abspath(args.build), os.path.abspath(args.out)
    suite = args.suite
    if not os.path.exists(suite):
        suite = os.path.join(ROOT, "bench", "suites", args.suite + ".txt")
    suite = os.path.abspath(suite)
    check_tools(parser, args, suite)
    about, good, peers = facts(args.commit), True, None
    if not args.no_peers:
        good = run_peers(args, suite, args.out + ".peers.json")
        peers = stamped(args.out + ".peers.json", about)
    good = run_bench(args, suite, args.out + ".bench.json") and good
    return good, stamped(args.out + ".bench.json", about), peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", nargs="?")
    parser.add_argument("--suite", default="h200x2")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--measure", type=int, default=8)
    parser.add_argument("--knob-sets", type=int, default=3)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--peers", default=os.path.join(ROOT, "bench", "peers.py"))
    parser.add_argument("--peers-seconds", type=float, default=100)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--commit", help="where there is no repository: what was built")
    parser.add_argument("--merge", nargs="+", metavar="JSON")
    parser.add_argument("--out", default="table.json")
    args = parser.parse_args()
    for number in STOPS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has another
            signal.signal(number, lambda *_: sys.exit(1))  # by way of run(), which ends its child
    good = True
    if args.merge:
        bench, peers = part(args.merge[0]), part(args.merge[1]) if len(args.merge) > 1 else None
    else:
        good, bench, peers = measure(parser, args)
    if not bench or not bench.get("results"):
        sys.exit("no result of the suite")
    table = merge(bench, peers, args.commit)
    save(args.out, table)
    print_table(table)
    sys.exit(0 if good and table["wrong"] == 0 else 1)


if __name__ == "__main__":
    main()
