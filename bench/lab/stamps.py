#!/usr/bin/env python3
"""Prints what lab_stamps noted: for each plan and rank a line per turn of tiles (the first tile of all blocks, the second, ...).

    stamps.py FILE [rank [patches]]

Times from when the launch before had ended (us, median and last of the blocks), everything else in cycles, medians: of math,
from the beginning of a tile to its first stage, its products and how long they waited for stages or, of the tile before, for
slots, addends, and what is left until the next tile; of the loader, waits for flags and free stages; of the storers, the way of
a tile's pieces, waits for their slots to be read, and until flags are raised.  Then of each courier when what it credits
together had arrived, was behind a barrier of memory, and was credited (up to which turn).

With `patches` a line per patch instead, of all its tiles: first, median and last time (us) of each event.  Couriers are left out.
"""
import collections
import statistics
import sys

# ORDER STAMPS: src/kernel/stamp.cuh
LOADER, STORER, STORER2, WATCHER, MATH, MATH2 = range(6)
(BEGUN, FREE, GATE, PUSHED, TILE, FLAG, AWAITED, LOADED, FIRST, MULTIPLIED, SLOTS, ADDED, STAGED, SENT, RAISED, TOGETHER,
 LEFT) = range(17)
HALF = 1 << 31


def later(a, b):
    """a - b of counters of 32 bits."""
    return (a - b + HALF) % (1 << 32) - HALF


def plans(lines):
    title, notes = None, {}
    for line in lines:
        if line.startswith("plan "):
            if title:
                yield title, notes
            title, notes = line.split(None, 1)[1].strip(), collections.defaultdict(list)
        else:
            rank, block, role, event, clock, ns, value = map(int, line.split())
            notes[rank, block, role].append((event, clock, ns, value))
    if title:
        yield title, notes


def turns(notes):
    """The notes of a role, tile by tile."""
    tiles = []
    for note in notes:
        if note[0] == TILE:
            tiles.append([])
        if tiles:
            tiles[-1].append(note)
    return tiles


def find(tile, event):
    for note in tile:
        if note[0] == event:
            return note
    return None


class Column(list):
    def median(self):
        return statistics.median(self) if self else None

    def last(self):
        return max(self) if self else None


def clock(notes, rank):
    """Microseconds of a note of RANK from when the launch before had ended; None: nobody noted that."""
    free = [n[2] for (r, _, role), some in notes.items() if r == rank and role in (LOADER, WATCHER) for n in some if n[0] == FREE]
    if not free:
        return None
    origin = min(free, key=lambda ns: later(ns, free[0]))
    return lambda note: later(note[2], origin) / 1e3


def show(title, notes, rank):
    blocks = sorted({b for r, b, _ in notes if r == rank})
    us = clock(notes, rank)
    if not us:
        return
    couriers = [b for b in blocks if not notes[rank, b, MATH]]

    def of_all(role, event):
        return Column(us(n) for b in blocks for n in notes[rank, b, role] if n[0] == event)

    print("\n%s, rank %d, %d blocks" % (title, rank, len(blocks)))
    for name, role, event in (("begun", LOADER, BEGUN), ("free", LOADER, FREE), ("gate", WATCHER, GATE), ("pushed", STORER, PUSHED),
                              ("together", WATCHER, TOGETHER), ("left", WATCHER, LEFT)):
        c = of_all(role, event)
        if c:
            print("  %-8s first %8.1f median %8.1f last %8.1f" % (name, min(c), c.median(), c.last()))

    rows = collections.defaultdict(lambda: collections.defaultdict(Column))
    rates = Column()
    for b in blocks:
        for role in (MATH, MATH2):
            tiles = turns(notes[rank, b, role])
            for i, tile in enumerate(tiles):
                row, begin = rows[i], tile[0]
                first, end, added = find(tile, FIRST), find(tile, MULTIPLIED), find(tile, ADDED)
                row["patch"].append(begin[3])
                row["begin"].append(us(begin))
                if first:
                    row["first"].append(later(first[1], begin[1]))
                if first and end:
                    row["products"].append(later(end[1], first[1]))
                    row["stages"].append(end[3])
                    row["end"].append(us(end))
                    if later(end[2], first[2]) > 2000:
                        row["mhz"].append(later(end[1], first[1]) * 1e3 / later(end[2], first[2]))
                if find(tile, SLOTS):
                    row["slots"].append(find(tile, SLOTS)[3])
                if added:
                    row["added"].append(later(added[1], end[1]))
                if end and i + 1 < len(tiles):
                    row["rest"].append(later(tiles[i + 1][0][1], (added or end)[1]))
                if i + 1 < len(tiles):
                    row["all"].append(later(tiles[i + 1][0][1], begin[1]))
            if len(tiles) > 1:
                a, z = tiles[0][0], tiles[-1][0]
                rates.append(later(z[1], a[1]) * 1e3 / max(1, later(z[2], a[2])))
        for i, tile in enumerate(turns(notes[rank, b, LOADER])):
            if find(tile, LOADED):
                rows[i]["flags"].append(find(tile, AWAITED)[3])
                rows[i]["free"].append(find(tile, LOADED)[3])
        for role in (STORER, STORER2):
            for i, tile in enumerate(turns(notes[rank, b, role])):
                staged, sent, raised = find(tile, STAGED), find(tile, SENT), find(tile, RAISED)
                if staged and sent:
                    rows[i]["way"].append(later(sent[1], staged[1]))
                    rows[i]["read"].append(sent[3])
                    rows[i]["sent"].append(us(sent))
                if raised:
                    rows[i]["raise"].append(later(raised[1], sent[1]))
                    rows[i]["raised"].append(us(raised))
    if rates:
        print("  clock between first and last tile: median %.0f MHz, %.0f to %.0f" % (rates.median(), min(rates), max(rates)))
    print("   # patch tiles  MHz | begin  last   end  last |  first products waited  slots  added   rest    all | flags   free |"
          "   way   read  raise |  sent  last raised  last")
    cell = lambda row, name, what="median", form="%6.0f": form % getattr(row[name], what)() if row[name] else "     -"
    for i in sorted(rows):
        r = rows[i]
        if not r["patch"]:
            continue
        patch = sorted(set(r["patch"]))
        print("  %2d %5s %5d %s | %s %s %s %s | %s   %s %s %s %s %s %s | %s %s | %s %s %s | %s %s %s %s" % (
            i, "%d-%d" % (patch[0], patch[-1]) if len(patch) > 1 else patch[0], len(r["patch"]), cell(r, "mhz")[2:],
            cell(r, "begin", form="%6.1f"), cell(r, "begin", "last", "%5.1f"), cell(r, "end", form="%5.1f"), cell(r, "end", "last", "%5.1f"),
            cell(r, "first"), cell(r, "products"), cell(r, "stages"), cell(r, "slots"), cell(r, "added"), cell(r, "rest"), cell(r, "all"),
            cell(r, "flags"), cell(r, "free"), cell(r, "way"), cell(r, "read"), cell(r, "raise"),
            cell(r, "sent", form="%5.1f"), cell(r, "sent", "last", "%5.1f"), cell(r, "raised", form="%5.1f"), cell(r, "raised", "last", "%5.1f")))
    for b in couriers:
        credits = ["%5.1f (%d) |" % (us(n), n[3]) if n[0] == RAISED else "%5.1f" % us(n)
                   for n in notes[rank, b, WATCHER] if n[0] in (STAGED, SENT, RAISED)]
        if credits:
            print("  courier %d: %s" % (b, " ".join(credits)))


def show_patches(title, notes, rank):
    events = {"begin": TILE, "first": FIRST, "product": MULTIPLIED, "flag": FLAG, "added": ADDED, "staged": STAGED, "sent": SENT,
              "raised": RAISED}
    mine = {key: value for key, value in notes.items() if key[0] == rank and (rank, key[1], MATH) in notes}
    us = clock(notes, rank)
    if not us:
        return
    patches = collections.defaultdict(lambda: collections.defaultdict(list))
    left = []
    for (_, _, role), value in sorted(mine.items()):
        left += [us(n) for n in value if n[0] == LEFT]
        tiles = [[n] for n in value if n[0] == FLAG] if role == WATCHER else turns(value) if role in (STORER, STORER2, MATH, MATH2) else []
        for tile in tiles:
            patch = tile[0][3]
            for name, event in events.items():
                note = find(tile, event)
                if note and (event != TILE or role in (MATH, MATH2)):
                    patches[patch][name].append(us(note))
    print("\n%s, rank %d: blocks leave at %.1f to %.1f" % (title, rank, min(left), max(left)))
    for patch, times in sorted(patches.items()):
        print("  patch %d: %s" % (patch, "  ".join(
            "%s %.1f %.1f %.1f" % (name, min(times[name]), statistics.median(times[name]), max(times[name])) for name in events if times[name])))


def main():
    shown = show_patches if "patches" in sys.argv[3:] else show
    with open(sys.argv[1]) as lines:
        for title, notes in plans(lines):
            for rank in sorted({r for r, _, _ in notes}):
                if len(sys.argv) < 3 or rank == int(sys.argv[2]):
                    shown(title, notes, rank)


if __name__ == "__main__":
    main()
