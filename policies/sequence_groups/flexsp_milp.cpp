// FlexSP's program: lengths in buckets, integer counts of each bucket in each group that is used, the slowest group as
// fast as can be (CBC). The sequences of a bucket are taken to be as long as its longest.
#include <algorithm>
#include <bit>
#include <limits>

#include "policies/sequence_groups/sequence_groups.hpp"
#include "sim/milp.hpp"

namespace orrery::policies {
namespace {

struct FlexSpMilpParams {
  std::int64_t more = 4, buckets = 16;
  double limit_s = 10;
  static constexpr auto fields() {
    using P = FlexSpMilpParams;
    return sim::FieldTable{sim::field("more", &P::more, sim::Unit::count, sim::between(0, 64),
                                      "How many micro-batches beyond the fewest that memory allows are tried."),
                           sim::field("buckets", &P::buckets, sim::Unit::count, sim::between(1, 1024),
                                      "Number of buckets that sequence lengths are sorted into."),
                           sim::field("limit", &P::limit_s, sim::Unit::seconds, sim::between(0.01, 3600),
                                      "Time limit of the solver for each micro-batch.")};
  }
};

/// Ends of at most `most` runs of sequences in order, longest first, that round up least: dynamic programming,
/// O(n^2 buckets).
std::vector<std::size_t> buckets_of(std::span<const std::int64_t> lengths, std::size_t most) {
  const std::size_t n = lengths.size(), count = std::min(most, n);
  std::vector<double> sums(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + static_cast<double>(lengths[i]);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(n + 1, kNever));
  std::vector<std::vector<std::size_t>> from(count + 1, std::vector<std::size_t>(n + 1, 0));
  best[0][0] = 0;
  for (std::size_t k = 1; k <= count; ++k)
    for (std::size_t end = k; end <= n; ++end)
      for (std::size_t begin = k - 1; begin < end; ++begin) {
        const double up =
            static_cast<double>(lengths[begin]) * static_cast<double>(end - begin) - (sums[end] - sums[begin]);
        if (best[k - 1][begin] + up < best[k][end]) best[k][end] = best[k - 1][begin] + up, from[k][end] = begin;
      }
  std::vector<std::size_t> ends;
  for (std::size_t k = count, end = n; k > 0; end = from[k--][end]) ends.push_back(end);
  std::ranges::reverse(ends);
  return ends;
}

class FlexSpMilp final : public SequenceGrouping {
 public:
  explicit FlexSpMilp(const FlexSpMilpParams& params) : params_(params) {}
  BatchPlan plan(const SequenceView& view) const override {
    return best_chunks(view, params_.more, [&](std::size_t first, std::size_t end) { return solve(view, first, end); });
  }

 private:
  MicroBatch solve(const SequenceView& view, std::size_t first, std::size_t end) const {
    using Sense = sim::Milp::Sense;
    using Kind = sim::Milp::Kind;
    const std::span<const std::int64_t> lengths = view.lengths.subspan(first, end - first);
    const std::vector<std::size_t> ends = buckets_of(lengths, static_cast<std::size_t>(params_.buckets));
    const SequenceCosts& costs = *view.costs;
    struct Candidate {
      std::int64_t degree = 1;
      sim::Milp::Variable used = 0;
      std::vector<sim::Milp::Variable> counts;
    };
    sim::Milp program;
    const auto slowest = program.add_variable("slowest");
    std::vector<Candidate> groups;
    std::vector<sim::Milp::Terms> placed(ends.size());
    sim::Milp::Terms devices;
    std::size_t before = 0;
    for (std::int64_t degree = 1; degree <= view.most_degree(); degree *= 2)
      for (std::int64_t i = 0; i < view.devices / degree; ++i) {
        Candidate group{.degree = degree, .used = program.add_variable("used", Kind::binary, 0, 1)};
        const double share = 1 / static_cast<double>(degree);
        const double exchange =
            costs.exchange_s[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(degree)) - 1)];
        sim::Milp::Terms time{{slowest, -1}, {group.used, costs.fixed_s}},
            tokens{{group.used, -costs.device_tokens * static_cast<double>(degree)}};
        for (std::size_t k = 0; k < ends.size(); ++k) {
          const std::size_t begin = k == 0 ? 0 : ends[k - 1];
          const auto s = static_cast<double>(lengths[begin]);
          const bool fits = s <= costs.device_tokens * static_cast<double>(degree);
          const auto count =
              program.add_variable("count", Kind::integer, 0, fits ? static_cast<double>(ends[k] - begin) : 0);
          group.counts.push_back(count);
          time.emplace_back(count, share * (costs.square_s * s * s + (costs.linear_s + exchange) * s));
          tokens.emplace_back(count, s);
          placed[k].emplace_back(count, 1);
        }
        program.add_constraint("time", std::move(time), Sense::at_most, 0);
        program.add_constraint("memory", std::move(tokens), Sense::at_most, 0);
        // Groups of a degree are alike: they are used in order.
        if (i > 0) program.add_constraint("order", {{group.used, 1}, {groups.back().used, -1}}, Sense::at_most, 0);
        devices.emplace_back(group.used, static_cast<double>(degree));
        groups.push_back(std::move(group));
      }
    program.add_constraint("devices", std::move(devices), Sense::at_most, static_cast<double>(view.devices));
    for (std::size_t k = 0; k < ends.size(); ++k, before = ends[k - 1])
      program.add_constraint("all", std::move(placed[k]), Sense::equal, static_cast<double>(ends[k] - before));
    program.minimise({{slowest, 1}});
    const sim::Milp::Solution solution = program.solve(params_.limit_s);
    if (!solution.solved()) return {};
    MicroBatch micro_batch;
    std::vector<std::size_t> next(ends.size(), 0);
    for (std::size_t k = 1; k < ends.size(); ++k) next[k] = ends[k - 1];
    for (const Candidate& group : groups) {
      SequenceGroup one{.degree = group.degree};
      for (std::size_t k = 0; k < ends.size(); ++k)
        for (auto count = static_cast<std::int64_t>(solution.values[group.counts[k]] + 0.5); count > 0; --count)
          one.members.push_back(static_cast<std::int32_t>(first + next[k]++));
      if (!one.members.empty()) micro_batch.push_back(std::move(one));
    }
    return micro_batch;
  }

  FlexSpMilpParams params_;
};

}  // namespace

void add_flexsp_milp_groups(SequenceGroupingRegistry& registry) {
  registry.add<FlexSpMilpParams>(
      "flexsp_milp", "Groups of different degrees side by side, found by an integer program (FlexSP, with CBC).",
      [](const FlexSpMilpParams& params) { return std::make_unique<FlexSpMilp>(params); });
}

}  // namespace orrery::policies
