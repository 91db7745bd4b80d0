// What gets on beside a kernel that has all SMs and does not end: fills, copies and cudaMalloc of several sizes, each beside a kernel of the
// product's shape (384 threads of 168 registers, all shared memory) that spins for 0.4 s.
//
//     lab_fills
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int SPIN_NS = 400000000, THREADS = 384, VALUES = 140, SMEM = 227 << 10;
constexpr size_t HOST_BYTES = 64 << 20;

__global__ void __launch_bounds__(THREADS, 1) spin(float *out, int n) {
    extern __shared__ float shared[];
    float v[VALUES], sum = 0;
    for (int i = 0; i < VALUES; ++i) v[i] = out[i * n];
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        for (int i = 0; i < VALUES; ++i) v[i] = v[i] * v[(i + 1) % VALUES] + 1.f;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < SPIN_NS);
    for (int i = 0; i < VALUES; ++i) sum += v[i];
    if (sum == 12345.f) out[threadIdx.x] = sum + shared[0];
}

static double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

enum What { FILL, FROM_HOST, WITHIN, MALLOC, WHATS };
static const char *const names[WHATS] = {"cudaMemsetAsync", "copy from the host", "copy within the GPU", "cudaMalloc"};

int main() {
    float *out;
    char *memory, *host;
    cudaStream_t kernels, others;
    int sms = 0;
    if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) return 77;
    cudaMalloc(&out, 1 << 20), cudaMemset(out, 0, 1 << 20);
    cudaMalloc(&memory, 512 << 20), cudaHostAlloc(&host, HOST_BYTES, 0);
    cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM);
    cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&others, cudaStreamNonBlocking);
    cudaMemsetAsync(memory, 0, 1 << 20, others), cudaMemcpyAsync(memory, host, 1 << 20, cudaMemcpyHostToDevice, others);
    cudaStreamSynchronize(others);
    for (int what = 0; what < WHATS; ++what)
        for (size_t bytes : {(size_t)4096, (size_t)1 << 20, (size_t)64 << 20, (size_t)512 << 20}) {
            if (what == FROM_HOST && bytes > HOST_BYTES) continue;
            void *fresh = nullptr;
            spin<<<sms, THREADS, SMEM, kernels>>>(out, 1);
            for (double begin = now_ms(); now_ms() - begin < 20;) {}
            const double begin = now_ms();
            if (what == FILL) cudaMemsetAsync(memory, 0, bytes, others);
            if (what == FROM_HOST) cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, others);
            if (what == WITHIN) cudaMemcpyAsync(memory + bytes / 2, memory, bytes / 2, cudaMemcpyDeviceToDevice, others);
            if (what == MALLOC) cudaMalloc(&fresh, bytes);
            const cudaError_t error = cudaStreamSynchronize(others);
            const bool runs = cudaStreamQuery(kernels) == cudaErrorNotReady;
            printf("%-20s %9zu bytes %6.1f ms, the kernel %s%s%s\n", names[what], bytes, now_ms() - begin, runs ? "runs" : "is over",
                   error != cudaSuccess ? ": " : "", error != cudaSuccess ? cudaGetErrorString(error) : "");
            cudaStreamSynchronize(kernels);
            if (fresh) cudaFree(fresh);
        }
}
