// The way of a request from its client to a scheduler: HTTP, chat template, tokeniser (`request` of a host profile).
// Requests take it side by side, each as long; those that leave it at one instant are decided upon together.
#pragma once

#include <deque>

#include "experiments/systems/serving/load/request.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

class Cluster;

class FrontDoor final : public sim::EventHandler {
 public:
  FrontDoor(sim::Engine& engine, Cluster& cluster, sim::Duration takes)
      : engine_(engine), cluster_(cluster), takes_(takes) {}
  /// The cluster admits it when it is through.
  void enter(Request& request);
  void on_event(std::uint64_t payload) override;
  /// The run is over: who is still on the way.
  std::deque<Request*> finish();

 private:
  struct Guest {
    Request* request = nullptr;
    sim::Time due;
  };
  sim::Engine& engine_;
  Cluster& cluster_;
  sim::Duration takes_;
  std::deque<Guest> guests_;  // by when they are through
};

}  // namespace orrery::experiments
