/* backends.h -- one line a backend, default first; for one that this build has not, the option of
 * cmake that builds it in. */
SG_BACKEND(cpu)
#ifdef SG_WITH_CUDA
SG_BACKEND(cuda)
#else
SG_BACKEND_ABSENT(cuda, "-DSHINGLE_CUDA=ON")
#endif
