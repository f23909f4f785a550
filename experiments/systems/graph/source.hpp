// A graph by its name or file, and the sizes of its dimensions: what `orrery graph` and Python start from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiments/systems/graph/config.hpp"
#include "models/builders/builder.hpp"
#include "models/import/importer.hpp"

namespace orrery::experiments::graph {

/// The graph of one of `builders` with `params`, or of a file in `format` (empty: by its name). Throws
/// sim::ConfigError: a name that is neither, a file with parameters, a graph that is not sound.
models::Imported load_graph(const models::BuilderRegistry& builders, const std::string& source,
                            const std::string& format, const sim::Node& params);

/// Sizes by name, as texts; all dimensions have one, or none. Throws sim::ConfigError.
models::Bindings bind_sizes(const models::OpGraph& graph,
                            const std::vector<std::pair<std::string, std::string>>& sizes);

}  // namespace orrery::experiments::graph
