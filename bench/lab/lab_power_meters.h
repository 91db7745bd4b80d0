// What lab_power reads while a kernel runs: the time, NVML's counters, and the cycles of every SM.
#pragma once
#include "kernel/stamp.cuh"
#include "world.h"
#include <chrono>
#include <dlfcn.h>

enum { SMS_MOST = 256 };

static double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// NVML, of which only what reads is looked up.
struct Meter {
    void *device = nullptr;
    int (*energy)(void *, unsigned long long *) = nullptr;
    int (*temperature)(void *, int, unsigned *) = nullptr;
    int (*clock)(void *, int, unsigned *) = nullptr;
    int (*power)(void *, unsigned *) = nullptr;

    bool open() {
        void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (!lib) return false;
        auto init = (int (*)())dlsym(lib, "nvmlInit_v2");
        auto handle = (int (*)(unsigned, void **))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
        energy = (decltype(energy))dlsym(lib, "nvmlDeviceGetTotalEnergyConsumption");
        temperature = (decltype(temperature))dlsym(lib, "nvmlDeviceGetTemperature");
        clock = (decltype(clock))dlsym(lib, "nvmlDeviceGetClockInfo");
        power = (decltype(power))dlsym(lib, "nvmlDeviceGetPowerUsage");
        unsigned long long mj;
        return init && handle && energy && temperature && clock && power && !init() && !handle(0, &device) && !energy(device, &mj);
    }
    double joules() {
        unsigned long long mj = 0;
        energy(device, &mj);
        return (double)mj * 1e-3;
    }
    int read(int (*what)(void *, int, unsigned *), int which) {
        unsigned v = 0;
        return what(device, which, &v) ? -1 : (int)v;
    }
};

struct Ticks {
    unsigned claimed;
    long long clock;
    uint64_t ns;
};

// Every SM's cycles and the time, once.
static __global__ void read_clocks(Ticks *out) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm < SMS_MOST && atomicExch(&out[sm].claimed, 1u) == 0) out[sm].clock = clock64(), out[sm].ns = now_ns();
}
