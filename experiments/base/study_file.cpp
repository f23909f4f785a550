#include "experiments/base/study_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/experiment.hpp"
#include "sim/base/formula.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::experiments {

namespace fs = std::filesystem;
using sim::Faults;
using sim::Node;

namespace {

constexpr std::string_view kOfBase = "base.";  // of a --set

/// One of `values`; a text has its place as its number.
Choice read_choice(const Node& node, const std::vector<std::string>& paths, std::size_t index, Faults& faults) {
  const Node* is = &node;
  Choice value;
  if (node.is_object()) {
    check_keys_of(node, {"is", "set"}, faults);
    is = node.find("is");
    if (is == nullptr || !(is->is_number() || is->is_string())) {
      faults.add(place_of(node, "is"), "expected a number or a text that names this value");
      return value;
    }
    if (const Node* set = node.find("set")) value.assignments = read_assignments(*set, faults);
  }
  value.label = is->is_string() ? is->as_string() : is->dump();
  value.number = static_cast<double>(index);
  if (is->is_number()) {
    value.number = is->as_number();
  } else if (const auto quantity = is->is_string() ? quantity_of(value.label) : std::nullopt) {
    value.number = quantity->first;
  } else {
    value.text = true;
  }
  for (const std::string& path : paths) value.assignments.push_back({path, *is});
  return value;
}

std::string title_of(const Node& root) {
  const Node* title = root.find("title");
  return title != nullptr && title->is_string() ? title->as_string() : "";
}

}  // namespace

const Node* member(const Node& node, std::string_view name, Node::Kind kind, const char* expected, bool required,
                   Faults& faults) {
  const Node* found = node.find(name);
  if (found == nullptr) {
    if (required) faults.add(node.origin_of(name), fmt::format("expected {}, found nothing", expected));
    return nullptr;
  }
  if (found->kind() == kind) return found;
  faults.add(found->origin(), fmt::format("expected {}, got {}", expected, found->shown()));
  return nullptr;
}

std::string text_member(const Node& node, std::string_view name, bool required, Faults& faults) {
  const Node* text = member(node, name, Node::Kind::string, "a text", required, faults);
  if (text == nullptr) return {};
  if (required && text->as_string().empty()) faults.add(text->origin(), "expected a text, got an empty one");
  return text->as_string();
}

void check_keys_of(const Node& node, const std::vector<std::string>& known, Faults& faults) {
  for (const auto& [key, value] : node.members())
    if (std::find(known.begin(), known.end(), key) == known.end())
      faults.add(value.origin(), fmt::format("unknown key '{}'", key), sim::name_hint(key, known));
}

bool check_name(const std::string& name, const sim::Origin& where, const char* what, Faults& faults) {
  if (sim::is_formula_name(name)) return true;
  faults.add(where, fmt::format("expected a name of letters, digits and _ for {}, got '{}'", what, name));
  return false;
}

std::vector<Assignment> read_assignments(const Node& node, Faults& faults) {
  std::vector<Assignment> all;
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object of \"path\": value, got {}", node.shown()));
    return all;
  }
  for (const auto& [path, value] : node.members()) all.push_back({path, value});
  return all;
}

Node read_base(const Node& root, Faults& faults) {
  const Node* base = root.find("base");
  Node config = Node::object();
  if (base == nullptr || !(base->is_object() || base->is_string())) {
    faults.add(place_of(root, "base"), "expected the config of an experiment, or its file");
    return config;
  }
  config.set_origin(base->origin());
  const Node* file = base->is_string() ? base : base->find("base");
  if (file != nullptr && file->is_string()) {
    const fs::path path = (sim::folder_of(file->origin()) / file->as_string()).lexically_normal();
    if (fs::is_regular_file(path)) {
      config = sim::read_config(path);
    } else {
      faults.add(file->origin(), fmt::format("expected a file, found none at '{}'", path.string()));
    }
  } else if (file != nullptr) {
    faults.add(file->origin(), fmt::format("expected a path, got {}", file->shown()));
  }
  if (base->is_object()) {
    Node own = *base;
    own.erase("base");
    sim::merge_over(config, own);
  }
  return config;
}

void check_version(const Node& root, Faults& faults) {
  const Node* format = member(root, "version", Node::Kind::integer, "format version 1", true, faults);
  if (format != nullptr && format->as_integer() != 1)
    faults.add(format->origin(), fmt::format("expected format version 1, got {}", format->shown()));
}

std::optional<std::pair<double, sim::Unit>> quantity_of(std::string_view text) {
  using sim::Unit;
  for (const Unit unit : {Unit::seconds, Unit::bytes, Unit::bytes_per_s, Unit::flop_per_s, Unit::watts, Unit::joules,
                          Unit::hertz, Unit::per_s})
    if (const auto value = sim::parse_quantity(text, unit)) return std::pair{*value, unit};
  return std::nullopt;
}

std::vector<std::string> read_paths(const Node& node, Faults& faults) {
  const Node* path = node.find("path");
  std::vector<std::string> paths;
  if (path == nullptr || path->is_null()) return paths;
  if (path->is_string()) return {path->as_string()};
  if (path->is_array())
    for (const Node& item : path->items())
      if (item.is_string()) paths.push_back(item.as_string());
  if (!path->is_array() || paths.size() != path->items().size())
    faults.add(path->origin(), fmt::format("expected a dotted path or a list of them, got {}", path->shown()));
  return paths;
}

std::vector<Choice> read_choices(const Node& node, const std::vector<std::string>& paths, Faults& faults) {
  std::vector<Choice> all;
  const Node* values = member(node, "values", Node::Kind::array, "a list of values", true, faults);
  if (values == nullptr) return all;
  if (values->items().empty()) faults.add(values->origin(), "expected at least one value");
  for (const Node& item : values->items()) {
    Choice value = read_choice(item, paths, all.size(), faults);
    const auto same = [&](const Choice& other) { return other.label == value.label; };
    if (std::any_of(all.begin(), all.end(), same))
      faults.add(item.origin(), fmt::format("'{}' is on this axis already", value.label));
    all.push_back(std::move(value));
  }
  return all;
}

std::vector<Measure> read_measures(const Node& root, Faults& faults) {
  std::vector<Measure> measures;
  const Node* list =
      member(root, "measures", Node::Kind::object, "an object of \"name\": \"path in summary.json\"", true, faults);
  if (list == nullptr) return measures;
  if (list->members().empty()) faults.add(list->origin(), "expected at least one measure");
  for (const auto& [name, node] : list->members()) {
    if (!check_name(name, node.origin(), "a measure", faults)) continue;
    if (!node.is_string() || node.as_string().empty())
      faults.add(node.origin(), fmt::format("expected the path of a figure of summary.json, got {}", node.shown()));
    else
      measures.push_back({name, node.as_string(), node.origin()});
  }
  return measures;
}

Node read_study_document(const std::string& file, const std::vector<std::string>& assignments) {
  Node root = sim::read_json(file);
  assign_study(root, assignments);
  return root;
}

void assign_study(Node& root, const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments)
    if (!assignment.starts_with(kOfBase)) sim::assign(root, assignment);
}

void assign_base(Node& base, const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments)
    if (assignment.starts_with(kOfBase)) sim::assign(base, std::string_view(assignment).substr(kOfBase.size()));
}

std::string document_kind(const Node& root) {
  const Node* kind = root.is_object() ? root.find("kind") : nullptr;
  return kind != nullptr && kind->is_string() ? kind->as_string() : "";
}

std::string named_document(const std::string& text) {
  std::error_code ignored;
  const bool bare =
      !text.empty() && text != "-" && text.find('/') == std::string::npos && !fs::path(text).has_extension();
  if (!bare || fs::exists(text, ignored)) return text;
  const fs::path folder = home_folder() / "experiments/studies";
  const std::vector<std::string> known = sim::catalog_names(folder);
  const sim::NameMatch match = sim::match_name(text, known);
  if (match) return (folder / (match.name + ".json")).string();
  sim::throw_fault({text, ""}, "expected a file, or the name of one that ships", sim::name_hint(text, known));
}

std::vector<fs::path> shipped_studies(std::string_view kind) {
  std::vector<fs::path> files;
  const fs::path folder = home_folder() / "experiments/studies";
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json" && document_kind(sim::read_json(entry.path())) == kind)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<sim::ComponentInfo> study_components(const std::string& kind) {
  std::vector<sim::ComponentInfo> all;
  for (const fs::path& file : shipped_studies(kind))
    all.push_back({kind, file.stem().string(), title_of(sim::read_json(file)), {}});
  return all;
}

}  // namespace orrery::experiments
