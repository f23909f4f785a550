// Builders: models as operator graphs, by family and size.
//
// A builder makes the forward graph once, with sizes of a batch as dimensions: `batch` (sequences, images, samples,
// environments), `tokens` (new tokens of a sequence), `past` (cached tokens of a sequence). What is fixed by the
// architecture is a number. Ops carry scopes ("layer.3.attention"), classes for booking and the names that the field
// uses. Whatever a builder fixes by convention stands in docs/explain/graphs.md.
#pragma once

#include <filesystem>

#include "models/graph/op_graph.hpp"
#include "sim/base/registry.hpp"

namespace orrery::models {

class GraphBuilder {
 public:
  virtual ~GraphBuilder() = default;
  /// The forward graph. Pure; throws sim::ConfigError for sizes that contradict each other.
  virtual OpGraph build() const = 0;
};

using BuilderRegistry = sim::Registry<GraphBuilder>;

/// Adds every builder of this folder. `catalog` is the folder that "catalog:NAME" looks in (models/catalog).
void register_builders(BuilderRegistry& registry, const std::filesystem::path& catalog = {});

}  // namespace orrery::models
