// A part of one kind that a config names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"

namespace orrery::experiments {

/// The part of that name or file, where it is one of kind P; nothing, and faults at `place`, where it is not. `inputs`
/// receives its file.
template <class P>
std::optional<P> read_named_part(const std::string& name, const sim::Origin& place,
                                 std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const std::filesystem::path file = part_file(name, place, faults);
  if (file.empty()) return std::nullopt;
  inputs.push_back(file);
  try {
    if (!is_of_kind(sim::read_config(file), P::kKind, name, place, faults)) return std::nullopt;
    return hw::read_part<P>(file).part;
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) faults.add(place, fault.message, fault.hint);
  }
  return std::nullopt;
}

}  // namespace orrery::experiments
