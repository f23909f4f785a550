// The workload of a network config while it goes on: jobs, flows, traffic and links that change, on an engine and a
// network that others may use too.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "experiments/systems/network/flow_runner.hpp"
#include "experiments/systems/network/job_runner.hpp"

namespace orrery::experiments::network {

/// Links that change while the run goes on.
class LinkChanges final : private sim::EventHandler {
 public:
  LinkChanges(const std::vector<LinkEvent>& events, LiveRun& run) : events_(events), run_(run) {}
  void start() { schedule_next(); }

 private:
  void on_event(std::uint64_t) override;
  void schedule_next();

  const std::vector<LinkEvent>& events_;
  LiveRun& run_;
  std::size_t next_ = 0;
};

class LiveWorkload {
 public:
  /// All must outlive it; `observer` may be null, `progress` empty. Changes of links are scheduled at once.
  LiveWorkload(const NetworkConfig& config, sim::Engine& engine, hw::Network& network, NetworkResult& result,
               RunObserver* observer, const std::function<void(const Progress&)>& progress);
  /// Schedules the first messages.
  void start();
  /// At the end of the run: what did not finish, and what the network carried.
  void finish();
  LiveRun& run() { return run_; }

 private:
  const NetworkConfig& config_;
  NetworkResult& result_;
  LiveRun run_;
  LinkChanges changes_;
  std::vector<std::unique_ptr<JobRunner>> jobs_;
  FlowRunner flows_;
};

}  // namespace orrery::experiments::network
