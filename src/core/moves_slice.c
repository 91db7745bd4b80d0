/* moves_slice.c -- slices of a product: a part of every owner's rows, packed
 * side by side; see moves.h. */
#include "core/moves.h"

/* Emits the rows of RUN, which start at PACKED_ROW0 of the packed buffer: read from there
 * (GATHERED), or stored to there. */
static void emit_slice(sg_sched *s, const sg_piece *run, int64_t packed_row0, int packed,
                       bool gathered, bool final)
{
    if (run->rows == 0) return;
    const sg_patch all = gathered ? sg_moves_patch_from(s, run, packed, packed_row0, final)
                                  : sg_moves_patch(s, run, final);
    sg_patch patch;
    for (int b = 0; sg_moves_next_b(s->problem, &all, b, &patch); b++) {
        sg_sched_patch(s, &patch);
        if (gathered)
            sg_moves_store(
                s, sg_area_of(s->rank, SG_C, patch.row0, patch.rows, patch.col0, patch.cols));
        else
            sg_sched_to(s, sg_area_of(s->rank, packed, packed_row0, run->rows, 0, s->problem->n));
    }
}

static int64_t emit_slices(sg_sched *s, int slice, int slices, int32_t tile, int64_t base,
                           int packed, bool gathered, bool final)
{
    const sg_problem *const p = s->problem;
    sg_piece run = {0};
    int64_t row = base; /* in the packed buffer */
    for (int q = 0; q < p->ranks; q++) {
        int32_t x0 = 0;
        const int32_t rows = sg_slice_rows(p, s->rank, q, slice, slices, tile, &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, x0, x0 + rows);
             sg_piece_next(&it, &piece);) {
            if (run.rows == 0 || piece.row0 != run.row0 + run.rows) {
                emit_slice(s, &run, row - run.rows, packed, gathered, final);
                run = (sg_piece){.row0 = piece.row0};
            }
            run.rows += piece.rows;
            row += piece.rows;
        }
    }
    emit_slice(s, &run, row - run.rows, packed, gathered, final);
    return row - base;
}

int64_t sg_moves_gathered_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                                  int gathered)
{
    return emit_slices(s, slice, slices, tile_m, base, gathered, true, true);
}

int64_t sg_moves_slice_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                               int packed_to, bool final)
{
    return emit_slices(s, slice, slices, tile_m, base, packed_to, false, final);
}
