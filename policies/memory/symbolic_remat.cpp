// BladeDISC++'s rematerialisation, decided half before sizes are known and half after.
//
// Compile time, once for all sizes: for every tensor the longest stretch in which nobody reads it, and the ops that
// make it again at the end of the stretch from what is live there anyway (parameters, tensors read later). The tensor
// is a candidate if these ops need no more memory on their way than it frees, by proof: bytes(tensor) -
// bytes(ingredients)
// >= 0 for all sizes that the graph's facts allow.
// Run time, for given sizes: before each op, if live bytes and the op's own exceed the limit, candidates are dropped by
//   benefit / cost = bytes freed * ops until it is read / time to make it again
// until they fit; only what was dropped is made again. List the pass under `per_size` to run the second half at every
// request's sizes; the first gives the same candidates each time.
// Source: BladeDISC++ (card 15 of training systems). Left out: offloading to the host in place of recomputing.
// `proof` off leaves out the first half: all tensors are candidates, as to a planner that sees each size by itself.
#include <algorithm>

#include "policies/memory/remat_pass.hpp"

namespace orrery::policies {
namespace {

using models::index;
using models::OpId;

struct SymbolicRematParams {
  std::optional<std::int64_t> budget;
  double reserve = 0;
  std::int64_t max_depth = 10;
  bool proof = true;

  static constexpr auto fields() {
    using P = SymbolicRematParams;
    return sim::FieldTable{sim::field("budget", &P::budget, sim::Unit::bytes, sim::at_least(0),
                                      "Memory for weights, activations and all else; null: that of the device."),
                           sim::field("reserve", &P::reserve, sim::Unit::ratio, sim::between(0, 1),
                                      "Share of the memory left for activations that is kept free for fragmentation."),
                           sim::field("max_depth", &P::max_depth, sim::Unit::count, sim::between(1, 64),
                                      "Longest chain of ops that may recompute a tensor."),
                           sim::field("proof", &P::proof,
                                      "Whether only tensors that provably pay at all sizes are dropped; if not, any "
                                      "tensor may be, judged at its actual size.")};
  }
};

/// The compile-time half.
class Candidates {
 public:
  Candidates(const models::Storages& storages, std::int64_t max_depth) : storages_(storages), max_depth_(max_depth) {}

  std::vector<bool> find() {
    std::vector<bool> allowed(storages_.all().size(), false);
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = is_candidate(i);
    return allowed;
  }

 private:
  bool is_candidate(std::size_t i) {
    const models::Storage& storage = storages_.all()[i];
    if (!storage.maker || storage.kept || storage.uses.empty()) return false;
    std::size_t last = index(*storage.maker), longest = 0, end = 0;
    for (const OpId use : storage.uses) {
      if (index(use) - last > longest) {
        longest = index(use) - last;
        end = index(use);
      }
      last = index(use);
    }
    if (longest < 2) return false;  // read at once: dropping it frees nothing
    ingredients_.clear();
    if (!gather(i, end, 1)) return false;
    models::SymExpr needed;
    for (const std::size_t ingredient : ingredients_) needed += storages_.bytes(ingredient);
    const models::Order order = models::compare(needed, storages_.bytes(i), storages_.graph().facts);
    return order == models::Order::less || order == models::Order::less_equal || order == models::Order::equal;
  }

  /// Collects what must be made again on the way to storage `i` because it is gone at step `end`.
  bool gather(std::size_t i, std::size_t end, std::int64_t depth) {
    const OpId maker = *storages_.all()[i].maker;
    if (depth > max_depth_ || !repeatable(storages_.graph().op(maker))) return false;
    for (const std::size_t read : storages_.read_by(maker)) {
      const models::Storage& operand = storages_.all()[read];
      if (!operand.maker || operand.kept || (!operand.uses.empty() && index(operand.uses.back()) >= end)) continue;
      if (std::find(ingredients_.begin(), ingredients_.end(), read) != ingredients_.end()) continue;
      ingredients_.push_back(read);
      if (!gather(read, end, depth + 1)) return false;
    }
    return true;
  }

  const models::Storages& storages_;
  std::int64_t max_depth_;
  std::vector<std::size_t> ingredients_;
};

class SymbolicRemat final : public GraphPass {
 public:
  explicit SymbolicRemat(const SymbolicRematParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const models::Storages storages(graph);
    std::vector<bool> allowed(storages.all().size(), true);
    if (params_.proof) allowed = Candidates(storages, params_.max_depth).find();
    report.tell("candidates", static_cast<double>(std::count(allowed.begin(), allowed.end(), true)));
    const auto score = [&](const Droppable& tensor) {
      if (tensor.depth > params_.max_depth) return 0.0;
      return static_cast<double>(tensor.bytes) * static_cast<double>(tensor.steps_away) /
             std::max(tensor.regenerate_s, 1e-9);
    };
    return rematerialised(graph, context, params_.budget, params_.reserve, allowed, score, report);
  }

 private:
  SymbolicRematParams params_;
};

}  // namespace

void add_symbolic_remat(PassRegistry& registry) {
  registry.add<SymbolicRematParams>(
      "symbolic_remat",
      "Drops tensors where memory runs out at run time, if recomputing them provably pays (BladeDISC++).",
      [](const SymbolicRematParams& params) { return std::make_unique<SymbolicRemat>(params); });
}

}  // namespace orrery::policies
