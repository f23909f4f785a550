// Milp: offsets by a mixed-integer program, solved by CBC (Debian: coinor-cbc), a program of its own.
//
// Buffers fall apart where nothing lives on; each part is planned alone, the others' peak bounding it from below. An
// offset a buffer, a whole number of its alignment; for two buffers whose lives overlap a choice which lies below:
//   offset_i + bytes_i <= offset_j + U (1 - below_ij),  offset_j + bytes_j <= offset_i + U below_ij
// with U the peak of the best simple planner, which bounds all offsets too; the peak is minimised down to the most live
// bytes. Of the solution only the order of offsets is kept: buffers fall in it to the lowest place that is free, which
// is exact where the solver's numbers are not, and never higher. Parts of more pairs than `max_pairs`, and those that
// the solver does not finish, keep the best simple plan or the best that it found: the one planner whose plan may
// depend on the machine's speed. Source: the usual disjunctive model of dynamic storage allocation (Sekiyama et al.
// 2018, "Profile-guided memory optimization for deep neural networks", section 4.2).
#include <algorithm>
#include <numeric>

#include "policies/memory/ordered.hpp"
#include "policies/memory/planner.hpp"
#include "sim/milp.hpp"

namespace orrery::policies {
namespace {

using sim::Milp;

struct MilpParams {
  double seconds = 30;
  std::int64_t max_pairs = 2000;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seconds", &MilpParams::seconds, sim::Unit::seconds, sim::between(0.1, 86400),
                   "Time limit of the solver for each part of the problem."),
        sim::field("max_pairs", &MilpParams::max_pairs, sim::Unit::none, sim::between(0, 1e6),
                   "Parts with more pairs of buffers that overlap in time are left to the simple planners.")};
  }
};

std::vector<std::int64_t> best_simple(std::span<const Buffer> buffers) {
  std::vector<std::int64_t> best;
  for (const char* keys : {"zw", "wz", "az", "tz"}) {
    std::vector<std::int64_t> offsets = place_in_order(buffers, order_by(buffers, keys));
    if (best.empty() || peak_of(buffers, offsets) < peak_of(buffers, best)) best = std::move(offsets);
  }
  return best;
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// The program of a part, in units of the largest number of bytes that divides all sizes and alignments.
class PartProgram {
 public:
  PartProgram(std::span<const Buffer> buffers, std::int64_t low, std::int64_t high) : buffers_(buffers) {
    for (const Buffer& buffer : buffers) unit_ = std::gcd(unit_, std::gcd(buffer.bytes, buffer.alignment));
    const double most = in_units(high);
    peak_ = milp_.add_variable("peak", Milp::Kind::real, in_units(low), most);
    for (std::size_t i = 0; i < buffers.size(); ++i) add_buffer(i, most);
    for (std::size_t i = 0; i < buffers.size(); ++i)
      for (std::size_t j = i + 1; j < buffers.size(); ++j)
        if (overlap(buffers[i], buffers[j])) add_pair(i, j, most);
    milp_.minimise({{peak_, 1}});
  }

  /// Buffers by offset in the solution; empty if there is none.
  std::vector<std::uint32_t> order(double seconds) const {
    const Milp::Solution solution = milp_.solve(seconds);
    if (!solution.solved()) return {};
    std::vector<double> offsets(buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) offsets[i] = solution.values[place_[i]] * step_[i];
    std::vector<std::uint32_t> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return offsets[a] < offsets[b]; });
    return order;
  }

 private:
  double in_units(std::int64_t bytes) const { return static_cast<double>(bytes / unit_); }

  void add_buffer(std::size_t i, double most) {
    const Buffer& buffer = buffers_[i];
    step_.push_back(in_units(buffer.alignment));
    place_.push_back(milp_.add_variable("place", Milp::Kind::integer, 0, most / step_[i]));
    milp_.add_constraint("below the peak", {{place_[i], step_[i]}, {peak_, -1}}, Milp::Sense::at_most,
                         -in_units(buffer.bytes));
  }

  void add_pair(std::size_t i, std::size_t j, double most) {
    const Milp::Variable below = milp_.add_variable("below", Milp::Kind::binary);
    milp_.add_constraint("first below", {{place_[i], step_[i]}, {place_[j], -step_[j]}, {below, most}},
                         Milp::Sense::at_most, most - in_units(buffers_[i].bytes));
    milp_.add_constraint("second below", {{place_[j], step_[j]}, {place_[i], -step_[i]}, {below, -most}},
                         Milp::Sense::at_most, -in_units(buffers_[j].bytes));
  }

  std::span<const Buffer> buffers_;
  std::int64_t unit_ = 0;
  Milp milp_;
  Milp::Variable peak_ = 0;
  std::vector<Milp::Variable> place_;
  std::vector<double> step_;  // units of an alignment
};

class MilpPlanner final : public MemoryPlanner {
 public:
  explicit MilpPlanner(const MilpParams& params) : params_(params) {}
  bool runs_a_program() const override { return true; }

 private:
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    std::vector<std::int64_t> offsets(buffers.size());
    const std::int64_t enough = lower_bound(buffers);  // lower plans of a part do not lower the whole
    for (std::size_t first = 0; first < buffers.size();) {
      std::size_t end = first + 1;
      for (std::int64_t lives = buffers[first].end; end < buffers.size() && buffers[end].begin < lives; ++end)
        lives = std::max(lives, buffers[end].end);
      const auto part = buffers.subspan(first, end - first);
      std::ranges::copy(place_part(part, enough), offsets.begin() + static_cast<std::ptrdiff_t>(first));
      first = end;
    }
    return offsets;
  }

  std::vector<std::int64_t> place_part(std::span<const Buffer> part, std::int64_t enough) const {
    std::vector<std::int64_t> best = best_simple(part);
    const std::int64_t high = peak_of(part, best);
    const std::int64_t low = std::max(lower_bound(part), std::min(enough, high));
    if (high <= low || pairs(part) > params_.max_pairs) return best;
    const std::vector<std::uint32_t> order = PartProgram(part, low, high).order(params_.seconds);
    if (order.empty()) return best;
    std::vector<std::int64_t> offsets = place_in_order(part, order);
    return peak_of(part, offsets) < high ? offsets : best;
  }

  std::int64_t pairs(std::span<const Buffer> part) const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < part.size() && count <= params_.max_pairs; ++i)
      for (std::size_t j = i + 1; j < part.size() && part[j].begin < part[i].end; ++j) ++count;
    return count;
  }

  MilpParams params_;
};

}  // namespace

void add_milp(MemoryPlannerRegistry& registry) {
  registry.add<MilpParams>("milp", "Offsets by a mixed-integer program, solved by CBC, a separate program.",
                           [](const MilpParams& params) { return std::make_unique<MilpPlanner>(params); });
}

}  // namespace orrery::policies
