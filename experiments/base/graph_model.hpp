// An operator graph by its builder or file, and the passes that rewrite it: what every system that runs graphs reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hw/device/device.hpp"
#include "models/builders/builder.hpp"
#include "models/graph/op_graph.hpp"
#include "policies/base/graph_pass.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// A dimension of a file by another name: {"name": "total_length", "is": "past + tokens"}.
struct DimensionParams {
  std::string name, is;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("name", &DimensionParams::name, Unit::text, sim::any_value(),
                                 "Name of the dimension in the file.")),
        sim::required(
            sim::field("is", &DimensionParams::is, Unit::text, sim::any_value(),
                       "What it stands for: a dimension, or a formula of dimensions such as \"past + tokens\".")),
    };
  }
};

struct ImportParams {
  std::string path, format;
  std::vector<DimensionParams> dimensions;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("path", &ImportParams::path, Unit::path, sim::any_value(), "File to import.")),
        sim::field("format", &ImportParams::format, Unit::text, sim::any_value(),
                   "onnx, chakra, kineto, hf or json; empty: by the file's name."),
        sim::field("dimensions", &ImportParams::dimensions,
                   "Renamed dimensions, applied one after the other; serving needs batch, tokens and past."),
    };
  }
};

/// Fields `builder` and `import` of a section `P` that has both members.
template <class P>
constexpr auto graph_source_fields() {
  return sim::FieldTable{
      sim::only_if_given(
          sim::choice("builder", &P::builder, nullptr, "Builder of the operator graph; either this or `import`.")),
      sim::only_if_given(
          sim::field("import", &P::import_, "File to import the operator graph from; either this or `builder`.")),
  };
}

/// A graph as it was built or read.
struct LoadedGraph {
  models::OpGraph graph;
  std::vector<std::pair<std::string, std::int64_t>> unmapped;  ///< kinds of ops of a file that have no counterpart
  std::vector<std::string> notes;
  std::optional<std::filesystem::path> file;
};

/// Builds or imports it; a graph that is not sound is a fault at `where`, and there is then none.
std::optional<LoadedGraph> build_or_import(const std::optional<models::BuilderRegistry::Choice>& builder,
                                           const std::optional<ImportParams>& import, const sim::Origin& where,
                                           sim::Faults& faults);

/// A pass with its name. One that runs per size sees each request's sizes, after all passes that run once.
struct ChosenPass {
  std::string name;
  policies::PassRegistry::Choice choice;
  bool per_size = false;
};

/// What passes may know of a device; `typical` sizes are those that they decide by. The device must outlive it.
policies::PassContext pass_context(const hw::Device& device, models::Bindings typical);

/// What a pass did.
struct PassOutcome {
  std::string name;
  policies::PassReport report;
};

/// The field `passes` of a section `P`, which holds it as a node.
template <class P>
constexpr auto passes_field(sim::Node P::*member) {
  return sim::annotated(sim::field("passes", member, "Passes that rewrite the operator graph, in this order."),
                        [](sim::FieldInfo& info, const sim::RegistrySet* registries) {
                          info.policies = registries->get<policies::PassRegistry>().components();
                          info.default_value = sim::Node::array();
                        });
}

/// The passes of such a block in their order; blocks of others are checked and not used. Returns the block with all
/// defaults.
sim::Node read_passes(const sim::Node& block, const policies::PassRegistry& registry, std::vector<ChosenPass>& passes,
                      sim::Faults& faults);

/// Runs a pass. A graph that it cannot take throws sim::ConfigError at `where`; one that it leaves unsound is a
/// std::logic_error.
models::OpGraph run_pass(const ChosenPass& pass, const models::OpGraph& graph, const policies::PassContext& context,
                         const sim::Origin& where, policies::PassReport& report);

/// Figures of each pass by its name (a second run of one: NAME_2), as they stand in a summary.
sim::Node passes_node(const std::vector<PassOutcome>& passes);

}  // namespace orrery::experiments
