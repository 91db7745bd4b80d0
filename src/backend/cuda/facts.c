/* facts.c -- what a report says of the GPUs: names, versions, and the clock that a rank's runs
 * at. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"

/* The management library of the driver, if it is there; opened once and kept, as the driver is. */
static struct {
    int (*nvmlInit_v2)(void);
    int (*nvmlSystemGetDriverVersion)(char *text, unsigned room);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *id, void **device);
    int (*nvmlDeviceGetClockInfo)(void *device, int clock, unsigned *mhz);
    int (*nvmlDeviceGetMaxClockInfo)(void *device, int clock, unsigned *mhz);
    int (*nvmlDeviceGetPowerUsage)(void *device, unsigned *milliwatts);
    int (*nvmlDeviceGetEnforcedPowerLimit)(void *device, unsigned *milliwatts);
    bool open;
} nvml;

enum { CLOCK_SM = 1 };

static pthread_once_t once = PTHREAD_ONCE_INIT;

bool sg_cuda_find(void *library, const char *name, void *entry)
{
    void *const symbol = dlsym(library, name);
    if (symbol == NULL) return false;
    *(void **)entry = symbol;
    return true;
}

static void open_nvml(void)
{
    void *const handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) return;
#define FIND(name) sg_cuda_find(handle, #name, &nvml.name)
    nvml.open = FIND(nvmlInit_v2) && FIND(nvmlSystemGetDriverVersion) &&
                FIND(nvmlDeviceGetHandleByPciBusId_v2) && FIND(nvmlDeviceGetClockInfo) &&
                FIND(nvmlDeviceGetMaxClockInfo) && FIND(nvmlDeviceGetPowerUsage) &&
                FIND(nvmlDeviceGetEnforcedPowerLimit) && nvml.nvmlInit_v2() == 0;
#undef FIND
    if (!nvml.open) dlclose(handle);
}

/* ---- What does not change -------------------------------------------------------------------- */

/* 13000 and 2.28.3's 22803 are versions of three parts; cuBLASLt's parts are in steps of 10000. */
static void add_version(sg_text *text, const char *name, int version, int step)
{
    if (version <= 0) return;
    const int major = version / (step * 100);
    sg_text_add(text, "%s%s %d.%d", text->length > 0 ? ", " : "", name, major,
                version / step % 100);
    if (version % step > 0) sg_text_add(text, ".%d", version % step);
}

static int cublaslt_version(void)
{
    size_t (*version)(void) = NULL;
    for (int i = CUBLAS_VER_MAJOR; i >= 12; i--) {
        char name[32];
        snprintf(name, sizeof name, "libcublasLt.so.%d", i);
        void *const handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
        if (handle == NULL) continue;
        const bool found = sg_cuda_find(handle, "cublasLtGetVersion", &version);
        const int value = found ? (int)version() : 0;
        dlclose(handle);
        return value;
    }
    return 0;
}

static void describe_software(const sg_cuda *cuda, shingle_device *d)
{
    sg_text text = {d->software, sizeof d->software, 0};
    char driver[80] = "";
    int runtime = 0;
    if (nvml.open && nvml.nvmlSystemGetDriverVersion(driver, sizeof driver) == 0)
        sg_text_add(&text, "driver %s", driver);
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) add_version(&text, "CUDA", runtime, 10);
    add_version(&text, "cuBLASLt", cublaslt_version(), 100);
    if (cuda->collect != NULL)
        sg_text_add(&text, "%s%s", text.length > 0 ? ", " : "", sg_collect_name(cuda->collect));
}

/* ---- What does ------------------------------------------------------------------------------- */

static void read_clocks(const sg_cuda_rank *rank, shingle_device *d)
{
    char id[32] = "";
    void *device = NULL;
    unsigned value = 0;
    if (!nvml.open || cudaDeviceGetPCIBusId(id, sizeof id, rank->device) != cudaSuccess) return;
    if (nvml.nvmlDeviceGetHandleByPciBusId_v2(id, &device) != 0) return;
    if (nvml.nvmlDeviceGetClockInfo(device, CLOCK_SM, &value) == 0) d->mhz = value;
    if (nvml.nvmlDeviceGetMaxClockInfo(device, CLOCK_SM, &value) == 0) d->most_mhz = value;
    if (nvml.nvmlDeviceGetPowerUsage(device, &value) == 0) d->watts = value / 1e3;
    if (nvml.nvmlDeviceGetEnforcedPowerLimit(device, &value) == 0) d->most_watts = value / 1e3;
}

shingle_status sg_cuda_facts(void *self, int rank, bool clocks_only, shingle_device *device_out)
{
    sg_cuda *const cuda = self;
    shingle_device d = {.mhz = 0};
    pthread_once(&once, open_nvml);
    if (!clocks_only) {
        struct cudaDeviceProp about;
        SG_CUDA(cudaGetDeviceProperties(&about, cuda->rank[rank].device));
        const int length =
            snprintf(d.name, sizeof d.name, "%.60s, %d SMs", about.name, about.multiProcessorCount);
        if (cuda->sharing > 1)
            snprintf(d.name + length, sizeof d.name - (size_t)length, ", %d ranks on it",
                     cuda->sharing);
        d.ranks = cuda->sharing;
        describe_software(cuda, &d);
    }
    read_clocks(&cuda->rank[rank], &d);
    *device_out = d;
    return SHINGLE_OK;
}
