// JSON Schema of studies of kind "evolve" (docs/explain/policies-as-data.md).
#include "experiments/base/schema_parts.hpp"
#include "experiments/evolve/evolve_study.hpp"
#include "policies/expression_subjects.hpp"

namespace orrery::experiments::evolve {

namespace {

using sim::Node;

template <class P>
Node section_schema(const char* doc) {
  return object_schema(sim::describe_params<P>(), doc);
}

Node texts(const char* doc) {
  Node node = typed("array", doc);
  node.set("items", typed("string", "A text."));
  return node;
}

}  // namespace

Node evolve_schema() {
  Node properties = study_properties("evolve");
  Node path = typed("string", "Dotted path in the base at which the expression is placed.");
  Node paths = Node::array();
  for (const policies::ExpressionSubject& subject : policies::expression_subjects())
    for (const std::string& one : subject.paths) paths.push(Node::string("policies." + one));
  path.set("enum", std::move(paths));
  properties.set("path", std::move(path));
  properties.set("objective", section_schema<ObjectiveParams>("What makes an expression good."));
  properties.set("training", section_schema<ScenariosParams>("Runs that decide which expression is best."));
  properties.set("held_out", section_schema<ScenariosParams>("Runs that only judge the result."));
  Node baselines = typed("object", "Baselines that the best is compared with, by name: values by dotted path.");
  baselines.set("additionalProperties", typed("object", "Values by dotted path."));
  properties.set("baselines", std::move(baselines));
  properties.set("names", texts("Names that expressions may use; absent: all."));
  properties.set("starts", texts("Expressions of the first generation, in addition to random ones."));
  properties.set("limits", section_schema<LimitsParams>("Limits on the size of an expression."));
  properties.set("genetic", section_schema<GeneticParams>("How expressions are bred."));
  properties.set("proposer",
                 section_schema<ProposerParams>("Limits for an external program that proposes expressions."));
  properties.set("search", section_schema<SearchParams>("Length and seed of the search."));
  Node node = typed(
      "object", "A study of expressions: an experiment, the place of an expression in it, and what makes one good.");
  node.set("properties", std::move(properties));
  Node required = Node::array();
  for (const char* key : {"kind", "version", "base", "path", "objective"}) required.push(Node::string(key));
  node.set("required", std::move(required));
  node.set("additionalProperties", Node::boolean(false));
  return node;
}

}  // namespace orrery::experiments::evolve
