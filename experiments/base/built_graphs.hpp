// Operator graphs in use, each built once: the points of a study differ in machines and policies more than in models.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/base/graph_model.hpp"

namespace orrery::experiments {

/// A graph, and what the passes that made it of another one tell.
struct BuiltGraph {
  models::OpGraph graph;
  std::vector<PassOutcome> passes;
};

/// Stands with the registries, so that all who read configs with these share it. For several threads.
class BuiltGraphs {
 public:
  using Shared = std::shared_ptr<const BuiltGraph>;

  BuiltGraphs();
  /// The graph of a key, which tells all that `build` depends on. Built if it is none of the last that were asked for;
  /// who asks for one that is being built waits. Null, and what `build` throws, is passed on and not kept.
  Shared get(const std::string& key, const std::function<Shared()>& build) const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

}  // namespace orrery::experiments
