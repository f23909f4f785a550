// The PrIM benchmarks as programs of a UPMEM system: what each moves, computes and waits for.
//
// A program is derived from the published algorithm (Gomez-Luna et al., "Benchmarking a New Paradigm: An Experimental
// Analysis of a Real Processing-in-Memory Architecture", 2021) and its inner loops, counted by hand in prim_kernels.cpp
// as DPU instructions: address, load, arithmetic, store, index, branch. No count is fitted to a benchmark. Sizes are
// strong scaling: `size` is the total as the host code takes it, split over the DPUs:
//
//   VA, RED, SCAN-RSS, SCAN-SSA, SEL, UNI, HST-S, HST-L: elements; BS: sorted elements, with size / 8 queries;
//   GEMV: rows of 64 columns; MLP: rows and columns of three square layers; TS: samples, query of 64; TRNS: M' of a
//   matrix of 64 x 8 columns and 4 M' rows.
//
// Copies between host and DPUs are counted as the host code makes them: parallel copies padded to the largest DPU,
// serial copies, reads of variables in WRAM. Left out: BFS, NW, SpMV (their work depends on data that a size does not
// give), host computation other than copies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hw/pim/upmem.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class Prim : std::uint8_t { bs, gemv, hst_l, hst_s, mlp, red, scan_rss, scan_ssa, sel, trns, ts, uni, va };
/// Names as the tables write them.
constexpr auto enum_names(Prim) {
  using enum Prim;
  return sim::names<Prim>({{"BS", bs},
                           {"GEMV", gemv},
                           {"HST-L", hst_l},
                           {"HST-S", hst_s},
                           {"MLP", mlp},
                           {"RED", red},
                           {"SCAN-RSS", scan_rss},
                           {"SCAN-SSA", scan_ssa},
                           {"SEL", sel},
                           {"TRNS", trns},
                           {"TS", ts},
                           {"UNI", uni},
                           {"VA", va}});
}

/// Times of one run in s. A part that the benchmark does not have is 0.
struct PrimTimes {
  double kernel_s = 0;      ///< all launches
  double cpu_to_dpu_s = 0;  ///< inputs and arguments
  double dpu_to_cpu_s = 0;  ///< outputs
  double dpu_to_dpu_s = 0;  ///< what DPUs tell each other through the host between launches
};

/// Time of a benchmark on `dpus` cores of one system. Any positive size has an answer.
PrimTimes prim_times(const UpmemParams& upmem, Prim prim, std::int64_t dpus, std::int64_t size);

/// The non-PIM baseline: the host's CPU with every operand moved once at its memory bandwidth, a lower bound that
/// counts no instruction; s.
double prim_cpu_s(const UpmemParams& upmem, Prim prim, std::int64_t size);

/// Time of the launches alone, in s.
double prim_kernel_s(const UpmemParams& upmem, Prim prim, double dpus, double size);
/// Elements of a DPU after the padding that the host code does.
double prim_padded_elements(const UpmemParams& upmem, Prim prim, double dpus, double size);

}  // namespace orrery::hw
