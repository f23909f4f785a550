// Values of a graph's JSON: texts, names of a list, sizes, attributes; each fault with its place.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {

/// The nearest of `known`, or all of them where they are few.
std::string near_hint(std::string_view name, const std::vector<std::string>& known);

/// Readers of single values; what is wrong goes to the faults, and a value that does no harm comes back.
class JsonValues {
 protected:
  explicit JsonValues(sim::Faults& faults) : faults_(faults) {}

  /// False, and a fault, where `node` is no object or has another key.
  bool object(const sim::Node& node, const std::vector<std::string>& known);
  /// The member, if it is there and an array.
  const sim::Node* list(const sim::Node& node, std::string_view key);
  bool object_of(const sim::Node& node, std::string_view what);
  std::string text(const sim::Node& node);
  /// A number or a formula of declared dimensions.
  SymExpr size(const sim::Node& node);
  std::vector<SymExpr> sizes(const sim::Node& node);
  Attribute attribute(const sim::Node& node);

  /// The enumerator that the member `key` names.
  template <class Enum, class Parse>
  void choice(const sim::Node& node, std::string_view key, Enum& out, Parse parse,
              const std::vector<std::string>& known) {
    const sim::Node* value = node.find(key);
    if (value == nullptr) return;
    const std::string name = text(*value);
    if (!value->is_string()) return;
    if (const auto found = parse(name))
      out = *found;
    else
      faults_.add(value->origin(), "unknown " + std::string(key) + " '" + name + "'", near_hint(name, known));
  }

  /// Runs `action`; what it throws is a fault of `node`.
  template <class F>
  void guarded(const sim::Node& node, F action) {
    try {
      action();
    } catch (const std::exception& error) {
      faults_.add(node.origin(), error.what());
    }
  }

  sim::Faults& faults_;
  std::set<Symbol> dims_;
  bool any_dims_ = false;  ///< only the dimensions in dims_ are allowed
};

}  // namespace orrery::models
