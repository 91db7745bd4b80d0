#!/usr/bin/env python3
"""Writes src/kernel/wgmma_bf16.cuh and wgmma_f16.cuh: one wrapper per instruction shape m64 n<N> k16.

An inline assembly statement cannot take "as many operands as N asks for", so the operand lists are spelled out here
once and for all.  Usage: scripts/wgmma.py bf16 > src/kernel/wgmma_bf16.cuh, and the same with f16
"""
import sys

WIDTHS = (32, 64, 80, 96, 112, 128, 160, 176, 192, 224, 256)
TYPES = {"bf16": "__nv_bfloat16", "f16": "__half"}

HEAD = """/* wgmma_{0}.cuh -- written by scripts/wgmma.py: edit that, not this.  See wgmma.cuh. */
#pragma once
#include <cuda_{1}.h>
#include <stdint.h>

template <class T, int N> struct Wgmma;
"""


def listing(items, per_line, indent, quote):
    lines = [", ".join(items[i:i + per_line]) for i in range(0, len(items), per_line)]
    if quote:
        lines = ['"%s%s"' % (line, ", " if i + 1 < len(lines) else "") for i, line in enumerate(lines)]
        return ("\n" + " " * indent).join(lines)
    return (",\n" + " " * indent).join(lines)


def wrapper(name, ctype, n):
    regs = n // 2
    outs = listing(["%%%d" % i for i in range(regs)], 24, 12, True)
    args = listing(['"+f"(d[%d])' % i for i in range(regs)], 10, 14, False)
    return f"""
template <> struct Wgmma<{ctype}, {n}> {{
    static __device__ __forceinline__ void issue(float (&d)[{regs}], uint64_t a, uint64_t b, int keep)
    {{
        asm volatile(
            "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{regs + 2}, 0;\\n"
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{name}.{name} {{"
            {outs}
            "}}, %{regs}, %{regs + 1}, p, 1, 1, 0, 0;\\n}}\\n"
            : {args}
            : "l"(a), "l"(b), "r"(keep));
    }}
}};
"""


chosen = sys.argv[1]
print(HEAD.format(chosen, {"bf16": "bf16", "f16": "fp16"}[chosen]), end="")
for width in WIDTHS:
    print(wrapper(chosen, TYPES[chosen], width), end="")
