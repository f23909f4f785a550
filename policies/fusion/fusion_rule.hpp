// Fusion rules: patterns of ops that a library or compiler has one kernel for, as data.
//
// A rule is a connected pattern: nodes (op kinds, and what must hold of attributes, types, shapes), edges (which node
// reads which, and where), the nodes whose results may be read from outside, and what the whole becomes: a fused op
// with a name and dialect, or one op of another kind. Views between nodes are looked through. A node may be optional;
// a rule with k of them stands for 2^k patterns, tried largest first. Shipped rules: policies/fusion/rules/*.json;
// format: docs/explain/fusion.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

/// The file, as it stands.
struct RuleNode {
  std::string name;
  sim::TextList op;
  sim::Node attributes;
  sim::TextList types;
  sim::TextList shape;
  std::vector<std::int64_t> parameters;
  std::string phase;
  bool optional = false;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("name", &RuleNode::name, "Name of the node in this rule.")),
        sim::required(sim::field("op", &RuleNode::op, "Op kinds that match the node.")),
        sim::field("attributes", &RuleNode::attributes, "Attributes that the op must have, with their values."),
        sim::field("types", &RuleNode::types, "Allowed element types of the op's first output; empty: any."),
        sim::field("shape", &RuleNode::shape,
                   "Last dimensions of the op's first output, each an expression, or * for any; empty: any shape."),
        sim::field("parameters", &RuleNode::parameters, sim::Unit::none, sim::at_least(0),
                   "Indices of the op's inputs that must be parameters of the model."),
        sim::field("phase", &RuleNode::phase, "Phase of the op: forward, backward or optimizer; empty: any."),
        sim::field("optional", &RuleNode::optional,
                   "Whether the rule also matches without the node; such a node has one edge in and one out.")};
  }
};

struct RuleEdge {
  std::string from, to;
  std::optional<std::int64_t> slot;
  std::int64_t output = 0;

  static constexpr auto fields() {
    return sim::FieldTable{sim::required(sim::field("from", &RuleEdge::from, "Node that produces the tensor.")),
                           sim::required(sim::field("to", &RuleEdge::to, "Node that reads the tensor.")),
                           sim::field("slot", &RuleEdge::slot, sim::Unit::none, sim::at_least(0),
                                      "Index of the reader's input that the tensor is; null: any."),
                           sim::field("output", &RuleEdge::output, sim::Unit::none, sim::at_least(0),
                                      "Index of the producer's output that the tensor is.")};
  }
};

/// Nodes that read one tensor in the same slot, as three projections of one activation do.
struct RuleShare {
  sim::TextList nodes;
  std::int64_t slot = 0;

  static constexpr auto fields() {
    return sim::FieldTable{sim::required(sim::field("nodes", &RuleShare::nodes, "Nodes that read the same tensor.")),
                           sim::field("slot", &RuleShare::slot, sim::Unit::none, sim::at_least(0),
                                      "Index of the readers' input that the tensor is.")};
  }
};

/// An input of the op that replaces a match.
struct RuleInput {
  std::string node;
  std::int64_t slot = 0;
  std::string before;
  bool optional = false;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("node", &RuleInput::node, "Node of the pattern whose input is taken.")),
        sim::required(
            sim::field("slot", &RuleInput::slot, sim::Unit::none, sim::at_least(0), "Index of the node's input.")),
        sim::field("before", &RuleInput::before,
                   "\"transpose\": the tensor before a transposing view, if there is one."),
        sim::field("optional", &RuleInput::optional,
                   "Whether the input is left out where the pattern matched without the node.")};
  }
};

struct RuleResult {
  std::string op = "fused", name, dialect;
  std::vector<RuleInput> inputs;
  sim::Node attributes;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("op", &RuleResult::op, "Op that replaces the match: fused, or an op kind."),
        sim::field("name", &RuleResult::name, "Name of the new op; empty: the rule's name."),
        sim::field("dialect", &RuleResult::dialect,
                   "Dialect of the new op: the library or compiler that has the kernel."),
        sim::field("inputs", &RuleResult::inputs, "Inputs of the new op in order, where its kind is not fused."),
        sim::field("attributes", &RuleResult::attributes, "Attributes of the new op: numbers and texts.")};
  }
};

struct FusionRuleFile {
  std::string kind = "fusion_rule", name, doc, source;
  std::int64_t version = 1, priority = 10;
  std::vector<RuleNode> nodes;
  std::vector<RuleEdge> edges;
  std::vector<RuleShare> shared;
  sim::TextList escapes;
  RuleResult result;
  double compile_s = 0;

  static constexpr auto fields() {
    using R = FusionRuleFile;
    return sim::FieldTable{
        sim::field("kind", &R::kind, "fusion_rule."),
        sim::field("version", &R::version, sim::Unit::none, sim::between(1, 1), "Version of the format."),
        sim::required(sim::field("name", &R::name, "Name of the rule.")),
        sim::field("doc", &R::doc, "What the rule stands for, in one line."),
        sim::field("source", &R::source, "Source of the rule."),
        sim::field("priority", &R::priority, sim::Unit::none, sim::any_value(),
                   "Priority of the rule; those with higher ones are matched first."),
        sim::required(sim::field("nodes", &R::nodes, "Ops of the pattern.")),
        sim::field("edges", &R::edges,
                   "Edges that say which node reads which; with shared tensors they must join all nodes."),
        sim::field("shared", &R::shared, "Sets of nodes that read the same tensor; these join nodes too."),
        sim::required(sim::field("escapes", &R::escapes, "Nodes whose results may be read from outside the match.")),
        sim::field("result", &R::result, "Op that replaces the match."),
        sim::field("compile_time", &R::compile_s, sim::Unit::seconds, sim::at_least(0),
                   "Time to compile the kernel for one shape at run time; 0: it is precompiled.")};
  }
};

/// A pattern ready to match: nodes in an order in which each is joined to an earlier one.
struct PatternNode {
  std::string name;
  std::vector<models::OpKind> kinds;
  std::vector<std::pair<std::string, models::Attribute>> attributes;
  std::vector<models::ElementType> types;
  std::vector<std::optional<models::SymExpr>> shape;  ///< last sizes; nothing: any
  std::vector<std::int64_t> parameters;
  std::optional<models::Phase> phase;
  bool escapes = false;
};
struct PatternEdge {
  std::int32_t from = 0, to = 0, slot = -1, output = 0;  ///< slot -1: any
  bool shared = false;                                   ///< both read one tensor, in `slot`
};
struct Pattern {
  std::vector<PatternNode> nodes;
  std::vector<PatternEdge> edges;
};

/// Puts the nodes in an order from `start` in which every other one has an edge to an earlier one; false if some are
/// not joined.
bool order_nodes(Pattern& pattern, std::int32_t start);

struct FusionRule {
  std::string name, doc, dialect, result_name;
  models::OpKind result = models::OpKind::fused;
  std::vector<RuleInput> inputs;
  models::Attributes attributes;
  std::int64_t priority = 0;
  double compile_s = 0;
  std::vector<Pattern> patterns;  ///< largest first
};

/// Reads a rule; faults at its pointers.
FusionRule read_rule(const sim::Node& node, sim::Faults& faults);

/// What a pass is told of its rules: names of shipped ones, files, and rules in the config itself.
struct RuleChoice {
  sim::TextList names;
  std::vector<std::string> files;
  std::vector<sim::Node> inline_rules;
};
/// All rules, sorted by priority, then name. Throws sim::ConfigError with every fault.
std::vector<FusionRule> load_rules(const RuleChoice& choice);
/// Names of the shipped rules, sorted.
std::vector<std::string> shipped_rules();

}  // namespace orrery::policies
