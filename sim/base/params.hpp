// Parameter structs: one plain struct a component, one constexpr field table, everything else derived.
//
//   struct SarathiParams {
//     std::int64_t token_budget = 512;
//     static constexpr auto fields() {
//       return std::tuple{sim::field("token_budget", &SarathiParams::token_budget, sim::Unit::tokens, sim::at_least(1),
//                                    "Most tokens an iteration processes: decodes first, then chunks of prompts.")};
//     }
//   };
//
// The default of a field is the struct's own initialiser. From the table come parsing (with all faults of the file),
// `orrery describe`, the JSON Schema and the resolved config; a key that is not in the table is a fault. A field can be
// bool, std::int64_t, double, std::string, an enum with names, a TextList, an optional of these (null means none),
// another parameter struct (a nested object), a Node (an object kept as it is, to be laid over a catalog entry), or a
// vector of any of these (an array).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {

/// Allowed values of a number, in SI; the ends belong to the range unless open.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;
};
constexpr Range any_value() {
  return {};
}
constexpr Range at_least(double min) {
  return {.min = min};
}
constexpr Range positive() {
  return {.min = 0, .open_min = true};
}
constexpr Range between(double min, double max) {
  return {.min = min, .max = max};
}

/// One row of a field table.
template <class S, class M>
struct Field {
  const char* name;
  M S::*member;
  Unit unit;
  Range range;
  const char* doc;
  bool required;
};

template <class S, class M>
constexpr Field<S, M> field(const char* name, M S::*member, Unit unit, Range range, const char* doc) {
  return {name, member, unit, range, doc, false};
}
/// For bool, string, enum and nested fields, which have neither unit nor range.
template <class S, class M>
constexpr Field<S, M> field(const char* name, M S::*member, const char* doc) {
  return {name, member, Unit::none, any_value(), doc, false};
}
/// A field that a config must give.
template <class S, class M>
constexpr Field<S, M> required(Field<S, M> f) {
  f.required = true;
  return f;
}

/// Short texts in a row: in JSON one string with commas ("0-7,12") or an array of strings and whole numbers.
struct TextList {
  std::vector<std::string> items;
};

template <class S>
concept Parameters = std::is_class_v<S> && requires {
  S::fields();
};

/// For components without parameters.
struct NoParams {
  static constexpr auto fields() { return std::tuple{}; }
};

/// Names of an enum's values: specialise with `static constexpr std::array<std::pair<std::string_view, E>, N> names`.
template <class E>
struct EnumNames;
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  EnumNames<E>::names;
};

struct ComponentInfo;

/// One field as data: what `describe`, the schema and the docs show.
struct FieldInfo {
  std::string name;
  std::string type;  ///< "boolean", "integer", "number", "string", "list", "object"
  Unit unit = Unit::none;
  Range range;
  std::string doc;
  Node default_value;  ///< as it would stand in a config; null where there is none
  std::vector<std::string> choices;
  std::vector<FieldInfo> nested;
  std::vector<std::string> suggestions;  ///< values worth offering, beside which any other may stand
  std::vector<ComponentInfo> policies;   ///< not empty: this object is a policy block, and these may stand in it
  bool array = false;
  bool optional = false;
  bool required = false;
};

/// A registered component as data: what `list`, `describe` and the schema show.
struct ComponentInfo {
  std::string kind;  ///< "batching", "kvcache", "cost_model" …
  std::string name;
  std::string doc;  ///< one line
  std::vector<FieldInfo> fields;
};

/// Calls `visit` for every string in `node` that `fields` declare as a path, however deep (nested objects, arrays,
/// chosen policies); catalog references are no paths.
void for_each_path(const std::vector<FieldInfo>& fields, Node& node, const std::function<void(Node&)>& visit);

/// `"80 GiB"`-style expectation of a field, for messages and docs: "a number of bytes such as \"80 GiB\", > 0".
std::string expectation(const FieldInfo& info);
std::string range_text(const Range& range, Unit unit);

namespace detail {

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

bool read_boolean(const Node& node, const FieldInfo& info, Faults& faults, bool& out);
bool read_integer(const Node& node, const FieldInfo& info, Faults& faults, std::int64_t& out);
bool read_number(const Node& node, const FieldInfo& info, Faults& faults, double& out);
bool read_string(const Node& node, const FieldInfo& info, Faults& faults, std::string& out);
bool read_text_list(const Node& node, const FieldInfo& info, Faults& faults, TextList& out);
Node text_list_node(const TextList& list);
bool read_free_object(const Node& node, Faults& faults, Node& out);
/// Reports members of `node` that are not in `known`, and says false if it is no object.
bool check_object(const Node& node, const std::vector<FieldInfo>& known, Faults& faults);
void check_required(const Node& node, const FieldInfo& info, Faults& faults);
Node number_node(double value, Unit unit);

template <class T>
Node write_value(const T& value, Unit unit);
template <class T>
void describe_type(FieldInfo& info);
template <class T>
void read_value(const Node& node, const FieldInfo& info, Faults& faults, T& out);

}  // namespace detail

/// Writes a struct as it would stand in a config, every field included; parse_params gives the same struct back.
template <Parameters S>
Node write_params(const S& params) {
  Node node = Node::object();
  const auto write = [&]<class M>(const Field<S, M>& f) {
    Node value = detail::write_value(params.*(f.member), f.unit);
    // A kept object that is not there stays away; null would not read back as one.
    if (std::same_as<M, Node> && value.is_null()) return;
    node.set(f.name, std::move(value));
  };
  std::apply([&](const auto&... f) { (write(f), ...); }, S::fields());
  return node;
}

/// The field table as data.
template <Parameters S>
std::vector<FieldInfo> describe_params() {
  const S defaults{};
  std::vector<FieldInfo> infos;
  const auto add = [&]<class M>(const Field<S, M>& f) {
    FieldInfo info;
    info.name = f.name;
    info.unit = f.unit;
    info.range = f.range;
    info.doc = f.doc;
    info.required = f.required;
    detail::describe_type<M>(info);
    if (!f.required) info.default_value = detail::write_value(defaults.*(f.member), f.unit);
    infos.push_back(std::move(info));
  };
  std::apply([&](const auto&... f) { (add(f), ...); }, S::fields());
  return infos;
}

/// Reads a struct from an object; absent fields keep their defaults. Reports every fault: unknown keys (with the
/// nearest name), wrong types and units, values out of range, missing required fields.
template <Parameters S>
S parse_params(const Node& node, Faults& faults) {
  S params{};
  const std::vector<FieldInfo> infos = describe_params<S>();
  if (!detail::check_object(node, infos, faults)) return params;
  std::size_t index = 0;
  const auto read = [&]<class M>(const Field<S, M>& f) {
    const FieldInfo& info = infos[index++];
    if (const Node* value = node.find(f.name)) {
      detail::read_value(*value, info, faults, params.*(f.member));
    } else {
      detail::check_required(node, info, faults);
    }
  };
  std::apply([&](const auto&... f) { (read(f), ...); }, S::fields());
  return params;
}

namespace detail {

template <class T>
Node write_value(const T& value, Unit unit) {
  if constexpr (is_optional<T>::value) {
    return value ? write_value(*value, unit) : Node{};
  } else if constexpr (is_vector<T>::value) {
    Node node = Node::array();
    for (const auto& item : value) node.push(write_value(item, unit));
    return node;
  } else if constexpr (std::same_as<T, Node>) {
    return value;
  } else if constexpr (std::same_as<T, TextList>) {
    return text_list_node(value);
  } else if constexpr (Parameters<T>) {
    return write_params(value);
  } else if constexpr (std::same_as<T, bool>) {
    return Node::boolean(value);
  } else if constexpr (NamedEnum<T>) {
    for (const auto& [name, candidate] : EnumNames<T>::names)
      if (candidate == value) return Node::string(std::string(name));
    return Node{};
  } else if constexpr (std::integral<T>) {
    if (has_dimension(unit)) return number_node(static_cast<double>(value), unit);
    return Node::integer(value);
  } else if constexpr (std::floating_point<T>) {
    return number_node(value, unit);
  } else {
    return Node::string(value);
  }
}

template <class T>
void describe_type(FieldInfo& info) {
  if constexpr (is_optional<T>::value) {
    info.optional = true;
    describe_type<typename T::value_type>(info);
  } else if constexpr (is_vector<T>::value) {
    info.array = true;
    describe_type<typename T::value_type>(info);
  } else if constexpr (std::same_as<T, Node>) {
    info.type = "object";
  } else if constexpr (std::same_as<T, TextList>) {
    info.type = "list";
  } else if constexpr (Parameters<T>) {
    info.type = "object";
    info.nested = describe_params<T>();
  } else if constexpr (std::same_as<T, bool>) {
    info.type = "boolean";
  } else if constexpr (NamedEnum<T>) {
    info.type = "string";
    for (const auto& [name, value] : EnumNames<T>::names) info.choices.emplace_back(name);
  } else if constexpr (std::integral<T>) {
    info.type = "integer";
  } else if constexpr (std::floating_point<T>) {
    info.type = "number";
  } else {
    static_assert(std::same_as<T, std::string>, "a parameter of this type has no reader");
    info.type = "string";
  }
}

template <class T>
void read_value(const Node& node, const FieldInfo& info, Faults& faults, T& out) {
  if constexpr (is_optional<T>::value) {
    if (node.is_null()) {
      out.reset();
      return;
    }
    typename T::value_type value{};
    const std::size_t before = faults.size();
    read_value(node, info, faults, value);
    if (faults.size() == before) out = std::move(value);
  } else if constexpr (is_vector<T>::value) {
    if (!node.is_array()) {
      faults.add(node.origin(), "expected an array, got " + node.shown());
      return;
    }
    out.clear();
    for (const Node& item : node.items()) {
      typename T::value_type value{};
      read_value(item, info, faults, value);
      out.push_back(std::move(value));
    }
  } else if constexpr (std::same_as<T, Node>) {
    read_free_object(node, faults, out);
  } else if constexpr (std::same_as<T, TextList>) {
    read_text_list(node, info, faults, out);
  } else if constexpr (Parameters<T>) {
    out = parse_params<T>(node, faults);
  } else if constexpr (std::same_as<T, bool>) {
    read_boolean(node, info, faults, out);
  } else if constexpr (NamedEnum<T>) {
    std::string name;
    if (!read_string(node, info, faults, name)) return;
    for (const auto& [known, value] : EnumNames<T>::names)
      if (known == name) out = value;
  } else if constexpr (std::integral<T>) {
    std::int64_t value = 0;
    if (read_integer(node, info, faults, value)) out = static_cast<T>(value);
  } else if constexpr (std::floating_point<T>) {
    read_number(node, info, faults, out);
  } else {
    read_string(node, info, faults, out);
  }
}

}  // namespace detail
}  // namespace orrery::sim
