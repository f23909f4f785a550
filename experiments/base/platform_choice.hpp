// A platform as a config names it: which one, and what is changed about it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "hw/coupling/platform.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct PlatformChoice {
  std::string part;
  std::optional<double> single_thread;
  sim::Node override_;

  static sim::FieldRows<PlatformChoice> fields();
};

/// The catalog entry of a part; an empty node after a fault (a part that is no text was reported
/// before). `choice` is the object whose member `part` names it; `inputs` receives its file. A part of another kind
/// than `kind` is a fault where it is named; empty: whoever reads the entry says what it wants.
sim::Node read_part_entry(const sim::Node& choice, const std::string& part, std::vector<std::filesystem::path>& inputs,
                          sim::Faults& faults, std::string_view kind = {});

/// The platform with its changes; nothing after a fault. `inputs` receives the files of the platform and its parts.
std::optional<hw::Platform> read_platform_choice(const sim::Node& node, const PlatformChoice& choice,
                                                 std::vector<std::filesystem::path>& inputs, sim::Faults& faults);

}  // namespace orrery::experiments
