// The operator template of a convolution: direct, one pixel and FILTERS output channels a thread, CHUNK input channels
// staged in shared memory at a time with the next ones on their way. All sizes are macros. With the macro JOIN 2 x 2
// pixels, those of four neighbouring threads, are pooled.
//
// Weights and biases are distinct values that name their place, wherever the compiler moves them: `weight` and `bias`.
// `chunks`, `first_filter` and `first_channel` are parameters of the template only: specialisation replaces them by
// numbers, and the loop over chunks by as many copies of its body.

#define WEIGHTS 0x3F800001  // 1 + 2^-23 and up
#define BIASES 0x40000001   // 2 + 2^-22 and up

__device__ __forceinline__ float weight(int k, int c, int r, int s)
{
    return __int_as_float(WEIGHTS + ((k * CHUNK + c) * KERNEL_H + r) * KERNEL_W + s);
}

__device__ __forceinline__ float bias(int k)
{
    return __int_as_float(BIASES + k);
}

#ifdef JOIN
// What the lane has whose number differs in the bit DISTANCE. (The form without .sync is that of PTX ISA 5.0.)
template <int DISTANCE>
__device__ __forceinline__ float of_lane(float value)
{
    float found;
    asm volatile("shfl.bfly.b32 %0, %1, %2, 31;" : "=f"(found) : "f"(value), "n"(DISTANCE));
    return found;
}

__device__ __forceinline__ float joined(float a, float b)
{
    return JOIN(a, b);
}

#endif
extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const float* __restrict__ x,
#ifdef RESIDUAL
         const float* __restrict__ residual,
#endif
         float* __restrict__ y,
         int chunks, int first_filter, int first_channel)
{
    __shared__ float staged[2 * CHUNK * CHANNEL];
    const int thread = threadIdx.x, image = blockIdx.y;
    const int top = blockIdx.x / TILES_ACROSS * TILE_H, left = blockIdx.x % TILES_ACROSS * TILE_W;

    // Of each channel the thread stages one element, STEP lines further on each time; threads without one repeat others'.
    const int line = min(thread / LINE, STEP - 1), column = thread % LINE;
    const float* from = x + X_BEGIN + ((long long)image * X_CHANNELS + first_channel) * X_PLANE +
                        (top * STRIDE_H + line) * X_PITCH + left * STRIDE_W + column;
    float* to = staged + line * PITCH + column % STRIDE_W * PHASE + column / STRIDE_W;

#ifdef JOIN
    const int window_row = thread / 4 / (TILE_W / 2), window_place = thread / 4 % (TILE_W / 2);
    const int row = min(2 * window_row + thread / 2 % 2, TILE_H - 1), place = 2 * window_place + thread % 2;
#else
    const int row = min(thread / TILE_W, TILE_H - 1), place = thread % TILE_W;
#endif
    const float* window = staged + row * STRIDE_H * PITCH + place;

    float sum[FILTERS], ahead[CHUNK * PASSES];
#pragma unroll
    for (int k = 0; k < FILTERS; k++) {
        sum[k] = bias(k);
    }
#pragma unroll
    for (int i = 0; i < CHUNK * PASSES; i++) {
        to[i / PASSES * CHANNEL + i % PASSES * STEP * PITCH] = from[i / PASSES * X_PLANE + i % PASSES * STEP * X_PITCH];
    }

    int chunk = 0, other = CHUNK * CHANNEL;
#pragma unroll 1
    do {
        __syncthreads();
        from += CHUNK * X_PLANE;
#pragma unroll
        for (int i = 0; i < CHUNK * PASSES; i++) {
            ahead[i] = from[i / PASSES * X_PLANE + i % PASSES * STEP * X_PITCH];
        }
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
#pragma unroll
            for (int r = 0; r < KERNEL_H; r++) {
#pragma unroll
                for (int s = 0; s < KERNEL_W; s++) {
                    const int tap = s * DILATION_W;
                    const float value = window[c * CHANNEL + r * DILATION_H * PITCH + tap % STRIDE_W * PHASE + tap / STRIDE_W];
#pragma unroll
                    for (int k = 0; k < FILTERS; k++) {
                        sum[k] = fmaf(value, weight(k, c, r, s), sum[k]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < CHUNK * PASSES; i++) {
            to[other + i / PASSES * CHANNEL + i % PASSES * STEP * PITCH] = ahead[i];
        }
        window += other;
        to += other;
        other = -other;
    } while (++chunk < chunks);

    const int oy = top + row, ox = left + place;
    if (thread >= TILE_H * TILE_W || oy >= Y_HEIGHT || ox >= Y_WIDTH) {
        return;
    }
#ifdef JOIN
    float* out = y + Y_BEGIN + ((long long)image * Y_CHANNELS + first_filter) * Y_PLANE + oy / 2 * Y_PITCH + ox / 2;
#else
    float* out = y + Y_BEGIN + ((long long)image * Y_CHANNELS + first_filter) * Y_PLANE + oy * Y_PITCH + ox;
#endif
#ifdef RESIDUAL
    const float* added =
        residual + A_BEGIN + ((long long)image * Y_CHANNELS + first_filter) * A_PLANE + oy * A_PITCH + ox;
#endif
#pragma unroll
    for (int k = 0; k < FILTERS; k++) {
        float v = sum[k];
#ifdef RESIDUAL
        v += added[(long long)k * A_PLANE];
#endif
#ifdef JOIN
        v = ACTIVATE(v);
        v = joined(v, of_lane<1>(v));
        sum[k] = joined(v, of_lane<2>(v));
    }
    if (thread % 4) {
        return;
    }
#pragma unroll
    for (int k = 0; k < FILTERS; k++) {
        out[(long long)k * Y_PLANE] = POOLED(sum[k]);
#else
        out[(long long)k * Y_PLANE] = ACTIVATE(v);
#endif
    }
}
