/* strategies.h -- one line a strategy, in the order in which ties are decided. */
SG_STRATEGY(serial)
SG_STRATEGY(sliced)
SG_STRATEGY(direct)
SG_STRATEGY(ring)
SG_STRATEGY(fused_in)
SG_STRATEGY(fused_out)
SG_STRATEGY(dma)
SG_STRATEGY(signal)
