/* backends.h -- one line a backend, default first. */
SG_BACKEND(cpu)
#ifdef SG_WITH_CUDA
SG_BACKEND(cuda)
#endif
