#include "experiments/experts/memory_params.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/named_part.hpp"
#include "experiments/base/platform_choice.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

ExpertHome read_expert_home(const sim::Node& node, const ExpertHostParams& host, const std::string& link,
                            const std::string& storage, const hw::CostModelRegistry::Choice& cost,
                            const sim::Origin& cost_origin, std::vector<std::filesystem::path>& inputs,
                            sim::Faults& faults) {
  ExpertHome home;
  const sim::Node section_of_host = section(node, "host");
  if (!host.part.empty()) {
    const sim::Node entry = read_part_entry(section_of_host, host.part, inputs, faults);
    if (entry.is_object())
      if (const auto parsed = hw::parse_computing_part(entry, host.override_, faults))
        home.host = hw::make_device(parsed->name, parsed->part, cost, cost_origin, faults);
    if (home.host && home.host->kind() != "cpu")
      faults.add(place_of(section_of_host, "part"),
                 fmt::format("expected a CPU, got a part of kind {}", home.host->kind()));
  }
  if (const auto found = read_named_part<hw::LinkPart>(link, place_of(node, "link"), inputs, faults))
    home.link = *found;
  if (!storage.empty())
    home.storage = read_named_part<hw::MemoryTier>(storage, place_of(node, "storage"), inputs, faults);
  return home;
}

HostedExperts hosted_experts(const ExpertHome& home, std::int64_t sockets, std::int64_t experts, std::int64_t bytes,
                             std::optional<double> share) {
  HostedExperts out{.slots = experts, .lacks = {}};
  const auto text = [](double of) { return sim::humanise(of, sim::Unit::bytes); };
  const double has = home.host ? static_cast<double>(sockets) * static_cast<double>(home.host->memory_bytes)
                               : std::numeric_limits<double>::infinity();
  if (home.storage && experts > 0) {
    const double fits = std::floor(has / static_cast<double>(bytes));
    out.slots = share ? std::llround(*share * static_cast<double>(experts))
                      : static_cast<std::int64_t>(std::min(fits, static_cast<double>(experts)));
    const double drive = static_cast<double>(experts * bytes), room = static_cast<double>(home.storage->capacity_bytes);
    if (drive > room) out.lacks = fmt::format("the experts need {}, the drive has {}", text(drive), text(room));
  }
  const double needs = static_cast<double>(out.slots * bytes);
  if (out.lacks.empty() && needs > has)
    out.lacks = fmt::format("the experts need {}, the host has {}", text(needs), text(has));
  return out;
}

std::vector<std::int64_t> layer_slots(std::int64_t layers, std::int64_t experts, double share, SlotSpread spread) {
  const auto all = std::llround(share * static_cast<double>(layers * experts));
  std::vector<std::int64_t> out;
  for (std::int64_t l = 0; l < layers; ++l)
    out.push_back(spread == SlotSpread::front ? std::clamp<std::int64_t>(all - l * experts, 0, experts)
                                              : all * (l + 1) / layers - all * l / layers);
  return out;
}

}  // namespace orrery::experiments
