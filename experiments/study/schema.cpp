// JSON Schema of studies (docs/explain/studies.md).
#include "experiments/base/config_parts.hpp"
#include "experiments/base/schema_parts.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments::study {
namespace {

using sim::Node;

Node any_of(std::initializer_list<const char*> types, const std::string& doc) {
  Node node = typed("string", doc);
  Node list = Node::array();
  for (const char* type : types) list.push(Node::string(type));
  node.set("type", std::move(list));
  return node;
}

Node one_of(std::initializer_list<const char*> names, const std::string& doc) {
  Node node = Node::object();
  Node list = Node::array();
  for (const char* name : names) list.push(Node::string(name));
  node.set("enum", std::move(list));
  node.set("description", Node::string(doc));
  return node;
}

Node list_of(Node item, const std::string& doc) {
  Node node = typed("array", doc);
  node.set("items", std::move(item));
  return node;
}

Node closed(Node properties, const std::string& doc) {
  Node node = typed("object", doc);
  node.set("properties", std::move(properties));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

Node parameter_schema() {
  Node properties = Node::object();
  properties.set("name", typed("string", "What formulas and columns call it; the last part of the path unless given."));
  properties.set("path",
                 any_of({"string", "array", "null"}, "Dotted path in the base that gets the value; or several."));
  properties.set("values",
                 typed("array", "Numbers, quantities and texts, or {\"is\": VALUE, \"set\": {PATH: VALUE}}."));
  properties.set("range",
                 list_of(any_of({"number", "string"}, "A number or a quantity."), "[low, high], both included."));
  properties.set("type", one_of({"real", "integer", "ordinal", "categorical"},
                                "Of a range: real or integer. Of values: categorical if they have no order."));
  properties.set("scale", one_of({"linear", "log"}, "log: equal steps are equal ratios."));
  properties.set("steps", typed("integer", "Of a range in a sweep: how many values."));
  properties.set("when", typed("string", "Formula over earlier parameters: where it counts."));
  properties.set("formula", typed("string", "The value follows from parameters."));
  properties.set("unit", typed("string", "Of a formula: the dimension of its value, \"B\"."));
  return list_of(closed(std::move(properties), "A parameter."), "What the points differ in.");
}

Node sweep_schema() {
  Node properties = Node::object();
  properties.set("grid", list_of(typed("string", "A parameter."), "Every combination; the last one fastest."));
  properties.set("zip", list_of(typed("string", "A parameter."), "First values together, second values together …"));
  properties.set("list", list_of(typed("object", "Values by parameter."), "Points, one by one."));
  return list_of(closed(std::move(properties), "A part of the sweep."),
                 "Parts whose product the sweep is; parameters that no part names follow as a grid.");
}

Node goals(const char* what) {
  Node properties = Node::object();
  properties.set("name", typed("string", "The formula, if that is a name, unless given."));
  if (std::string(what) == "objective") {
    properties.set("minimise", typed("string", "Formula over measures and parameters."));
    properties.set("maximise", typed("string", "Formula over measures and parameters."));
    return list_of(closed(std::move(properties), "An objective."), "What is best; several make a Pareto front.");
  }
  properties.set("value", typed("string", "Formula over measures and parameters."));
  properties.set("most", any_of({"number", "string"}, "Highest value allowed."));
  properties.set("least", any_of({"number", "string"}, "Lowest value allowed."));
  return list_of(closed(std::move(properties), "A limit."), "What a point must meet to be among the best.");
}

Node bottlenecks() {
  Node properties = Node::object();
  properties.set("share", typed("string", "Formula over measures: how much of the time goes there."));
  properties.set("move", list_of(typed("string", "A parameter."), "Parameters that would change it."));
  Node node = typed("object", "Places where the time may go, for drivers that ask why.");
  node.set("additionalProperties", closed(std::move(properties), "A place where the time may go."));
  return node;
}

Node fidelity() {
  Node properties = Node::object();
  properties.set("path", typed("string", "What makes a run shorter, as workload.limit."));
  properties.set("full", any_of({"number", "string"}, "Its value for a full run."));
  return closed(std::move(properties), "Shorter runs, for drivers that ask for them.");
}

}  // namespace

Node study_schema(const sim::RegistrySet& registries) {
  Node properties = study_properties("study");
  properties.set("parameters", parameter_schema());
  properties.set("constraints",
                 list_of(typed("string", "A formula."), "Formulas over parameters that a point must meet."));
  properties.set("sweep", sweep_schema());
  Node measures = typed("object", "Figures of summary.json by name: dotted paths.");
  measures.set("additionalProperties", typed("string", "Dotted path."));
  properties.set("measures", std::move(measures));
  properties.set("objectives", goals("objective"));
  properties.set("limits", goals("limit"));
  properties.set("bottlenecks", bottlenecks());
  properties.set("seeds", object_schema(sim::describe_params<SeedsParams>(), "Seeds of a point's runs."));
  properties.set("search", object_schema(sim::describe_params<SearchParams>(registries),
                                         "How `orrery search` explores the space."));
  properties.set("fidelity", fidelity());
  Node node =
      closed(std::move(properties), "A study: an experiment, the parameters its points differ in, what is best.");
  Node required = Node::array();
  for (const char* key : {"kind", "version", "base", "parameters", "measures"}) required.push(Node::string(key));
  node.set("required", std::move(required));
  return node;
}

}  // namespace orrery::experiments::study
