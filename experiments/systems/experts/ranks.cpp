#include "experiments/systems/experts/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "hw/network/expert_exchange.hpp"
#include "hw/network/node_collective.hpp"
#include "traces/router/profile.hpp"

namespace orrery::experiments::experts {
namespace {

using traces::ExpertId;

/// The slots of a layer's experts, and whose turn it is.
struct Replicas {
  std::vector<std::vector<std::int32_t>> slots;  ///< by expert
  std::vector<std::size_t> turn;                 ///< by expert
};

class RankPlayer {
 public:
  RankPlayer(const Config& config, const Prices& prices)
      : config_(config),
        prices_(prices),
        ranks_(static_cast<std::size_t>(config.sections.machine.ranks)),
        home_(config.sections.policies.exchange.rows == RowSource::home),
        parts_(config.sections.policies.exchange.in_turns ? 2 : 1),
        layers_(static_cast<std::size_t>(config.expert_layers())) {
    const MachineParams& m = config.sections.machine;
    fabric_.devices = m.node.devices;
    fabric_.nics = m.node.nics;
    if (config.nic) fabric_.nic = &*config.nic;
    group_ = hw::rank_group(fabric_, m.ranks, m.devices);
    // The GPUs of a rank share its rows.
    row_bytes_ = static_cast<double>(config.model.hidden_size * hw::bytes_of(config.formats.dtype)) /
                 static_cast<double>(m.devices);
    if (parts_ > 1) {
      const double layers = static_cast<double>(config.model.layers) * 1e12;
      behind_s_ = static_cast<double>(prices.behind_ps()) / layers;
      before_s_ = static_cast<double>(prices.dense_ps()) / layers - behind_s_;
      // DeepEP's normal kernels compute; those for few tokens leave all cores to others.
      if (config.sections.policies.exchange.once == RowSends::node)
        cores_share_ = std::min(0.9, hw::kExchangeCores / static_cast<double>(config.gpu->cores));
    }
    dense_layers_ = config.model.layers - config.expert_layers();
    const hw::DType dispatch = config.sections.policies.exchange.dispatch.value_or(config.formats.dtype);
    dispatch_share_ =
        static_cast<double>(hw::bytes_of(dispatch)) / static_cast<double>(hw::bytes_of(config.formats.dtype));
    for (const policies::LayerPlacement& placed : config.placement) {
      Replicas of{std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(config.trace.experts)),
                  std::vector<std::size_t>(static_cast<std::size_t>(config.trace.experts), 0)};
      for (std::size_t slot = 0; slot < placed.expert.size(); ++slot)
        of.slots[static_cast<std::size_t>(placed.expert[slot])].push_back(static_cast<std::int32_t>(slot));
      replicas_.push_back(std::move(of));
    }
  }

  RankTotals play() {
    const std::int64_t a_step = config_.step_tokens(), steps = config_.steps();
    const std::int64_t gap = std::llround(config_.sections.machine.step_gap_s * 1e12);
    for (std::int64_t step = config_.sections.workload.skip; step < steps; ++step) {
      source_.clear();
      for (std::size_t l = 0; l < layers_; ++l) play_layer(l % config_.trace.layers.size(), step * a_step, a_step);
      totals_.dense_ps += prices_.dense_ps() * parts_ + gap;
      // In turns the layers hold their share of the dense part.
      totals_.time_ps +=
          gap + (parts_ > 1 ? prices_.dense_ps() * parts_ * dense_layers_ / config_.model.layers : prices_.dense_ps());
      ++totals_.steps;
    }
    const double played = static_cast<double>(totals_.steps) * static_cast<double>(layers_);
    if (played > 0) totals_.imbalance /= played;
    return std::move(totals_);
  }

 private:
  /// A layer's slowest experts, and the ways of its rows, s; of one of several parts.
  struct Layer {
    double experts_s = 0, dispatch_s = 0, combine_s = 0;
  };

  void play_layer(std::size_t l, std::int64_t first, std::int64_t count) {
    std::vector<Layer> parts;
    std::vector<double> loads(ranks_, 0);
    went_.resize(config_.trace.choices(l, first, first + count).size());
    for (std::int64_t part = 0; part < parts_; ++part) parts.push_back(play_part(l, first, count, part, loads));
    if (!home_) source_ = went_;
    std::int64_t experts = 0, exchange = 0;
    double turns = 0;
    for (const Layer& part : parts) {
      experts += std::llround(part.experts_s * 1e12);
      exchange += std::llround((part.dispatch_s + part.combine_s) * 1e12);
      turns = std::max(turns, hw::layer_in_turns({.attention_s = before_s_,
                                                  .experts_s = part.experts_s + behind_s_,
                                                  .dispatch_s = part.dispatch_s,
                                                  .combine_s = part.combine_s,
                                                  .cores_share = cores_share_}));
    }
    totals_.experts_ps += experts;
    totals_.exchange_ps += exchange;
    totals_.time_ps += parts_ > 1 ? std::llround(turns * 1e12) : experts + exchange;
    totals_.layer_experts.add(experts);
    totals_.layer_exchange.add(exchange);
    totals_.imbalance += traces::imbalance(loads);
  }

  /// Rows of the tokens of a part, which every other token belongs to where there are two.
  Layer play_part(std::size_t l, std::int64_t first, std::int64_t count, std::int64_t part,
                  std::vector<double>& loads) {
    const policies::LayerPlacement& placed = config_.placement[l];
    const std::span<const ExpertId> chosen = config_.trace.choices(l, first, first + count);
    const auto top_k = static_cast<std::size_t>(config_.trace.top_k);
    const auto texts = static_cast<std::size_t>(config_.sections.workload.batch);
    bytes_.assign(ranks_ * ranks_, 0);
    rows_.assign(placed.expert.size(), 0);
    Replicas& of = replicas_[l];
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      // Texts of a step are side by side, as many on each rank.
      const std::size_t text = i / top_k % texts, position = i / top_k / texts;
      if (static_cast<std::int64_t>((text + position) % static_cast<std::size_t>(parts_)) != part) continue;
      const std::vector<std::int32_t>& slots = of.slots[chosen[i]];
      const auto slot = static_cast<std::size_t>(slots[of.turn[chosen[i]]++ % slots.size()]);
      const auto to = static_cast<std::size_t>(placed.gpu[slot]);
      ++rows_[slot];
      if (i % top_k == 0) seen_.clear();
      send(home_ || source_.empty() ? text * ranks_ / texts : source_[i], to);
      went_[i] = to;
    }
    return price(placed, loads);
  }

  /// A row of a token to the rank of one of its experts, unless it is there already.
  void send(std::size_t from, std::size_t to) {
    const RowSends once = config_.sections.policies.exchange.once;
    if (once != RowSends::expert) {
      if (std::ranges::find(seen_, to) != seen_.end()) return;
      seen_.push_back(to);
    }
    const auto inside = static_cast<std::size_t>(group_.in_node);
    if (once != RowSends::node || from / inside == to / inside) {
      bytes_[from * ranks_ + to] += row_bytes_;
      return;
    }
    const std::size_t node = to / inside, relay = node * inside + from % inside;
    const bool there = std::ranges::any_of(seen_, [&](std::size_t r) { return r != to && r / inside == node; });
    if (!there) bytes_[from * ranks_ + relay] += row_bytes_;
    bytes_[relay * ranks_ + to] += row_bytes_;
  }

  double exchange_s() {
    const hw::GroupCost cost = hw::uneven_exchange(fabric_, group_, bytes_);
    // A member's, on the mean; each rank has as many members as GPUs.
    totals_.exchange_j +=
        cost.energy_j * static_cast<double>(ranks_) * static_cast<double>(config_.sections.machine.devices);
    return cost.time_s;
  }

  /// What was sent and is to be computed takes so long; `loads` receives the ranks' rows.
  Layer price(const policies::LayerPlacement& placed, std::vector<double>& loads) {
    std::vector<std::int64_t> mine;
    std::int64_t slowest = 0;
    for (std::size_t slot = 0; slot < rows_.size();) {  // a rank's slots stand together
      const std::int64_t rank = placed.gpu[slot];
      for (mine.clear(); slot < rows_.size() && placed.gpu[slot] == rank; ++slot) {
        if (rows_[slot] > 0) mine.push_back(rows_[slot]);
        loads[static_cast<std::size_t>(rank)] += static_cast<double>(rows_[slot]);
      }
      const Priced own = prices_.gpu(mine);
      slowest = std::max(slowest, own.time_ps);
      totals_.experts_j += own.energy_j;
    }
    Layer out{.experts_s = static_cast<double>(slowest) * 1e-12};
    // The way back is the way there turned round: of equal rows it takes as long.
    if (home_) out.combine_s = exchange_s();
    for (double& bytes : bytes_) bytes *= dispatch_share_;
    out.dispatch_s = exchange_s();
    return out;
  }

  const Config& config_;
  const Prices& prices_;
  std::size_t ranks_;
  bool home_;
  std::int64_t parts_, dense_layers_ = 0;
  std::size_t layers_;
  hw::NodeFabric fabric_{config_.gpu->link};
  hw::RankGroup group_;
  double row_bytes_ = 0, dispatch_share_ = 1;             // of results; what rows on their way to experts have of them
  double before_s_ = 0, behind_s_ = 0, cores_share_ = 0;  // of half a layer: before the dispatch, behind it
  std::vector<Replicas> replicas_;                        // by layer of the trace
  std::vector<double> bytes_;                             // from rank to rank
  std::vector<std::int64_t> rows_;                        // by slot
  std::vector<std::size_t> source_, went_;  // by choice: the rank where it was in the layer before; where it is
  std::vector<std::size_t> seen_;           // ranks that the present token has been sent to
  RankTotals totals_;
};

}  // namespace

RankTotals play_ranks(const Config& config, const Prices& prices) {
  return RankPlayer(config, prices).play();
}

std::int64_t most_slots(const Config& config) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(config.sections.machine.ranks), 0);
  const auto layers = static_cast<std::size_t>(config.expert_layers());
  for (std::size_t l = 0; l < layers; ++l)
    for (const std::int64_t gpu : config.placement[l % config.placement.size()].gpu)
      ++held[static_cast<std::size_t>(gpu)];
  return std::ranges::max(held);
}

}  // namespace orrery::experiments::experts
