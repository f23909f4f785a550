#include "experiments/systems/experts/draws.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include "sim/base/random.hpp"

namespace orrery::experiments::experts {
namespace {

policies::ExpertPath path_of(const traces::RouterTrace& trace, std::int64_t token) {
  const std::size_t words = (trace.layers.size() * static_cast<std::size_t>(trace.experts) + 63) / 64;
  policies::ExpertPath path(words, 0);
  for (std::size_t l = 0; l < trace.layers.size(); ++l)
    for (const traces::ExpertId e : trace.choices(l, token, token + 1)) {
      const std::size_t bit = l * static_cast<std::size_t>(trace.experts) + e;
      path[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
  return path;
}

/// The tokens that wait, of texts side by side.
class Waiting {
 public:
  Waiting(const traces::RouterTrace& trace, std::int64_t texts, std::int64_t chunk)
      : trace_(trace), chunk_(chunk), next_(static_cast<std::size_t>(texts), 0), left_(next_.size(), 0) {
    for (std::size_t text = 0; text < next_.size(); ++text) come(text);
  }

  std::size_t size() const { return tokens_.size(); }
  std::int64_t text_of(std::int64_t token) const { return token % static_cast<std::int64_t>(next_.size()); }

  policies::TokenGroupView view(std::size_t size, std::uint64_t asked) {
    paths_.clear();
    first_.clear();
    for (const std::int64_t token : tokens_) {
      paths_.push_back(path_of(trace_, token));
      first_.push_back(trace_.choices(0, token, token + 1).front());
    }
    return {.paths = paths_, .first = first_, .size = size, .asked = asked};
  }

  /// Takes these out, in this order; the next tokens of texts that have none left come.
  void take(const std::vector<std::vector<std::size_t>>& groups, std::vector<std::int64_t>& out) {
    std::vector<bool> taken(tokens_.size(), false);
    for (const auto& group : groups)
      for (const std::size_t i : group) {
        out.push_back(tokens_[i]);
        taken[i] = true;
      }
    std::vector<std::int64_t> before = std::exchange(tokens_, {});
    std::vector<std::size_t> done;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!taken[i])
        tokens_.push_back(before[i]);
      else if (const auto text = static_cast<std::size_t>(text_of(before[i])); --left_[text] == 0)
        done.push_back(text);
    }
    for (const std::size_t text : done) come(text);
  }

 private:
  void come(std::size_t text) {
    const auto texts = static_cast<std::int64_t>(next_.size());
    for (std::int64_t i = 0; i < chunk_; ++i) {
      const std::int64_t token = next_[text] * texts + static_cast<std::int64_t>(text);
      if (token >= trace_.tokens()) return;
      tokens_.push_back(token);
      ++next_[text];
      ++left_[text];
    }
  }

  const traces::RouterTrace& trace_;
  std::int64_t chunk_;
  std::vector<std::int64_t> next_;    ///< by text: its tokens that have come
  std::vector<std::int64_t> left_;    ///< by text: of them, that wait
  std::vector<std::int64_t> tokens_;  ///< that wait, who came first first
  std::vector<policies::ExpertPath> paths_;
  std::vector<std::uint16_t> first_;
};

}  // namespace

void regroup(Config& config) {
  const std::unique_ptr<policies::TokenGroups> policy = config.sections.policies.groups.make();
  Waiting waiting(config.trace, config.texts_underway(), config.sections.workload.chunk);
  const auto size = static_cast<std::size_t>(config.step_tokens());
  std::vector<std::int64_t> order;
  for (std::uint64_t asked = 0; waiting.size() >= size; ++asked)
    waiting.take(policy->groups(waiting.view(size, asked)), order);
  config.texts.clear();
  for (const std::int64_t token : order) config.texts.push_back(waiting.text_of(token));
  config.trace = traces::in_order(config.trace, order);
}

std::vector<std::vector<std::uint8_t>> draw_levels(const Config& config) {
  const BitsParams& bits = *config.sections.model.bits;
  const traces::RouterTrace& trace = config.trace;
  std::vector<std::vector<std::uint8_t>> out;
  sim::RandomStream draws(static_cast<std::uint64_t>(bits.seed), "experts/bits");
  /// The level within which a share of all falls, the fewest bits first.
  const auto level_at = [&](double share) {
    std::uint8_t level = 0;
    for (double sum = bits.levels.front().share; share >= sum && level + 1U < bits.levels.size();)
      sum += bits.levels[++level].share;
    return level;
  };
  for (const traces::RouterLayer& layer : trace.layers) {
    std::vector<std::uint8_t> by_expert;
    if (bits.by == BitsBy::expert) {
      by_expert.resize(static_cast<std::size_t>(trace.experts));
      const std::vector<std::uint16_t> often = policies::by_frequency(layer.choices, trace.experts);
      for (std::size_t i = 0; i < often.size(); ++i)
        by_expert[often[often.size() - 1 - i]] =
            level_at((static_cast<double>(i) + 0.5) / static_cast<double>(often.size()));
    }
    std::vector<std::uint8_t>& levels = out.emplace_back();
    for (const traces::ExpertId e : layer.choices)
      levels.push_back(by_expert.empty() ? level_at(draws.uniform()) : by_expert[e]);
  }
  return out;
}

}  // namespace orrery::experiments::experts
