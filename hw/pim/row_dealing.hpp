// Rows of a sparse matrix dealt to DPUs, and inside each to its tasklets: what the busiest of them has.
//
// Both levels deal contiguous rows: as many to each (`row`), or so that each has as many non-zeros as whole rows allow
// (`nnz`). A matrix in COO names the row of every non-zero, so that a row may be cut and `nnz` is exact; in CSR it may
// not. A DPU issues one instruction a cycle, and a tasklet one in `fill` cycles: with so many tasklets at work the
// pipeline is full, so a DPU takes
//   max(non-zeros of it, fill x non-zeros of its busiest tasklet)
// at its full rate. Source: Giannoula et al., PyGim (SIGMETRICS 2024), balance of rows and non-zeros at both levels;
// pipeline: Gomez-Luna et al. 2021 (arXiv 2105.03814). Left out: the sums of rows that were cut, locks between
// tasklets.
#pragma once

#include <cstdint>
#include <span>

#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class SparseFormat : std::uint8_t { csr, coo };
constexpr auto enum_names(SparseFormat) {
  using enum SparseFormat;
  return sim::names<SparseFormat>({{"csr", csr}, {"coo", coo}});
}

enum class RowBalance : std::uint8_t { row, nnz };
constexpr auto enum_names(RowBalance) {
  using enum RowBalance;
  return sim::names<RowBalance>({{"row", row}, {"nnz", nnz}});
}

struct RowDealing {
  SparseFormat format = SparseFormat::csr;
  RowBalance over_dpus = RowBalance::nnz, over_tasklets = RowBalance::nnz;
  std::int64_t tasklets = 16;
};

/// Of the busiest DPU over the mean.
struct RowLoad {
  double nonzeros = 1;  ///< what it holds
  double time = 1;      ///< over that of the mean non-zeros in a full pipeline
};

/// `nonzeros` of each row, in order, of one column part of A; `dpus` share them. 1 and 1 for a matrix without any.
RowLoad busiest_dpu(std::span<const double> nonzeros, std::int64_t dpus, const RowDealing& dealing, std::int64_t fill);

}  // namespace orrery::hw
