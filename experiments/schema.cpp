// From field tables to a JSON Schema (draft-07) that editors complete from.
#include <cmath>

#include "experiments/claims/study.hpp"
#include "experiments/evolve/study.hpp"
#include "experiments/experiment.hpp"
#include "experiments/schema_parts.hpp"
#include "experiments/study/study.hpp"

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

FieldInfo text_field(std::string name, std::string doc) {
  FieldInfo info;
  info.name = std::move(name);
  info.type = "string";
  info.doc = std::move(doc);
  return info;
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
  properties.set("$schema", field_schema(text_field("$schema", "This schema, for editors.")));
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

namespace {

/// An axis of a claim study.
Node axis_schema() {
  Node properties = Node::object();
  Node path =
      typed("string", "Dotted path in the base that gets each value; a list of them; none: only {NAME} in measures.");
  Node types = Node::array();
  for (const char* type : {"string", "array", "null"}) types.push(Node::string(type));
  path.set("type", std::move(types));
  properties.set("path", std::move(path));
  properties.set("name", typed("string", "What formulas call it; the last part of the path unless given."));
  properties.set("values", typed("array", "Numbers and texts, or {\"is\": VALUE, \"set\": {PATH: VALUE}}."));
  Node axis = typed("object", "An axis of the grid.");
  axis.set("properties", std::move(properties));
  axis.set("additionalProperties", Node::boolean(false));
  Node list = typed("array", "Axes of the grid; the last one varies fastest.");
  list.set("items", std::move(axis));
  return list;
}

/// The schema of a claim study (docs/claims.md); its base is an experiment, "#" or a file.
Node claim_schema() {
  Node properties = study_properties("claim");
  properties.set("system", typed("string", "Whose claims they are."));
  Node variants = typed("object", "Variants by name: values by dotted path.");
  variants.set("additionalProperties", typed("object", "Values by dotted path."));
  properties.set("variants", std::move(variants));
  properties.set("x", axis_schema());
  Node measures =
      typed("object",
            "Figures of summary.json by name: dotted paths, in which {AXIS} and {variant} stand for where a run is.");
  measures.set("additionalProperties", typed("string", "Dotted path."));
  properties.set("measures", std::move(measures));
  Node claim = object_schema(sim::describe_params<claims::ClaimParams>(), "A claim.");
  Node ends = Node::array();
  for (const char* type : {"number", "null"}) ends.push(Node::string(type));
  claim.find("properties")->find("expected")->find("items")->set("type", std::move(ends));
  Node list = typed("array", "What is claimed.");
  list.set("items", std::move(claim));
  properties.set("claims", std::move(list));
  Node node = typed("object", "A claim study: what a paper says of a system, and the experiment that judges it.");
  node.set("properties", std::move(properties));
  Node required = Node::array();
  for (const char* key : {"kind", "system", "base", "variants", "measures", "claims"}) required.push(Node::string(key));
  node.set("required", std::move(required));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

}  // namespace

Node config_schema() {
  Node root = Node::object();
  root.set("$schema", Node::string("http://json-schema.org/draft-07/schema#"));
  root.set("title", Node::string("Orrery experiment or study"));
  Node alternatives = Node::array();
  for (const System& system : systems()) {
    std::vector<FieldInfo> fields = system.fields;
    Node node = object_schema(fields, system.doc);
    Node& properties = *node.find("properties");
    Node name = Node::object();
    name.set("const", Node::string(system.name));
    name.set("description", Node::string("Which system the experiment is about. " + system.doc));
    properties.set("system", std::move(name));
    properties.set("$schema", field_schema(text_field("$schema", "This schema, for editors.")));
    properties.set("title", field_schema(text_field("title", "One line about the experiment, for reports.")));
    Node kind = Node::object();
    kind.set("const", Node::string("experiment"));
    properties.set("kind", std::move(kind));
    Node format = Node::object();
    format.set("const", Node::integer(1));
    format.set("description", Node::string("Version of the config format."));
    properties.set("version", std::move(format));
    Node base = Node::object();
    Node types = Node::array();
    types.push(Node::string("string"));
    types.push(Node::string("array"));
    base.set("type", std::move(types));
    base.set("description", Node::string("Config file (or files) this one builds on, relative to this file."));
    properties.set("base", std::move(base));
    alternatives.push(std::move(node));
  }
  alternatives.push(claim_schema());
  alternatives.push(study::study_schema());
  alternatives.push(evolve::evolve_schema());
  root.set("anyOf", std::move(alternatives));
  return root;
}

}  // namespace orrery::experiments
