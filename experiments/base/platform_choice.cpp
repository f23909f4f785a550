#include "experiments/base/platform_choice.hpp"

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

using sim::Node;

Node read_part_entry(const Node& choice, const std::string& part, std::vector<std::filesystem::path>& inputs,
                     sim::Faults& faults) {
  const Node* name = choice.find("part");
  if (name == nullptr || !name->is_string()) return {};
  const std::filesystem::path file = part_file(part, name->origin(), faults);
  if (file.empty()) return {};
  inputs.push_back(file);
  return sim::read_config(file);
}

std::optional<hw::Platform> read_platform_choice(const Node& node, const PlatformChoice& choice,
                                                 std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const std::size_t before = faults.size();
  Node entry = read_part_entry(node, choice.part, inputs, faults);
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

}  // namespace orrery::experiments
