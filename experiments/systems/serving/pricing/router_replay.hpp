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
// rows alike. Left out: that what a trace's text says is not what the request says, samples of one request that part
// ways (they stay side by side), placements that change during the run.
#pragma once

#include <cstdint>
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
  void add(const RoutedTotals& other) {
    layers += other.layers;
    experts += other.experts;
    most_rows += other.most_rows;
    mean_rows += other.mean_rows;
  }
};

class RouterReplay {
 public:
  /// `placement`: of each layer of the trace, over `ranks`. `groups` of the ranks attend for requests of their own.
  RouterReplay(std::shared_ptr<const traces::RouterTrace> trace, const std::vector<policies::LayerPlacement>& placement,
               std::int64_t ranks, std::int64_t groups);

  std::size_t layers() const { return layers_.size(); }
  /// The layer of the trace that stands for the model's n-th with experts.
  std::size_t layer_of(std::size_t expert_layer) const { return expert_layer % layers(); }

  /// Tokens [first, last) of the trace, so many times.
  struct Stretch {
    std::int64_t first = 0, last = 0, times = 1;
  };
  /// The tokens that stand for these, of all groups.
  void find(std::span<const TokenRun> runs, std::vector<Stretch>& out) const;
  /// Rows of each slot of a layer of the trace. O(tokens top_k + slots).
  void count(std::size_t layer, std::span<const Stretch> stretches, std::vector<std::int64_t>& rows) const;
  /// What a rank's experts get of rows that were counted.
  models::RoutedRows of_rank(std::size_t layer, std::size_t rank, std::span<const std::int64_t> rows) const;
  /// Ranks that may be the slowest: that with most rows, and that with most experts to read (of equals the first); one
  /// where they are the same.
  std::vector<std::size_t> busiest(std::size_t layer, std::span<const std::int64_t> rows) const;
  /// What ranks get in all, and the fullest.
  struct Sums {
    std::int64_t rows = 0, experts = 0;  ///< experts with rows, replicas apart
    std::int64_t most_rows = 0;
  };
  Sums sums(std::size_t layer, std::span<const std::int64_t> rows) const;
  std::int64_t ranks() const { return static_cast<std::int64_t>(ranks_); }
  /// Adds what a layer with these rows comes to, so many times.
  void book(std::size_t layer, std::span<const std::int64_t> rows, std::int64_t times, RoutedTotals& totals) const;

 private:
  struct Layer {
    std::vector<std::size_t> first;               ///< slot of each rank, and their number
    std::vector<std::vector<std::size_t>> slots;  ///< of each expert
    std::vector<std::uint32_t> chosen;            ///< the first slot of the expert of each choice, top_k a token
    bool replicated = false;                      ///< some have several
  };
  std::span<const std::int64_t> own(std::size_t layer, std::size_t rank, std::span<const std::int64_t> rows) const {
    const std::vector<std::size_t>& first = layers_[layer].first;
    return rows.subspan(first[rank], first[rank + 1] - first[rank]);
  }
  /// Where a request's tokens begin in the trace.
  std::int64_t start_of(std::int64_t request) const;

  std::shared_ptr<const traces::RouterTrace> trace_;
  std::vector<Layer> layers_;
  std::size_t ranks_;
  std::int64_t groups_, tokens_;
};

}  // namespace orrery::experiments
