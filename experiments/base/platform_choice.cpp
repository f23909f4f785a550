#include "experiments/base/platform_choice.hpp"

#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

using sim::Node;

Node read_part_entry(const Node& choice, const std::string& part, std::vector<std::filesystem::path>& inputs,
                     sim::Faults& faults, std::string_view kind) {
  const Node* name = choice.find("part");
  if (name == nullptr || !name->is_string()) return {};
  const std::filesystem::path file = part_file(part, name->origin(), faults);
  if (file.empty()) return {};
  inputs.push_back(file);
  Node entry = sim::read_config(file);
  if (!kind.empty() && !is_of_kind(entry, kind, part, name->origin(), faults)) return {};
  return entry;
}

std::optional<hw::Platform> read_platform_choice(const Node& node, const PlatformChoice& choice,
                                                 std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const std::size_t before = faults.size();
  Node entry = read_part_entry(node, choice.part, inputs, faults, hw::PlatformParams::kKind);
  if (!entry.is_object()) return std::nullopt;
  if (choice.override_.is_object()) sim::merge_over(entry, choice.override_);
  const std::filesystem::path folder = home_folder() / "hw/catalog";
  hw::Platform platform = hw::parse_platform(entry, folder, faults);
  if (faults.size() != before) return std::nullopt;
  for (const std::string& part : {platform.params.cpu, platform.params.gpu})
    inputs.push_back(folder / (part + ".json"));
  if (choice.single_thread) platform.cpu.single_thread = *choice.single_thread;
  return platform;
}

sim::FieldRows<PlatformChoice> PlatformChoice::fields() {
  using sim::Unit;
  using P = PlatformChoice;
  static const sim::FieldTable table{
      names_part(
          sim::required(sim::field("part", &P::part, Unit::reference, sim::any_value(), "Platform from the catalog."))),
      sim::field("single_thread", &P::single_thread, Unit::ratio, sim::between(0.05, 20),
                 "Single-thread speed of the dispatching core; null: that of the platform's CPU."),
      sim::annotated(sim::field("override", &P::override_, "Fields of the platform to change."),
                     [](sim::FieldInfo& info, const sim::RegistrySet*) {
                       info.nested = sim::describe_params<hw::PlatformParams>();
                     }),
  };
  return table;
}

}  // namespace orrery::experiments
