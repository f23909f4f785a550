// The way of a request from its client to the cluster: HTTP, chat template, tokeniser (`request` of a host profile).
// Requests take it side by side, each as long; those that leave it at one instant are decided upon together.
#pragma once

#include <deque>

#include "experiments/systems/serving/load/load.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

class FrontDoor final : public RequestPort, public sim::EventHandler {
 public:
  FrontDoor(sim::Engine& engine, RequestPort& cluster, sim::Duration takes)
      : engine_(engine), cluster_(cluster), takes_(takes) {}
  Request& make_request() override { return cluster_.make_request(); }
  void send(Request& request) override;
  void flush() override {}  // what leaves the door is decided upon when it does
  void after_decisions() override { cluster_.after_decisions(); }
  void on_event(std::uint64_t payload) override;
  bool empty() const { return guests_.empty(); }
  /// The run is over: who is still on the way arrives now, to be counted.
  void finish();

 private:
  struct Guest {
    Request* request = nullptr;
    sim::Time due;
  };
  void let_in();

  sim::Engine& engine_;
  RequestPort& cluster_;
  sim::Duration takes_;
  std::deque<Guest> guests_;  // by when they are through
};

}  // namespace orrery::experiments
