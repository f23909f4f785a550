#include "hw/pim/pygim_spmm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::hw {
namespace {

/// Straight between points, level outside.
double on_curve(const std::vector<CurvePoint>& curve, double at) {
  if (at <= curve.front().at) return curve.front().value;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const CurvePoint &a = curve[i - 1], &b = curve[i];
    if (at <= b.at) return a.value + (b.value - a.value) * (at - a.at) / (b.at - a.at);
  }
  return curve.back().value;
}

/// Rows per s at `columns`: past the last point the same columns per s.
double rows_per_s(const std::vector<CurvePoint>& curve, double columns) {
  const double last = curve.back().at;
  return columns > last ? curve.back().value * last / columns : on_curve(curve, columns);
}

}  // namespace

void PimSpmmParams::check(const PimSpmmParams& pim, const sim::Node& fields, sim::Faults& faults) {
  const std::pair<const char*, const std::vector<CurvePoint>*> curves[] = {
      {"dpu_to_host_bandwidth", &pim.dpu_to_host_bandwidth},
      {"fma_rows", &pim.fma_rows},
      {"copied_rows", &pim.copied_rows},
      {"added_rows", &pim.added_rows}};
  for (const auto& [name, curve] : curves) {
    if (curve->empty()) faults.add(fields.origin(), fmt::format("{} has no points", name));
    for (std::size_t i = 1; i < curve->size(); ++i)
      if ((*curve)[i].at <= (*curve)[i - 1].at)
        faults.add(fields.origin(),
                   fmt::format("{}: points rise in `at`, and {} follows {}", name, (*curve)[i].at, (*curve)[i - 1].at));
  }
  if (pim.groups > pim.dpus)
    faults.add(fields.origin(), fmt::format("{} groups, and only {} DPUs to fill them", pim.groups, pim.dpus));
}

std::vector<SpmmSplit> spmm_splits(const PimSpmmParams& pim) {
  std::vector<SpmmSplit> splits;
  for (std::int64_t parts = 1; parts <= pim.groups; ++parts)
    if (pim.groups % parts == 0) splits.push_back({parts, pim.groups / parts});
  return splits;
}

std::variant<SpmmTimes, SpmmDoesNotFit> pim_spmm(const PimSpmmParams& pim, const SpmmShape& shape, SpmmSplit split) {
  const auto sp = static_cast<double>(split.sparse_parts), ds = static_cast<double>(split.dense_parts);
  const auto dpus = static_cast<double>(pim.dpus);
  const double in_group = dpus / (sp * ds), columns = shape.features / ds;
  if (columns < 1)
    return SpmmDoesNotFit{fmt::format("{} feature columns cannot be cut into {} parts", shape.features, ds)};
  const double features_bytes = shape.rows / sp * columns * shape.element_bytes;
  const double result_bytes = shape.rows / in_group * columns * shape.element_bytes;
  const double matrix_bytes =
      shape.busiest.nonzeros * shape.nonzeros / (sp * in_group) * (shape.index_bytes + shape.element_bytes);
  const double needed = features_bytes + result_bytes + matrix_bytes;
  if (needed > static_cast<double>(pim.mram_bytes))
    return SpmmDoesNotFit{fmt::format("a DPU would hold {:.1f} MB, and has {:.1f} MB", needed * 1e-6,
                                      static_cast<double>(pim.mram_bytes) * 1e-6)};
  SpmmTimes times;
  times.load_s = dpus * features_bytes / pim.host_to_dpu_bandwidth;
  times.kernel_s = shape.busiest.time * shape.nonzeros / (sp * in_group) / rows_per_s(pim.fma_rows, columns);
  times.retrieve_s =
      sp * shape.rows * shape.features * shape.element_bytes / on_curve(pim.dpu_to_host_bandwidth, result_bytes);
  times.merge_s =
      shape.rows / rows_per_s(pim.copied_rows, columns) + (sp - 1) * shape.rows / rows_per_s(pim.added_rows, columns);
  return times;
}

std::variant<TunedSpmm, SpmmDoesNotFit> tune_pim_spmm(const PimSpmmParams& pim, const SpmmShape& shape) {
  std::variant<TunedSpmm, SpmmDoesNotFit> best = SpmmDoesNotFit{"no configuration"};
  for (const SpmmSplit split : spmm_splits(pim)) {
    const auto result = pim_spmm(pim, shape, split);
    const auto* times = std::get_if<SpmmTimes>(&result);
    const auto* tuned = std::get_if<TunedSpmm>(&best);
    if (times != nullptr && (tuned == nullptr || times->total_s() < tuned->times.total_s())) {
      best = TunedSpmm{split, *times};
    } else if (times == nullptr && tuned == nullptr) {
      best = std::get<SpmmDoesNotFit>(result);
    }
  }
  return best;
}

double cpu_spmm_s(const PimSpmmParams& pim, const SpmmShape& shape) {
  const double row = shape.features * shape.element_bytes;
  const double bytes = shape.nonzeros * (shape.index_bytes + shape.element_bytes + row) + shape.rows * row;
  return bytes / pim.cpu_memory_bandwidth;
}

}  // namespace orrery::hw
