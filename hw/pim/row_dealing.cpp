#include "hw/pim/row_dealing.hpp"

#include <algorithm>
#include <vector>

namespace orrery::hw {
namespace {

/// Non-zeros before a place among the rows: whole ones, and a part of the next.
class Rows {
 public:
  explicit Rows(std::span<const double> nonzeros) : before_(nonzeros.size() + 1, 0) {
    for (std::size_t i = 0; i < nonzeros.size(); ++i) before_[i + 1] = before_[i] + nonzeros[i];
  }
  double all() const { return before_.back(); }
  double before(double row) const {
    const auto whole = std::min(static_cast<std::size_t>(row), before_.size() - 1);
    const double rest = row - static_cast<double>(whole);
    return before_[whole] + (rest > 0 ? rest * (before_[whole + 1] - before_[whole]) : 0);
  }
  /// Where `nonzeros` of them are before; at the nearest whole row where rows cannot be cut.
  double place(double nonzeros, bool whole) const {
    const auto above =
        static_cast<std::size_t>(std::lower_bound(before_.begin(), before_.end(), nonzeros) - before_.begin());
    if (above == 0) return 0;
    const std::size_t i = std::min(above, before_.size() - 1);
    const double low = before_[i - 1], high = before_[i];
    if (whole) return static_cast<double>(nonzeros - low < high - nonzeros ? i - 1 : i);
    return static_cast<double>(i - 1) + (high > low ? std::min(1.0, (nonzeros - low) / (high - low)) : 0);
  }
  double rows() const { return static_cast<double>(before_.size() - 1); }

 private:
  std::vector<double> before_;
};

/// Where part `i` of `parts` of the rows [begin, end) begins.
double begin_of(const Rows& rows, double begin, double end, std::int64_t i, std::int64_t parts, RowBalance balance,
                bool whole) {
  if (i == 0) return begin;
  if (i == parts) return end;
  const double share = static_cast<double>(i) / static_cast<double>(parts);
  if (balance == RowBalance::row) {
    const double at = begin + share * (end - begin);
    return std::clamp(static_cast<double>(static_cast<std::int64_t>(at)), begin, end);
  }
  const double low = rows.before(begin), high = rows.before(end);
  return std::clamp(rows.place(low + share * (high - low), whole), begin, end);
}

}  // namespace

RowLoad busiest_dpu(std::span<const double> nonzeros, std::int64_t dpus, const RowDealing& dealing, std::int64_t fill) {
  const Rows rows(nonzeros);
  if (rows.all() <= 0) return {};
  const bool whole = dealing.format == SparseFormat::csr;
  const double mean = rows.all() / static_cast<double>(dpus);
  RowLoad load{.nonzeros = 0, .time = 0};
  double begin = 0;
  for (std::int64_t d = 0; d < dpus; ++d) {
    const double end = begin_of(rows, 0, rows.rows(), d + 1, dpus, dealing.over_dpus, whole);
    const double all = rows.before(end) - rows.before(begin);
    double busiest = 0, from = begin;
    for (std::int64_t t = 0; t < dealing.tasklets; ++t) {
      const double to = begin_of(rows, begin, end, t + 1, dealing.tasklets, dealing.over_tasklets, whole);
      busiest = std::max(busiest, rows.before(to) - rows.before(from));
      from = to;
    }
    load.nonzeros = std::max(load.nonzeros, all / mean);
    load.time = std::max(load.time, std::max(all, static_cast<double>(fill) * busiest) / mean);
    begin = end;
  }
  return load;
}

}  // namespace orrery::hw
