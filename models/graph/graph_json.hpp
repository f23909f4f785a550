// Operator graphs as JSON, in and out: the format that users write graphs in by hand and that passes are compared in.
//
//   {"graph": "mlp", "dims": {"batch": [1, null]}, "equal": {"rows": "4*batch"}, "divisible": {"batch": 8},
//    "tensors": [{"name": "x", "role": "input", "type": "fp16", "shape": ["batch", 768]}, …],
//    "ops": [{"name": "up", "op": "matmul", "in": ["x", "w"], "out": [{"name": "y", "type": "fp16",
//             "shape": ["batch", 3072]}], "attributes": {"trans_b": 1}, "scope": "layer.0"}, …],
//    "outputs": ["y"]}
//
// Ops may stand in any order; they are sorted so that each follows what it reads, and otherwise keep the file's order.
// An output whose shape is left out has the one that the op's rule says. Where `dims` is given, it names every
// dimension. Attributes: a whole number or {"expr": "4*batch"} is a size, a fraction or {"number": 2} a number, a text
// a text, an array a list of sizes. Regions of fused, branch and loop are graphs of the same form.
// docs/explain/graph-ir.md has all keys. to_json() of what was read gives the same JSON again.
#pragma once

#include <filesystem>
#include <string>

#include "models/graph/op_graph.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {

sim::Node to_json(const OpGraph& graph);
/// to_json() as text, a line a tensor and a line an op.
std::string json_text(const OpGraph& graph);
/// Throws sim::ConfigError with all faults: one line each with the JSON pointer.
OpGraph graph_from_json(const sim::Node& node);
OpGraph read_graph_json(const std::filesystem::path& file);

}  // namespace orrery::models
