#include "experiments/systems/network/live_workload.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::experiments::network {

void LinkChanges::on_event(std::uint64_t) {
  run_.loads_change();
  for (; next_ < events_.size() && run_.at(events_[next_].at_s) == run_.engine().now(); ++next_)
    run_.network().set_link(events_[next_].link, events_[next_].share);
  schedule_next();
}

void LinkChanges::schedule_next() {
  if (next_ < events_.size()) run_.engine().schedule_at(run_.at(events_[next_].at_s), *this);
}

LiveWorkload::LiveWorkload(const NetworkConfig& config, sim::Engine& engine, hw::Network& network,
                           NetworkResult& result, RunObserver* observer,
                           const std::function<void(const Progress&)>& progress)
    : config_(config),
      result_(result),
      run_(engine, network, result, observer, progress),
      changes_(config.events, run_),
      flows_(config, run_) {
  result.jobs.resize(config.jobs.size());
  changes_.start();
  // By name: whoever lists the jobs in another order gets the same times.
  std::vector<std::size_t> order(config.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return config.jobs[a].params.name < config.jobs[b].params.name; });
  for (const std::size_t i : order) jobs_.push_back(std::make_unique<JobRunner>(config.jobs[i], i, run_));
}

void LiveWorkload::start() {
  for (const auto& job : jobs_) job->start();
  flows_.start();
}

void LiveWorkload::finish() {
  for (const auto& job : jobs_) job->flush();
  flows_.flush();
  const hw::Network& network = run_.network();
  result_.end = run_.engine().now();
  result_.closed = config_.jobs.size() == 1 && config_.jobs.front().closed_s;
  if (!result_.closed) result_.carried_bytes = network.flows().carried();
  result_.rerouted = network.rerouted();
  result_.without_path = network.without_path();
  result_.effort = network.flows().effort();
  result_.events = run_.engine().events();
}

}  // namespace orrery::experiments::network
