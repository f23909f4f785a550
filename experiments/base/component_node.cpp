#include "experiments/base/component_node.hpp"

namespace orrery::experiments {

using sim::ComponentInfo;
using sim::FieldInfo;
using sim::Node;

namespace {

Node field_node(const FieldInfo& info) {
  Node node = Node::object();
  node.set("name", Node::string(info.name));
  node.set("type", Node::string(info.array ? "array of " + info.type : info.type));
  node.set("unit", Node::string(std::string(symbol(info.unit))));
  node.set("default", info.default_value);
  node.set("range", Node::string(sim::range_text(info.range, info.unit)));
  node.set("doc", Node::string(info.doc));
  if (info.required) node.set("required", Node::boolean(true));
  if (!info.policies.empty()) {
    Node policies = Node::array();
    for (const ComponentInfo& policy : info.policies) policies.push(Node::string(policy.name));
    node.set("policies", std::move(policies));
    node.set("policy_kind", Node::string(info.policies.front().kind));
  }
  if (!info.choices.empty()) {
    Node choices = Node::array();
    for (const std::string& choice : info.choices) choices.push(Node::string(choice));
    node.set("choices", std::move(choices));
  }
  if (!info.nested.empty()) {
    Node nested = Node::array();
    for (const FieldInfo& inner : info.nested) nested.push(field_node(inner));
    node.set("fields", std::move(nested));
  }
  return node;
}

}  // namespace

Node component_node(const ComponentInfo& component) {
  Node node = Node::object();
  node.set("kind", Node::string(component.kind));
  node.set("name", Node::string(component.name));
  node.set("doc", Node::string(component.doc));
  Node fields = Node::array();
  for (const FieldInfo& info : component.fields) fields.push(field_node(info));
  node.set("fields", std::move(fields));
  return node;
}

}  // namespace orrery::experiments
