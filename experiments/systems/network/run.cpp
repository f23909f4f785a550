#include "experiments/systems/network/run.hpp"

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/live_workload.hpp"

namespace orrery::experiments::network {
namespace {

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
  EndOfRun end;
  if (config.run.until_s) engine.schedule_at(sim::Time{0} + engine.scale().duration(*config.run.until_s), end);
  LiveWorkload workload(config, engine, network, result, observer, progress);
  LiveRun& run = workload.run();
  workload.start();
  while (!run.all_done() && !end.reached && engine.step()) {
  }
  result.cut_off = end.reached && !run.all_done();
  result.stalled = !run.all_done() && engine.pending() == 0;
  workload.finish();
  return result;
}

}  // namespace orrery::experiments::network
