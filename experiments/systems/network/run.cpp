#include "experiments/systems/network/run.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/flow_runner.hpp"
#include "experiments/systems/network/job_runner.hpp"

namespace orrery::experiments::network {
namespace {

/// Links that change while the run goes on.
class LinkChanges final : private sim::EventHandler {
 public:
  LinkChanges(const std::vector<LinkEvent>& events, LiveRun& run) : events_(events), run_(run) {}
  void start() { schedule_next(); }

 private:
  void on_event(std::uint64_t) override {
    run_.loads_change();
    for (; next_ < events_.size() && run_.at(events_[next_].at_s) == run_.engine().now(); ++next_)
      run_.network().set_link(events_[next_].link, events_[next_].share);
    schedule_next();
  }
  void schedule_next() {
    if (next_ < events_.size()) run_.engine().schedule_at(run_.at(events_[next_].at_s), *this);
  }

  const std::vector<LinkEvent>& events_;
  LiveRun& run_;
  std::size_t next_ = 0;
};

/// Notes that the end of the run has come.
class EndOfRun final : public sim::EventHandler {
 public:
  void on_event(std::uint64_t) override { reached = true; }
  bool reached = false;
};

}  // namespace

NetworkResult run_network(const NetworkConfig& config, RunObserver* observer,
                          const std::function<void(const Progress&)>& progress, std::int64_t replication) {
  sim::Engine engine(static_cast<std::uint64_t>(config.run.seed + replication), tick_scale(config.run.tick_s));
  hw::Network network(engine, *config.topology, config.routing.make(*config.topology), config.network);
  NetworkResult result;
  result.jobs.resize(config.jobs.size());
  LiveRun run(engine, network, result, observer, progress);
  EndOfRun end;
  if (config.run.until_s) engine.schedule_at(run.at(*config.run.until_s), end);
  LinkChanges changes(config.events, run);
  changes.start();
  // By name: whoever lists the jobs in another order gets the same times.
  std::vector<std::size_t> order(config.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return config.jobs[a].params.name < config.jobs[b].params.name; });
  std::vector<std::unique_ptr<JobRunner>> jobs;
  for (const std::size_t i : order) jobs.push_back(std::make_unique<JobRunner>(config.jobs[i], i, run));
  FlowRunner flows(config, run);
  for (const auto& job : jobs) job->start();
  flows.start();
  while (!run.all_done() && !end.reached && engine.step()) {
  }
  result.cut_off = end.reached && !run.all_done();
  result.stalled = !run.all_done() && engine.pending() == 0;
  for (const auto& job : jobs) job->flush();
  flows.flush();
  result.end = engine.now();
  result.closed = config.jobs.size() == 1 && config.jobs.front().closed_s;
  if (!result.closed) result.carried_bytes = network.flows().carried();
  result.rerouted = network.rerouted();
  result.without_path = network.without_path();
  result.effort = network.flows().effort();
  result.events = engine.events();
  return result;
}

}  // namespace orrery::experiments::network
