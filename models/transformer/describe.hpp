// A model as text: what `orrery describe` prints.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/transformer/transformer.hpp"

namespace orrery::models {

/// Name and value of each fact: architecture, sizes, parameters, weights and KV bytes of a rank, totals of a forward
/// pass; the keys of the config that were not understood come last, if there are any.
std::vector<std::pair<std::string, std::string>> model_facts(const Transformer& t);

/// The operators of a rank, one line each in aligned columns: shape, FLOPs, weight, activation and KV bytes, symbolic
/// in the dimensions of the batch.
std::string op_table(const Transformer& t);

/// The facts, the operators, and what the letters stand for.
std::string describe_model(const Transformer& t);

}  // namespace orrery::models
