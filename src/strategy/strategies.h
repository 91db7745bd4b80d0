/* strategies.h -- one line a strategy, in the order in which ties are decided.  Where the model
 * cannot tell plans apart, those of one launch were 0.6 % faster than others in the tables of two
 * and four H200s (docs/diary.md). */
SG_STRATEGY(serial)
SG_STRATEGY(sliced)
SG_STRATEGY(fused_in)
SG_STRATEGY(fused_add)
SG_STRATEGY(fused_out)
SG_STRATEGY(direct)
SG_STRATEGY(ring)
SG_STRATEGY(dma)
SG_STRATEGY(signal)
SG_STRATEGY(alone)
