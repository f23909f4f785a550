// Experts in several memories, as configs say it: the host beside the GPUs, and who decides what is where.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "hw/base/kernel.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/device/device.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "policies/expert_order/expert_order.hpp"
#include "policies/expert_schedule/expert_schedule.hpp"
#include "policies/experts/expert_cache.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct ExpertHostParams {
  std::string part;
  sim::Node override_;
  std::int64_t sockets = 1;
  double efficiency = 1, layer_gap_s = 0;
  std::optional<hw::WeightFormat> weights;
  static constexpr auto fields() {
    using H = ExpertHostParams;
    using sim::Unit;
    return sim::FieldTable{
        names_part(sim::field("part", &H::part, Unit::reference, sim::any_value(),
                              "CPU of the host, which computes experts; empty: the host only stores them.")),
        sim::annotated(
            sim::field("override", &H::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
        sim::field("sockets", &H::sockets, Unit::count, sim::between(1, 64),
                   "Number of CPU sockets, among which each expert is divided; each reads from its own memory."),
        sim::field("efficiency", &H::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Efficiency of the engine's expert kernels relative to the cost model."),
        sim::field("layer_gap", &H::layer_gap_s, Unit::seconds, sim::between(0, 1),
                   "Extra time of a layer that uses the host: activations there and back, threads that synchronise."),
        sim::field("weights", &H::weights, "Format of the experts on the host; null: as on the GPU.")};
  }
};

/// How many experts of each layer the GPUs hold: in all layers alike, whole layers first, or one cache for all layers.
enum class SlotSpread : std::uint8_t { even, front, pooled };
constexpr auto enum_names(SlotSpread) {
  using enum SlotSpread;
  return sim::names<SlotSpread>({{"even", even}, {"front", front}, {"pooled", pooled}});
}

struct ExpertPrefetchParams {
  double accuracy = 0;
  std::int64_t layers = 1, seed = 1;
  bool across = false;
  static constexpr auto fields() {
    using P = ExpertPrefetchParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("accuracy", &P::accuracy, Unit::ratio, sim::between(0, 1),
                   "Probability that an expert of a coming layer is predicted correctly; a wrong one takes its place "
                   "otherwise. 0: no prefetch."),
        sim::field("layers", &P::layers, Unit::count, sim::between(1, 1024),
                   "Number of layers to predict ahead, the nearest first."),
        sim::field("across", &P::across,
                   "Whether layers of the next step are predicted too, as by a predictor that reads the prompt."),
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0), "Seed of the predictions.")};
  }
};

/// Who decides which experts are where, and who computes the others.
struct ExpertMemoryPolicies {
  policies::ExpertCacheRegistry::Choice cache;
  policies::ExpertScheduleRegistry::Choice schedule;
  policies::ExpertOrderRegistry::Choice order;
  bool as_they_come = true;
  std::optional<double> host_share;
  policies::ExpertCacheRegistry::Choice host_cache;
  SlotSpread spread = SlotSpread::even;
  ExpertPrefetchParams prefetch;
  static constexpr auto fields() {
    using P = ExpertMemoryPolicies;
    using sim::Unit;
    return sim::FieldTable{
        sim::choice("cache", &P::cache, "lru", "Which experts stay in GPU memory."),
        sim::choice("schedule", &P::schedule, "host", "Where experts that are not in GPU memory are computed."),
        sim::choice("order", &P::order, "by_expert", "Order in which missing experts, or levels of them, are fetched."),
        sim::field(
            "as_they_come", &P::as_they_come,
            "Whether the GPU computes each expert as soon as it arrives; if not, all after the last has arrived."),
        sim::choice("host_cache", &P::host_cache, "lru", "With a drive: which experts stay in host memory."),
        sim::field("host_share", &P::host_share, Unit::ratio, sim::between(0, 1),
                   "With a drive: share of the experts that fit in host memory; null: as many as fit."),
        sim::field("spread", &P::spread,
                   "How slots are spread. `even`: the same number in all layers. `front`: the first layers have all of "
                   "theirs. `pooled`: one cache for all layers."),
        sim::field("prefetch", &P::prefetch, "Prefetch of experts of coming layers while the link is idle.")};
  }
};

/// Where the experts are that the GPUs do not hold, as the config names it.
struct ExpertHome {
  std::optional<hw::Device> host;  ///< none: the host only keeps experts
  hw::LinkPart link;
  std::optional<hw::MemoryTier> storage;
};
/// Reads the parts that `node` names: its `host`, `link` and `storage` (empty: none). Files go to `inputs`.
ExpertHome read_expert_home(const sim::Node& node, const ExpertHostParams& host, const std::string& link,
                            const std::string& storage, const hw::CostModelRegistry::Choice& cost,
                            const sim::Origin& cost_origin, std::vector<std::filesystem::path>& inputs,
                            sim::Faults& faults);

/// Experts that the host's memory keeps.
struct HostedExperts {
  std::int64_t slots = 0;
  std::string lacks;  ///< why the experts do not fit host or drive; empty: they do
};
/// Of `experts` in all layers that are not all on the GPUs, `bytes` each: all of them, or with a drive a `share`, or as
/// many as fit. A host that is not named has room for all.
HostedExperts hosted_experts(const ExpertHome& home, std::int64_t sockets, std::int64_t experts, std::int64_t bytes,
                             std::optional<double> share);

/// Experts of each layer with a slot on the GPUs, for a share of all.
std::vector<std::int64_t> layer_slots(std::int64_t layers, std::int64_t experts, double share, SlotSpread spread);

}  // namespace orrery::experiments
