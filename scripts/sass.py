#!/usr/bin/env python3
"""Looks for one defect of ptxas (CUDA 13.0) in cubins: a register that `CS2R` fills and that is read too soon.

`CS2R R2, SRZ` clears a pair of registers and takes six cycles, which nothing but the instructions' own stall counts waits
for.  Where a predicated instruction stands between it and the reader

    CS2R R2, SRZ                         two cycles
    @P1 IMAD.WIDE R2, R21, 0x4, R8       one
    SEL R15, R16, 0x100, P0              two
    ISETP.NE.U32.AND P0, PT, R2, RZ, PT

ptxas 13.0 at times counts five, and the reader sees what was there before: a pointer that is NULL is then not NULL, on some
GPUs and at some times.  The source to avoid is a pointer that is NULL or an address, by a condition, and is compared.

Says as well which of the Hopper products (src/kernel/gemm_sm90.cuh) has its first load far from its entry, where jumps
on the way take a tenth of a microsecond or two each: with another compiler than it was written for, roles may lie in
another order.

    scripts/sass.py FILE.cubin...        fails, and says where, if there is such a place
"""
import struct
import sys

CS2R, CYCLES = 0x805, 6  # where nothing stands between, ptxas gives it six everywhere
COMPARISONS = {0x00B, 0x00C}  # FSETP, ISETP: predicates stand where others have a third operand
RZ, PT = 255, 7
# The four above as they were compiled once, to see that what is looked for is found.
EXAMPLE = (0x0000000000027805, 0x004FE4000001FF00, 0x0000000415021825, 0x002FE200078E0208,
           0x00000100100F7807, 0x000FE40000000000, 0x000000FF0200720C, 0x000FE40003F05070)
UNCONDITIONAL_END = {0x94D, 0x950, 0x947}  # EXIT, RET, BRA
UTMALDG, NEAR = 0x5B4, 0x3000  # the bulk engine's load of a box; bytes in front of the first one


def sections(image):
    """Names and bytes of the sections of an ELF file of 64 bits."""
    if image[:5] != b"\x7fELF\x02":
        raise SystemExit("not a cubin")
    at, = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    strings = heads[names][4]
    for name, _, _, _, offset, length in heads:
        end = image.index(b"\0", strings + name)
        yield image[strings + name:end].decode(), image[offset:offset + length]


class Instruction:
    """Two words: the opcode, its form (what the second operand is), a predicate, four registers, and what the scheduler
    does."""

    def __init__(self, low, high):
        self.opcode = low & 0xFFF
        self.always = low >> 12 & 0xF == PT
        self.to = low >> 16 & 0xFF
        self.stall = high >> 41 & 0xF
        kind = self.opcode & 0x1FF
        loads, memory = 0x180 <= kind < 0x186, 0x180 <= kind < 0x1C0
        self.reads = {low >> 24 & 0xFF}
        if 0x80 <= kind < 0xC0:  # uniform registers alone
            self.reads = set()
            return
        if (memory or self.opcode >> 9 == 1) and not loads:
            self.reads.add(low >> 32 & 0xFF)
        if not memory and kind not in COMPARISONS:  # memory: a uniform register
            self.reads.add(high & 0xFF)
        self.reads.discard(RZ)


def too_soon(code):
    """Pairs of offsets: a CS2R and who reads one of its registers before that is there."""
    words = struct.unpack("<%dQ" % (len(code) // 8), code[:len(code) // 8 * 8])
    for i in range(0, len(words) - 1, 2):
        if words[i] & 0xFFF != CS2R:
            continue
        source = Instruction(words[i], words[i + 1])
        there = {source.to, source.to + 1}
        cycles, j = source.stall, i + 2
        while cycles < CYCLES and j + 1 < len(words):
            reader = Instruction(words[j], words[j + 1])
            if there & reader.reads:
                yield i * 8, j * 8
                break
            if reader.always and reader.opcode in UNCONDITIONAL_END:
                break
            if reader.always:
                there.discard(reader.to)
            cycles += reader.stall
            j += 2


def first_load(code):
    """Its offset; None: there is none."""
    for at in range(0, len(code) - 15, 16):
        if struct.unpack_from("<Q", code, at)[0] & 0xFFF == UTMALDG:
            return at
    return None


def check_example():
    right = list(EXAMPLE)
    right[3] += 1 << 41  # IMAD.WIDE stalls for one more
    for words, places in ((EXAMPLE, [(0, 48)]), (right, [])):
        if list(too_soon(struct.pack("<8Q", *words))) != places:
            raise SystemExit("sass.py does not find what it looks for")
    nothing = struct.pack("<2Q", 0x7918, 0xFC00000000000)  # NOP
    if first_load(nothing + struct.pack("<2Q", 0x00001610040075B4, 0x0007E20008011000)) != 16 or first_load(nothing):
        raise SystemExit("sass.py does not find a load")


def main():
    check_example()
    places = 0
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            image = file.read()
        for name, code in sections(image):
            if not name.startswith(".text."):
                continue
            for source, reader in too_soon(code):
                print("%s: %s: CS2R at 0x%x is read at 0x%x, too soon" % (path, name[6:], source, reader))
                places += 1
            load = first_load(code)
            if "gemm_sm90" in name and load is not None and load >= NEAR:
                print("%s: %s: the first load is at 0x%x, behind 0x%x: launches start late" % (path, name[6:], load, NEAR))
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
