// Cycles, operand traffic and utilisation of a systolic array for C[m,n] = A[m,k] B[k,n], in closed form.
//
// An array of `rows` x `columns` multiply-accumulate cells is used fold by fold; every fold occupies the whole array,
// partial ones too, and folds do not overlap:
//   weight-stationary  k on rows, n on columns, m streams: ceil(n/columns) ceil(k/rows) (m + 2 rows + columns - 2) - 1
//   input-stationary   k on rows, m on columns, n streams: ceil(m/columns) ceil(k/rows) (n + 2 rows + columns - 2) - 1
//   output-stationary  m on rows, n on columns, k streams: ceil(m/rows) ceil(n/columns) (k + rows + columns - 2) - 1
// A stationary operand takes `rows` cycles to shift in, and skewed operands another rows + columns - 2 to cross. The
// result is the index of the last busy cycle, counted from 0, which is what SCALE-Sim reports (hence the -1): on a
// 128 x 128 array, 128^3 takes 509 (ws) and 381 (os). For square arrays these are SCALE-Sim's own counts on the open
// TPU tables of the reference data, row by row; tests/hw/test_npu_systolic.cpp propagates operands cell by cell.
//
// Left out: stalls on memory (hw/npu/npu_gemm.hpp adds them), stationary operands that are loaded behind the
// fold before (`MatrixUnit::preload` there), draining of output-stationary results, sparsity.
#pragma once

#include <cstdint>
#include <string_view>

#include "hw/base/kernel.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// Which operand stays in the cells: weights (B), outputs (C) or inputs (A).
enum class Dataflow : std::uint8_t { ws, os, is };
constexpr auto enum_names(Dataflow) {
  using enum Dataflow;
  return sim::names<Dataflow>({{"ws", ws}, {"os", os}, {"is", is}});
}

/// Cells of an array.
struct SystolicShape {
  std::int64_t rows = 128, columns = 128;
};

/// Elements that cross the edge of the array, read or written in the scratchpads around it.
struct SystolicTraffic {
  double input_reads = 0;    ///< elements of A
  double weight_reads = 0;   ///< elements of B
  double output_writes = 0;  ///< elements of C, partial sums included
  double output_reads = 0;   ///< partial sums that come back to be added to
};

/// Index of the last busy cycle, from 0; 0 for an empty product. Products of a batch run one after another.
std::int64_t systolic_cycles(const Gemm& shape, const SystolicShape& array, Dataflow dataflow);
/// Elements read and written beside the array; zero for an empty product.
SystolicTraffic systolic_traffic(const Gemm& shape, const SystolicShape& array, Dataflow dataflow);
/// Share of cell-cycles that do a useful multiply-add, 0 to 1.
double systolic_utilisation(const Gemm& shape, const SystolicShape& array, Dataflow dataflow);

}  // namespace orrery::hw
