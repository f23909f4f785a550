// Carries what a trace graph sends: single messages and collectives, on one network.
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/tasks/trace_graph.hpp"
#include "hw/network/collective_run.hpp"
#include "hw/network/network.hpp"
#include "hw/network/network_transport.hpp"

namespace orrery::experiments::tasks {

class TraceTransport final : public sim::Transport {
 public:
  /// All are borrowed. Rank r is the topology's r-th host.
  TraceTransport(sim::Engine& engine, hw::Network& network, const TraceGraph& trace, const TasksConfig& config);
  void start(sim::TaskId task, const sim::FlowSpec& flow, sim::EventHandler& done, std::uint64_t payload) override;

 private:
  /// A collective: its pieces one after the other. A rank enters the next piece when it is done with one.
  class Meeting final : public hw::CollectiveListener {
   public:
    Meeting(TraceTransport& of, std::size_t index) : of_(of), index_(index) {}
    void enter(std::size_t member, sim::EventHandler& done, std::uint64_t payload);
    void rank_done(hw::Member rank) override;

   private:
    struct Waiter {
      sim::EventHandler* done = nullptr;
      std::uint64_t payload = 0;
      std::int64_t piece = 0;  ///< it is in, or about to enter
    };
    hw::CollectiveRun& piece(std::int64_t number);

    TraceTransport& of_;
    std::size_t index_;
    std::vector<std::unique_ptr<hw::CollectiveRun>> pieces_;
    std::vector<Waiter> waiters_;
  };

  std::unique_ptr<hw::CollectiveRun> make_piece(std::size_t collective, std::int64_t piece,
                                                hw::CollectiveListener& listener);

  sim::Engine& engine_;
  hw::Network& network_;
  const TraceGraph& trace_;
  const WorkloadParams& params_;
  const hw::CollectiveRegistry::Choice& direct_;
  hw::NetworkTransport messages_;
  std::vector<Meeting> meetings_;
};

}  // namespace orrery::experiments::tasks
