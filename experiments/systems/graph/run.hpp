// A stream of requests through one graph on one device.
//
// Passes run once, on the graph with symbolic sizes. Each request then has sizes; the execution policy says at which
// sizes kernels run and what the host does first. Kernels are lowered and priced once per sizes, and the launches run
// on the clock of hw/coupling (bounded queue, host ahead of the device). Requests are served one after the other:
//   latency = waiting + stall + launches
// Transfers (collectives, copies) take their place in the stream. Left out: several devices at once, overlap of a
// request's launches with the one before.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/graph/config.hpp"
#include "experiments/systems/graph/launches.hpp"
#include "experiments/systems/graph/memory.hpp"
#include "hw/coupling/launch_figures.hpp"
#include "policies/base/graph_pass.hpp"
#include "sim/energy_ledger.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments::graph {

/// One request; times in ticks since the start.
struct RequestRecord {
  models::Bindings sizes, run_as;
  sim::Time arrived, started, finished;
  sim::Duration stall;
  double compile_s = 0;
  std::int64_t compiled = 0;
};

/// The launches of the first request, for the timeline and kernels.csv.
struct TraceDetail {
  std::vector<CommandDetail> details;
  std::vector<hw::Command> program;
  std::vector<hw::CommandTiming> timings;
  std::vector<PricedKernel> kernels;
};

/// Whether a graph's memory suffices.
struct GraphFit {
  std::string status = "ok", reason;  ///< "infeasible" where it does not
  std::int64_t needed_bytes = 0, available_bytes = 0;
};

/// What was done, summed over requests.
struct GraphWork {
  hw::LaunchFigures launches;
  double host_s = 0;
  double read_bytes = 0, write_bytes = 0, flops = 0;
  double asked_flops = 0;  ///< at the sizes of requests, before padding
  double transfer_s = 0, transfer_bytes = 0, decode_s = 0;
  double samples = 0;
};

struct GraphResult : GraphFit, GraphWork {
  std::vector<PassOutcome> passes;
  std::int64_t ops = 0, tensors = 0;  ///< after the passes
  std::int64_t max_batch = 0;         ///< where it was looked for
  std::vector<RequestRecord> requests;
  sim::SampleStats latency, stall;  ///< ticks
  sim::SampleStats steady;  ///< from a request's start to its end, less a stall in which it compiled or captured
  MemoryFigures memory;     ///< of the request that needs most
  double startup_s = 0, compile_s = 0, worst_stall_s = 0, worst_kernel_compile_s = 0;
  std::int64_t compiled = 0;
  sim::EnergyLedger energy;
  sim::Time end;
  TraceDetail trace;
  std::uint64_t events = 0;
};

GraphResult run_graph(const GraphConfig& config, const std::function<void(const Progress&)>& progress = {});

}  // namespace orrery::experiments::graph
