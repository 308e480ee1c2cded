"""PTX as NVRTC writes it; skipped where nvidia-cuda-nvrtc-cu12 is not installed."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.targets.cuda.driver import DEFAULT, Buffer, Module, device, launch


def load_nvrtc() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc") if importlib.util.find_spec("nvidia") else None
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        return None
    found = sorted(Path(next(iter(folders))).glob("lib/libnvrtc.so.*"))
    return ctypes.CDLL(str(found[0])) if found else None


NVRTC = load_nvrtc()
pytestmark = pytest.mark.skipif(NVRTC is None, reason="needs the package nvidia-cuda-nvrtc-cu12")


def compile_ptx(source: str, arch: str = "compute_62") -> str:
    assert NVRTC is not None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert NVRTC.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture={arch}".encode(), b"--std=c++17")
    code = NVRTC.nvrtcCompileProgram(program, 2, options)
    if code:
        NVRTC.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        NVRTC.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.value.decode())
    NVRTC.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    NVRTC.nvrtcGetPTX(program, text)
    NVRTC.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()


CONVOLUTION = """
extern "C" __global__ void k(const float *__restrict__ x, const float *__restrict__ w, float *y, int C, int H, int W) {
  extern __shared__ float tile[];
  const int K = 3;
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y, k = blockIdx.z;
  float sum = 0;
  for (int c = 0; c < C; c++) {
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
      int r = blockIdx.y * 16 + i / 18 - 1, q = blockIdx.x * 16 + i % 18 - 1;
      tile[i] = r >= 0 && r < H && q >= 0 && q < W ? x[(c * H + r) * W + q] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < K; r++)
#pragma unroll
      for (int s = 0; s < K; s++)
        sum += tile[(threadIdx.y + r) * 18 + threadIdx.x + s] * w[((k * C + c) * K + r) * K + s];
    __syncthreads();
  }
  if (row < H && column < W) y[(k * H + row) * W + column] = sum;
}
"""


@pytest.mark.parametrize("arch", ["compute_62", "compute_90"])
def test_convolution(arch: str) -> None:
    rng = np.random.default_rng(1)
    c, h, w, k = 3, 21, 35, 4
    x, weights = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((c, h, w), (k, c, 3, 3)))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    want = np.einsum("chwrs,kcrs->khw", windows, weights)
    with device(device="h200" if arch == "compute_90" else "jetson-tx2", driver="12090"):
        y = Buffer(k * h * w * 4)
        sizes = [ctypes.c_int(v) for v in (c, h, w)]
        function = Module(compile_ptx(CONVOLUTION, arch)).function("k")
        launch(function, (3, 2, k), (16, 16), Buffer(x), Buffer(weights), y, *sizes, shared=18 * 18 * 4)
        np.testing.assert_array_equal(y.read(np.float32, (k, h, w)), want)


POINTWISE = """
extern "C" __global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  switch (i % 10) {
    case 0: v = expf(v); break;
    case 1: v = tanhf(v); break;
    case 2: v = 1.f / (1.f + __expf(-v)); break;
    case 3: v = sinf(v * 100); break;
    case 4: v = logf(fabsf(v) + 1); break;
    case 5: v = powf(fabsf(v), 1.5f); break;
    case 6: v = erff(v); break;
    case 7: v = sqrtf(fabsf(v)); break;
    case 8: v = floorf(v * 7) + (float)((int)(v * 100) / 7) + (float)((unsigned)i % 13u); break;
    default: v = fmaxf(fminf(v, 0.5f), -0.5f);
  }
  y[i] = v;
}
"""


def test_functions() -> None:
    n = 1000
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    v, i = x.astype(np.float64), np.arange(n)
    erf = np.vectorize(__import__("math").erf)
    floor = np.floor(x * np.float32(7)) + np.trunc(np.trunc(x * np.float32(100)) / 7) + i % 13
    power = np.abs(v) ** 1.5
    columns = [np.exp(v), np.tanh(v), 1 / (1 + np.exp(-v)), np.sin((x * np.float32(100)).astype(np.float64))]
    columns += [np.log(np.abs(v) + 1), power, erf(v), np.sqrt(np.abs(v)), floor, np.clip(v, -0.5, 0.5)]
    want = np.choose(i % 10, columns)
    with device(**DEFAULT):
        y = Buffer(n * 4)
        launch(Module(compile_ptx(POINTWISE)).function("k"), (8,), (128,), Buffer(x), y, ctypes.c_int(n))
        np.testing.assert_allclose(y.read(np.float32), want, rtol=2e-6, atol=1e-6)


REDUCTION = """
extern "C" __global__ void k(const float *x, float *y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
    if (threadIdx.x == 0) atomicAdd(&y[3], 1.0f);
  }
}
"""


def test_reduction_by_shuffles() -> None:
    x = np.random.default_rng(3).integers(-9, 9, (3, 700)).astype(np.float32)
    with device(**DEFAULT):
        y = Buffer(np.zeros(4, np.float32))
        launch(Module(compile_ptx(REDUCTION)).function("k"), (3,), (256,), Buffer(x), y, ctypes.c_int(700))
        np.testing.assert_array_equal(y.read(np.float32), [*x.sum(1), 3])
