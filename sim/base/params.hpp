// Parameter structs: one plain struct a component, one constexpr field table, everything else derived.
//
//   struct SarathiParams {
//     std::int64_t token_budget = 512;
//     static constexpr auto fields() {
//       return sim::FieldTable{sim::field("token_budget", &SarathiParams::token_budget, sim::Unit::tokens,
//                                         sim::at_least(1), "Most tokens an iteration processes.")};
//     }
//   };
//
// The default of a field is the struct's own initialiser. From the table come parsing (with all faults of the file),
// `orrery describe`, the JSON Schema and the resolved config; a key that is not in the table is a fault. A field can be
// bool, std::int64_t, double, std::string, an enum with names (sim/base/enum_names.hpp), a TextList, an optional of
// these (null means none), another parameter struct (a nested object, or a section of a config), a policy chosen from a
// registry (Registry<I>::Choice), a Node (an object kept as it is, to be laid over a catalog entry), or a vector of any
// of these (an array). So a whole config is one struct:
//
//   struct PoliciesParams {
//     BatchingRegistry::Choice batching;
//     static constexpr auto fields() {
//       return sim::FieldTable{sim::choice("batching", &PoliciesParams::batching, "sarathi", "Which sequences …")};
//     }
//   };
//
// Whoever reads or describes a struct with choices hands over the registries that they are made from.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/document.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/fault.hpp"
#include "sim/base/registry_set.hpp"
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

struct FieldInfo;
struct FieldType;

/// What only the running program knows of a field, added to its description: names worth offering, fields of an object
/// that is kept as it is. `registries` may be null.
using Annotate = void (*)(FieldInfo& info, const RegistrySet* registries);
/// Puts the name that a text of the user's means in its place; notes go to `faults`. What means nothing stays.
using Canonical = void (*)(std::string& text, const Origin& where, Faults& faults);

/// One row of a field table: a member by where it lies in its struct and by what its type can do. Rows of all structs
/// are of one type, so that reading, writing and describing are compiled once, not once a struct.
struct FieldRow {
  const char* name = nullptr;
  std::ptrdiff_t offset = 0;  ///< of the member, in bytes
  const FieldType* type = nullptr;
  Unit unit = Unit::none;
  Range range;
  const char* doc = nullptr;
  bool is_required = false;
  bool is_section = false;         ///< absent or null is an object without members
  bool is_left_out = false;        ///< of a resolved config while there is nothing in it
  const char* fallback = nullptr;  ///< policy that a block which names none stands for; null: a block must name one
  Annotate annotate = nullptr;
  Canonical canonical = nullptr;  ///< of a text
};

/// A row whose member is one of `S`.
template <class S>
struct Field : FieldRow {};

/// The rows of `S`, in the order of a resolved config.
template <class S, std::size_t N>
struct FieldTable {
  std::array<FieldRow, N> rows;

  template <std::same_as<Field<S>>... F>
  constexpr explicit FieldTable(const F&... fields) : rows{fields...} {}
  constexpr explicit FieldTable(const std::array<FieldRow, N>& all) : rows(all) {}
};
template <class S, class... F>
FieldTable(const Field<S>&, const F&...) -> FieldTable<S, 1 + sizeof...(F)>;

/// A table that stands in a source, for structs that many sources read or nest: it is compiled there, once.
///   gpu.hpp:  static sim::FieldRows<GpuParams> fields();
///   gpu.cpp:  sim::FieldRows<GpuParams> GpuParams::fields() {
///               static const sim::FieldTable table{sim::field(…), …};
///               return table;
///             }
template <class S>
struct FieldRows {
  std::span<const FieldRow> rows;

  template <std::size_t N>
  FieldRows(const FieldTable<S, N>& table) : rows(table.rows) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t N>
  FieldRows(const FieldTable<S, N>&& table) = delete;  // it would be gone
};

/// Tables of one struct, one after the other.
template <class S, std::size_t... N>
constexpr auto joined(const FieldTable<S, N>&... tables) {
  std::array<FieldRow, (N + ...)> rows;
  auto at = rows.begin();
  ((at = std::copy(tables.rows.begin(), tables.rows.end(), at)), ...);
  return FieldTable<S, (N + ...)>(rows);
}

/// The rows of a base of `S` as rows of `S`.
template <class S, class Base, std::size_t N>
constexpr FieldTable<S, N> inherited(const FieldTable<Base, N>& table) {
  const auto base = static_cast<char S::*>(std::bit_cast<char Base::*>(std::ptrdiff_t{0}));
  std::array<FieldRow, N> rows = table.rows;
  for (FieldRow& row : rows) row.offset += std::bit_cast<std::ptrdiff_t>(base);
  return FieldTable<S, N>(rows);
}

template <class S, class M>
constexpr Field<S> field(const char* name, M S::*member, Unit unit, Range range, const char* doc);
/// For bool, string, enum and nested fields, which have neither unit nor range.
template <class S, class M>
constexpr Field<S> field(const char* name, M S::*member, const char* doc);
/// A field that a config must give.
template <class S>
constexpr Field<S> required(Field<S> f) {
  f.is_required = true;
  return f;
}
/// A section of a config: a nested struct that a config may leave out or set to null, which is as if it were empty.
/// Fields that it must have are then told one by one, so `required` only says so in descriptions.
template <class S, class M>
constexpr Field<S> section(const char* name, M S::*member, const char* doc);
/// A policy chosen from a registry: a Registry<…>::Choice, or an optional one. A config that leaves out the first gets
/// `fallback` with its defaults.
template <class S, class M>
constexpr Field<S> choice(const char* name, M S::*member, const char* fallback, const char* doc);
/// A field that stays away from a resolved config while there is nothing in it: an optional that is none, a struct
/// whose `empty()` says so.
template <class S>
constexpr Field<S> only_if_given(Field<S> f) {
  f.is_left_out = true;
  return f;
}
template <class S>
constexpr Field<S> annotated(Field<S> f, Annotate annotate) {
  f.annotate = annotate;
  return f;
}

template <class S>
constexpr Field<S> canonical(Field<S> f, Canonical function) {
  f.canonical = function;
  return f;
}

/// Short texts in a row: in JSON one string with commas ("0-7,12") or an array of strings and whole numbers.
struct TextList {
  std::vector<std::string> items;
};
/// What stands between the commas of a text; of an empty one, one empty item.
TextList text_list(const std::string& text);

template <class S>
concept Parameters = std::is_class_v<S> && requires {
  S::fields();
};

/// For components without parameters.
struct NoParams {
  static constexpr auto fields() { return FieldTable<NoParams, 0>(); }
};

struct ComponentInfo;

/// One field as data: what `describe`, the schema and the docs show.
struct FieldInfo {
  FieldInfo();  // these are defined once, as a Node's are
  ~FieldInfo();
  FieldInfo(const FieldInfo&);
  FieldInfo(FieldInfo&&) noexcept;
  FieldInfo& operator=(const FieldInfo&);
  FieldInfo& operator=(FieldInfo&&) noexcept;

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

using PathVisitor = std::function<void(Node&)>;
/// Calls `visit` for every string in `node` that `fields` declare as a path, however deep (nested objects, arrays,
/// chosen policies); catalog references are no paths.
void for_each_path(const std::vector<FieldInfo>& fields, Node& node, const PathVisitor& visit);

/// `"80 GiB"`-style expectation of a field, for messages and docs: "a number of bytes such as \"80 GiB\", > 0".
std::string expectation(const FieldInfo& info);
std::string range_text(const Range& range, Unit unit);

/// What reading a member needs to know besides its value.
struct FieldReading {
  const FieldRow& row;
  const FieldInfo& info;  ///< its type, for messages; of a nested struct without the fields
  const RegistrySet* registries = nullptr;
  Faults& faults;
};

/// What the type of a member can do. One a type, shared by all fields of it.
struct FieldType {
  void (*describe)(FieldInfo& info);  ///< the type itself; `describe_inside` the rest
  void (*describe_inside)(FieldInfo& info, const RegistrySet* registries);
  Node (*write)(const void* member, Unit unit);
  void (*read)(const Node& node, const FieldReading& reading, void* member);
  bool (*is_empty)(const void* member);
  void (*visit_inside)(Node& item, const RegistrySet* registries, const PathVisitor& visit);  ///< paths in an object
  /// Names of the policies that may be chosen; null for what is no choice.
  std::vector<std::string> (*policies)(const RegistrySet& registries) = nullptr;
  bool kept_object = false;  ///< a Node: where it is null it stays away, since null would not read back as one
};

namespace detail {

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

/// What a registry's parse_block gives.
template <class T>
concept ChosenPolicy = requires {
  typename T::From;
};
/// The choice that a member is or may be; void for others.
template <class T>
struct ChoiceOf {
  using type = void;
};
template <ChosenPolicy T>
struct ChoiceOf<T> {
  using type = T;
};
template <ChosenPolicy T>
struct ChoiceOf<std::optional<T>> {
  using type = T;
};
template <class R>
const R& registry_in(const RegistrySet* registries) {
  if (registries == nullptr) throw std::logic_error("parameters with choices are read without registries");
  return registries->get<R>();
}

void read_boolean(const Node& node, const FieldInfo& info, Faults& faults, bool& out);
bool read_integer(const Node& node, const FieldInfo& info, Faults& faults, std::int64_t& out);
void read_number(const Node& node, const FieldInfo& info, Faults& faults, double& out);
bool read_string(const Node& node, const FieldInfo& info, Faults& faults, std::string& out);
void read_text_list(const Node& node, const FieldInfo& info, Faults& faults, TextList& out);
Node text_list_node(const TextList& list);
void read_free_object(const Node& node, Faults& faults, Node& out);
Node number_node(double value, Unit unit);

/// A struct by its address: what the functions below do for structs of any type.
Node write_fields(std::span<const FieldRow> rows, const void* params);
std::vector<FieldInfo> describe_fields(std::span<const FieldRow> rows, const void* defaults,
                                       const RegistrySet* registries);
void read_fields(std::span<const FieldRow> rows, const Node& node, const RegistrySet* registries,
                 std::span<const std::string_view> beside, Faults& faults, void* params);
void visit_paths(std::span<const FieldRow> rows, Node& node, const RegistrySet* registries, const PathVisitor& visit);

template <class T>
Node write_value(const T& value, Unit unit);
template <class T>
void describe_type(FieldInfo& info);
template <class T>
void describe_inside(FieldInfo& info, const RegistrySet* registries);
template <class T>
void visit_inside(Node& item, const RegistrySet* registries, const PathVisitor& visit);
template <class T>
void read_value(const Node& node, const FieldReading& reading, T& out);
template <class T>
bool is_empty_value(const T& value);
template <class T>
constexpr std::vector<std::string> (*policies_of())(const RegistrySet&) {
  using Choice = typename ChoiceOf<T>::type;
  if constexpr (std::is_void_v<Choice>)
    return nullptr;
  else
    return [](const RegistrySet& registries) { return registries.get<typename Choice::From>().names(); };
}

template <class T>
inline constexpr FieldType kFieldType{
    .describe = describe_type<T>,
    .describe_inside = describe_inside<T>,
    .write = [](const void* member, Unit unit) { return write_value(*static_cast<const T*>(member), unit); },
    .read = [](const Node& node, const FieldReading& reading,
               void* member) { read_value(node, reading, *static_cast<T*>(member)); },
    .is_empty = [](const void* member) { return is_empty_value(*static_cast<const T*>(member)); },
    .visit_inside = visit_inside<T>,
    .policies = policies_of<T>(),
    .kept_object = std::same_as<T, Node>};

/// The rows of a table. A table that is a std::tuple of fields (plugins written for 0.1) has rows too.
template <class S, std::size_t N>
std::array<FieldRow, N> rows_of(const FieldTable<S, N>& table) {
  return table.rows;
}
template <class S>
std::span<const FieldRow> rows_of(const FieldRows<S>& table) {
  return table.rows;
}
template <class... F>
std::array<FieldRow, sizeof...(F)> rows_of(const std::tuple<F...>& table) {
  return std::apply([](const auto&... f) { return std::array<FieldRow, sizeof...(F)>{f...}; }, table);
}

}  // namespace detail

template <class S, class M>
constexpr Field<S> field(const char* name, M S::*member, Unit unit, Range range, const char* doc) {
  static_assert(sizeof(member) == sizeof(std::ptrdiff_t), "a pointer to a member is its offset (Itanium C++ ABI)");
  FieldRow row;
  row.name = name;
  row.offset = std::bit_cast<std::ptrdiff_t>(member);
  row.type = &detail::kFieldType<M>;
  row.unit = unit;
  row.range = range;
  row.doc = doc;
  return {row};
}
template <class S, class M>
constexpr Field<S> field(const char* name, M S::*member, const char* doc) {
  return field(name, member, Unit::none, any_value(), doc);
}
template <class S, class M>
constexpr Field<S> section(const char* name, M S::*member, const char* doc) {
  static_assert(Parameters<M>);
  Field<S> f = field(name, member, doc);
  f.is_section = true;
  return f;
}
template <class S, class M>
constexpr Field<S> choice(const char* name, M S::*member, const char* fallback, const char* doc) {
  static_assert(!std::is_void_v<typename detail::ChoiceOf<M>::type>);
  Field<S> f = field(name, member, doc);
  f.fallback = fallback;
  return f;
}

/// Writes a struct as it would stand in a config, every field included; parse_params gives the same struct back.
template <Parameters S>
Node write_params(const S& params) {
  return detail::write_fields(detail::rows_of(S::fields()), &params);
}

/// The field table as data.
template <Parameters S>
std::vector<FieldInfo> describe_params(const RegistrySet* registries = nullptr) {
  const S defaults{};
  return detail::describe_fields(detail::rows_of(S::fields()), &defaults, registries);
}
template <Parameters S>
std::vector<FieldInfo> describe_params(const RegistrySet& registries) {
  return describe_params<S>(&registries);
}

/// for_each_path() of a struct's document. Describes only what the document has.
template <Parameters S>
void for_each_path(const RegistrySet& registries, Node& node, const PathVisitor& visit) {
  detail::visit_paths(detail::rows_of(S::fields()), node, &registries, visit);
}

/// Reads a struct from an object; absent fields keep their defaults. Reports every fault: unknown keys (with the
/// nearest name), wrong types and units, values out of range, missing required fields.
template <Parameters S>
S parse_params(const Node& node, Faults& faults) {
  S params{};
  detail::read_fields(detail::rows_of(S::fields()), node, nullptr, {}, faults, &params);
  return params;
}
/// The same for a struct with choices. `beside`: keys that somebody else reads.
template <Parameters S>
S parse_params(const Node& node, const RegistrySet& registries, Faults& faults,
               std::span<const std::string_view> beside = {}) {
  S params{};
  detail::read_fields(detail::rows_of(S::fields()), node, &registries, beside, faults, &params);
  return params;
}

namespace detail {

/// A value that is a text in a config and reads itself from it (a formula).
template <class T>
concept WrittenAsText = requires(T value, const T& written, std::string text, const Origin& where, Faults& faults) {
  { written.text() } -> std::same_as<const std::string&>;
  { value.read(std::move(text), where, faults) } -> std::same_as<bool>;
};

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
  } else if constexpr (WrittenAsText<T>) {
    return Node::string(value.text());
  } else if constexpr (ChosenPolicy<T>) {
    return value.name.empty() ? Node{} : T::From::write_block(value);
  } else if constexpr (Parameters<T>) {
    return write_params(value);
  } else if constexpr (std::same_as<T, bool>) {
    return Node::boolean(value);
  } else if constexpr (NamedEnum<T>) {
    const std::string_view name = to_string(value);
    return name.empty() ? Node{} : Node::string(std::string(name));
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
  } else if constexpr (WrittenAsText<T>) {
    info.type = "string";
  } else if constexpr (ChosenPolicy<T> || Parameters<T>) {
    info.type = "object";
  } else if constexpr (std::same_as<T, bool>) {
    info.type = "boolean";
  } else if constexpr (NamedEnum<T>) {
    info.type = "string";
    for (const auto& [name, value] : names_of<T>) info.choices.emplace_back(name);
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
void describe_inside(FieldInfo& info, const RegistrySet* registries) {
  if constexpr (is_optional<T>::value || is_vector<T>::value) {
    describe_inside<typename T::value_type>(info, registries);
  } else if constexpr (ChosenPolicy<T>) {
    info.policies = registry_in<typename T::From>(registries).components();
  } else if constexpr (Parameters<T>) {
    info.nested = describe_params<T>(registries);
  }
}

template <class T>
void visit_inside(Node& item, const RegistrySet* registries, const PathVisitor& visit) {
  if constexpr (is_optional<T>::value || is_vector<T>::value) {
    visit_inside<typename T::value_type>(item, registries, visit);
  } else if constexpr (ChosenPolicy<T>) {
    registry_in<typename T::From>(registries).for_each_path(item, visit);
  } else if constexpr (Parameters<T>) {
    visit_paths(rows_of(T::fields()), item, registries, visit);
  }
}

template <class T>
bool is_empty_value(const T& value) {
  if constexpr (is_optional<T>::value)
    return !value.has_value();
  else if constexpr (std::same_as<T, Node>)
    return value.is_null();
  else if constexpr (Parameters<T> && requires {
                       { value.empty() } -> std::same_as<bool>;
                     })
    return value.empty();
  else
    return false;
}

template <class T>
void read_value(const Node& node, const FieldReading& reading, T& out) {
  const FieldInfo& info = reading.info;
  Faults& faults = reading.faults;
  if constexpr (is_optional<T>::value) {
    if (node.is_null()) {
      out.reset();
      return;
    }
    typename T::value_type value{};
    const std::size_t before = faults.size();
    read_value(node, reading, value);
    if (faults.size() == before) out = std::move(value);
  } else if constexpr (is_vector<T>::value) {
    if (!node.is_array()) {
      faults.add(node.origin(), "expected an array, got " + node.shown());
      return;
    }
    out.clear();
    for (const Node& item : node.items()) {
      typename T::value_type value{};
      read_value(item, reading, value);
      out.push_back(std::move(value));
    }
  } else if constexpr (std::same_as<T, Node>) {
    read_free_object(node, faults, out);
  } else if constexpr (std::same_as<T, TextList>) {
    read_text_list(node, info, faults, out);
  } else if constexpr (WrittenAsText<T>) {
    std::string text;
    if (read_string(node, info, faults, text)) out.read(std::move(text), node.origin(), faults);
  } else if constexpr (ChosenPolicy<T>) {
    const char* fallback = reading.row.fallback != nullptr ? reading.row.fallback : "";
    out = registry_in<typename T::From>(reading.registries).parse_block(node, fallback, faults);
  } else if constexpr (Parameters<T>) {
    T value{};
    read_fields(rows_of(T::fields()), node, reading.registries, {}, faults, &value);
    out = std::move(value);
  } else if constexpr (std::same_as<T, bool>) {
    read_boolean(node, info, faults, out);
  } else if constexpr (NamedEnum<T>) {
    std::string name;
    if (!read_string(node, info, faults, name)) return;
    if (const auto value = value_named<T>(name)) out = *value;
  } else if constexpr (std::integral<T>) {
    std::int64_t value = 0;
    if (read_integer(node, info, faults, value)) out = static_cast<T>(value);
  } else if constexpr (std::floating_point<T>) {
    read_number(node, info, faults, out);
  } else {
    if (read_string(node, info, faults, out) && reading.row.canonical != nullptr)
      reading.row.canonical(out, node.origin(), faults);
  }
}

}  // namespace detail
}  // namespace orrery::sim
