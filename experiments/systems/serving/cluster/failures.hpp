// Has replicas fail and come back (Outages says when), as long as anybody is there to notice.
#pragma once

#include <optional>
#include <vector>

#include "experiments/systems/serving/cluster/fleet.hpp"
#include "experiments/systems/serving/cluster/outages.hpp"

namespace orrery::experiments {

class Cluster;

class Failures final : public sim::EventHandler {
 public:
  Failures(sim::Engine& engine, Cluster& cluster, const Fleet& fleet, Outages outages)
      : engine_(engine), cluster_(cluster), fleet_(fleet), outages_(std::move(outages)), of_(fleet.size()) {}

  /// Somebody is here again: failures matter. Those of the time in between changed nothing but who is up now.
  void watch();
  /// Nobody is here: a run is to end, not to go from failure to failure.
  void unwatch();
  /// Replica `i` fails or comes back.
  void on_event(std::uint64_t i) override;

 private:
  struct Of {
    std::optional<Outage> outage;        // the next one, or that under way
    std::optional<sim::EventId> change;  // its begin or end
  };
  void plan(std::size_t i);

  sim::Engine& engine_;
  Cluster& cluster_;
  const Fleet& fleet_;
  Outages outages_;
  std::vector<Of> of_;
};

}  // namespace orrery::experiments
