// Sparse products, Fourier transforms, convolutions and fused groups in the `tiled` model.
//
// Sparse. A warp takes a row of S and gathers a row of B (or of A and B) for each entry, in sectors of 32 bytes:
//   gathered = entries * ceil(width * e / 32) * 32 (twice that for SDDMM)
//   dram     = compulsory + (gathered - dense operands, if positive) * (1 - hot_share(dense operands))
//   memory   = dram / (bandwidth * share),  l2 = gathered / (l2_bandwidth * l2_share)
//   longest  = entries of the longest row * (latency + miss_latency) / kGathersInFlight     (one warp, whatever the
//   others do) t        = fixed + max(|issue, memory, l2|_4, longest)
// after Gale, Zaharia, Young, Elsen, "Sparse GPU kernels for deep learning" (SC 2020) and Yang, Buluc, Owens, "Design
// principles for sparse matrix multiplication on the GPU" (Euro-Par 2018): row splitting, bound by gathered bytes.
//
// Fourier transform. A pass holds up to `points` complex numbers in an SM's shared memory; a transform that fits takes
// one pass, else each axis takes ceil(log(n) / log(points)) passes, and every pass reads and writes all data once (what
// cuFFT, VkFFT and rocFFT do: Tolmachev, "VkFFT", IEEE Access 2023). Lengths with a prime factor above 13 go through
// Bluestein's algorithm: three transforms of the next power of two from 2n - 1 on.
//   t = passes * fixed + (passes - 1) * launch_graph + |5 N log2 N / (fp32 peak * kFftPeakShare), traffic|_4
// complex-half computes in fp32, so dtypes differ by their bytes alone.
//
// Convolution as implicit matrix product (CUTLASS's implicit GEMM): m = images * output pixels, n = output channels of
// a group, k = input channels of a group * taps, batch = groups; compute from plan_gemm, memory from the true bytes.
//
// Fused group: matrix part as plan_gemm of its largest product, stretched by the FLOPs of the others; vector FLOPs at
// the fp32 peak; traffic of the whole group; |matrix, vector, memory|_4, one launch. At least the product's own time at
// the share of its traffic that is left: fusion mends nothing of what a product loses by itself (waves that do not
// fill).
//
// None of these four is fitted to measurements: no table holds them. Constants are those of products and passes.
#pragma once

#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {

/// Times in s without the launch; zero for no work.
TiledTime tiled_sparse(const GpuParams& gpu, const Sparse& shape, DType dtype);
TiledTime tiled_fft(const GpuParams& gpu, const Fft& shape, DType dtype);
TiledTime tiled_conv(const GpuParams& gpu, const Conv& shape, DType dtype);
TiledTime tiled_fused(const GpuParams& gpu, const Fused& shape, DType dtype);

/// Passes over memory of a transform on this device, and the length it is computed at (longer where Bluestein's
/// algorithm is needed).
struct FftPlan {
  std::int64_t passes = 0;
  double work = 1;  ///< FLOPs and traffic as a multiple of the plain transform's
};
FftPlan plan_fft(const GpuParams& gpu, const Fft& shape);

/// The matrix product that a convolution is.
Gemm implicit_gemm(const Conv& shape);

}  // namespace orrery::hw
