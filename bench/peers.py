#!/usr/bin/env python3
"""What a user could take instead, timed on the same GPUs with PyTorch: plain and fused products.

    torchrun --standalone --nproc-per-node 2 bench/peers.py --suite bench/suites/h200x2.txt \\
        [--json OUT] [--ops ag,rs,ar] [--iters 20] [--warmup 2] [--seconds 120]

Candidates take turns (A B C A B C ...); times are medians of the slowest rank, in microseconds, on
normally distributed data, each run in front of it a barrier and a pause of the GPU in which the host
gets ahead.  Candidates of less than 2 ms are timed back to back as well, about 5 ms of them, since
there the start of a run is a part of it; the better of the two times counts.

    gemm, coll     each alone (torch.mm by cuBLAS; coll: the better of plain and symmetric NCCL)
    serial         torch.mm and NCCL, one after the other, eager
    serial_sym     the same with NCCL's symmetric windows, where they register
    serial_graph   the better of these two as a CUDA graph
    async_tp       PyTorch's fused operator on symmetric memory (ag and rs)
    one_shot       ar: torch.mm, and the one-shot all-reduce on symmetric memory, up to 16 MB
    two_shot       ar: the same with the two-shot one
    ..._graph      these three as CUDA graphs

Every result is compared with that of `serial`: the relative error of bf16 sums is about 0.003, and
who exceeds 0.01 is left out.  A suite is one of `shingle bench`: only its ag_gemm, gemm_rs and gemm_ar
in bf16 are taken, and their m must be a multiple of the ranks.  --seconds bounds the timed rounds, five
of each at least; the file of --json is complete after every cell.
"""
import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings

torch = dist = symm = None  # import_torch

WHOLE = ("serial", "serial_sym", "serial_graph", "async_tp", "async_graph", "one_shot",
         "one_shot_graph", "two_shot", "two_shot_graph")
GRAPH_OF = {"async_tp": "async_graph", "one_shot": "one_shot_graph", "two_shot": "two_shot_graph"}
OPS = {"ag_gemm": "ag", "gemm_rs": "rs", "gemm_ar": "ar"}
MOST_ERROR = 0.01
SHORT_US, BATCH_US, BATCH_ROUNDS = 2000, 5000, 7
MOST_ONE_SHOT = 16 << 20  # bytes; each rank reads all of every other's


def turns(r, count):
    """The order of round R, in which over COUNT rounds on end, or 2 COUNT if that is odd, each stands behind
    each other one equally often: at its power limit a GPU is slower behind a product (sg_turns)."""
    shift = r // 2 if count % 2 else r
    order = [((i + 1) // 2 if i % 2 else count - i // 2) + shift for i in range(count)]
    order = [x % count for x in order]
    return order[::-1] if count % 2 and r % 2 else order


def read_suite(path, ranks, ops):
    """(problem, op, m, n, k) of the lines that can be run here."""
    cells = []
    for line in open(path, encoding="utf-8"):
        word = line.split("#")[0].split()
        if not word:
            continue
        part = word[0].split(":")
        op = OPS.get(part[0])
        m, n, k = (int(x) for x in part[2].split("x"))
        if op in ops and part[1:2] == ["bf16"] and part[3:] == [f"r{ranks}"] and m % ranks == 0:
            cells.append((word[0], op, m, n, k))
    return cells


class Peers:
    """The group, its memory, and the timing."""

    def __init__(self, args):
        self.args = args
        self.rank, self.world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(self.rank)
        self.device = torch.device("cuda", self.rank)
        dist.init_process_group("nccl", device_id=self.device)
        self.group = dist.group.WORLD.group_name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symm.enable_symm_mem_for_group(self.group)
        self.pool = None
        try:
            backend = dist.group.WORLD._get_backend(self.device)
            self.pool = torch.cuda.MemPool(backend.mem_allocator)
            backend.register_mem_pool(self.pool, symm=True)
        except Exception as e:  # an API that is older or newer: do without
            self.pool = None
            self.say(f"no symmetric pool: {e}")
        self.begin, self.end = torch.cuda.Event(True), torch.cuda.Event(True)

    def say(self, text):
        if self.rank == 0:
            print("#", text, file=sys.stderr, flush=True)

    def empty(self, rows, cols, symmetric=False):
        if symmetric and self.pool is not None:
            with torch.cuda.use_mem_pool(self.pool):
                return torch.empty(rows, cols, device=self.device, dtype=torch.bfloat16)
        return torch.empty(rows, cols, device=self.device, dtype=torch.bfloat16)

    def normal(self, rows, cols, scale=1.0):
        x = torch.empty(rows, cols, device=self.device, dtype=torch.bfloat16)
        return x.normal_(0, scale)

    def largest(self, values):
        """Of all ranks, element by element."""
        t = torch.tensor(values, device=self.device, dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        return t.tolist()

    def once(self, f, calls):
        dist.barrier()
        torch.cuda.synchronize()
        torch.cuda._sleep(200000)  # the host gets ahead, as it is in the middle of a model's step
        self.begin.record()
        for _ in range(calls):
            f()
        self.end.record()
        torch.cuda.synchronize()
        return self.begin.elapsed_time(self.end) * 1e3 / calls

    def rounds(self, candidates, calls, count):
        times = {name: [] for name in candidates}
        names = list(candidates)
        for r in range(count):
            for i in turns(r, len(names)):
                times[names[i]].append(self.once(candidates[names[i]], calls[names[i]]))
        merged = self.largest([times[name] for name in candidates])
        return {name: statistics.median(merged[i]) for i, name in enumerate(candidates)}

    def timed(self, candidates, seconds):
        """Medians of runs one by one, and of runs back to back of those that are short."""
        single = {name: 1 for name in candidates}
        began = time.monotonic()
        self.rounds(candidates, single, self.args.warmup)
        one = self.largest([(time.monotonic() - began) / self.args.warmup])[0]
        count = self.args.iters
        if seconds > 0:
            count = max(5, min(count, int(seconds / max(one, 1e-6))))
        alone = self.rounds(candidates, single, count)
        short = {name: f for name, f in candidates.items() if alone[name] < SHORT_US}
        calls = {name: max(2, min(50, int(BATCH_US / alone[name]))) for name in short}
        batch = self.rounds(short, calls, min(count, BATCH_ROUNDS)) if short else {}
        return alone, batch, count

    def graphed(self, f):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                f()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = f()

        def replay():
            graph.replay()
            return out
        return replay

    def attempt(self, table, name, make, errors, want):
        """Adds a candidate if every rank can run it and gets what `serial` gets."""
        f, off = None, math.inf
        try:
            f = make()
            out = f()
            torch.cuda.synchronize()
            off = error(out, want)
        except Exception as e:  # whatever a rank cannot do, nobody does
            self.say(f"{name}: {str(e).splitlines()[0][:160]}")
        errors[name] = self.largest([off if math.isfinite(off) else 1e9])[0]
        if errors[name] <= MOST_ERROR:
            table[name] = f
        else:
            self.say(f"{name} is left out: relative error {errors[name]:g}")


def error(got, want):
    """Relative, in pieces: float copies of the largest results would not be small."""
    off = torch.zeros((), device=want.device, dtype=torch.float64)
    size = torch.zeros_like(off)
    for x, y in zip(got.split(2048), want.split(2048)):
        off += (x.float() - y.float()).square().sum()
        size += y.float().square().sum()
    return (off / size.clamp_min(1e-30)).sqrt().item()


def gather(p, m, n, k, B):
    part = m // p.world
    A, full, C = p.normal(part, k), p.empty(m, k), p.empty(m, n)
    sym_full, sym_part = p.empty(m, k, True), p.empty(part, k, True)
    sym_part.copy_(A)

    def serial():
        dist.all_gather_into_tensor(full, A)
        return torch.mm(full, B.t(), out=C)

    def serial_sym():
        dist.all_gather_into_tensor(sym_full, sym_part)
        return torch.mm(sym_full, B.t(), out=C)

    def fused():
        return torch.ops.symm_mem.fused_all_gather_matmul(A, [B.t()], 0, p.group,
                                                          return_A=False)[1][0]
    alone = {"gemm": lambda: torch.mm(full, B.t(), out=C),
             "coll_plain": lambda: dist.all_gather_into_tensor(full, A),
             "coll_sym": lambda: dist.all_gather_into_tensor(sym_full, sym_part)}
    return alone, serial, serial_sym, {"async_tp": fused}, A.nbytes


def scatter(p, m, n, k, B):
    part = m // p.world
    A, full, out = p.normal(m, k), p.empty(m, n), p.empty(part, n)
    sym_full, sym_out = p.empty(m, n, True), p.empty(part, n, True)

    def serial():
        torch.mm(A, B.t(), out=full)
        dist.reduce_scatter_tensor(out, full)
        return out

    def serial_sym():
        torch.mm(A, B.t(), out=sym_full)
        dist.reduce_scatter_tensor(sym_out, sym_full)
        return sym_out

    def fused():
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(A, B.t(), "sum", 0, p.group)
    alone = {"gemm": lambda: torch.mm(A, B.t(), out=full),
             "coll_plain": lambda: dist.reduce_scatter_tensor(out, full),
             "coll_sym": lambda: dist.reduce_scatter_tensor(sym_out, sym_full)}
    return alone, serial, serial_sym, {"async_tp": fused}, 2 * part * n * 2


def reduce(p, m, n, k, B):
    A, full, sym_full = p.normal(m, k), p.empty(m, n), p.empty(m, n, True)
    shared = symm.empty(m, n, dtype=torch.bfloat16, device=p.device)
    symm.rendezvous(shared, p.group)

    def serial():
        torch.mm(A, B.t(), out=full)
        dist.all_reduce(full)
        return full

    def serial_sym():
        torch.mm(A, B.t(), out=sym_full)
        dist.all_reduce(sym_full)
        return sym_full

    def one_shot():
        torch.mm(A, B.t(), out=shared)
        return torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", p.group)

    def two_shot():
        torch.mm(A, B.t(), out=shared)
        return torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", p.group)
    fused = {"two_shot": two_shot}
    if shared.nbytes <= MOST_ONE_SHOT:
        fused["one_shot"] = one_shot
    idle, sym_idle = torch.zeros_like(full), p.empty(m, n, True).zero_()  # sums that stay finite
    alone = {"gemm": lambda: torch.mm(A, B.t(), out=full),
             "coll_plain": lambda: dist.all_reduce(idle),
             "coll_sym": lambda: dist.all_reduce(sym_idle)}
    return alone, serial, serial_sym, fused, 1 << 20


def run_cell(p, cell, seconds):
    problem, op, m, n, k = cell
    began = time.monotonic()
    torch.manual_seed(p.rank)
    B = p.normal(n, k, k ** -0.5)
    make = {"ag": gather, "rs": scatter, "ar": reduce}[op]
    candidates, serial, serial_sym, fused, work = make(p, m, n, k, B)
    try:
        symm.get_symm_mem_workspace(p.group, min_size=work)
    except Exception as e:  # the operator will say so
        p.say(f"no workspace: {e}")
    errors = {}
    want = serial().clone()
    candidates["serial"] = serial
    p.attempt(candidates, "serial_sym", lambda: serial_sym, errors, want)
    for name, f in fused.items():
        p.attempt(candidates, name, lambda f=f: f, errors, want)
    both = {name: candidates[name] for name in ("serial", "serial_sym") if name in candidates}
    took = p.rounds(both, dict.fromkeys(both, 1), 5)
    best_serial = both[min(took, key=took.get)]
    p.attempt(candidates, "serial_graph", lambda: p.graphed(best_serial), errors, want)
    for name, f in fused.items():
        if name in candidates:
            p.attempt(candidates, GRAPH_OF[name], lambda f=f: p.graphed(f), errors, want)
    alone, batch, count = p.timed(candidates, seconds)
    t = {name: min(us, batch.get(name, us)) for name, us in alone.items()}
    whole = {name: t[name] for name in WHOLE if name in t}
    coll = min(t["coll_plain"], t["coll_sym"])
    best = min(whole, key=whole.get)
    return dict(problem=problem, ranks=p.world, gemm_us=t["gemm"], coll_us=coll,
                bound_us=max(t["gemm"], coll), best=best, best_us=whole[best], peers=whole,
                one_by_one=alone, back_to_back=batch, iterations=count, errors=errors,
                seconds=time.monotonic() - began)


def software(p):
    version = ".".join(str(x) for x in torch.cuda.nccl.version())
    return dict(torch=torch.__version__, cuda=torch.version.cuda, nccl=version,
                device=torch.cuda.get_device_name(), ranks=p.world)


def save(path, about, results):
    with open(path + ".part", "w", encoding="utf-8") as out:
        json.dump(dict(about, results=results), out, indent=1)
        out.write("\n")
    os.replace(path + ".part", path)


def import_torch():
    """Behind the command line, which is read at once and without it: the import takes seconds."""
    global torch, dist, symm
    try:
        import torch
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symm
    except ImportError as error:
        sys.exit(f"peers.py: {error}; PyTorch with CUDA is needed (pip install torch)")
    if not torch.cuda.is_available():
        sys.exit("peers.py: PyTorch sees no GPU here; it needs one for each rank")
    if "LOCAL_RANK" not in os.environ:
        sys.exit("peers.py: started without torchrun; torchrun --standalone --nproc-per-node RANKS "
                 "bench/peers.py ... is accepted")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--suite", required=True)
    parser.add_argument("--json")
    parser.add_argument("--ops", default="ag,rs,ar")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    args.warmup, args.iters = max(1, args.warmup), max(1, args.iters)
    if not os.path.exists(args.suite):
        parser.error(f"--suite {args.suite}: no such file; one such as bench/suites/h200x2.txt is accepted")
    import_torch()
    p = Peers(args)
    cells = read_suite(args.suite, p.world, args.ops.split(","))
    about, results = software(p), []
    weight = [1 + 3 * m * n * k / max(c[2] * c[3] * c[4] for c in cells) for _, _, m, n, k in cells]
    until = time.monotonic() + args.seconds
    if p.rank == 0:
        print("# " + ", ".join(f"{key} {value}" for key, value in about.items()))
        print("# problem | gemm coll | peers (us) | best, best/bound, seconds")
    for i, cell in enumerate(cells):
        share = 0.0
        if args.seconds > 0:  # about half of a cell's time goes into setting it up
            share = max((until - time.monotonic()) * weight[i] / sum(weight[i:]) / 2, 1e-3)
            share = p.largest([share])[0]
        row = run_cell(p, cell, share)
        results.append(row)
        if p.rank != 0:
            continue
        shown = " ".join(f"{x} {row['peers'][x]:.1f}" for x in WHOLE if x in row["peers"])
        print(f"{row['problem']:32s} | {row['gemm_us']:9.1f} {row['coll_us']:8.1f} {shown} | "
              f"{row['best']:12s} {row['best_us'] / row['bound_us']:5.2f} {row['seconds']:5.1f}",
              flush=True)
        if args.json:
            save(args.json, about, results)
    dist.barrier()
    torch.cuda.synchronize()
    sys.stdout.flush()
    os._exit(0)  # a pool that NCCL knows must not be destroyed after its communicator


if __name__ == "__main__":
    main()
