#include "models/graph/graph_json_values.hpp"

#include <fmt/format.h>

#include <limits>

namespace orrery::models {

using sim::Faults;
using sim::Node;

namespace {

void unknown_dim(const Node& node, Symbol symbol, const std::set<Symbol>& dims, Faults& faults) {
  std::vector<std::string> known;
  for (const Symbol dim : dims) known.push_back(dim.name());
  faults.add(node.origin(), fmt::format("unknown dimension '{}'", symbol.name()), near_hint(symbol.name(), known));
}

}  // namespace

std::string near_hint(std::string_view name, const std::vector<std::string>& known) {
  if (known.size() <= 16) return sim::name_hint(name, known);
  const std::string near = sim::nearest_name(name, known);
  return near.empty() ? std::string{} : fmt::format("did you mean '{}'?", near);
}

bool JsonValues::object(const Node& node, const std::vector<std::string>& known) {
  if (!node.is_object()) {
    faults_.add(node.origin(), "expected an object, got " + node.shown());
    return false;
  }
  for (const auto& [key, value] : node.members())
    if (std::find(known.begin(), known.end(), key) == known.end())
      faults_.add(value.origin(), fmt::format("unknown key '{}'", key), sim::name_hint(key, known));
  return true;
}

const Node* JsonValues::list(const Node& node, std::string_view key) {
  const Node* value = node.find(key);
  if (value == nullptr || value->is_array()) return value;
  faults_.add(value->origin(), "expected an array, got " + value->shown());
  return nullptr;
}

std::string JsonValues::text(const Node& node) {
  if (node.is_string()) return node.as_string();
  faults_.add(node.origin(), "expected a text, got " + node.shown());
  return {};
}

SymExpr JsonValues::size(const Node& node) {
  if (node.kind() == Node::Kind::integer) return node.as_integer();
  if (!node.is_string()) {
    faults_.add(node.origin(), "expected a whole number or a formula of dimensions, got " + node.shown());
    return 0;
  }
  try {
    SymExpr parsed = SymExpr::parse(node.as_string());
    for (const Symbol symbol : parsed.symbols())
      if (any_dims_ && !dims_.contains(symbol)) unknown_dim(node, symbol, dims_, faults_);
    return parsed;
  } catch (const std::exception& error) {
    faults_.add(node.origin(), fmt::format("'{}': {}", node.as_string(), error.what()));
    return 0;
  }
}

std::vector<SymExpr> JsonValues::sizes(const Node& node) {
  std::vector<SymExpr> all;
  if (!node.is_array()) faults_.add(node.origin(), "expected an array of sizes, got " + node.shown());
  for (const Node& item : node.items()) all.push_back(size(item));
  return all;
}

bool JsonValues::object_of(const Node& node, std::string_view what) {
  if (node.is_object()) return true;
  faults_.add(node.origin(), fmt::format("expected an object of {}, got {}", what, node.shown()));
  return false;
}

Attribute JsonValues::attribute(const Node& node) {
  switch (node.kind()) {
    case Node::Kind::integer:
      return SymExpr(node.as_integer());
    case Node::Kind::boolean:
      return SymExpr(node.as_boolean() ? 1 : 0);
    case Node::Kind::real:
      return node.as_number();
    case Node::Kind::string:
      return node.as_string();
    case Node::Kind::array:
      return sizes(node);
    default:
      break;
  }
  if (const Node* formula = node.find("expr"); formula != nullptr && node.members().size() == 1) return size(*formula);
  if (const Node* number = node.find("number"); number != nullptr && node.members().size() == 1) {
    if (number->is_number()) return number->as_number();
    if (number->is_string() && number->as_string() == "inf") return std::numeric_limits<double>::infinity();
    if (number->is_string() && number->as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  }
  faults_.add(
      node.origin(),
      "expected a number, a text, a list of sizes, {\"expr\": formula} or {\"number\": value}, got " + node.shown());
  return SymExpr(0);
}

}  // namespace orrery::models
