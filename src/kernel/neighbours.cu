/* neighbours.cu -- which SMs share a GPC.  Nothing says so, but the blocks of a cluster do. */
#include "kernel/neighbours.h"
#include "kernel/ptx.cuh"

enum { MOST_SMS = 160, MOST_DEVICES = 64, THREADS = 32 };
enum { SMEM = 128 << 10 };                   /* of a block: two do not fit an SM */
static const uint64_t TOGETHER_NS = 2000000; /* for all blocks of a launch to have begun */
enum { POLLS = 300000 };                     /* for a launch, a second: who else has the GPU? */

/* Of a launch, one at a time: how many blocks have begun, and where each is. */
typedef struct whereabouts {
    uint32_t there;
    int32_t sm[MOST_SMS];
} whereabouts;
static __device__ whereabouts here;

/* None leaves before all are there, so that they take as many SMs. */
static __global__ void where_kernel()
{
    if (threadIdx.x > 0) return;
    here.sm[blockIdx.x] = (int32_t)sm_here();
    atomicAdd(&here.there, 1);
    const uint64_t begin = now_ns();
    while (*(const volatile uint32_t *)&here.there < gridDim.x && now_ns() - begin < TOGETHER_NS) {}
}

enum { NOBODY_LOOKED, LOOKING, KNOWN };
static struct {
    int state;
    int count;
    uint8_t sm[MOST_SMS];
} known[MOST_DEVICES];

static int gpc_of(const int *next, int sm)
{
    while (next[sm] != sm) sm = next[sm];
    return sm;
}

/* What STREAM has to do, within the limit. */
static cudaError_t wait_for(cudaStream_t stream)
{
    cudaError_t status = cudaErrorNotReady;
    for (int i = 0; i < POLLS && status == cudaErrorNotReady; ++i) status = cudaStreamQuery(stream);
    return status;
}

/* As many clusters of SIZE as there is room for; the SMs of each are in one set of NEXT.  A GPU
 * that has none of that size says nothing. */
static cudaError_t look(int size, cudaStream_t stream, int *next)
{
    whereabouts at = {};
    int most = 0;
    cudaLaunchAttribute attr = {};
    attr.id = cudaLaunchAttributeClusterDimension;
    attr.val.clusterDim.x = (unsigned)size;
    attr.val.clusterDim.y = attr.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)size);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SMEM;
    config.stream = stream;
    config.attrs = &attr;
    config.numAttrs = 1;
    if (cudaOccupancyMaxActiveClusters(&most, where_kernel, &config) != cudaSuccess) most = 0;
    (void)cudaGetLastError();
    const int blocks = size * most < MOST_SMS ? size * most : MOST_SMS / size * size;
    if (blocks == 0) return cudaSuccess;
    config.gridDim = dim3((unsigned)blocks);
    cudaError_t status =
        cudaMemcpyToSymbolAsync(here, &at, sizeof at, 0, cudaMemcpyHostToDevice, stream);
    if (status == cudaSuccess) status = cudaLaunchKernelEx(&config, where_kernel);
    if (status == cudaSuccess) status = wait_for(stream);
    if (status == cudaSuccess)
        status = cudaMemcpyFromSymbolAsync(&at, here, sizeof at, 0, cudaMemcpyDeviceToHost, stream);
    if (status == cudaSuccess) status = wait_for(stream);
    for (int i = 0; status == cudaSuccess && i < blocks; ++i) {
        const int sm = at.sm[i], first = at.sm[i / size * size];
        if (sm < 0 || sm >= MOST_SMS) return cudaSuccess;
        if (next[sm] < 0) next[sm] = sm;
        next[gpc_of(next, sm)] = gpc_of(next, first);
    }
    return status;
}

/* The SMs of sets of NEXT, the largest set first. */
static int list_sms(const int *next, uint8_t *out)
{
    int size[MOST_SMS] = {0}, rank[MOST_SMS] = {0}, count = 0;
    for (int i = 0; i < MOST_SMS; ++i)
        if (next[i] >= 0) rank[i] = size[gpc_of(next, i)]++;
    for (int late = 0; late < 2; ++late)
        for (int most = MOST_SMS; most > 0; --most)
            for (int gpc = 0; gpc < MOST_SMS; ++gpc)
                for (int i = 0; size[gpc] == most && i < MOST_SMS; ++i)
                    if (next[i] >= 0 && gpc_of(next, i) == gpc &&
                        (rank[i] >= SG_NEIGHBOURS) == (late > 0))
                        out[count++] = (uint8_t)i;
    return count;
}

void sg_neighbours_look(void)
{
    static const int sizes[] = {16, 8, 4, 2};
    int device = 0, sms = 0, next[MOST_SMS], state = NOBODY_LOOKED;
    cudaStream_t stream = nullptr;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MOST_DEVICES) return;
    if (!__atomic_compare_exchange_n(&known[device].state, &state, LOOKING, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    for (int i = 0; i < MOST_SMS; ++i) next[i] = -1;
    cudaError_t status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (status == cudaSuccess)
        status =
            cudaFuncSetAttribute(where_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (status == cudaSuccess)
        status =
            cudaFuncSetAttribute(where_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM);
    for (int i = 0; i < 4 && status == cudaSuccess; ++i) status = look(sizes[i], stream, next);
    known[device].count = status == cudaSuccess ? list_sms(next, known[device].sm) : 0;
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
    (void)cudaGetLastError(); /* who looks again may know more; nothing depends on it */
    __atomic_store_n(&known[device].state,
                     sms > 0 && known[device].count == sms ? KNOWN : NOBODY_LOOKED,
                     __ATOMIC_RELEASE);
}

int sg_neighbours(uint8_t *sm_out, int room)
{
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MOST_DEVICES) return 0;
    if (__atomic_load_n(&known[device].state, __ATOMIC_ACQUIRE) != KNOWN) return 0;
    const int count = known[device].count <= room ? known[device].count : 0;
    for (int i = 0; i < count; ++i) sm_out[i] = known[device].sm[i];
    return count;
}
