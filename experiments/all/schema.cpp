// The JSON Schema of everything that a config file can be.
#include "experiments/all/systems.hpp"
#include "experiments/base/schema_parts.hpp"
#include "experiments/claims/claim_study.hpp"
#include "experiments/evolve/evolve_study.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments {

using sim::FieldInfo;
using sim::Node;

namespace {

/// An axis of a claim study.
Node axis_schema() {
  Node properties = Node::object();
  Node path =
      typed("string",
            "Dotted path in the base that is set to each value, or a list of paths; empty: only {NAME} in measures.");
  Node types = Node::array();
  for (const char* type : {"string", "array", "null"}) types.push(Node::string(type));
  path.set("type", std::move(types));
  properties.set("path", std::move(path));
  properties.set("name", typed("string", "Name in formulas; default: the last part of the path."));
  properties.set("values", typed("array", "Numbers and texts, or {\"is\": VALUE, \"set\": {PATH: VALUE}}."));
  Node axis = typed("object", "An axis of the grid.");
  axis.set("properties", std::move(properties));
  axis.set("additionalProperties", Node::boolean(false));
  Node list = typed("array", "Axes of the grid; the last one varies fastest.");
  list.set("items", std::move(axis));
  return list;
}

/// The schema of a claim study (docs/papers/index.md); its base is an experiment, "#" or a file.
Node claim_schema() {
  Node properties = study_properties("claim");
  properties.set("system", typed("string", "Source of the claims, such as a paper."));
  Node variants = typed("object", "Variants by name: values by dotted path.");
  variants.set("additionalProperties", typed("object", "Values by dotted path."));
  properties.set("variants", std::move(variants));
  properties.set("x", axis_schema());
  Node measures = typed("object",
                        "Measures by name: dotted paths of figures in summary.json, in which {AXIS} and {variant} "
                        "stand for the values of the run.");
  measures.set("additionalProperties", typed("string", "Dotted path."));
  properties.set("measures", std::move(measures));
  Node claim = object_schema(sim::describe_params<claims::ClaimParams>(), "A claim.");
  Node ends = Node::array();
  for (const char* type : {"number", "null"}) ends.push(Node::string(type));
  claim.find("properties")->find("expected")->find("items")->set("type", std::move(ends));
  Node list = typed("array", "Claims that are checked.");
  list.set("items", std::move(claim));
  properties.set("claims", std::move(list));
  Node parameters = axis_schema();
  parameters.find("items")
      ->find("properties")
      ->set("variants", typed("array", "Variants that have the parameter; empty: all."));
  properties.set("sensitivity", std::move(parameters));
  Node node = typed("object", "A claim study: what a paper claims of a system, and the experiment that checks it.");
  node.set("properties", std::move(properties));
  Node required = Node::array();
  for (const char* key : {"kind", "system", "base", "variants", "measures", "claims"}) required.push(Node::string(key));
  node.set("required", std::move(required));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

}  // namespace

Node config_schema(const Systems& systems) {
  Node root = Node::object();
  root.set("$schema", Node::string("http://json-schema.org/draft-07/schema#"));
  root.set("title", Node::string("Orrery experiment or study"));
  Node alternatives = Node::array();
  for (const System& system : systems.all()) {
    Node node = object_schema(system.fields(*systems.registries()), system.doc);
    Node& properties = *node.find("properties");
    Node name = Node::object();
    name.set("const", Node::string(system.name));
    name.set("description", Node::string("Which system the experiment is about. " + system.doc));
    properties.set("system", std::move(name));
    properties.set("$schema", typed("string", "This schema, for editors."));
    properties.set("title", typed("string", "One line about the experiment, for reports."));
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
  alternatives.push(study::study_schema(*systems.registries()));
  alternatives.push(evolve::evolve_schema());
  root.set("anyOf", std::move(alternatives));
  return root;
}

}  // namespace orrery::experiments
