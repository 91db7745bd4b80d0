#!/usr/bin/env python3
"""Writes src/kernel/wgmma.cuh: one wrapper per instruction shape m64 n<N> k16 and input type.

An inline assembly statement cannot take "as many operands as N asks for", so the operand lists are spelled out here
once and for all.  Usage: scripts/wgmma.py > src/kernel/wgmma.cuh
"""
WIDTHS = (64, 112, 128, 160, 192, 224, 256)
TYPES = (("bf16", "__nv_bfloat16"), ("f16", "__half"))

HEAD = """/* wgmma.cuh -- written by scripts/wgmma.py: edit that, not this.
 *
 * One wrapper per warpgroup matrix instruction: d (64 x N, f32, N/2 registers a thread) (+)=
 * a (64 x 16) * b (N x 16)', both operands K-major in shared memory behind descriptors.  keep = 0
 * overwrites d: the first instruction of a tile needs no zeroed accumulators. */
#ifndef SG_WGMMA_CUH
#define SG_WGMMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
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


print(HEAD, end="")
for name, ctype in TYPES:
    for n in WIDTHS:
        print(wrapper(name, ctype, n), end="")
print("\n#endif")
