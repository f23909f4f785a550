#include "policies/fusion/pattern_match.hpp"

#include <algorithm>
#include <set>

#include "policies/fusion/finish.hpp"
#include "policies/fusion/loops.hpp"
#include "policies/fusion/place.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::TensorId;

/// True if the tensor, or a view of it, is an output of the graph.
bool leaves_graph(const OpGraph& graph, TensorId tensor) {
  if (graph.is_output(tensor)) return true;
  return std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
    const OpNode& op = graph.op(reader);
    return models::info(op.kind).pattern == models::Pattern::view && leaves_graph(graph, op.outputs.front());
  });
}

class Matcher {
 public:
  Matcher(const OpGraph& graph, const LaunchGraph& launches)
      : graph_(graph), launches_(launches), taken_(launches.size(), false), merged_(launches.size(), pairs(launches)) {
    by_kind_.resize(models::kOpKinds);
    for (std::size_t unit = 0; unit < launches.size(); ++unit)
      by_kind_[static_cast<std::size_t>(op(unit).kind)].push_back(static_cast<std::int32_t>(unit));
  }

  void run(const std::vector<FusionRule>& rules, std::vector<RuleMatch>& out) {
    for (std::size_t r = 0; r < rules.size(); ++r)
      for (std::size_t p = 0; p < rules[r].patterns.size(); ++p) {
        const Pattern pattern = anchored(rules[r].patterns[p]);
        for (const std::int32_t anchor : candidates(pattern.nodes.front())) {
          units_.assign(pattern.nodes.size(), -1);
          if (taken_[at(anchor)] || !place(pattern, 0, anchor)) continue;
          if (units_.size() > 1 && !merged_.merge(units_)) continue;
          RuleMatch match{r, p, units_, {}};
          for (const PatternNode& node : pattern.nodes) match.nodes.push_back(node.name);
          for (const std::int32_t unit : units_) taken_[at(unit)] = true;
          out.push_back(std::move(match));
        }
      }
  }

 private:
  static std::vector<std::pair<std::int32_t, std::int32_t>> pairs(const LaunchGraph& launches) {
    std::vector<std::pair<std::int32_t, std::int32_t>> all;
    for (const LaunchEdge& edge : launches.edges) all.emplace_back(edge.from, edge.to);
    return all;
  }
  const OpNode& op(std::size_t unit) const { return graph_.op(launches_.ops[unit]); }

  std::vector<std::int32_t> candidates(const PatternNode& node) const {
    std::vector<std::int32_t> all;
    for (const OpKind kind : node.kinds) {
      const std::vector<std::int32_t>& some = by_kind_[static_cast<std::size_t>(kind)];
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  /// The pattern ordered from the node that has the fewest candidates in this graph.
  Pattern anchored(const Pattern& pattern) const {
    std::size_t best = 0, fewest = candidates(pattern.nodes.front()).size();
    for (std::size_t i = 1; i < pattern.nodes.size(); ++i)
      if (const std::size_t count = candidates(pattern.nodes[i]).size(); count < fewest) {
        best = i;
        fewest = count;
      }
    Pattern turned = pattern;
    order_nodes(turned, static_cast<std::int32_t>(best));
    return turned;
  }

  bool fits(const PatternNode& node, std::int32_t unit) const {
    const OpNode& own = op(at(unit));
    if (std::ranges::find(node.kinds, own.kind) == node.kinds.end()) return false;
    if (node.phase && own.phase != *node.phase) return false;
    for (const auto& [name, value] : node.attributes) {
      const models::Attribute* found = own.find(name);
      if (found != nullptr ? *found != value : value != models::Attribute(SymExpr(0))) return false;
    }
    for (const std::int64_t slot : node.parameters) {
      if (static_cast<std::size_t>(slot) >= own.inputs.size()) return false;
      const TensorId root = models::storage_of(graph_, own.inputs[static_cast<std::size_t>(slot)]);
      if (graph_.tensor(root).role != models::TensorRole::parameter) return false;
    }
    if (own.outputs.empty()) return node.types.empty() && node.shape.empty();
    const models::Tensor& made = graph_.tensor(own.outputs.front());
    if (!node.types.empty() && std::ranges::find(node.types, made.type) == node.types.end()) return false;
    if (node.shape.size() > made.shape.size()) return false;
    for (std::size_t i = 0; i < node.shape.size(); ++i) {
      const auto& wanted = node.shape[node.shape.size() - 1 - i];
      if (wanted && !(*wanted == made.shape[made.shape.size() - 1 - i])) return false;
    }
    return true;
  }

  /// The tensor that a unit reads in the slot that nodes share; nothing where it has no such input.
  std::optional<TensorId> shared_input(const PatternEdge& edge, std::int32_t unit) const {
    const std::vector<TensorId>& inputs = op(at(unit)).inputs;
    return at(edge.slot) < inputs.size() ? std::optional(inputs[at(edge.slot)]) : std::nullopt;
  }

  bool has_edge(const PatternEdge& edge, std::int32_t from, std::int32_t to) const {
    if (edge.shared) {
      const std::optional<TensorId> a = shared_input(edge, from), b = shared_input(edge, to);
      return a && b && *a == *b;
    }
    return std::ranges::any_of(launches_.in(at(to)), [&](const LaunchEdge& real) {
      return real.from == from && real.output == edge.output && (edge.slot < 0 || real.slot == edge.slot);
    });
  }

  /// Puts `unit` at node `place` and finds units for the nodes after it.
  bool place(const Pattern& pattern, std::size_t node, std::int32_t unit) {
    if (taken_[at(unit)] || std::ranges::find(units_, unit) != units_.end() || !fits(pattern.nodes[node], unit))
      return false;
    if (node > 0 && !same_place(op(at(units_[0])), op(at(unit)))) return false;
    units_[node] = unit;
    const bool joined = std::ranges::all_of(pattern.edges, [&](const PatternEdge& edge) {
      const std::int32_t from = units_[at(edge.from)], to = units_[at(edge.to)];
      return from < 0 || to < 0 || has_edge(edge, from, to);
    });
    if (joined && next(pattern, node + 1)) return true;
    units_[node] = -1;
    return false;
  }

  bool next(const Pattern& pattern, std::size_t node) {
    if (node == pattern.nodes.size()) return keeps_to_itself(pattern);
    for (const PatternEdge& edge : pattern.edges) {
      const std::int32_t other = at(edge.to) == node ? edge.from : at(edge.from) == node ? edge.to : -1;
      if (edge.shared && other >= 0 && units_[at(other)] >= 0) {
        const std::optional<TensorId> tensor = shared_input(edge, units_[at(other)]);
        for (const OpId reader : tensor ? graph_.consumers(*tensor) : std::span<const OpId>())
          if (launches_.unit_of[index(reader)] >= 0 && place(pattern, node, launches_.unit_of[index(reader)]))
            return true;
        return false;
      }
      if (edge.shared) continue;
      if (at(edge.to) == node && units_[at(edge.from)] >= 0) {
        for (const std::int32_t i : launches_.out[at(units_[at(edge.from)])])
          if (place(pattern, node, launches_.edges[at(i)].to)) return true;
        return false;
      }
      if (at(edge.from) == node && units_[at(edge.to)] >= 0) {
        for (const LaunchEdge& real : launches_.in(at(units_[at(edge.to)])))
          if (place(pattern, node, real.from)) return true;
        return false;
      }
    }
    return false;
  }

  bool keeps_to_itself(const Pattern& pattern) const {
    for (std::size_t i = 0; i < pattern.nodes.size(); ++i) {
      if (pattern.nodes[i].escapes) continue;
      for (const std::int32_t edge : launches_.out[at(units_[i])])
        if (std::ranges::find(units_, launches_.edges[at(edge)].to) == units_.end()) return false;
      for (const TensorId output : op(at(units_[i])).outputs)
        if (leaves_graph(graph_, output)) return false;
    }
    return true;
  }

  const OpGraph& graph_;
  const LaunchGraph& launches_;
  std::vector<std::vector<std::int32_t>> by_kind_;
  std::vector<bool> taken_;
  std::vector<std::int32_t> units_;
  MergedGroups merged_;
};

/// The tensor that an input of the replacing op is, in the old graph; nothing where the match lacks the node.
std::optional<TensorId> input_of(const OpGraph& graph, const LaunchGraph& launches, const RuleMatch& match,
                                 const RuleInput& input) {
  const auto found = std::ranges::find(match.nodes, input.node);
  if (found == match.nodes.end()) {
    if (input.optional) return std::nullopt;
    throw models::GraphError("a rule's input is of node '" + input.node + "', which the match lacks");
  }
  const OpNode& op = graph.op(launches.ops[at(match.units[static_cast<std::size_t>(found - match.nodes.begin())])]);
  if (static_cast<std::size_t>(input.slot) >= op.inputs.size())
    throw models::GraphError("a rule's input is number " + std::to_string(input.slot) + " of '" + op.name +
                             "', which has " + std::to_string(op.inputs.size()));
  const TensorId tensor = op.inputs[static_cast<std::size_t>(input.slot)];
  const std::optional<OpId> maker = graph.producer(tensor);
  if (input.before != "transpose" || !maker || graph.op(*maker).kind != OpKind::transpose) return tensor;
  // Only a view that swaps the last two axes is undone.
  const models::Attribute* perm = graph.op(*maker).find("perm");
  const auto* order = perm == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(perm);
  const std::size_t rank = graph.tensor(tensor).shape.size();
  const bool swaps = order == nullptr || (order->size() == rank && rank > 1 &&
                                          (*order)[rank - 1] == SymExpr(static_cast<std::int64_t>(rank) - 2));
  return swaps ? graph.op(*maker).inputs.front() : tensor;
}

constexpr const char* kMatchMark = "match";

/// Turns marked fused ops into the ops that their rules name.
OpGraph replace_marked(const OpGraph& fused, const OpGraph& before, const LaunchGraph& launches,
                       const std::vector<FusionRule>& rules, const std::vector<RuleMatch>& matches) {
  models::GraphCopy copy(fused);
  for (const OpId id : fused.ops()) {
    const OpNode& op = fused.op(id);
    const std::int64_t mark = op.integer(kMatchMark, -1);
    if (mark < 0) {
      copy.copy(id);
      continue;
    }
    const RuleMatch& match = matches[static_cast<std::size_t>(mark)];
    const FusionRule& rule = rules[match.rule];
    OpNode node;
    node.kind = rule.result;
    node.name = op.name;
    node.scope = op.scope;
    node.phase = op.phase;
    node.dialect = op.dialect;
    node.target = op.target;
    node.op_class = op.op_class;
    node.attributes = rule.attributes;
    for (const RuleInput& input : rule.inputs)
      if (const auto tensor = input_of(before, launches, match, input)) {
        const auto now = fused.find_tensor(before.tensor(*tensor).name);
        if (!now) throw models::GraphError("rule '" + rule.name + "': an input is made inside the match");
        node.inputs.push_back(copy.at(*now));
      }
    const OpId added = copy.to().add(std::move(node), {fused.tensor(op.outputs.front())});
    copy.put(op.outputs.front(), copy.to().op(added).outputs.front());
  }
  return copy.finish();
}

/// Different kernels that rules compile at run time: one a rule, pattern and sizes of its results.
double compile_time(const OpGraph& graph, const LaunchGraph& launches, const std::vector<FusionRule>& rules,
                    const std::vector<RuleMatch>& matches) {
  std::set<std::string> kernels;
  double sum = 0;
  for (const RuleMatch& match : matches) {
    const FusionRule& rule = rules[match.rule];
    if (rule.compile_s <= 0) continue;
    std::string key = rule.name;
    for (const std::int32_t unit : match.units) {
      const OpNode& op = graph.op(launches.ops[at(unit)]);
      key += ' ' + std::string(to_string(op.kind));
      for (const TensorId output : op.outputs) key += ' ' + models::shape_string(graph.tensor(output));
    }
    if (kernels.insert(std::move(key)).second) sum += rule.compile_s;
  }
  return sum;
}

}  // namespace

std::vector<RuleMatch> find_matches(const OpGraph& graph, const LaunchGraph& launches,
                                    const std::vector<FusionRule>& rules) {
  std::vector<RuleMatch> matches;
  Matcher(graph, launches).run(rules, matches);
  return matches;
}

OpGraph apply_rules(const OpGraph& graph, const std::vector<FusionRule>& rules, const PassContext& context,
                    bool keep_losers, PassReport& report) {
  const LaunchGraph launches = launch_graph(graph);
  const std::vector<RuleMatch> matches = find_matches(graph, launches, rules);
  UnitGroups groups(launches.size(), -1);
  std::vector<GroupLabel> labels(matches.size());
  std::vector<std::int64_t> counts(rules.size(), 0);
  bool replaces = false;
  for (std::size_t m = 0; m < matches.size(); ++m) {
    const FusionRule& rule = rules[matches[m].rule];
    ++counts[matches[m].rule];
    for (const std::int32_t unit : matches[m].units) groups[at(unit)] = static_cast<std::int32_t>(m);
    labels[m] = {rule.result_name, rule.dialect, {}, rule.result != OpKind::fused};
    if (rule.result == OpKind::fused) {
      labels[m].attributes = rule.attributes;
    } else {
      labels[m].attributes.emplace_back(kMatchMark, SymExpr(static_cast<std::int64_t>(m)));
      replaces = true;
    }
  }
  OpGraph fused = finish_groups(graph, launches, std::move(groups),
                                keep_losers ? PassContext{.typical = context.typical} : context, report, labels);
  if (replaces) fused = replace_marked(fused, graph, launches, rules, matches);
  for (std::size_t r = 0; r < rules.size(); ++r)
    report.tell("matches." + rules[r].name, static_cast<double>(counts[r]));
  report.tell("compile_s", compile_time(graph, launches, rules, matches));
  return fused;
}

}  // namespace orrery::policies
