// `orrery list [KIND]` and `orrery describe NAME`: everything that has a name, and what its parameters mean.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "experiments/all/systems.hpp"
#include "experiments/base/catalog.hpp"
#include "experiments/base/component_node.hpp"
#include "experiments/base/experiment.hpp"
#include "sim/base/name_match.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

using sim::ComponentInfo;
using sim::FieldInfo;
using sim::Node;

std::string type_text(const FieldInfo& info) {
  std::string text = info.policies.empty() ? info.type : "policy block";
  if (info.type == "number" && has_dimension(info.unit)) text = fmt::format("quantity in {}", symbol(info.unit));
  if (info.type == "integer" && has_dimension(info.unit)) text = fmt::format("quantity in {}", symbol(info.unit));
  if (!has_dimension(info.unit) && !symbol(info.unit).empty()) text += fmt::format(" ({})", symbol(info.unit));
  if (!info.choices.empty()) text = fmt::format("one of {}", fmt::join(info.choices, ", "));
  if (info.array) text = "array of " + text;
  return text;
}

void print_field(const FieldInfo& info, const std::string& indent) {
  std::string facts = type_text(info);
  const bool ranged = info.type == "integer" || info.type == "number";
  if (ranged && sim::range_text(info.range, info.unit) != "any value")
    facts += ", " + sim::range_text(info.range, info.unit);
  if (info.required) {
    facts += ", required";
  } else if (info.type != "object" && (info.optional || !info.default_value.is_null())) {
    facts += ", default " + info.default_value.dump();
  }
  fmt::print("{}{}: {}\n{}    {}\n", indent, info.name, facts, indent, info.doc);
  for (const FieldInfo& inner : info.nested) print_field(inner, indent + "  ");
  for (const ComponentInfo& policy : info.policies) fmt::print("{}  {}: {}\n", indent, policy.name, policy.doc);
}

/// Parts by what they are: those that compute first.
void list_parts(const std::vector<ComponentInfo>& components) {
  constexpr const char* kFirst[] = {"gpu", "npu", "cpu", "fpga", "attention_pim", "bank_pim", "upmem", "platform"};
  std::map<std::string, std::vector<const ComponentInfo*>> groups;
  std::map<std::string, std::string> docs;
  for (const ComponentInfo& component : components) {
    if (component.kind != "part") continue;
    const auto [kind, doc] = experiments::part_kind(component.name);
    groups[kind].push_back(&component);
    docs[kind] = doc;
  }
  std::vector<std::string> order(std::begin(kFirst), std::end(kFirst));
  for (const auto& [kind, parts] : groups)
    if (std::find(order.begin(), order.end(), kind) == order.end()) order.push_back(kind);
  for (const std::string& kind : order) {
    if (groups[kind].empty()) continue;
    fmt::print("  {}: {}\n", kind, docs[kind]);
    for (const ComponentInfo* part : groups[kind]) fmt::print("    {:<24} {}\n", part->name, part->doc);
  }
}

int list(const Systems& systems, const std::string& kind, bool json) {
  const std::vector<ComponentInfo> components = experiments::all_components(systems);
  std::set<std::string> kinds;
  for (const ComponentInfo& component : components) kinds.insert(component.kind);
  if (!kind.empty() && !kinds.contains(kind))
    sim::throw_fault({"list", ""}, fmt::format("unknown kind '{}'", kind),
                     sim::name_hint(kind, {kinds.begin(), kinds.end()}));
  if (json) {
    Node all = Node::array();
    for (const ComponentInfo& component : components)
      if (kind.empty() || component.kind == kind) all.push(experiments::described(systems, component));
    fmt::print("{}\n", all.dump());
    return 0;
  }
  for (const std::string& heading : kinds) {
    if (!kind.empty() && heading != kind) continue;
    fmt::print("{}\n", heading);
    if (heading == "part") {
      list_parts(components);
      continue;
    }
    for (const ComponentInfo& component : components)
      if (component.kind == heading) fmt::print("  {:<18} {}\n", component.name, component.doc);
  }
  return 0;
}

/// A part that stands in a file of the user's.
int describe_file(const std::string& file, bool json) {
  const ComponentInfo part = experiments::part_component(file);
  if (json) {
    fmt::print("{}\n", experiments::component_node(part).dump(2));
  } else {
    fmt::print("{} (part): {}\n{}", file, part.doc, experiments::part_text(file));
  }
  return 0;
}

int describe(const Systems& systems, const std::string& reference, bool json) {
  if (reference.ends_with(".json")) return describe_file(reference, json);
  const std::vector<ComponentInfo> components = experiments::all_components(systems);
  const auto of_kind = [&](const ComponentInfo& component) { return component.kind == reference; };
  if (std::any_of(components.begin(), components.end(), of_kind)) return list(systems, reference, json);
  std::string note;
  const std::string meant = experiments::meant_component(reference, components, note);
  const std::string name = meant.empty() ? reference : meant;
  if (!note.empty()) fmt::print(stderr, "note: {}\n", note);
  bool found = false;
  for (const ComponentInfo& component : components) {
    if (component.name != name) continue;
    if (json) {
      fmt::print("{}\n", experiments::described(systems, component).dump(2));
    } else {
      fmt::print("{}{} ({}): {}\n", found ? "\n" : "", component.name, component.kind, component.doc);
      const std::string text = experiments::component_text(systems, component);
      if (component.kind == "part") fmt::print("{}\nfields of a part of this kind:\n", text);
      for (const FieldInfo& info : component.fields) print_field(info, "  ");
      if (component.kind != "part") fmt::print("{}", text);
    }
    found = true;
  }
  if (found) return 0;
  std::vector<std::string> names;
  for (const ComponentInfo& component : components) names.push_back(component.name);
  const bool near = !sim::near_names(name, names).empty();
  sim::throw_fault({"describe", ""}, fmt::format("nothing is called '{}'", name),
                   near ? sim::name_hint(name, names) : "`orrery list` shows all names");
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto kind = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("list", "List policies, cost models, parts, models, trace formats …");
  command->add_option("KIND", *kind, "List only this kind");
  command->add_flag("--json", *json, "Print JSON, with all fields");
  command->callback(
      [kind, json, &action] { action = [kind, json](const Systems& systems) { return list(systems, *kind, *json); }; });
}

void add_describe(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("describe", "Explain a policy, part, model or section and its parameters");
  command->add_option("NAME", *name, "Name shown by `orrery list`, or the file of a part")->required();
  command->add_flag("--json", *json, "Print JSON");
  command->callback([name, json, &action] {
    action = [name, json](const Systems& systems) { return describe(systems, *name, *json); };
  });
}

}  // namespace orrery::tools
