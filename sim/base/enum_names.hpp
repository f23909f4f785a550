// Names of an enum's values, told once: below the enum, in its namespace.
//
//   enum class Role : std::uint8_t { both, prefill, decode };
//   constexpr auto enum_names(Role) {
//     using enum Role;
//     return sim::names<Role>({{"both", both}, {"prefill", prefill}, {"decode", decode}});
//   }
//
// From them come the name of a value, the value of a name and what a field of a config may say (sim/base/params.hpp).
// The order of the rows is the order in which messages and docs list the names. A namespace whose enums are often
// printed has `using sim::to_string;`, so that to_string(value) is found by the type of the value.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace orrery::sim {

/// The rows of an enum's names, as enum_names() returns them.
template <class E, std::size_t N>
constexpr std::array<std::pair<std::string_view, E>, N> names(const std::pair<std::string_view, E> (&rows)[N]) {
  return std::to_array(rows);
}

/// What plugins written for 0.1 specialise, with a member `names`, instead of declaring enum_names().
template <class E>
struct EnumNames {};
template <class E>
requires requires {
  enum_names(E{});
}
struct EnumNames<E> {
  static constexpr auto names = enum_names(E{});
};

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  EnumNames<E>::names;
};

/// All names of `E` with their values.
template <NamedEnum E>
inline constexpr const auto& names_of = EnumNames<E>::names;

/// Name of a value; empty for one that has none.
template <NamedEnum E>
constexpr std::string_view to_string(E value) {
  for (const auto& [name, candidate] : names_of<E>)
    if (candidate == value) return name;
  return {};
}

/// The value of that name; nothing for a name that is none.
template <NamedEnum E>
constexpr std::optional<E> value_named(std::string_view name) {
  for (const auto& [known, value] : names_of<E>)
    if (known == name) return value;
  return std::nullopt;
}

}  // namespace orrery::sim
