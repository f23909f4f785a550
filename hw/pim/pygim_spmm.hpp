// Sparse aggregation on UPMEM as PyGim divides it, and on the host's CPU beside it.
//
// C[n, f] = A[n, n] B[n, f], A sparse (a graph's adjacency), f feature columns. The ranks form `groups` groups; a
// configuration (sp, ds), sp * ds = groups, gives each group one of sp column parts of A and one of ds column parts of
// B; inside a group the rows of A are dealt to the DPUs. A run loads the parts of B, multiplies, retrieves the partial
// rows and merges the sp partial results of every row on the host:
//
//   load     = dpus * (n / sp) * (f / ds) * element / host_to_dpu_bandwidth
//   kernel   = busiest DPU over the mean (row_dealing.hpp) * nnz / (sp * dpus_a_group) / rows_per_s(f / ds)
//   retrieve = sp * n * f * element / dpu_to_host_bandwidth(bytes of a DPU)
//   merge    = n / copied_rows_per_s(f / ds) + (sp - 1) * n / added_rows_per_s(f / ds)
//   CPU      = (nnz * (index + element + f * element) + n * f * element) / cpu_memory_bandwidth
//
// Rates are measured curves, straight between their points and level before the first; past the last one, bandwidths
// stay and rates of rows fall with the columns. Few columns a part waste the kernel's index work, many parts of A move
// and merge more: the best configuration lies between. Source: Giannoula et al., PyGim (SIGMETRICS 2024); the curves
// are the ones of its tuner (CMU-SAFARI/PyGim, utils/autotuner.py). Left out: dense layers (they run on the host),
// loading A (once a graph), format conversion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hw/pim/row_dealing.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// One point of a measured curve.
struct CurvePoint {
  double at = 0, value = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("at", &CurvePoint::at, Unit::none, sim::positive(),
                                 "Point of the curve at which the value was measured.")),
        sim::required(sim::field("value", &CurvePoint::value, Unit::none, sim::positive(), "Measured value.")),
    };
  }
};

/// Constants of sparse products on PIM: a system and its host.
struct PimSpmmParams {
  static constexpr std::string_view kKind = "pim_spmm";
  std::int64_t dpus = 1992, groups = 32, mram_bytes = 64 << 20, fill_tasklets = 11, max_tasklets = 24;
  double host_to_dpu_bandwidth = 43.73e9, cpu_memory_bandwidth = 23.1e9;
  std::vector<CurvePoint> dpu_to_host_bandwidth, fma_rows, copied_rows, added_rows;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(
            sim::field("dpus", &PimSpmmParams::dpus, Unit::count, sim::at_least(1), "Number of DPUs in use.")),
        sim::field("groups", &PimSpmmParams::groups, Unit::count, sim::at_least(1),
                   "Number of groups of ranks to which parts of the matrices are dealt."),
        sim::field("mram", &PimSpmmParams::mram_bytes, Unit::bytes, sim::at_least(1),
                   "Size of a DPU's DRAM bank (MRAM)."),
        sim::field("fill_tasklets", &PimSpmmParams::fill_tasklets, Unit::count, sim::between(1, 64),
                   "Number of tasklets that fill a DPU's pipeline; the rates are those of a full one."),
        sim::field("max_tasklets", &PimSpmmParams::max_tasklets, Unit::count, sim::between(1, 64),
                   "Number of tasklets that a DPU has."),
        sim::required(sim::field("host_to_dpu_bandwidth", &PimSpmmParams::host_to_dpu_bandwidth, Unit::bytes_per_s,
                                 sim::positive(), "Bandwidth from host to DPUs, all DPUs together.")),
        sim::required(sim::field("cpu_memory_bandwidth", &PimSpmmParams::cpu_memory_bandwidth, Unit::bytes_per_s,
                                 sim::positive(), "Memory bandwidth of the host, used for the CPU baseline.")),
        sim::field("dpu_to_host_bandwidth", &PimSpmmParams::dpu_to_host_bandwidth,
                   "Bandwidth from all DPUs to the host in B/s, by bytes per DPU; at least one point."),
        sim::field("fma_rows", &PimSpmmParams::fma_rows,
                   "Multiply-added rows per second of a DPU, by 32-bit columns; at least one point."),
        sim::field("copied_rows", &PimSpmmParams::copied_rows, "Rows per second that the host copies, by columns."),
        sim::field("added_rows", &PimSpmmParams::added_rows, "Rows per second that the host adds, by columns."),
    };
  }
  /// Faults that the field table cannot see: curves without points or out of order.
  static void check(const PimSpmmParams& pim, const sim::Node& fields, sim::Faults& faults);
};

/// A sparse product: `rows` of C, non-zeros of A, feature columns of B.
struct SpmmShape {
  double rows = 0, nonzeros = 0, features = 0;
  RowLoad busiest;  ///< DPU, over the mean
  double element_bytes = 4, index_bytes = 4;
};
/// Parts of A's columns and of B's columns.
struct SpmmSplit {
  std::int64_t sparse_parts = 1, dense_parts = 1;
};
struct SpmmTimes {
  double load_s = 0, kernel_s = 0, retrieve_s = 0, merge_s = 0;
  double total_s() const { return load_s + kernel_s + retrieve_s + merge_s; }
};
/// A configuration that the machine cannot hold, and why.
struct SpmmDoesNotFit {
  std::string reason;
};

/// Time of one configuration.
std::variant<SpmmTimes, SpmmDoesNotFit> pim_spmm(const PimSpmmParams& pim, const SpmmShape& shape, SpmmSplit split);
/// Every configuration with sparse_parts * dense_parts = groups, by rising sparse_parts.
std::vector<SpmmSplit> spmm_splits(const PimSpmmParams& pim);

struct TunedSpmm {
  SpmmSplit split;
  SpmmTimes times;
};
/// The fastest configuration that fits, the one with fewer sparse parts of two equals.
std::variant<TunedSpmm, SpmmDoesNotFit> tune_pim_spmm(const PimSpmmParams& pim, const SpmmShape& shape);
/// The baseline: the host's CPU at its memory bandwidth; s.
double cpu_spmm_s(const PimSpmmParams& pim, const SpmmShape& shape);

}  // namespace orrery::hw
