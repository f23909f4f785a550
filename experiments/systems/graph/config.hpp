// The config of a graph experiment: a device and its dispatching thread, a graph and the passes that rewrite it, a
// stream of requests that give the graph's dimensions their sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/graph_model.hpp"
#include "experiments/systems/graph/device.hpp"
#include "models/graph/op_graph.hpp"
#include "policies/execution/execution.hpp"
#include "policies/memory/planner.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::graph {

/// How the sizes of one dimension vary from request to request.
enum class Spread : std::uint8_t { fixed, uniform, log_normal, list };
constexpr auto enum_names(Spread) {
  using enum Spread;
  return sim::names<Spread>({{"fixed", fixed}, {"uniform", uniform}, {"log_normal", log_normal}, {"list", list}});
}

struct VaryParams {
  Spread distribution = Spread::uniform;
  std::int64_t low = 1, high = 1, step = 1, distinct = 0;
  double median = 1, sigma = 0.5;
  std::vector<std::int64_t> values;

  static constexpr auto fields() {
    using sim::Unit;
    using V = VaryParams;
    constexpr sim::Range kSize = sim::between(1, 1LL << 40);
    return sim::FieldTable{
        sim::field("distribution", &V::distribution,
                   "How sizes are drawn. `fixed`: always low. `uniform`: from low to high. `log_normal`: within these "
                   "bounds. `list`: values in turn."),
        sim::field("low", &V::low, Unit::count, kSize, "Smallest size."),
        sim::field("high", &V::high, Unit::count, kSize, "Largest size."),
        sim::field("step", &V::step, Unit::count, kSize, "Sizes are rounded up to multiples of this."),
        sim::field(
            "distinct", &V::distinct, Unit::count, sim::at_least(0),
            "Number of different sizes, drawn once, that requests pick from; 0: every request draws a new size."),
        sim::field("median", &V::median, Unit::count, sim::positive(), "Median of the log-normal distribution."),
        sim::field("sigma", &V::sigma, Unit::ratio, sim::between(0, 10),
                   "Standard deviation of the logarithm (log-normal distribution)."),
        sim::field("values", &V::values, Unit::count, kSize, "Sizes of the list."),
    };
  }
};

struct MaxBatchParams {
  bool enabled = false;
  std::string symbol = "batch";
  std::int64_t limit = 65536, step = 1;

  static constexpr auto fields() {
    using sim::Unit;
    using M = MaxBatchParams;
    return sim::FieldTable{
        sim::field("enabled", &M::enabled, "Whether to find the largest size that fits in device memory, and run it."),
        sim::field("symbol", &M::symbol, Unit::text, sim::any_value(), "Dimension whose size is increased."),
        sim::field("limit", &M::limit, Unit::count, sim::between(1, 1LL << 32), "Largest size to try."),
        sim::field("step", &M::step, Unit::count, sim::between(1, 1LL << 32), "Only multiples of this are tried."),
    };
  }
};

struct WorkloadParams {
  sim::Node bind, vary;
  std::int64_t requests = 1;
  double interarrival_s = 0;
  std::string samples = "batch";
  MaxBatchParams max_batch;

  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::field("bind", &W::bind, "Sizes of the graph's dimensions, by name."),
        sim::field("requests", &W::requests, Unit::count, sim::between(1, 10'000'000),
                   "Number of requests; each runs the graph once."),
        sim::field("interarrival", &W::interarrival_s, Unit::seconds, sim::at_least(0),
                   "Time between arrivals; 0: each request arrives when the one before is done."),
        sim::field("samples", &W::samples, Unit::text, sim::any_value(),
                   "Dimension that counts as samples for throughput."),
        sim::field("max_batch", &W::max_batch, "Search for the largest size that fits in device memory."),
        sim::field("vary", &W::vary, "Dimensions whose size varies from request to request, by name."),
    };
  }
};

struct ModelParams {
  std::optional<models::BuilderRegistry::Choice> builder;
  std::optional<ImportParams> import_;

  static constexpr auto fields() { return graph_source_fields<ModelParams>(); }
};

struct PoliciesParams {
  sim::Node passes;  ///< read_passes: an order of several
  policies::ExecutionRegistry::Choice execution;
  policies::MemoryPlannerRegistry::Choice memory;

  static constexpr auto fields() {
    using P = PoliciesParams;
    return sim::FieldTable{
        passes_field(&P::passes),
        sim::choice("execution", &P::execution, "eager",
                    "How the graph is executed: launches, captured graphs, compilation."),
        sim::choice("memory", &P::memory, "best_fit", "Planner that places tensors in memory."),
    };
  }
};

/// The sections of a graph config.
struct GraphParams {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PoliciesParams policies;
  PlainRunParams run;

  static constexpr auto fields() {
    using G = GraphParams;
    return sim::FieldTable{
        sim::required(sim::section("machine", &G::machine, "The device and its dispatching thread.")),
        sim::required(sim::section("model", &G::model, "The operator graph: a builder or an imported file.")),
        sim::section("workload", &G::workload, "Requests and their sizes."),
        sim::section("policies", &G::policies, "Passes over the graph, execution, memory planner."),
        sim::section("run", &G::run, "Seed and time resolution of the run."),
    };
  }
};

/// A dimension that varies.
struct Vary {
  models::Symbol symbol;
  VaryParams params;
};

/// A config ready to run.
struct GraphConfig {
  std::string file;
  std::shared_ptr<const GraphDevice> device;
  models::OpGraph model;                                       ///< before any pass
  std::vector<std::pair<std::string, std::int64_t>> unmapped;  ///< of an import
  std::vector<std::string> notes;
  std::vector<ChosenPass> passes;
  policies::ExecutionRegistry::Choice execution;
  policies::MemoryPlannerRegistry::Choice planner;
  models::Bindings bind;
  std::vector<Vary> vary;
  WorkloadParams workload;
  PlainRunParams run;
  std::vector<std::filesystem::path> inputs;
  sim::Node resolved;
};

GraphConfig read_graph_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::graph
