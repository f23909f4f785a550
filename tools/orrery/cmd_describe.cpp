// `orrery list [KIND]` and `orrery describe NAME`: everything that has a name, and what its parameters mean.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "experiments/all/systems.hpp"
#include "experiments/base/catalog.hpp"
#include "experiments/base/component_node.hpp"
#include "experiments/base/experiment.hpp"
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
  const std::string name = reference.starts_with("catalog:") ? reference.substr(8) : reference;
  const std::vector<ComponentInfo> components = experiments::all_components(systems);
  const auto of_kind = [&](const ComponentInfo& component) { return component.kind == name; };
  if (std::any_of(components.begin(), components.end(), of_kind)) return list(systems, name, json);
  bool found = false;
  for (const ComponentInfo& component : components) {
    if (component.name != name) continue;
    if (json) {
      fmt::print("{}\n", experiments::described(systems, component).dump(2));
    } else {
      fmt::print("{}{} ({}): {}\n", found ? "\n" : "", component.name, component.kind, component.doc);
      for (const FieldInfo& info : component.fields) print_field(info, "  ");
      fmt::print("{}", experiments::component_text(systems, component));
    }
    found = true;
  }
  if (found) return 0;
  std::vector<std::string> names;
  for (const ComponentInfo& component : components) names.push_back(component.name);
  const std::string near = sim::nearest_name(name, names);
  sim::throw_fault({"describe", ""}, fmt::format("nothing is called '{}'", name),
                   near.empty() ? "`orrery list` shows all names" : fmt::format("did you mean '{}'?", near));
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto kind = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("list", "List policies, cost models, parts, models, trace formats …");
  command->add_option("KIND", *kind, "Only this kind");
  command->add_flag("--json", *json, "As JSON, with all fields");
  command->callback(
      [kind, json, &action] { action = [kind, json](const Systems& systems) { return list(systems, *kind, *json); }; });
}

void add_describe(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("describe", "Explain a policy, part, model or section and its parameters");
  command->add_option("NAME", *name, "A name that `orrery list` shows, or a part's file")->required();
  command->add_flag("--json", *json, "As JSON");
  command->callback([name, json, &action] {
    action = [name, json](const Systems& systems) { return describe(systems, *name, *json); };
  });
}

}  // namespace orrery::tools
