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
  properties.set("name", typed("string", "Name in formulas and columns; default: the last part of the path."));
  properties.set("path", any_of({"string", "array", "null"},
                                "Dotted path in the base that is set to the value; or several paths."));
  properties.set("values",
                 typed("array", "Numbers, quantities and texts, or {\"is\": VALUE, \"set\": {PATH: VALUE}}."));
  properties.set("range", list_of(any_of({"number", "string"}, "A number or a quantity with a unit."),
                                  "[low, high], both included."));
  properties.set(
      "type",
      one_of({"real", "integer", "ordinal", "categorical"},
             "Kind of parameter. For a range: real or integer. For values: categorical if they have no order."));
  properties.set("scale", one_of({"linear", "log"}, "log: equal steps are equal ratios."));
  properties.set("steps", typed("integer", "For a range in a sweep: number of values."));
  properties.set("when", typed("string", "Formula over earlier parameters that tells where this parameter matters."));
  properties.set("formula", typed("string", "Formula over parameters that gives the value."));
  properties.set("unit", typed("string", "For a formula: unit of its value, such as \"B\"."));
  return list_of(closed(std::move(properties), "A parameter."), "Parameters in which the points differ.");
}

Node sweep_schema() {
  Node properties = Node::object();
  properties.set("grid", list_of(typed("string", "A parameter."),
                                 "Every combination of these parameters; the last one varies fastest."));
  properties.set("zip", list_of(typed("string", "A parameter."), "First values together, second values together …"));
  properties.set("list", list_of(typed("object", "Values by parameter."), "List of points."));
  return list_of(closed(std::move(properties), "A part of the sweep."),
                 "Parts whose product is the sweep; parameters that no part names are added as a grid.");
}

Node goals(const char* what) {
  Node properties = Node::object();
  properties.set("name", typed("string", "Name; default: the formula, if that is a name."));
  if (std::string(what) == "objective") {
    properties.set("minimise", typed("string", "Formula over measures and parameters."));
    properties.set("maximise", typed("string", "Formula over measures and parameters."));
    return list_of(closed(std::move(properties), "An objective."),
                   "Objectives that define what is best; several form a Pareto front.");
  }
  properties.set("value", typed("string", "Formula over measures and parameters."));
  properties.set("most", any_of({"number", "string"}, "Highest value allowed."));
  properties.set("least", any_of({"number", "string"}, "Lowest value allowed."));
  properties.set("end_at", typed("number",
                                 "Multiple of the bound at which runs end: as soon as the value is certain to be above "
                                 "this multiple of 'most' (1 or more) or below that of 'least' (up to 1). The point is "
                                 "beyond its limit then."));
  return list_of(closed(std::move(properties), "A limit."), "Limits that a point must meet to be among the best.");
}

Node bottlenecks() {
  Node properties = Node::object();
  properties.set("share", typed("string", "Formula over measures for the time spent there."));
  properties.set("move", list_of(typed("string", "A parameter."), "Parameters that would change this time."));
  Node node = typed("object", "Places where time may be spent, for drivers that use the breakdown.");
  node.set("additionalProperties", closed(std::move(properties), "A place where time may be spent."));
  return node;
}

Node fidelity() {
  Node properties = Node::object();
  properties.set("path", typed("string", "Dotted path of a value that makes runs shorter, such as workload.limit."));
  properties.set("full", any_of({"number", "string"}, "Value for a full run."));
  return closed(std::move(properties), "How runs are shortened, for drivers that ask for it.");
}

}  // namespace

Node study_schema(const sim::RegistrySet& registries) {
  Node properties = study_properties("study");
  properties.set("parameters", parameter_schema());
  properties.set("constraints",
                 list_of(typed("string", "A formula."), "Formulas over parameters that a point must meet."));
  properties.set("sweep", sweep_schema());
  Node measures = typed("object", "Measures by name: dotted paths of figures in summary.json.");
  measures.set("additionalProperties", typed("string", "Dotted path."));
  properties.set("measures", std::move(measures));
  properties.set("objectives", goals("objective"));
  properties.set("limits", goals("limit"));
  properties.set("bottlenecks", bottlenecks());
  properties.set("seeds", object_schema(sim::describe_params<SeedsParams>(), "Seeds of a point's runs."));
  properties.set("search", object_schema(sim::describe_params<SearchParams>(registries),
                                         "How `orrery search` explores the space."));
  properties.set("fidelity", fidelity());
  Node node = closed(std::move(properties),
                     "A study: an experiment, the parameters in which its points differ, and what is best.");
  Node required = Node::array();
  for (const char* key : {"kind", "version", "base", "parameters", "measures"}) required.push(Node::string(key));
  node.set("required", std::move(required));
  return node;
}

}  // namespace orrery::experiments::study
