// A schedule: what is done to a model, as a list of primitives that name modules by scope.
//
// A pattern of scopes is a path whose pieces may hold `*` ("layer.*.attention"); it names every module with such a
// path, and everything below. A fault says which primitive, which field, what was expected and what is near.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/graph_rewrite.hpp"
#include "policies/base/graph_pass.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies::slapo {

/// Everything in a module becomes one kernel of a library.
struct ReplaceParams {
  std::string scope, kernel;
  sim::TextList ops;
  static constexpr auto fields() {
    using P = ReplaceParams;
    return sim::FieldTable{
        sim::required(sim::field("scope", &P::scope, "Modules, named by a pattern of their scopes.")),
        sim::required(sim::field("kernel", &P::kernel, "Kernel of the new op, which it carries as its dialect.")),
        sim::field("ops", &P::ops, "Op kinds that the kernel takes over; none: the whole module.")};
  }
};

/// Chains of ops become one kernel each.
struct FuseParams {
  std::string scope, ops;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("scope", &FuseParams::scope, "Modules, named by a pattern of their scopes.")),
        sim::required(sim::field(
            "ops", &FuseParams::ops,
            "Chain of op kinds, such as \"dropout+add+layer_norm\", whose inner tensors nothing else reads."))};
  }
};

/// A parameter, or an input such as a cache, is divided among ranks.
struct ShardParams {
  std::string scope, param = "weight";
  std::int64_t axis = 0;
  std::optional<std::int64_t> ranks;
  static constexpr auto fields() {
    using P = ShardParams;
    return sim::FieldTable{
        sim::required(sim::field("scope", &P::scope, "Modules, named by a pattern of their scopes.")),
        sim::field("param", &P::param,
                   "Rest of the parameter's name after the scope, such as \"query.weight\"; `*` works as in scopes."),
        sim::field("axis", &P::axis, sim::Unit::none, sim::between(0, 7), "Axis along which the parameter is divided."),
        sim::field("ranks", &P::ranks, sim::Unit::count, sim::at_least(1),
                   "Number of ranks; null: that of the schedule.")};
  }
};

enum class SyncDirection : std::uint8_t { forward, backward };
constexpr auto enum_names(SyncDirection) {
  using enum SyncDirection;
  return sim::names<SyncDirection>({{"forward", forward}, {"backward", backward}});
}

/// Partial sums that a module makes are summed over the ranks.
struct SyncParams {
  std::string scope;
  SyncDirection direction = SyncDirection::forward;
  static constexpr auto fields();
};

/// A share of the modules keeps its inputs alone and is run again in the backward pass.
struct CheckpointParams {
  std::string scope;
  double ratio = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(
            sim::field("scope", &CheckpointParams::scope, "Modules, each of which is recomputed as a whole.")),
        sim::field("ratio", &CheckpointParams::ratio, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the modules that are recomputed, the first ones, rounded to whole modules.")};
  }
};

/// Stages of a pipeline, with a send and a receive for what crosses.
struct PipelineParams {
  sim::TextList cuts;
  static constexpr auto fields() {
    return sim::FieldTable{sim::required(sim::field(
        "cuts", &PipelineParams::cuts, "Modules that begin a stage, in order; the first stage needs none."))};
  }
};

/// Launches of modules are captured and replayed as one.
struct CudagraphParams {
  std::string scope;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("scope", &CudagraphParams::scope, "Modules, named by a pattern of their scopes."))};
  }
};

/// One entry of a schedule: exactly one of these.
struct PrimitiveParams {
  std::optional<ReplaceParams> replace;
  std::optional<FuseParams> fuse;
  std::optional<ShardParams> shard;
  std::optional<SyncParams> sync;
  std::optional<CheckpointParams> checkpoint;
  std::optional<PipelineParams> pipeline;
  std::optional<CudagraphParams> cudagraph;
  static constexpr auto fields();
  int given() const {
    return (replace ? 1 : 0) + (fuse ? 1 : 0) + (shard ? 1 : 0) + (sync ? 1 : 0) + (checkpoint ? 1 : 0) +
           (pipeline ? 1 : 0) + (cudagraph ? 1 : 0);
  }
};

/// Where in the schedule a fault is.
struct Place {
  std::size_t entry = 0;
  std::string_view primitive;
  [[noreturn]] void fail(std::string_view field, const std::string& message, const std::string& hint = {}) const;
};

/// The module of `scope` that `pattern` names: as many pieces as the pattern has ("layer.3" of "layer.3.attention");
/// nothing where they differ.
std::optional<std::string> module_of(std::string_view pattern, std::string_view scope);

/// Modules that a pattern names, in order of execution. Fails at `place` where there are none.
std::vector<std::string> modules(const models::OpGraph& graph, const std::string& pattern, const Place& place);

// Primitives that need no view of the whole schedule. Each adds its figures.
models::OpGraph replace(const models::OpGraph& graph, const ReplaceParams& params, const Place& place);
models::OpGraph fuse(const models::OpGraph& graph, const FuseParams& params, const Place& place);
models::OpGraph checkpoint(const models::OpGraph& graph, const CheckpointParams& params, const Place& place);
models::OpGraph pipeline(const models::OpGraph& graph, const PipelineParams& params, const Place& place);
models::OpGraph cudagraph(const models::OpGraph& graph, const CudagraphParams& params, const Place& place);

/// A shard or sync primitive with its place in the schedule.
struct PlacedShard {
  ShardParams params;
  Place place;
};
struct PlacedSync {
  SyncParams params;
  Place place;
};
/// A tensor that exists before the run, and the axis along which ranks share it out.
struct DividedTensor {
  models::TensorId id{};
  int axis = 0;
};
/// Parameters and inputs that shard primitives name. Fails at their places.
std::vector<DividedTensor> divided_tensors(const models::OpGraph& graph, const std::vector<PlacedShard>& shards,
                                           std::int64_t ranks);

struct ShardOptions {
  bool sync_all = false;  ///< partial sums are made whole wherever that is needed, without a sync
  bool sequence = false;  ///< between a layer's products, tokens are divided
};
/// Divides tensors and everything that follows from them among `ranks`, and sums partial results where a sync says so:
/// slapo_shard.cpp.
models::OpGraph shard(const models::OpGraph& graph, std::span<const DividedTensor> divisions,
                      const std::vector<PlacedSync>& syncs, std::int64_t ranks, const ShardOptions& options = {});

constexpr auto SyncParams::fields() {
  return sim::FieldTable{
      sim::required(sim::field("scope", &SyncParams::scope, "Modules, named by a pattern of their scopes.")),
      sim::field("direction", &SyncParams::direction,
                 "What is summed. forward: the module's results; backward: the gradients of its inputs.")};
}

constexpr auto PrimitiveParams::fields() {
  using P = PrimitiveParams;
  return sim::FieldTable{
      sim::field("replace", &P::replace, "Replaces a module by one kernel."),
      sim::field("fuse", &P::fuse, "Fuses each chain of ops into one kernel."),
      sim::field("shard", &P::shard, "Divides a parameter among ranks."),
      sim::field("sync", &P::sync, "Sums partial results over the ranks."),
      sim::field("checkpoint", &P::checkpoint, "Recomputes modules in the backward pass."),
      sim::field("pipeline", &P::pipeline, "Divides the graph into pipeline stages, each on its own device."),
      sim::field("cudagraph", &P::cudagraph, "Captures the launches of modules and replays them as one.")};
}

}  // namespace orrery::policies::slapo
