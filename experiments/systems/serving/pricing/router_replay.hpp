// Router choices replayed beside requests: which experts the tokens of an iteration go to, from a router trace.
//
// Token j of a request stands for a token of the trace: request r begins at the place that the golden ratio gives it,
// as far from all others as can be, and its tokens, prompt and answer, follow each other from there, over the ends of
// texts and round the end of the trace. So a trace should have many more tokens than an iteration has requests. Layers
// of the trace stand for those of the model that have experts, the first again after the last. Where ranks attend for
// requests of their own (attention data parallelism), an iteration knows the tokens of one of them; the others are
// taken to have as many, at other places of the trace, evenly apart.
//
// Ranks of expert parallelism have slots, each with an expert, as a placement says; the replicas of an expert share its
// rows alike. Placements may follow each other during a run (replica/rebalancer.hpp): a segment names the one that its
// tokens find. Left out: that what a trace's text says is not what the request says, samples of one request that part
// ways (they stay side by side).
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "models/transformer/router.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments {

/// What layers with experts had to do, summed over layers and iterations.
struct RoutedTotals {
  std::int64_t layers = 0;
  std::int64_t experts = 0;    ///< with at least one row
  std::int64_t most_rows = 0;  ///< of the rank that has most of them
  double mean_rows = 0;        ///< of a rank
  // Of placements during the run (replica/rebalancer.hpp).
  std::int64_t placements = 0, moved_experts = 0, moved_bytes = 0;
  __int128 move_ps = 0;
  void add(const RoutedTotals& other) {
    layers += other.layers;
    experts += other.experts;
    most_rows += other.most_rows;
    mean_rows += other.mean_rows;
    placements += other.placements;
    moved_experts += other.moved_experts;
    moved_bytes += other.moved_bytes;
    move_ps += other.move_ps;
  }
};

class RouterReplay {
 public:
  /// `placement`: the first, of each layer of the trace, over `ranks`. `groups` of the ranks attend for requests of
  /// their own. `walk`: request r begins at token r walk of the trace; 0: where the golden ratio puts it.
  RouterReplay(std::shared_ptr<const traces::RouterTrace> trace, const std::vector<policies::LayerPlacement>& placement,
               std::int64_t ranks, std::int64_t groups, std::int64_t walk = 0);

  const traces::RouterTrace& trace() const { return *trace_; }
  std::size_t layers() const { return trace_->layers.size(); }
  /// One more placement: its number. 0 is the first.
  std::int32_t add(const std::vector<policies::LayerPlacement>& placement);
  /// Drops one, or all but the first; numbers are not given again.
  void drop(std::int32_t placement) { placements_.erase(placement); }
  void forget() { placements_.erase(std::next(placements_.begin()), placements_.end()); }
  /// The layer of the trace that stands for the model's n-th with experts.
  std::size_t layer_of(std::size_t expert_layer) const { return expert_layer % layers(); }

  /// The token of the trace that stands for the one at a place of a request.
  std::int64_t token_of(std::int64_t request, std::int64_t place) const {
    return (start_of(request) + place) % tokens_;
  }
  /// Tokens [first, last) of the trace, so many times.
  struct Stretch {
    std::int64_t first = 0, last = 0, times = 1;
  };
  /// The tokens that stand for these, of all groups.
  void find(std::span<const TokenRun> runs, std::vector<Stretch>& out) const;
  /// A layer of the trace under a placement.
  struct Place {
    std::int32_t placement = 0;
    std::size_t layer = 0;
  };
  /// Rows of each slot. O(tokens top_k + experts + slots).
  void count(Place place, std::span<const Stretch> stretches, std::vector<std::int64_t>& rows) const;
  /// What a rank's experts get of rows that were counted.
  models::RoutedRows of_rank(Place place, std::size_t rank, std::span<const std::int64_t> rows) const;
  /// Ranks that may be the slowest: that with most rows, and that with most experts to read (of equals the first); one
  /// where they are the same.
  std::vector<std::size_t> busiest(Place place, std::span<const std::int64_t> rows) const;
  /// What ranks get in all, and the fullest.
  struct Sums {
    std::int64_t rows = 0, experts = 0;  ///< experts with rows, replicas apart
    std::int64_t most_rows = 0;
  };
  Sums sums(Place place, std::span<const std::int64_t> rows) const;
  std::int64_t ranks() const { return static_cast<std::int64_t>(ranks_); }
  /// Adds what a layer with these rows comes to, so many times.
  void book(Place place, std::span<const std::int64_t> rows, std::int64_t times, RoutedTotals& totals) const;

 private:
  struct Layer {
    std::vector<std::size_t> first;               ///< slot of each rank, and their number
    std::vector<std::vector<std::size_t>> slots;  ///< of each expert
  };
  const Layer& at(Place place) const { return placements_.at(place.placement)[place.layer]; }
  std::span<const std::int64_t> own(Place place, std::size_t rank, std::span<const std::int64_t> rows) const {
    const std::vector<std::size_t>& first = at(place).first;
    return rows.subspan(first[rank], first[rank + 1] - first[rank]);
  }
  /// Where a request's tokens begin in the trace.
  std::int64_t start_of(std::int64_t request) const;

  std::shared_ptr<const traces::RouterTrace> trace_;
  std::map<std::int32_t, std::vector<Layer>> placements_;  // by number, layer by layer of the trace
  std::int32_t next_ = 0;                                  // number
  std::size_t ranks_;
  std::int64_t groups_, tokens_, walk_;
};

}  // namespace orrery::experiments
