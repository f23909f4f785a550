// What the parts of one simulation share: the clock, the network, who watches, and how much work is left.
#pragma once

#include <functional>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/network/metrics.hpp"
#include "hw/network/message_carrier.hpp"
#include "hw/network/network.hpp"

namespace orrery::experiments::network {

/// The network as its users see it: messages go through, and whoever watches is told before they change loads.
class LiveRun final : public hw::MessageCarrier {
 public:
  LiveRun(sim::Engine& engine, hw::Network& network, NetworkResult& result, RunObserver* observer,
          const std::function<void(const Progress&)>& progress)
      : engine_(engine), network_(network), result_(result), observer_(observer), progress_(progress) {}

  void send(hw::NodeIndex from, hw::NodeIndex to, std::int64_t bytes, std::uint64_t label,
            sim::EventHandler& on_arrival, std::uint64_t payload) override {
    loads_change();
    if ((++messages_ & 0xfffU) == 0 && progress_)
      progress_({messages_, std::nullopt, engine_.scale().seconds(engine_.now()), "messages"});
    network_.send(from, to, bytes, label, on_arrival, payload);
  }

  /// To be called before anything changes the load of a link.
  void loads_change() {
    if (observer_ == nullptr || told_ == engine_.now()) return;
    told_ = engine_.now();
    observer_->loads_change(network_.flows());
  }

  sim::Engine& engine() { return engine_; }
  hw::Network& network() { return network_; }
  NetworkResult& result() { return result_; }
  RunObserver* observer() { return observer_; }
  std::int64_t messages() const { return messages_; }
  /// The tick of a time in seconds from the start of the run.
  sim::Time at(double seconds) const { return sim::Time{0} + engine_.scale().duration(seconds); }

  void add_work(std::int64_t pieces) { left_ += pieces; }
  void work_done() { --left_; }
  bool all_done() const { return left_ == 0; }
  void started(sim::Time time) { result_.first_start = std::min(result_.first_start.value_or(time), time); }
  void ended(sim::Time time) { result_.last_end = std::max(result_.last_end.value_or(time), time); }

 private:
  sim::Engine& engine_;
  hw::Network& network_;
  NetworkResult& result_;
  RunObserver* observer_;
  const std::function<void(const Progress&)>& progress_;
  std::int64_t messages_ = 0;
  std::int64_t left_ = 0;
  sim::Time told_{-1};
};

}  // namespace orrery::experiments::network
