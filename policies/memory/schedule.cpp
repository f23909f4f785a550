#include "policies/memory/schedule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/graph/graph_rewrite.hpp"

namespace orrery::policies {
namespace {

using models::index;
using models::OpId;
using models::Order;
using models::SymExpr;

/// Expressions by number, and what was proven of two of them.
class Impacts {
 public:
  explicit Impacts(const models::Facts& facts) : facts_(facts) {}

  std::size_t number(const SymExpr& expr) {
    const auto [place, fresh] = numbers_.try_emplace(expr, exprs_.size());
    if (fresh) exprs_.push_back(expr);
    return place->second;
  }
  Order compare(std::size_t a, std::size_t b) {
    const auto [place, fresh] = known_.try_emplace({a, b}, Order::unknown);
    if (fresh) place->second = models::compare(exprs_[a], exprs_[b], facts_);
    return place->second;
  }

 private:
  const models::Facts& facts_;
  std::map<SymExpr, std::size_t> numbers_;
  std::vector<SymExpr> exprs_;
  std::map<std::pair<std::size_t, std::size_t>, Order> known_;
};

class Scheduler {
 public:
  Scheduler(const models::Storages& storages, const models::Bindings* bindings)
      : storages_(storages),
        graph_(storages.graph()),
        impacts_(graph_.facts),
        uses_(storages.all().size()),
        born_(storages.all().size(), 0),
        waits_(graph_.op_count(), 0),
        next_(graph_.op_count()),
        impact_(graph_.op_count(), kNotReady) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      uses_[i] = storages.all()[i].uses.size();
      SymExpr bytes = storages.bytes(i);
      bytes_.push_back(bindings == nullptr ? std::move(bytes) : SymExpr(bytes.eval(*bindings)));
    }
    for (const OpId id : graph_.ops()) {
      std::set<OpId> first(storages.before(id).begin(), storages.before(id).end());
      for (const models::TensorId input : graph_.op(id).inputs)
        if (const auto maker = graph_.producer(input)) first.insert(*maker);
      waits_[index(id)] = first.size();
      for (const OpId op : first) next_[index(op)].push_back(id);
    }
  }

  MemoryOrder run() {
    for (const OpId id : graph_.ops())
      if (waits_[index(id)] == 0) enter(id);
    while (!views_.empty() || !ready_.empty()) {
      const OpId id = views_.empty() ? best() : *views_.begin();
      leave(id);
    }
    return std::move(order_);
  }

 private:
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);

  bool is_view(OpId id) const { return models::info(graph_.op(id).kind).pattern == models::Pattern::view; }
  bool frees(std::size_t storage) const {
    return uses_[storage] == 1 && storages_.all()[storage].maker && !storages_.all()[storage].kept;
  }

  void enter(OpId id) {
    if (is_view(id)) {
      views_.insert(id);
      return;
    }
    SymExpr impact;
    for (const std::size_t storage : storages_.made_by(id))
      if (storages_.all()[storage].kept || uses_[storage] > 0) impact += bytes_[storage];
    for (const std::size_t storage : storages_.read_by(id))
      if (frees(storage)) impact -= bytes_[storage];
    impact_[index(id)] = impacts_.number(impact);
    ready_[impact_[index(id)]].insert(id);
  }

  /// When the oldest of what the op frees was made; later than now if it frees nothing.
  std::size_t oldest_freed(OpId id) const {
    std::size_t oldest = order_.ops.size() + 1;
    for (const std::size_t storage : storages_.read_by(id))
      if (frees(storage)) oldest = std::min(oldest, born_[storage]);
    return oldest;
  }

  OpId best() {
    std::optional<std::pair<std::size_t, OpId>> chosen;  // impact and op
    for (const auto& [impact, ops] : ready_) {
      OpId first = *ops.begin();
      for (const OpId id : ops)
        if (oldest_freed(id) < oldest_freed(first)) first = id;
      if (!chosen || goes_before(impact, first, chosen->first, chosen->second)) chosen = {impact, first};
    }
    return chosen->second;
  }

  bool goes_before(std::size_t impact_a, OpId a, std::size_t impact_b, OpId b) {
    const Order order = impacts_.compare(impact_a, impact_b);
    (order == Order::unknown ? order_.unknown : order_.proven) += 1;
    if (order == Order::less || order == Order::less_equal) return true;
    if (order == Order::greater || order == Order::greater_equal) return false;
    return std::pair(oldest_freed(a), a) < std::pair(oldest_freed(b), b);
  }

  void leave(OpId id) {
    if (is_view(id)) {
      views_.erase(id);
    } else {
      const auto group = ready_.find(impact_[index(id)]);
      group->second.erase(id);
      if (group->second.empty()) ready_.erase(group);
      impact_[index(id)] = kNotReady;
    }
    for (const std::size_t storage : storages_.made_by(id)) born_[storage] = order_.ops.size();
    order_.ops.push_back(id);
    for (const std::size_t storage : storages_.read_by(id)) {
      if (--uses_[storage] != 1) continue;
      // The one that is left would free it: its impact is another now.
      for (const OpId reader : storages_.all()[storage].uses)
        if (impact_[index(reader)] != kNotReady) reenter(reader);
    }
    for (const OpId after : next_[index(id)])
      if (--waits_[index(after)] == 0) enter(after);
  }

  void reenter(OpId id) {
    const auto group = ready_.find(impact_[index(id)]);
    group->second.erase(id);
    if (group->second.empty()) ready_.erase(group);
    enter(id);
  }

  const models::Storages& storages_;
  const models::OpGraph& graph_;
  Impacts impacts_;
  std::vector<SymExpr> bytes_;
  std::vector<std::size_t> uses_;  // reads that are left, by storage
  std::vector<std::size_t> born_;  // step at which it was made
  std::vector<std::size_t> waits_;
  std::vector<std::vector<OpId>> next_;
  std::vector<std::size_t> impact_;  // number of a ready op's impact
  std::map<std::size_t, std::set<OpId>> ready_;
  std::set<OpId> views_;
  MemoryOrder order_;
};

}  // namespace

MemoryOrder order_by_memory(const models::Storages& storages, const models::Bindings* bindings) {
  return Scheduler(storages, bindings).run();
}

models::OpGraph reordered(const models::OpGraph& graph, const std::vector<OpId>& ops) {
  models::GraphCopy copy(graph);
  for (const OpId id : ops) copy.copy(id);
  return copy.finish();
}

}  // namespace orrery::policies
