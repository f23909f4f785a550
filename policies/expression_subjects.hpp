// Everything that an expression may decide, and the names that each may use.
#pragma once

#include <string>
#include <vector>

#include "policies/base/expression.hpp"

namespace orrery::policies {

/// What expressions are asked for: a subject, where in a config its expressions stand, its names.
struct ExpressionSubject {
  std::string name;                ///< "batching", "routing", "admission", "transaction_order", "cache", "placement"
  std::string doc;                 ///< what is scored, and what becomes of the score
  std::vector<std::string> paths;  ///< below "policies"
  std::vector<NameInfo> names;
};
const std::vector<ExpressionSubject>& expression_subjects();
/// The same as components of kind "expression names", for `list` and `describe`.
std::vector<sim::ComponentInfo> expression_components();

}  // namespace orrery::policies
