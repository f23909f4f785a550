#include "hw/base/kernel_work.hpp"

#include <algorithm>

#include "hw/base/real.hpp"
#include "sim/base/math.hpp"

namespace orrery::hw {

Work shape_work(const Gemm& g, double element, double weight) {
  const double m = d(g.m), n = d(g.n), k = d(g.k), b = d(g.batch);
  if (m * n * k * b == 0) return {};
  if (weight == 0 || weight == element) return {2 * m * n * k * b, (m * k + k * n) * element * b, m * n * element * b};
  return {2 * m * n * k * b, (m * k * element + k * n * weight) * b, m * n * element * b};
}

Work shape_work(const GroupedGemm& g, double element, double weight) {
  const double rows = d(g.rows), n = d(g.n), k = d(g.k);
  if (rows * n * k == 0) return {};
  const double weights = d(g.groups) * k * n;
  if (weight == 0 || weight == element) return {2 * rows * n * k, (rows * k + weights) * element, rows * n * element};
  return {2 * rows * n * k, rows * k * element + weights * weight, rows * n * element};
}

Work shape_work(const Sparse& s, double element) {
  const double nonzeros = d(s.nonzeros), width = d(s.width), rows = d(s.rows);
  if (rows * width == 0) return {};
  const double pattern = nonzeros * d(s.index_bytes) + (rows + 1) * d(s.index_bytes);
  const double dense = std::min(d(s.columns), nonzeros) * width * element;
  if (s.kind == SparseKind::spmm)
    return {2 * nonzeros * width, pattern + nonzeros * element + dense, rows * width * element};
  if (nonzeros == 0) return {};
  return {2 * nonzeros * width, pattern + std::min(rows, nonzeros) * width * element + dense, nonzeros * element};
}

Work shape_work(const Fft& f, double element) {
  const double points = d(f.n0) * d(f.n1) * d(f.batch);
  if (points == 0) return {};
  const double flops = 5 * points * sim::det_log2(d(f.n0) * d(f.n1));
  const double complex_bytes = 2 * points * element;
  if (f.kind == FftKind::complex_to_complex) return {flops, complex_bytes, complex_bytes};
  // The halved axis is the last one that has more than one point.
  const double half = f.n1 > 1 ? d(f.n0) * d(f.n1 / 2 + 1) : d(f.n0 / 2 + 1);
  const double half_bytes = 2 * half * d(f.batch) * element;
  const double real_bytes = points * element;
  if (f.kind == FftKind::real_to_complex) return {flops / 2, real_bytes, half_bytes};
  return {flops / 2, half_bytes, real_bytes};
}

Work shape_work(const Conv& c, double element) {
  const double out = d(c.batch) * d(c.out_height()) * d(c.out_width()) * d(c.out_channels);
  const double taps = d(c.in_channels) / d(c.parts()) * d(c.kernel_height) * d(c.kernel_width);
  if (out * taps == 0) return {};
  const double images = d(c.batch) * d(c.in_channels) * d(c.height) * d(c.width);
  return {2 * out * taps, (images + d(c.out_channels) * taps) * element, out * element};
}

Work shape_work(const Fused& f, double element) {
  return {shape_work(f.gemm, element).flops + d(f.other_matrix_flops) + d(f.vector_flops), d(f.read_bytes),
          d(f.write_bytes)};
}

}  // namespace orrery::hw
