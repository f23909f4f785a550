#include "experiments/systems/serving/replica/books.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/expert_memory.hpp"
#include "experiments/systems/serving/replica/rebalancer.hpp"

namespace orrery::experiments {

using policies::Item;
using policies::Phase;
using policies::SeqId;

Books::Books(const ReplicaParts& parts)
    : metrics_(*parts.metrics),
      observer_(parts.observer),
      model_(*parts.model),
      replay_(parts.experts.replay),
      experts_(parts.experts.memory.get()),
      rebalancer_(parts.experts.rebalancer.get()),
      lane_(parts.lane),
      index_(parts.index),
      stream_(parts.stream),
      layers_(parts.limits.layers),
      ledger_(parts.model->ledger()),
      watched_(parts.observer != nullptr && parts.observer->wants_steps()) {}

void Books::iterations(const BatchShape& shape, std::int64_t steps) {
  ledger_->book(shape, steps);
  metrics_.iterations += steps;
  counts_.iterations += steps;
  if (replay_ != nullptr) book_choices(shape, steps);
  if (experts_ != nullptr) {
    ledger_->book_cost(experts_->beside());
    counts_.experts.book(experts_->totals(), experts_->beside().time_ps);
  }
  if (rebalancer_ != nullptr) rebalancer_->ran(static_cast<std::size_t>(lane_), shape, steps);
  for (const Segment& segment : shape.segments) {
    if (segment.last != layers_) continue;
    metrics_.processed_tokens += steps * segment.tokens;
    counts_.processed_tokens += steps * segment.tokens;
  }
}

/// Of an iteration one layer of the trace, each in its turn: as good for a mean as all of them.
void Books::book_choices(const BatchShape& shape, std::int64_t steps) {
  const auto layer = static_cast<std::size_t>(counts_.iterations) % replay_->layers();
  for (const Segment& segment : shape.segments) {
    replay_->find(segment.runs, stretches_);
    const RouterReplay::Place place{segment.placement, layer};
    replay_->count(place, stretches_, rows_);
    replay_->book(place, rows_, steps * (segment.last - segment.first), counts_.routed);
  }
}

void Books::busy(std::int64_t ps) {
  counts_.busy_ps += ps;
  metrics_.busy_ps += ps;
}

void Books::cut(const BatchShape& shape, std::int64_t elapsed, std::int64_t length) {
  IterationCost cost;
  model_.cost(shape, cost);
  if (experts_ != nullptr) cost.add(experts_->beside());
  ledger_->book_cost(share(cost, elapsed, length));
}

void Books::kv_used(std::int64_t bytes) {
  counts_.kv_peak_bytes = std::max(counts_.kv_peak_bytes, bytes);
  metrics_.kv_peak_bytes = std::max(metrics_.kv_peak_bytes, counts_.kv_peak_bytes);
}

void Books::tell(const Request& request, RequestPhase phase, sim::Time at) {
  observer_->request_step({request.id, at, phase, index_, stream_});
}

void Books::tell_chunks(const policies::BatchDecision& decision, const SequenceTable& sequences) {
  chunks_.clear();
  SeqId previous{~0U};
  for (const Item& item : decision.items) {
    if (sequences[item.seq].phase != Phase::prefill || item.seq == previous) continue;
    previous = item.seq;
    chunks_.push_back({sequences.request(item.seq).id, item.new_tokens});
  }
  observer_->chunks_planned(stream_, chunks_);
}

void Books::tell_iterations(IterationRun& run) {
  run.replica = index_;
  run.stream = stream_;
  run.stages = stage_times_;
  observer_->iterations_ended(run);
}

}  // namespace orrery::experiments
