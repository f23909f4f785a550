#include "hw/npu/systolic.hpp"

#include "hw/base/arithmetic.hpp"
#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

bool is_nothing(const Gemm& g) {
  return g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0;
}

/// Input-stationary is weight-stationary of the transposed product.
Gemm transposed(const Gemm& g) {
  return {g.n, g.m, g.k, g.batch};
}

}  // namespace

std::int64_t systolic_cycles(const Gemm& shape, const SystolicShape& array, Dataflow dataflow) {
  if (is_nothing(shape)) return 0;
  if (dataflow == Dataflow::is) return systolic_cycles(transposed(shape), array, Dataflow::ws);
  const std::int64_t a = array.rows, b = array.columns;
  const std::int64_t folds = dataflow == Dataflow::ws ? ceil_div(shape.n, b) * ceil_div(shape.k, a)
                                                      : ceil_div(shape.m, a) * ceil_div(shape.n, b);
  const std::int64_t fold = dataflow == Dataflow::ws ? shape.m + 2 * a + b - 2 : shape.k + a + b - 2;
  return folds * fold * shape.batch - 1;
}

SystolicTraffic systolic_traffic(const Gemm& shape, const SystolicShape& array, Dataflow dataflow) {
  if (is_nothing(shape)) return {};
  if (dataflow == Dataflow::is) {
    SystolicTraffic t = systolic_traffic(transposed(shape), array, Dataflow::ws);
    std::swap(t.input_reads, t.weight_reads);
    return t;
  }
  const double m = d(shape.m), n = d(shape.n), k = d(shape.k), batch = d(shape.batch);
  const double column_folds = d(ceil_div(shape.n, array.columns));
  SystolicTraffic t;
  t.input_reads = m * k * column_folds * batch;
  if (dataflow == Dataflow::ws) {
    const double sums = d(ceil_div(shape.k, array.rows));
    t.weight_reads = k * n * batch;
    t.output_writes = m * n * sums * batch;
    t.output_reads = m * n * (sums - 1) * batch;
  } else {
    t.weight_reads = k * n * d(ceil_div(shape.m, array.rows)) * batch;
    t.output_writes = m * n * batch;
  }
  return t;
}

double systolic_utilisation(const Gemm& shape, const SystolicShape& array, Dataflow dataflow) {
  if (is_nothing(shape)) return 0;
  const double cycles = d(systolic_cycles(shape, array, dataflow) + 1);
  return d(shape.m) * d(shape.n) * d(shape.k) * d(shape.batch) / (d(array.rows * array.columns) * cycles);
}

}  // namespace orrery::hw
