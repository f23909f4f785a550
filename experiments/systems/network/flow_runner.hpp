// Single messages in simulated time: those that the config lists, and generated ones in a closed or an open loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/systems/network/live_run.hpp"
#include "experiments/systems/network/traffic.hpp"

namespace orrery::experiments::network {

class FlowRunner final : private sim::EventHandler {
 public:
  /// Config and run must outlive the runner.
  FlowRunner(const NetworkConfig& config, LiveRun& run);
  /// Schedules the first messages.
  void start();
  /// At the end of the run: what did not arrive, and which flows these are.
  void flush();

 private:
  /// Payloads: the kind in the low bits, the slot of what arrives above.
  enum Event : std::uint64_t { kListed, kTraffic, kArrival };
  static constexpr unsigned kKindBits = 2;

  void on_event(std::uint64_t payload) override;
  void start_listed();
  void start_traffic();
  void send_generated();
  void send(std::int64_t id, hw::NodeIndex from, hw::NodeIndex to, std::int64_t bytes, std::uint64_t label);
  void arrived(std::size_t slot);
  void set_alone(FlowRecord& record, std::uint64_t label);

  const NetworkConfig& config_;
  LiveRun& run_;
  std::unique_ptr<hw::Routing> unharmed_;  // for times in the network with all links up
  sim::Duration overhead_;
  std::vector<hw::LinkIndex> path_;
  std::size_t next_listed_ = 0;
  std::map<std::pair<hw::NodeIndex, hw::NodeIndex>, std::uint64_t> sent_;  // listed flows so far, by ends
  std::optional<TrafficMatrix> matrix_;
  std::optional<sim::RandomStream> arrivals_;
  std::int64_t generated_ = 0;
  std::vector<FlowRecord> records_;  // by slot
  std::vector<bool> under_way_;
  std::vector<std::size_t> free_;
};

}  // namespace orrery::experiments::network
