#include "experiments/systems/experts/nested.hpp"

#include <algorithm>
#include <map>

namespace orrery::experiments::experts {
namespace {

using traces::ExpertId;

/// Tokens that an expert computes with one number of bits.
struct Group {
  ExpertId expert = 0;
  std::uint8_t level = 0;
  std::int64_t tokens = 0;
};

class NestedPlayer {
 public:
  NestedPlayer(const Config& config, const Prices& prices, std::int64_t slots)
      : config_(config),
        prices_(prices),
        bits_(*config.sections.model.bits),
        levels_(bits_.levels.size()),
        layers_(static_cast<std::size_t>(config.expert_layers())),
        order_(config.sections.policies.order.make()),
        counts_(layers_),
        gaps_(config) {
    const std::int64_t experts = config.trace.experts * static_cast<std::int64_t>(layers_);
    for (std::int64_t i = 0; i < experts; ++i)
      for (std::size_t level = 0; level < levels_; ++level)
        sizes_.push_back(static_cast<std::uint8_t>(level_slots(bits_, level)));
    number_requests();
    if (slots > 0) {
      const policies::ExpertCacheSetup setup{.experts = experts * static_cast<std::int64_t>(levels_),
                                             .slots = slots,
                                             .top_k = a_token() * static_cast<std::int64_t>(layers_),
                                             .future = requests_,
                                             .levels = static_cast<std::int64_t>(levels_),
                                             .layer_experts = config.trace.experts * static_cast<std::int64_t>(levels_),
                                             .sizes = sizes_};
      cache_.emplace(config.sections.policies.cache.make(setup), setup);
    }
    layer_dense_ps_ = prices.dense_ps() / config.model.layers;
  }

  RunTotals play() {
    const std::int64_t a_step = config_.step_tokens(), steps = config_.steps();
    const std::int64_t edges = prices_.dense_ps() - layer_dense_ps_ * static_cast<std::int64_t>(layers_) +
                               std::llround(config_.sections.machine.step_gap_s * 1e12);
    std::int64_t begin_ps = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == config_.sections.workload.skip) {
        totals_ = {};
        counts_.assign(layers_, {});
        begin_ps = now_ps_;
      }
      now_ps_ += edges;
      totals_.dense_ps += prices_.dense_ps();
      for (std::size_t l = 0; l < layers_; ++l) play_layer(l, step);
      gaps_.done(step * a_step, a_step, now_ps_, totals_.token_gap);
      ++totals_.steps;
    }
    totals_.time_ps = now_ps_ - begin_ps;
    for (const policies::ExpertCounts& counts : counts_) {
      totals_.counts += counts;
      totals_.layer_hit_rate.push_back(counts.hit_rate());
    }
    return std::move(totals_);
  }

 private:
  /// Levels of a layer that a token asks for, as the cache is told of them.
  std::int64_t a_token() const { return config_.trace.top_k * static_cast<std::int64_t>(levels_); }
  ExpertId number(std::size_t l, ExpertId expert, std::size_t level) const {
    const std::size_t whole = l * static_cast<std::size_t>(config_.trace.experts) + expert;
    return static_cast<ExpertId>(whole * levels_ + level);
  }
  std::size_t lowest(std::size_t level) const { return bits_.nested ? 0 : level; }

  /// What each layer of each step asks for. Every choice has as many entries as there are levels; one that needs fewer
  /// names its first again.
  void number_requests() {
    const std::int64_t a_step = config_.step_tokens(), top_k = config_.trace.top_k;
    for (std::int64_t step = 0; step < config_.steps(); ++step)
      for (std::size_t l = 0; l < layers_; ++l) {
        const std::size_t at = l % config_.trace.layers.size();
        for (std::int64_t i = step * a_step * top_k; i < (step + 1) * a_step * top_k; ++i) {
          const ExpertId expert = config_.trace.layers[at].choices[static_cast<std::size_t>(i)];
          const std::size_t level = config_.levels[at][static_cast<std::size_t>(i)], low = lowest(level);
          for (std::size_t n = 0; n < levels_; ++n)
            requests_.push_back(number(l, expert, n >= low && n <= level ? n : low));
        }
      }
  }

  /// The groups of a layer, by expert as tokens chose them, and of an expert by level.
  void gather(std::size_t l, std::int64_t step) {
    const std::size_t at = l % config_.trace.layers.size();
    const std::int64_t a_step = config_.step_tokens() * config_.trace.top_k;
    groups_.clear();
    std::map<ExpertId, std::size_t> first;  // of an expert, in the order of choices
    std::vector<std::vector<std::int64_t>> tokens;
    std::vector<ExpertId> experts;
    for (std::int64_t i = step * a_step; i < (step + 1) * a_step; ++i) {
      const ExpertId expert = config_.trace.layers[at].choices[static_cast<std::size_t>(i)];
      const auto [found, fresh] = first.try_emplace(expert, experts.size());
      if (fresh) {
        experts.push_back(expert);
        tokens.emplace_back(levels_, 0);
      }
      ++tokens[found->second][config_.levels[at][static_cast<std::size_t>(i)]];
    }
    for (std::size_t e = 0; e < experts.size(); ++e)
      for (std::size_t level = 0; level < levels_; ++level)
        if (tokens[e][level] > 0) groups_.push_back({experts[e], static_cast<std::uint8_t>(level), tokens[e][level]});
  }

  /// Looks all levels up that the layer needs; loads_ are those that are not there.
  void look_up(std::size_t l, std::int64_t step) {
    loads_.clear();
    const std::int64_t a_step = config_.step_tokens() * a_token();
    const std::int64_t from = (step * static_cast<std::int64_t>(layers_) + static_cast<std::int64_t>(l)) * a_step;
    for (const Group& group : groups_) {
      for (std::size_t level = lowest(group.level); level <= group.level; ++level) {
        const auto same = [&](const policies::ExpertLoad& load) {
          return load.expert == group.expert && load.level == level;
        };
        const ExpertId unit = number(l, group.expert, level);
        if (cache_ && cache_->holds(unit)) continue;
        const auto there = std::ranges::find_if(loads_, same);
        const std::int64_t tokens = level == group.level ? group.tokens : 0;
        if (there == loads_.end())
          loads_.push_back({group.expert, static_cast<std::uint8_t>(level), tokens});
        else
          there->tokens += tokens;
      }
    }
    policies::ExpertCounts& counts = counts_[l];
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      // Levels of an expert stand together: its highest one needs all that the others need, unless each is a copy.
      const bool last = i + 1 == groups_.size() || groups_[i + 1].expert != groups_[i].expert;
      counts.requests += !bits_.nested ? 1 : last ? groups_[i].level + 1 : 0;
    }
    counts.misses += static_cast<std::int64_t>(loads_.size());
    if (cache_)
      cache_->look_up(
          {.first = from,
           .experts = std::span(requests_).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(a_step))});
  }

  /// When each load is there, by expert and level.
  void load(std::size_t l) {
    arrives_.clear();
    for (const std::size_t i : order_->order(loads_)) {
      const policies::ExpertLoad& load = loads_[i];
      const Slice& slice = prices_.slice(load.level);
      std::int64_t from = std::max(link_free_ps_, now_ps_);
      if (config_.storage) {
        drive_free_ps_ = std::max(drive_free_ps_, now_ps_) + slice.read_ps;
        totals_.drive_ps += slice.read_ps;
        totals_.copies_j += slice.read_j;
        ++totals_.read;
        from = std::max(from, drive_free_ps_);
      }
      link_free_ps_ = from + slice.copy_ps;
      totals_.link_ps += slice.copy_ps;
      totals_.copies_j += slice.copy_j;
      ++totals_.fetched;
      arrives_[{load.expert, load.level}] = link_free_ps_;
      if (cache_) cache_->load(number(l, load.expert, load.level));
    }
  }

  void play_layer(std::size_t l, std::int64_t step) {
    now_ps_ += layer_dense_ps_;
    gather(l, step);
    look_up(l, step);
    load(l);
    std::vector<std::vector<std::int64_t>> there(levels_);
    std::vector<std::pair<std::int64_t, const Group*>> late;
    for (const Group& group : groups_) {
      std::int64_t ready = 0;
      for (std::size_t level = lowest(group.level); level <= group.level; ++level)
        if (const auto at = arrives_.find({group.expert, static_cast<std::uint8_t>(level)}); at != arrives_.end())
          ready = std::max(ready, at->second);
      if (ready == 0)
        there[group.level].push_back(group.tokens);
      else
        late.emplace_back(ready, &group);
      totals_.flops += prices_.flops(group.level) * static_cast<double>(group.tokens);
      totals_.weight_bytes += static_cast<double>(prices_.weight_bytes(group.level));
      totals_.rows += group.tokens;
      ++totals_.groups;
      ++totals_.on_gpu;
    }
    std::int64_t end = now_ps_, busy = 0;
    if (!config_.sections.policies.as_they_come && !loads_.empty()) end = std::max(end, link_free_ps_);
    const auto compute = [&](std::span<const std::int64_t> rows, std::size_t level, std::int64_t from) {
      const Priced own = prices_.gpu(rows, level);
      end = std::max(end, from) + own.time_ps;
      busy += own.time_ps;
      totals_.products.energy_j += own.energy_j;
    };
    for (std::size_t level = 0; level < levels_; ++level) compute(there[level], level, now_ps_);
    std::ranges::stable_sort(late, {}, [](const auto& entry) { return entry.first; });
    for (const auto& [ready, group] : late) compute(std::span(&group->tokens, 1), group->level, ready);
    totals_.products.time_ps += busy;
    totals_.waited_ps += end - now_ps_ - busy;
    now_ps_ = end;
  }

  const Config& config_;
  const Prices& prices_;
  const BitsParams& bits_;
  std::size_t levels_, layers_;
  std::unique_ptr<policies::ExpertOrder> order_;
  std::vector<std::uint8_t> sizes_;  // of all levels of all experts, in slots
  std::vector<ExpertId> requests_;   // see number_requests()
  std::optional<policies::ExpertResidency> cache_;
  std::vector<policies::ExpertCounts> counts_;  // by layer
  std::vector<Group> groups_;
  std::vector<policies::ExpertLoad> loads_;
  std::map<std::pair<ExpertId, std::uint8_t>, std::int64_t> arrives_;
  std::int64_t layer_dense_ps_ = 0, now_ps_ = 0, link_free_ps_ = 0, drive_free_ps_ = 0;
  TokenGaps gaps_;
  RunTotals totals_;
};

}  // namespace

std::int64_t level_slots(const BitsParams& bits, std::size_t level) {
  const std::int64_t own = hw::bits_64ths(bits.levels[level].weights) / 64;
  return bits.nested && level > 0 ? own - hw::bits_64ths(bits.levels[level - 1].weights) / 64 : own;
}

std::int64_t all_level_slots(const BitsParams& bits) {
  std::int64_t sum = 0;
  for (std::size_t level = 0; level < bits.levels.size(); ++level) sum += level_slots(bits, level);
  return sum;
}

RunTotals play_nested(const Config& config, const Prices& prices, std::int64_t slots) {
  return NestedPlayer(config, prices, slots).play();
}

}  // namespace orrery::experiments::experts
