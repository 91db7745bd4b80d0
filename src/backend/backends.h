/* backends.h -- one line a backend, default first. */
SG_BACKEND(cpu)
