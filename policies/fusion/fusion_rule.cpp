#include "policies/fusion/fusion_rule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policies/fusion/place.hpp"
#include "sim/base/home.hpp"

namespace orrery::policies {
namespace {

namespace fs = std::filesystem;
using models::OpKind;
using models::SymExpr;

constexpr std::size_t kMaxOptional = 6;

sim::Origin item_origin(const sim::Node& root, const char* list, std::size_t place, const char* key) {
  const sim::Node* items = root.find(list);
  if (items == nullptr || place >= items->items().size()) return root.origin_of(list);
  const sim::Node& item = items->items()[place];
  const sim::Node* value = item.find(key);
  return value != nullptr ? value->origin() : item.origin_of(key);
}

OpKind read_kind(const std::string& name, const sim::Origin& where, sim::Faults& faults) {
  const std::optional<OpKind> kind = models::op_kind_of(name);
  if (kind) return *kind;
  std::vector<std::string> known;
  for (const models::OpInfo& row : models::op_kinds()) known.emplace_back(row.name);
  faults.add(where, "unknown kind of op '" + name + "'", sim::name_hint(name, std::move(known)));
  return OpKind::custom;
}

std::optional<models::Attribute> read_attribute(const sim::Node& value, sim::Faults& faults) {
  if (value.kind() == sim::Node::Kind::integer) return SymExpr(value.as_integer());
  if (value.is_number()) return value.as_number();
  if (value.is_string()) return value.as_string();
  faults.add(value.origin(), "expected a number or a text, got " + value.shown());
  return std::nullopt;
}

models::Attributes read_attributes(const sim::Node& object, sim::Faults& faults) {
  models::Attributes all;
  if (!object.is_object()) return all;
  for (const auto& [name, value] : object.members())
    if (const auto read = read_attribute(value, faults)) all.emplace_back(name, *read);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

PatternNode read_node(const sim::Node& root, const RuleNode& file, std::size_t place, sim::Faults& faults) {
  PatternNode node;
  node.name = file.name;
  const auto where = [&](const char* key) { return item_origin(root, "nodes", place, key); };
  for (const std::string& name : file.op.items) node.kinds.push_back(read_kind(name, where("op"), faults));
  if (node.kinds.empty()) faults.add(where("op"), "expected a kind of op at least");
  node.attributes = read_attributes(file.attributes, faults);
  for (const std::string& name : file.types.items) {
    const auto type = sim::value_named<models::ElementType>(name);
    if (type)
      node.types.push_back(*type);
    else
      faults.add(where("types"), "unknown element type '" + name + "'");
  }
  for (const std::string& size : file.shape.items) try {
      node.shape.push_back(size == "*" ? std::nullopt : std::optional(SymExpr::parse(size)));
    } catch (const std::invalid_argument& error) {
      faults.add(where("shape"), fmt::format("size '{}': {}", size, error.what()));
    }
  node.parameters = file.parameters;
  if (!file.phase.empty()) {
    node.phase = sim::value_named<models::Phase>(file.phase);
    if (!node.phase)
      faults.add(where("phase"), "expected a phase, got '" + file.phase + "'",
                 sim::name_hint(file.phase, {"forward", "backward", "optimizer"}));
  }
  return node;
}

std::int32_t node_named(const Pattern& pattern, const std::string& name) {
  for (std::size_t i = 0; i < pattern.nodes.size(); ++i)
    if (pattern.nodes[i].name == name) return static_cast<std::int32_t>(i);
  return -1;
}

std::int32_t known_node(const Pattern& pattern, const std::string& name, const sim::Origin& where,
                        sim::Faults& faults) {
  const std::int32_t found = node_named(pattern, name);
  if (found >= 0) return found;
  std::vector<std::string> names;
  for (const PatternNode& node : pattern.nodes) names.push_back(node.name);
  faults.add(where, "unknown node '" + name + "'", sim::name_hint(name, std::move(names)));
  return 0;
}

Pattern read_pattern(const sim::Node& root, const FusionRuleFile& file, sim::Faults& faults) {
  Pattern pattern;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    if (node_named(pattern, file.nodes[i].name) >= 0)
      faults.add(item_origin(root, "nodes", i, "name"), "two nodes are named '" + file.nodes[i].name + "'");
    pattern.nodes.push_back(read_node(root, file.nodes[i], i, faults));
  }
  if (pattern.nodes.empty()) faults.add(root.origin_of("nodes"), "expected a node at least");
  for (std::size_t i = 0; i < file.edges.size() && !pattern.nodes.empty(); ++i) {
    PatternEdge edge;
    edge.from = known_node(pattern, file.edges[i].from, item_origin(root, "edges", i, "from"), faults);
    edge.to = known_node(pattern, file.edges[i].to, item_origin(root, "edges", i, "to"), faults);
    edge.slot = static_cast<std::int32_t>(file.edges[i].slot.value_or(-1));
    edge.output = static_cast<std::int32_t>(file.edges[i].output);
    pattern.edges.push_back(edge);
  }
  for (std::size_t i = 0; i < file.shared.size() && !pattern.nodes.empty(); ++i) {
    const RuleShare& share = file.shared[i];
    const sim::Origin where = item_origin(root, "shared", i, "nodes");
    if (share.nodes.items.size() < 2) faults.add(where, "expected two nodes at least that share an input");
    for (std::size_t n = 1; n < share.nodes.items.size(); ++n)
      pattern.edges.push_back({known_node(pattern, share.nodes.items[0], where, faults),
                               known_node(pattern, share.nodes.items[n], where, faults),
                               static_cast<std::int32_t>(share.slot), 0, true});
  }
  if (file.escapes.items.empty()) faults.add(root.origin_of("escapes"), "expected a node whose result is read outside");
  for (const std::string& name : file.escapes.items) {
    const sim::Node* list = root.find("escapes");
    const std::int32_t node = known_node(pattern, name, list != nullptr ? list->origin() : root.origin(), faults);
    if (!pattern.nodes.empty()) pattern.nodes[at(node)].escapes = true;
  }
  return pattern;
}

/// The pattern without an optional node: its one edge in goes to where its one edge out went.
Pattern without(const Pattern& pattern, std::int32_t node) {
  Pattern less = pattern;
  PatternEdge in, out;
  for (const PatternEdge& edge : less.edges) {
    if (edge.to == node) in = edge;
    if (edge.from == node) out = edge;
  }
  std::erase_if(less.edges, [&](const PatternEdge& edge) { return edge.to == node || edge.from == node; });
  less.edges.push_back({in.from, out.to, out.slot, in.output, false});
  less.nodes.erase(less.nodes.begin() + node);
  for (PatternEdge& edge : less.edges) {
    edge.from -= edge.from > node ? 1 : 0;
    edge.to -= edge.to > node ? 1 : 0;
  }
  return less;
}

std::vector<Pattern> variants(const Pattern& whole, const sim::Node& root, const FusionRuleFile& file,
                              sim::Faults& faults) {
  std::vector<std::string> optional;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    if (!file.nodes[i].optional) continue;
    const auto node = static_cast<std::int32_t>(i);
    const auto in = std::ranges::count(whole.edges, node, &PatternEdge::to);
    const auto out = std::ranges::count(whole.edges, node, &PatternEdge::from);
    if (in != 1 || out != 1 || whole.nodes[i].escapes)
      faults.add(item_origin(root, "nodes", i, "optional"),
                 "an optional node has one edge in, one out, and does not escape");
    optional.push_back(file.nodes[i].name);
  }
  if (optional.size() > kMaxOptional)
    faults.add(root.origin_of("nodes"), fmt::format("expected at most {} optional nodes", kMaxOptional));
  if (!faults.empty()) return {};
  std::vector<Pattern> all;
  for (std::size_t drop = 0; drop < (std::size_t{1} << optional.size()); ++drop) {
    Pattern pattern = whole;
    for (std::size_t i = 0; i < optional.size(); ++i)
      if ((drop >> i) & 1) pattern = without(pattern, node_named(pattern, optional[i]));
    if (!order_nodes(pattern, 0)) {
      faults.add(root.origin_of("edges"), "expected edges that join all nodes");
      return {};
    }
    all.push_back(std::move(pattern));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Pattern& a, const Pattern& b) { return a.nodes.size() > b.nodes.size(); });
  return all;
}

}  // namespace

bool order_nodes(Pattern& pattern, std::int32_t start) {
  std::vector<std::int32_t> order{start}, place(pattern.nodes.size(), -1);
  place[at(start)] = 0;
  for (std::size_t next = 0; next < order.size(); ++next)
    for (const PatternEdge& edge : pattern.edges)
      for (const auto& [here, there] : {std::pair(edge.from, edge.to), std::pair(edge.to, edge.from)})
        if (here == order[next] && place[at(there)] < 0) {
          place[at(there)] = static_cast<std::int32_t>(order.size());
          order.push_back(there);
        }
  if (order.size() < pattern.nodes.size()) return false;
  Pattern ordered;
  for (const std::int32_t node : order) ordered.nodes.push_back(pattern.nodes[at(node)]);
  for (PatternEdge edge : pattern.edges) {
    edge.from = place[at(edge.from)];
    edge.to = place[at(edge.to)];
    ordered.edges.push_back(edge);
  }
  pattern = std::move(ordered);
  return true;
}

FusionRule read_rule(const sim::Node& root, sim::Faults& outer) {
  sim::Faults faults;
  const auto file = sim::parse_params<FusionRuleFile>(root, faults);
  FusionRule rule;
  if (faults.empty()) {
    if (file.kind != "fusion_rule")
      faults.add(root.origin_of("kind"), "expected kind \"fusion_rule\", got \"" + file.kind + "\"");
    rule.name = file.name;
    rule.doc = file.doc;
    rule.priority = file.priority;
    rule.compile_s = file.compile_s;
    rule.dialect = file.result.dialect;
    rule.result_name = file.result.name.empty() ? file.name : file.result.name;
    rule.inputs = file.result.inputs;
    rule.attributes = read_attributes(file.result.attributes, faults);
    rule.result = read_kind(file.result.op, root.origin_at("result.op"), faults);
    const Pattern whole = read_pattern(root, file, faults);
    if (rule.result != OpKind::fused) {
      if (rule.inputs.empty())
        faults.add(root.origin_at("result.inputs"), "expected the inputs of the op that replaces the match");
      for (const RuleInput& input : rule.inputs) known_node(whole, input.node, root.origin_at("result.inputs"), faults);
      if (file.escapes.items.size() != 1)
        faults.add(root.origin_of("escapes"), "expected one node: the new op's result");
    }
    const auto fixed = std::ranges::count(file.nodes, false, &RuleNode::optional);
    if (fixed < 2 && faults.empty()) faults.add(root.origin_of("nodes"), "expected two nodes at least that must match");
    if (faults.empty()) rule.patterns = variants(whole, root, file, faults);
  }
  for (const sim::Fault& fault : faults.all()) outer.add(fault.where, fault.message, fault.hint);
  return rule;
}

std::vector<std::string> shipped_rules() {
  std::vector<std::string> names;
  const fs::path folder = sim::home_folder() / "policies/fusion/rules";
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<FusionRule> load_rules(const RuleChoice& choice) {
  sim::Faults faults;
  std::vector<FusionRule> rules;
  const auto read_file = [&](const fs::path& path) {
    try {
      rules.push_back(read_rule(sim::read_json(path), faults));
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    }
  };
  const std::vector<std::string> shipped = shipped_rules();
  for (const std::string& name : choice.names.items) {
    if (std::ranges::find(shipped, name) != shipped.end())
      read_file(sim::home_folder() / "policies/fusion/rules" / (name + ".json"));
    else
      faults.add({"", "/rules"}, "unknown fusion rule '" + name + "'", sim::name_hint(name, shipped));
  }
  for (const std::string& file : choice.files) read_file(file);
  for (const sim::Node& node : choice.inline_rules) rules.push_back(read_rule(node, faults));
  faults.throw_if_any();
  std::stable_sort(rules.begin(), rules.end(), [](const FusionRule& a, const FusionRule& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.name < b.name;
  });
  return rules;
}

}  // namespace orrery::policies
