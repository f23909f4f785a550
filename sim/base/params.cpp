#include "sim/base/params.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/base/name_match.hpp"

namespace orrery::sim {
namespace {

std::string number_text(double value, Unit unit) {
  if (value == std::floor(value) && std::fabs(value) < 1e15 && !has_dimension(unit))
    return fmt::format("{:.0f}", value);
  return has_dimension(unit) ? humanise(value, unit) : fmt::format("{}", value);
}

bool in_range(double value, const Range& range) {
  return (range.open_min ? value > range.min : value >= range.min) && value <= range.max;
}

/// The value of a number field in SI, or a fault.
std::optional<double> quantity(const Node& node, const FieldInfo& info, Faults& faults) {
  std::optional<double> value;
  if (has_dimension(info.unit)) {
    if (node.is_string()) value = parse_quantity(node.as_string(), info.unit);
  } else if (node.is_number()) {
    value = node.as_number();
  }
  if (!value) {
    faults.add(node.origin(), fmt::format("expected {}, got {}", expectation(info), node.shown()));
    return std::nullopt;
  }
  if (!in_range(*value, info.range)) {
    faults.add(node.origin(), fmt::format("expected {}, got {}", range_text(info.range, info.unit), node.shown()));
    return std::nullopt;
  }
  return value;
}

/// A field by its type, without what is inside.
FieldInfo type_of(const FieldRow& row) {
  FieldInfo info;
  info.name = row.name;
  info.unit = row.unit;
  info.range = row.range;
  row.type->describe(info);
  return info;
}

/// Calls `descend` for the value, or for each of a list of them.
template <class Descend>
void for_each_item(Node& value, bool array, const Descend& descend) {
  if (!array || !value.is_array()) return descend(value);
  for (Node& item : value.items()) descend(item);
}

/// A text of that unit that names a file. An empty one is a path that is not given.
bool names_file(const Node& item, Unit unit) {
  return (unit == Unit::path || unit == Unit::reference) && item.is_string() && !item.as_string().empty() &&
         !item.as_string().starts_with("catalog:");
}

/// Paths in an object that a field declares.
void visit_described(const FieldInfo& info, Node& item, const PathVisitor& visit) {
  for_each_path(info.nested, item, visit);
  for (const ComponentInfo& policy : info.policies)
    if (Node* block = item.find(policy.name); block != nullptr && block->is_object())
      for_each_path(policy.fields, *block, visit);
}

}  // namespace

void for_each_path(const std::vector<FieldInfo>& fields, Node& node, const PathVisitor& visit) {
  for (const FieldInfo& info : fields)
    if (Node* value = node.find(info.name))
      for_each_item(*value, info.array, [&](Node& item) {
        if (names_file(item, info.unit)) visit(item);
        if (item.is_object()) visit_described(info, item, visit);
      });
}

void detail::visit_paths(std::span<const FieldRow> rows, Node& node, const RegistrySet* registries,
                         const PathVisitor& visit) {
  for (const FieldRow& row : rows) {
    Node* value = node.find(row.name);
    if (value == nullptr) continue;
    for_each_item(*value, type_of(row).array, [&](Node& item) {
      if (names_file(item, row.unit)) visit(item);
      if (!item.is_object()) return;
      if (row.annotate == nullptr) return row.type->visit_inside(item, registries, visit);
      FieldInfo info = type_of(row);  // what is inside may be told by the annotation alone
      row.type->describe_inside(info, registries);
      row.annotate(info, registries);
      visit_described(info, item, visit);
    });
  }
}

std::string range_text(const Range& range, Unit unit) {
  const bool low = std::isfinite(range.min);
  const bool high = std::isfinite(range.max);
  if (low && high) return fmt::format("{} to {}", number_text(range.min, unit), number_text(range.max, unit));
  if (low) return fmt::format("{} {}", range.open_min ? ">" : ">=", number_text(range.min, unit));
  if (high) return fmt::format("<= {}", number_text(range.max, unit));
  return "any value";
}

FieldInfo::FieldInfo() = default;
FieldInfo::~FieldInfo() = default;
FieldInfo::FieldInfo(const FieldInfo&) = default;
FieldInfo::FieldInfo(FieldInfo&&) noexcept = default;
FieldInfo& FieldInfo::operator=(const FieldInfo&) = default;
FieldInfo& FieldInfo::operator=(FieldInfo&&) noexcept = default;

std::string expectation(const FieldInfo& info) {
  if (info.type == "boolean") return "true or false";
  if (!info.choices.empty()) return fmt::format("one of {}", fmt::join(info.choices, ", "));
  if (info.type == "string") return "a string";
  if (info.type == "list") return "a string with commas, or an array of strings and whole numbers";
  if (info.type == "object") return "an object";
  if (has_dimension(info.unit))
    return fmt::format("a quantity in {} such as \"{}\"", symbol(info.unit), example(info.unit));
  return info.type == "integer" ? "a whole number" : "a number";
}

TextList text_list(const std::string& text) {
  TextList out;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    out.items.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return out;
}

namespace detail {

Node number_node(double value, Unit unit) {
  if (has_dimension(unit)) return Node::string(format_quantity(value, unit));
  return Node::real(value);
}

void read_boolean(const Node& node, const FieldInfo& info, Faults& faults, bool& out) {
  if (node.kind() != Node::Kind::boolean) {
    faults.add(node.origin(), fmt::format("expected {}, got {}", expectation(info), node.shown()));
    return;
  }
  out = node.as_boolean();
}

bool read_integer(const Node& node, const FieldInfo& info, Faults& faults, std::int64_t& out) {
  const std::optional<double> value = quantity(node, info, faults);
  if (!value) return false;
  if (node.kind() == Node::Kind::integer) {
    out = node.as_integer();
    return true;
  }
  if (*value != std::floor(*value) || std::fabs(*value) > 9.0e18) {
    faults.add(node.origin(), fmt::format("expected a whole number, got {}", node.shown()));
    return false;
  }
  out = static_cast<std::int64_t>(*value);
  return true;
}

void read_number(const Node& node, const FieldInfo& info, Faults& faults, double& out) {
  const std::optional<double> value = quantity(node, info, faults);
  if (value) out = *value;
}

bool read_string(const Node& node, const FieldInfo& info, Faults& faults, std::string& out) {
  if (!node.is_string()) {
    faults.add(node.origin(), fmt::format("expected {}, got {}", expectation(info), node.shown()));
    return false;
  }
  std::string text = node.as_string();
  if (!info.choices.empty()) text = same_spelling(text, info.choices);
  if (!info.choices.empty() && std::find(info.choices.begin(), info.choices.end(), text) == info.choices.end()) {
    const std::string near = nearest_name(text, info.choices);  // the choices themselves stand in the message
    faults.add(node.origin(), fmt::format("expected {}, got {}", expectation(info), node.shown()),
               near.empty() ? "" : fmt::format("did you mean '{}'?", near));
    return false;
  }
  const bool relative = info.unit == Unit::path && !text.starts_with("catalog:") && !text.empty();
  out = relative ? (folder_of(node.origin()) / text).lexically_normal().string() : std::move(text);
  return true;
}

void read_text_list(const Node& node, const FieldInfo& info, Faults& faults, TextList& out) {
  out.items.clear();
  if (node.is_string()) {
    out = text_list(node.as_string());
    return;
  }
  const auto fits = [](const Node& item) { return item.is_string() || item.kind() == Node::Kind::integer; };
  if (!node.is_array() || !std::all_of(node.items().begin(), node.items().end(), fits)) {
    faults.add(node.origin(), fmt::format("expected {}, got {}", expectation(info), node.shown()));
    return;
  }
  for (const Node& item : node.items())
    out.items.push_back(item.is_string() ? item.as_string() : fmt::format("{}", item.as_integer()));
}

Node text_list_node(const TextList& list) {
  const auto has_comma = [](const std::string& item) { return item.find(',') != std::string::npos; };
  if (!list.items.empty() && std::none_of(list.items.begin(), list.items.end(), has_comma))
    return Node::string(fmt::format("{}", fmt::join(list.items, ",")));
  Node node = Node::array();
  for (const std::string& item : list.items) node.push(Node::string(item));
  return node;
}

void read_free_object(const Node& node, Faults& faults, Node& out) {
  if (node.is_null()) {  // takes back what a base gave
    out = Node{};
    return;
  }
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object, got {}", node.shown()));
    return;
  }
  out = node;
}

Node write_fields(std::span<const FieldRow> rows, const void* params) {
  Node node = Node::object();
  for (const FieldRow& row : rows) {
    const void* member = static_cast<const char*>(params) + row.offset;
    if ((row.is_left_out || row.type->kept_object) && row.type->is_empty(member)) continue;
    node.set(row.name, row.type->write(member, row.unit));
  }
  return node;
}

std::vector<FieldInfo> describe_fields(std::span<const FieldRow> rows, const void* defaults,
                                       const RegistrySet* registries) {
  std::vector<FieldInfo> infos;
  infos.reserve(rows.size());
  for (const FieldRow& row : rows) {
    FieldInfo& info = infos.emplace_back(type_of(row));
    info.doc = row.doc;
    info.required = row.is_required;
    row.type->describe_inside(info, registries);
    const bool chosen = row.type->policies != nullptr && !info.optional;
    if (chosen && !row.is_required && row.fallback != nullptr) info.default_value = Node::string(row.fallback);
    if (!chosen && !row.is_required && !row.is_section)
      info.default_value = row.type->write(static_cast<const char*>(defaults) + row.offset, row.unit);
    if (row.annotate != nullptr) row.annotate(info, registries);
  }
  return infos;
}

void read_fields(std::span<const FieldRow> rows, const Node& node, const RegistrySet* registries,
                 std::span<const std::string_view> beside, Faults& faults, void* params) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object, got {}", node.shown()));
    return;
  }
  std::vector<std::string> names(beside.begin(), beside.end());
  for (const FieldRow& row : rows) names.emplace_back(row.name);
  for (const auto& [key, value] : node.members())
    if (std::find(names.begin(), names.end(), key) == names.end())
      faults.add(value.origin(), fmt::format("unknown key '{}'", key), name_hint(key, names));
  for (const FieldRow& row : rows) {
    const Node* value = node.find(row.name);
    const FieldInfo info = type_of(row);
    const bool chosen = row.type->policies != nullptr && !info.optional;
    Node empty;
    if ((row.is_section || (chosen && !row.is_required)) && (value == nullptr || value->is_null())) {
      empty = Node::object();
      empty.set_origin(node.origin_of(row.name));
      value = &empty;
    }
    if (value != nullptr) {
      row.type->read(*value, {row, info, registries, faults}, static_cast<char*>(params) + row.offset);
    } else if (row.is_required && chosen) {
      faults.add(node.origin_of(row.name), "missing: expected a policy block",
                 row.fallback != nullptr ? fmt::format("such as {{\"policy\": \"{}\"}}", row.fallback)
                                         : name_hint("", row.type->policies(*registries)));
    } else if (row.is_required) {
      faults.add(node.origin_of(row.name), fmt::format("missing: expected {}", expectation(info)));
    }
  }
}

}  // namespace detail
}  // namespace orrery::sim
