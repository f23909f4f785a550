// What a network run tells while it goes on, and what is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/systems/network/config.hpp"
#include "sim/flow_network.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments::network {

/// One repetition of a job, over or cut off.
struct RepetitionRecord {
  std::size_t job = 0;  ///< position in the config
  std::int64_t repetition = 0;
  sim::Time started;
  std::optional<sim::Time> finished;
  std::span<const sim::Time> entered, done;  ///< by rank; empty where the time is a formula's
};

/// One message, over or cut off.
struct FlowRecord {
  std::int64_t id = 0;  ///< those of the config, then those of the traffic
  hw::NodeIndex from = 0, to = 0;
  std::int64_t bytes = 0;
  sim::Time started;
  std::optional<sim::Time> finished;
  std::int64_t hops = 0;           ///< links of its path while all links are up
  sim::Duration alone;             ///< its time in a network without anything else
  std::optional<double> slowdown;  ///< time / alone; nothing where that is 0 or the message did not arrive
};

/// Told as a run goes on. Nothing in it may change the run.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void repetition_ended(const RepetitionRecord& record) = 0;
  virtual void flow_ended(const FlowRecord& record) = 0;
  /// Something has happened that may change loads: those of the network are still the ones before it.
  virtual void loads_change(const sim::FlowNetwork& flows) = 0;
};

struct JobFigures {
  sim::SampleStats time;  ///< ticks, of repetitions that are over
  std::int64_t messages = 0;
  std::int64_t unfinished = 0;
};

struct FlowFigures {
  sim::SampleStats time;        ///< ticks
  sim::SampleStats slowdown;    ///< millionths
  std::int64_t unfinished = 0;  ///< under way or not sent when the run ended
  __int128 bytes = 0;           ///< of those that arrived
};

/// What a run comes to.
struct NetworkResult {
  sim::Time end;
  std::optional<sim::Time> first_start, last_end;  ///< of repetitions and flows
  bool cut_off = false;                            ///< by run.until
  bool stalled = false;                            ///< something waits for a path that never comes
  std::vector<JobFigures> jobs;                    ///< in the order of the config
  sim::SampleStats job_times;                      ///< ticks, of all repetitions of all jobs
  FlowFigures flows;
  std::vector<std::int64_t> stalled_flows;  ///< the first few, by id
  bool closed = false;                      ///< all times are a formula's: nothing is known of links
  std::vector<double> carried_bytes;        ///< by link
  std::int64_t rerouted = 0;
  std::size_t without_path = 0;
  sim::MaxMinSolver::Effort effort;
  std::uint64_t events = 0;
};

}  // namespace orrery::experiments::network
