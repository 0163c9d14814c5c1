// Enough of CUDA's and HIP's device names for a compiler without their headers to check our kernels.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
struct ShimIndex {
  unsigned x, y, z;
};
extern const __device__ ShimIndex threadIdx, blockIdx;
__device__ void __syncthreads();
__device__ float __uint_as_float(unsigned);
__device__ unsigned __float_as_uint(float);
__device__ double __longlong_as_double(long long);
__device__ long long __double_as_longlong(double);
#define RLX_SHIM1(fn)          \
  __device__ float fn##f(float); \
  __device__ double fn(double);
#define RLX_SHIM2(fn)                   \
  __device__ float fn##f(float, float); \
  __device__ double fn(double, double);
RLX_SHIM1(fabs) RLX_SHIM1(floor) RLX_SHIM1(ceil) RLX_SHIM1(rint) RLX_SHIM1(trunc) RLX_SHIM1(sqrt)
RLX_SHIM1(cbrt) RLX_SHIM1(exp) RLX_SHIM1(exp2) RLX_SHIM1(expm1) RLX_SHIM1(log) RLX_SHIM1(log2)
RLX_SHIM1(log10) RLX_SHIM1(log1p) RLX_SHIM1(sin) RLX_SHIM1(cos) RLX_SHIM1(tan) RLX_SHIM1(asin)
RLX_SHIM1(acos) RLX_SHIM1(atan) RLX_SHIM1(sinh) RLX_SHIM1(cosh) RLX_SHIM1(tanh) RLX_SHIM1(asinh)
RLX_SHIM1(acosh) RLX_SHIM1(atanh) RLX_SHIM1(erf)
RLX_SHIM2(fmod) RLX_SHIM2(pow) RLX_SHIM2(atan2) RLX_SHIM2(copysign)
__device__ float fmaf(float, float, float);
__device__ double fma(double, double, double);
#undef RLX_SHIM1
#undef RLX_SHIM2
