#include "experiments/fidelity/table_kind.hpp"

#include <algorithm>

namespace orrery::experiments {

Predictions::Column& Predictions::column(std::string_view metric) {
  for (Column& column : columns_)
    if (column.metric == metric) return column;
  columns_.push_back({std::string(metric), {}, 0, {}});
  return columns_.back();
}

void Predictions::add(std::string_view metric, std::size_t row, double measured, double predicted,
                      std::initializer_list<std::string_view> regimes) {
  column(metric).rows.push_back({row, measured, predicted, regimes});
}

void Predictions::skip(std::string_view metric, std::size_t, std::string_view reason) {
  Column& c = column(metric);
  ++c.uncovered;
  if (std::find(c.reasons.begin(), c.reasons.end(), reason) == c.reasons.end()) c.reasons.emplace_back(reason);
}

void Predictions::skip_all(std::string_view metric, const MeasuredTable& table, std::string_view reason) {
  for (std::size_t row = 0; row < table.rows(); ++row) skip(metric, row, reason);
}

}  // namespace orrery::experiments
