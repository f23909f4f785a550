// ExpertFlow's token scheduling (DAC 2026, arXiv 2410.17954): all tokens that wait are divided into groups of equal
// size whose tokens use the same experts. K-means on the Hamming distance of paths: a centre is the share of its tokens
// that use each expert, each token goes to a near centre with room, centres are taken anew, a few rounds.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "policies/token_groups/token_groups.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies {
namespace {

struct ExpertFlowParams {
  double accuracy = 1;
  std::int64_t rounds = 4, seed = 1;
  static constexpr auto fields() {
    using P = ExpertFlowParams;
    using sim::Unit;
    return sim::FieldTable{sim::field("accuracy", &P::accuracy, Unit::ratio, sim::between(0, 1),
                                      "Probability that the predictor names an expert of a path correctly; a wrong one "
                                      "is replaced by any other."),
                           sim::field("rounds", &P::rounds, Unit::count, sim::between(1, 100),
                                      "Number of rounds of recomputing the cluster centres."),
                           sim::field("seed", &P::seed, Unit::none, sim::at_least(0), "Seed of the predictions.")};
  }
};

class ExpertFlowGroups final : public TokenGroups {
 public:
  explicit ExpertFlowGroups(const ExpertFlowParams& params) : params_(params) {}

  std::vector<std::vector<std::size_t>> groups(const TokenGroupView& view) const override {
    const std::size_t tokens = view.paths.size(), count = tokens / view.size;
    if (count < 2) return {first_of(view)};
    const std::vector<std::vector<std::uint16_t>> paths = predicted(view);
    std::vector<std::vector<std::size_t>> out = begin(paths, count, view);
    for (std::int64_t round = 0; round < params_.rounds; ++round) {
      std::vector<std::vector<std::size_t>> next = assign(paths, out, view);
      if (next == out) break;
      out = std::move(next);
    }
    for (auto& group : out) std::ranges::sort(group);
    return out;
  }

 private:
  static std::vector<std::size_t> first_of(const TokenGroupView& view) {
    std::vector<std::size_t> all(view.size);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }

  /// What the predictor says of each token: the bits of its path that are set.
  std::vector<std::vector<std::uint16_t>> predicted(const TokenGroupView& view) const {
    sim::RandomStream draws(static_cast<std::uint64_t>(params_.seed) + view.asked, "token_groups/expertflow");
    std::vector<std::vector<std::uint16_t>> out;
    for (const ExpertPath& path : view.paths) {
      std::vector<std::uint16_t>& bits = out.emplace_back();
      for (std::size_t word = 0; word < path.size(); ++word)
        for (std::uint64_t left = path[word]; left != 0; left &= left - 1) {
          const auto right = static_cast<std::uint16_t>(64 * word + static_cast<std::size_t>(std::countr_zero(left)));
          bits.push_back(draws.bernoulli(params_.accuracy) ? right
                                                           : static_cast<std::uint16_t>(draws.below(64 * path.size())));
        }
    }
    return out;
  }

  /// How many experts of each token are among those of `of`.
  static std::vector<std::size_t> common(const std::vector<std::vector<std::uint16_t>>& paths, std::size_t of,
                                         std::size_t bits) {
    std::vector<bool> there(bits, false);
    for (const std::uint16_t bit : paths[of]) there[bit] = true;
    std::vector<std::size_t> out;
    for (const auto& path : paths)
      out.push_back(
          static_cast<std::size_t>(std::ranges::count_if(path, [&](std::uint16_t bit) { return there[bit]; })));
    return out;
  }

  /// Groups to begin with: a token far from those chosen before, and who is nearest to it.
  static std::vector<std::vector<std::size_t>> begin(const std::vector<std::vector<std::uint16_t>>& paths,
                                                     std::size_t count, const TokenGroupView& view) {
    std::vector<std::size_t> left(paths.size());
    std::iota(left.begin(), left.end(), std::size_t{0});
    std::vector<std::vector<std::size_t>> out;
    std::vector<std::size_t> nearness(paths.size(), 0);
    for (std::size_t g = 0; g < count; ++g) {
      const std::size_t seed = *std::ranges::min_element(left, {}, [&](std::size_t t) { return nearness[t]; });
      std::vector<std::size_t> near = common(paths, seed, 64 * view.paths.front().size());
      for (const std::size_t t : left) nearness[t] += near[t];
      near[seed] = std::numeric_limits<std::size_t>::max();
      std::ranges::stable_sort(left, std::ranges::greater{}, [&](std::size_t t) { return near[t]; });
      const auto room = static_cast<std::ptrdiff_t>(std::min(view.size, left.size()));
      out.emplace_back(left.begin(), left.begin() + room);
      left.erase(left.begin(), left.begin() + room);
      std::ranges::sort(left);
    }
    return out;
  }

  /// Each token to a near centre with room: who prefers one centre most chooses first.
  static std::vector<std::vector<std::size_t>> assign(const std::vector<std::vector<std::uint16_t>>& paths,
                                                      const std::vector<std::vector<std::size_t>>& groups,
                                                      const TokenGroupView& view) {
    const std::size_t bits = 64 * view.paths.front().size();
    std::vector<std::vector<double>> centres(groups.size(), std::vector<double>(bits, 0));
    std::vector<std::size_t> members;
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::size_t t : groups[g]) {
        members.push_back(t);
        for (const std::uint16_t bit : paths[t]) centres[g][bit] += 1.0 / static_cast<double>(view.size);
      }
    // Of paths with as many experts each, the least Hamming distance is the largest share of experts in common.
    std::vector<std::vector<double>> fit(paths.size(), std::vector<double>(groups.size(), 0));
    std::vector<double> lead(paths.size(), 0);
    for (const std::size_t t : members) {
      for (std::size_t g = 0; g < groups.size(); ++g)
        for (const std::uint16_t bit : paths[t]) fit[t][g] += centres[g][bit];
      std::vector<double> sorted = fit[t];
      std::ranges::sort(sorted, std::ranges::greater{});
      lead[t] = sorted[0] - sorted[1];
    }
    std::ranges::sort(members);
    std::ranges::stable_sort(members, std::ranges::greater{}, [&](std::size_t t) { return lead[t]; });
    std::vector<std::vector<std::size_t>> out(groups.size());
    for (const std::size_t t : members) {
      std::size_t best = groups.size();
      for (std::size_t g = 0; g < groups.size(); ++g)
        if (out[g].size() < view.size && (best == groups.size() || fit[t][g] > fit[t][best])) best = g;
      out[best].push_back(t);
    }
    return out;
  }

  ExpertFlowParams params_;
};

}  // namespace

void add_expertflow_token_groups(TokenGroupsRegistry& registry) {
  registry.add<ExpertFlowParams>("expertflow", "ExpertFlow: groups of equal size whose tokens use similar experts.",
                                 [](const ExpertFlowParams& p) { return std::make_unique<ExpertFlowGroups>(p); });
}

}  // namespace orrery::policies
