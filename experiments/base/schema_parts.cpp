// From field tables to pieces of JSON Schema (draft-07).
#include "experiments/base/schema_parts.hpp"

#include <cmath>

namespace orrery::experiments {

using sim::FieldInfo;
using sim::Node;

namespace {

/// Pattern of a quantity of a unit: a number, an optional prefix, the unit.
std::string quantity_pattern(sim::Unit unit, const sim::Range& range) {
  std::string base(symbol(unit));
  const std::string sign = range.min >= 0 ? "[+]?" : "[-+]?";
  const std::string number = R"(^\s*)" + sign + R"([0-9]*[.]?[0-9]+([eE][-+]?[0-9]+)?\s*)";
  if (unit == sim::Unit::per_s) return number + R"((1/s|req/s|/s)\s*$)";
  if (unit == sim::Unit::seconds) return number + R"(([kKMGTPmunp]?s|min|h|d)\s*$)";
  return number + "(Ki|Mi|Gi|Ti|[kKMGTPmunp])?" + base + R"(\s*$)";
}

Node scalar_schema(const FieldInfo& info) {
  Node node = Node::object();
  if (!info.choices.empty()) {
    Node names = Node::array();
    for (const std::string& choice : info.choices) names.push(Node::string(choice));
    if (info.optional) names.push(Node{});
    node.set("enum", std::move(names));
    return node;
  }
  if (!info.suggestions.empty()) {
    Node offered = Node::object();
    Node names = Node::array();
    for (const std::string& name : info.suggestions) names.push(Node::string(name));
    offered.set("enum", std::move(names));
    Node any = Node::object();
    any.set("type", Node::string("string"));
    Node either = Node::array();
    either.push(std::move(offered));
    either.push(std::move(any));
    node.set("anyOf", std::move(either));
    return node;
  }
  if (info.type == "list") {
    Node types = Node::array();
    for (const char* type : {"string", "array"}) types.push(Node::string(type));
    if (info.optional) types.push(Node::string("null"));
    node.set("type", std::move(types));
    Node item = Node::object();
    Node item_types = Node::array();
    for (const char* type : {"string", "integer"}) item_types.push(Node::string(type));
    item.set("type", std::move(item_types));
    node.set("items", std::move(item));
    return node;
  }
  const bool quantity = has_dimension(info.unit);
  const std::string type = quantity ? "string" : info.type;
  if (info.optional) {
    Node types = Node::array();
    types.push(Node::string(type));
    types.push(Node::string("null"));
    node.set("type", std::move(types));
  } else {
    node.set("type", Node::string(type));
  }
  if (quantity) node.set("pattern", Node::string(quantity_pattern(info.unit, info.range)));
  if (!quantity && (type == "integer" || type == "number")) {
    if (std::isfinite(info.range.min))
      node.set(info.range.open_min ? "exclusiveMinimum" : "minimum", Node::real(info.range.min));
    if (std::isfinite(info.range.max)) node.set("maximum", Node::real(info.range.max));
  }
  return node;
}

Node field_schema(const FieldInfo& info) {
  Node node;
  if (!info.policies.empty()) {
    node = policy_schema(info);
  } else if (info.type == "object") {
    node = info.nested.empty() ? Node::object() : object_schema(info.nested, info.doc);
    if (info.nested.empty()) node.set("type", Node::string("object"));
  } else {
    node = scalar_schema(info);
  }
  if ((info.optional || info.default_value.is_null()) && info.type == "object" && !info.array) {
    Node types = Node::array();
    types.push(Node::string("object"));
    types.push(Node::string("null"));
    node.set("type", std::move(types));
  }
  if (info.array) {
    Node array = Node::object();
    array.set("type", Node::string("array"));
    array.set("items", std::move(node));
    node = std::move(array);
  }
  std::string doc = info.doc;
  if (has_dimension(info.unit))
    doc += " Unit: " + std::string(symbol(info.unit)) + ", e.g. \"" + std::string(example(info.unit)) + "\".";
  node.set("description", Node::string(doc));
  const bool plain = !info.default_value.is_null() && info.type != "object" && !info.array;
  if (plain) node.set("default", info.default_value);
  return node;
}

}  // namespace

Node policy_schema(const FieldInfo& info) {
  Node node = Node::object();
  node.set("type", Node::string("object"));
  node.set("description", Node::string(info.doc));
  Node properties = Node::object();
  Node policy = Node::object();
  Node names = Node::array();
  std::string doc = "Which policy decides:";
  for (const sim::ComponentInfo& component : info.policies) {
    names.push(Node::string(component.name));
    doc += "\n" + component.name + ": " + component.doc;
  }
  policy.set("enum", std::move(names));
  policy.set("description", Node::string(doc));
  if (info.default_value.is_array()) {  // several policies, in the order of a list
    Node order = Node::object();
    order.set("type", Node::string("array"));
    order.set("items", std::move(policy));
    properties.set("order", order);
    properties.set("per_size", std::move(order));
  } else {
    if (!info.default_value.is_null()) policy.set("default", info.default_value);
    properties.set("policy", std::move(policy));
  }
  for (const sim::ComponentInfo& component : info.policies)
    properties.set(component.name, object_schema(component.fields, component.doc));
  node.set("properties", std::move(properties));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

Node object_schema(const std::vector<FieldInfo>& fields, const std::string& doc) {
  Node node = Node::object();
  node.set("type", Node::string("object"));
  if (!doc.empty()) node.set("description", Node::string(doc));
  // Nothing is required here: with `base` it may come from another file, so only `validate` can ask for it.
  Node properties = Node::object();
  for (const FieldInfo& info : fields) properties.set(info.name, field_schema(info));
  node.set("properties", std::move(properties));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

Node typed(const char* type, const std::string& doc) {
  Node node = Node::object();
  node.set("type", Node::string(type));
  node.set("description", Node::string(doc));
  return node;
}

Node const_schema(Node value) {
  Node node = Node::object();
  node.set("const", std::move(value));
  return node;
}

Node study_properties(const char* kind) {
  Node properties = Node::object();
  properties.set("$schema", typed("string", "This schema, for editors."));
  properties.set("kind", const_schema(Node::string(kind)));
  properties.set("version", const_schema(Node::integer(1)));
  properties.set("title", typed("string", "One line about the study."));
  Node reference = Node::object();
  reference.set("$ref", Node::string("#"));
  Node either = Node::array();
  either.push(typed("string", "File of an experiment, relative to this file."));
  either.push(std::move(reference));
  Node base = Node::object();
  base.set("anyOf", std::move(either));
  base.set("description", Node::string("The experiment that the study changes."));
  properties.set("base", std::move(base));
  return properties;
}

}  // namespace orrery::experiments
