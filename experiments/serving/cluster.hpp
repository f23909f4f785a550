// The replicas of a serving system and the way of a request through them.
//
// A load sends requests; the cluster hands each to a replica, books it when it is over and tells the load.
#pragma once

#include <memory>
#include <vector>

#include "experiments/serving/load.hpp"
#include "experiments/serving/replica.hpp"

namespace orrery::experiments {

class Cluster final : public RequestSink, public RequestPort {
 public:
  /// `observer` may be null.
  Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load)
      : engine_(engine), metrics_(metrics), observer_(observer), load_(load) {}

  /// Adds a replica; `parts` lacks what the cluster itself provides (engine, metrics, sink, observer, index).
  void add(ReplicaParts parts);
  void start() { load_.start(engine_, *this); }
  /// The run was cut short, or is over: whatever is still here is unfinished. Sums costs into the metrics.
  void finish();

  Request& make_request() override;
  void send(Request& request) override;
  void flush() override;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;

  const Replica& replica(std::size_t i) const { return *replicas_[i]; }
  std::size_t size() const { return replicas_.size(); }

 private:
  sim::Engine& engine_;
  ServingMetrics& metrics_;
  RunObserver* observer_;
  Load& load_;
  RequestPool pool_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::size_t> touched_;  // replicas that got requests since the last flush
  std::int64_t next_id_ = 0;
};

}  // namespace orrery::experiments
