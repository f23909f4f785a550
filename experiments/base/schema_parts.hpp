// Pieces of JSON Schema, for what studies add to the schema of experiments.
#pragma once

#include <string>
#include <vector>

#include "sim/base/params.hpp"

namespace orrery::experiments {

/// An object of these fields and no others; nothing is required, since `base` may give it.
sim::Node object_schema(const std::vector<sim::FieldInfo>& fields, const std::string& doc);
/// A policy block, as a field of sim::choice is described.
sim::Node policy_schema(const sim::FieldInfo& info);
sim::Node typed(const char* type, const std::string& doc);
sim::Node const_schema(sim::Node value);
/// `$schema`, `kind` and `version` of a study of that kind, `title`, and its `base`: a file, or an experiment ("#").
sim::Node study_properties(const char* kind);

}  // namespace orrery::experiments
