#include "experiments/systems/experts/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/base/named_part.hpp"
#include "experiments/base/platform_choice.hpp"
#include "experiments/experts/placement_trial.hpp"
#include "experiments/systems/experts/draws.hpp"

namespace orrery::experiments::experts {
namespace {

using sim::Node;

constexpr std::string_view kCatalog = "catalog:";

void read_machine(const Node& machine, Config& config, sim::Faults& faults) {
  const MachineParams& params = config.sections.machine;
  const sim::Origin cost = place_of(machine, "cost");
  const Node entry = read_part_entry(machine, params.part, config.inputs, faults);
  if (entry.is_object())
    if (const auto parsed = hw::parse_computing_part(entry, params.override_, faults))
      config.gpu = hw::make_device(parsed->name, parsed->part, params.cost, cost, faults);
  if (config.gpu && config.gpu->kind() != "gpu")
    faults.add(place_of(machine, "part"), fmt::format("expected a GPU, got a part of kind {}", config.gpu->kind()));
  static_cast<ExpertHome&>(config) =
      read_expert_home(machine, params.host, params.link, params.storage, params.cost, cost, config.inputs, faults);
  if (params.ranks * params.devices > params.node.devices)
    config.nic =
        read_named_part<hw::NicPart>(params.node.nic, place_of(section(machine, "node"), "nic"), config.inputs, faults);
}

/// Requests that one cache for all layers is told of: 512 MiB.
constexpr std::int64_t kMostRequests = std::int64_t{1} << 28;

/// What a drive, and one cache for all layers, need.
void check_memories(const Node& root, const Config& config, sim::Faults& faults) {
  const Sections& s = config.sections;
  const Node policies = section(root, "policies");
  const bool numbered = s.policies.spread == SlotSpread::pooled || config.storage;
  if (numbered && config.expert_layers() * config.trace.experts > (1 << 16))
    faults.add(place_of(policies, "spread"),
               fmt::format("expected at most 65,536 experts in one cache, {} has {} in {} layers", config.model.name,
                           config.trace.experts, config.expert_layers()));
  if (s.policies.spread == SlotSpread::pooled &&
      config.tokens > kMostRequests / (config.expert_layers() * config.trace.top_k))
    faults.add(place_of(policies, "spread"),
               fmt::format("expected at most {} requests in one cache, got {} tokens of {} experts in {} layers",
                           kMostRequests, config.tokens, config.trace.top_k, config.expert_layers()));
  if (config.storage && !config.host && !s.policies.host_share && !s.model.bits)
    faults.add(place_of(policies, "host_share"),
               "expected a share of the experts that the host's memory keeps, for no host is named");
  if (s.policies.pool == 1 && s.policies.groups.name != "arrival")
    faults.add(
        place_of(policies, "pool"),
        fmt::format("expected a pool of 2 steps at least: {} has nothing to choose from", s.policies.groups.name));
  if (!config.storage && s.policies.host_share)
    faults.add(place_of(policies, "host_share"), "expected machine.storage, which has the others");
}

/// What ranks of experts cannot be together with.
void check_ranks(const Node& root, const Config& config, sim::Faults& faults) {
  const Sections& s = config.sections;
  const MachineParams& m = s.machine;
  if (m.ranks == 1) return;
  const Node machine = section(root, "machine"), policies = section(root, "policies");
  if (m.node.devices % m.devices != 0 || (config.nic && m.ranks * m.devices % m.node.devices != 0))
    faults.add(place_of(section(machine, "node"), "devices"),
               fmt::format("expected whole nodes of whole ranks: {} ranks of {} on nodes of {} GPUs", m.ranks,
                           m.devices, m.node.devices));
  if (s.workload.batch % m.ranks != 0)
    faults.add(place_of(section(root, "workload"), "batch"),
               fmt::format("expected as many texts on each of {} ranks, got {}", m.ranks, s.workload.batch));
  if (s.policies.share || s.policies.prefetch.accuracy > 0)
    faults.add(place_of(policies, s.policies.share ? "share" : "prefetch"),
               "ranks hold all of their experts: expected neither a share of them nor prefetch");
  if (!m.host.part.empty()) faults.add(place_of(machine, "host"), "the experts of ranks have no host");
  if (s.policies.pool > 1)
    faults.add(place_of(policies, "pool"), "the texts of ranks stay where their keys are: expected a pool of 1");
  if (config.storage) faults.add(place_of(machine, "storage"), "the experts of ranks are on no drive");
  if (s.workload.skip == 0)
    faults.add(place_of(section(root, "workload"), "skip"), "expected first steps, 1 at least, to plan a placement on");
}

/// What experts in several numbers of bits, and modules of unlike sizes, cannot be together with.
void check_variants(const Node& root, const Config& config, sim::Faults& faults) {
  const Sections& s = config.sections;
  const Node model = section(root, "model"), policies = section(root, "policies");
  const auto by_gpu_alone = [&](const char* what) {
    if (s.machine.ranks > 1)
      faults.add(place_of(section(root, "machine"), "ranks"), fmt::format("expected one rank with model.{}", what));
    if (s.policies.prefetch.accuracy > 0)
      faults.add(place_of(policies, "prefetch"), fmt::format("expected no prefetch with model.{}", what));
    if (!s.machine.host.part.empty())
      faults.add(place_of(section(root, "machine"), "host"),
                 fmt::format("with model.{} experts are computed by the GPU: expected no host", what));
  };
  if (!s.model.modules.empty()) {
    const auto where = place_of(model, "modules");
    by_gpu_alone("modules");
    if (static_cast<std::int64_t>(s.model.modules.size()) != config.model.experts.count)
      faults.add(where, fmt::format("expected a size for each of {} experts, got {}", config.model.experts.count,
                                    s.model.modules.size()));
    if (std::ranges::max(s.model.modules) == 0) faults.add(where, "expected one size above 0 at least");
    for (const std::int64_t size : s.model.modules)
      if (size % s.machine.devices != 0)
        faults.add(where, fmt::format("a size of {} is not divided by {} devices", size, s.machine.devices));
    if (s.policies.share && *s.policies.share < 1)
      faults.add(place_of(policies, "share"), "modules of unlike sizes all stay on the GPU: expected a share of 1");
    if (s.model.bits) faults.add(place_of(model, "bits"), "expected either 'bits' or 'modules'");
  }
  if (!s.model.bits) return;
  by_gpu_alone("bits");
  const std::vector<BitLevel>& levels = s.model.bits->levels;
  const auto where = place_of(section(model, "bits"), "levels");
  if (levels.size() < 2 || levels.size() > 8)
    return faults.add(where, fmt::format("expected 2 to 8 levels, got {}", levels.size()));
  double sum = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    sum += levels[i].share;
    if (hw::bits_64ths(levels[i].weights) == 0)
      faults.add(where, "expected a format with a number of bits of its own, got as_dtype");
    else if (i > 0 && hw::bits_64ths(levels[i].weights) <= hw::bits_64ths(levels[i - 1].weights))
      faults.add(where, fmt::format("expected more bits from level to level, got {} after {}",
                                    to_string(levels[i].weights), to_string(levels[i - 1].weights)));
  }
  if (std::abs(sum - 1) > 1e-6) faults.add(where, fmt::format("expected shares of 1 together, got {:.6g}", sum));
  const auto units = config.expert_layers() * config.trace.experts * static_cast<std::int64_t>(levels.size());
  if (units > (1 << 16))
    faults.add(where, fmt::format("expected at most 65,536 levels of experts in one cache, got {}", units));
  if (config.tokens >
      kMostRequests / (config.expert_layers() * config.trace.top_k * static_cast<std::int64_t>(levels.size())))
    faults.add(where, fmt::format("expected at most {} requests in one cache, got {} tokens of {} experts in {} layers",
                                  kMostRequests, config.tokens, config.trace.top_k, config.expert_layers()));
}

void read_model(const Node& model, Config& config, sim::Faults& faults) {
  const ModelParams& params = config.sections.model;
  const sim::Origin where = place_of(model, "config");
  const std::filesystem::path file = model_file(params.config, where, faults);
  if (file.empty()) return;
  config.inputs.push_back(file);
  config.model = models::load_model(file.string(), {}, where);
  config.model.name = params.config.starts_with(kCatalog) ? params.config.substr(kCatalog.size()) : params.config;
  if (config.model.experts.count == 0) {
    faults.add(where, fmt::format("expected a model with experts, {} has none", config.model.name));
    return;
  }
  models::NumberFormats& formats = config.formats;
  formats.dtype = params.dtype;
  formats.attention = formats.ffn = params.weight_format.value_or(config.model.weights);
  formats.experts = params.expert_format.value_or(params.weight_format.value_or(config.model.expert_weights));
  config.host_formats = formats;
  config.host_formats.experts = config.sections.machine.host.weights.value_or(formats.experts);
  const models::Split split{.tp = config.sections.machine.devices};
  if (const auto obstacle = models::split_obstacle(config.model, split)) faults.add(where, *obstacle);
}

/// Keeps the best `active` choices of each token.
void trim(traces::RouterTrace& trace, std::int64_t active) {
  const auto kept = static_cast<std::size_t>(active), top_k = static_cast<std::size_t>(trace.top_k);
  if (kept == top_k) return;
  for (traces::RouterLayer& layer : trace.layers) {
    std::vector<traces::ExpertId> choices;
    for (std::size_t first = 0; first < layer.choices.size(); first += top_k)
      choices.insert(choices.end(), layer.choices.begin() + static_cast<std::ptrdiff_t>(first),
                     layer.choices.begin() + static_cast<std::ptrdiff_t>(first + kept));
    layer.choices = std::move(choices);
  }
  trace.top_k = active;
}

/// What a placement is made of, but for the choices.
policies::ExpertPlacementView placement_view_of(const Config& config, policies::ExpertPlacementView view) {
  const Sections& s = config.sections;
  view.gpus = s.machine.ranks;
  view.nodes = config.nic ? s.machine.ranks * s.machine.devices / s.machine.node.devices : 1;
  view.slots = config.trace.experts + s.policies.redundant;
  return view;
}

/// Why the experts cannot be placed so.
void check_placement(const Node& root, const Config& config, sim::Faults& faults) {
  policies::ExpertPlacementView blank;
  blank.loads.emplace_back(static_cast<std::size_t>(config.trace.experts), 1.0);
  const policies::ExpertPlacementView view = placement_view_of(config, std::move(blank));
  const sim::Origin where = place_of(section(root, "policies"), "placement");
  const std::string shape = policies::placement_obstacle(view);
  if (!shape.empty()) return faults.add(where, shape, "policies.redundant adds slots");
  const std::string obstacle = config.sections.policies.placement.make()->obstacle(view);
  if (!obstacle.empty()) faults.add(where, obstacle);
}

}  // namespace

std::int64_t Config::expert_layers() const {
  return experiments::expert_layers(model);
}

std::int64_t Config::steps() const {
  const WorkloadParams& w = sections.workload;
  const std::int64_t all = trace.tokens() / step_tokens();
  return w.steps ? std::min(all, w.skip + *w.steps) : all;
}

Config read_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  Config config;
  config.file = root.origin().file;
  config.sections = read_sections<Sections>(root, registries, faults);
  if (!faults.empty()) return config;
  read_machine(section(root, "machine"), config, faults);
  read_model(section(root, "model"), config, faults);
  if (!faults.empty()) return config;
  const Node workload = section(root, "workload");
  RouterSource& router = config.sections.workload.router;
  config.trace =
      open_router_source(section(workload, "router"), router, routed_model(config.model), config.tokens, faults);
  if (router.trace) config.inputs.emplace_back(*router.trace);
  if (!faults.empty()) return config;
  check_ranks(root, config, faults);
  check_memories(root, config, faults);
  check_variants(root, config, faults);
  if (config.active() > config.trace.top_k)
    faults.add(
        place_of(section(root, "model"), "active"),
        fmt::format("more activated experts than the router chose: {} of {}", config.active(), config.trace.top_k));
  const WorkloadParams& w = config.sections.workload;
  // Each time that all texts have had a turn is `pool` steps, of which a rule that makes some wait may leave one.
  const std::int64_t turns = config.tokens / config.texts_underway() / w.chunk;
  const std::int64_t pool = config.sections.policies.pool, a_turn = std::max<std::int64_t>(1, pool - 1);
  if (turns * a_turn < w.skip + 1)
    faults.add(workload.origin(),
               fmt::format("expected {} tokens of router choices at least for {} steps of {} texts, got {}",
                           (w.skip + a_turn) / a_turn * config.texts_underway() * w.chunk, w.skip + 1,
                           config.texts_underway(), config.tokens));
  if (!faults.empty()) return config;
  if (config.sections.machine.ranks > 1) check_placement(root, config, faults);
  return config;
}

void draw_choices(Config& config) {
  const Sections& s = config.sections;
  const WorkloadParams& w = s.workload;
  if (w.router.generator)
    config.trace = traces::generate_router_trace(*w.router.generator, static_cast<std::uint64_t>(s.run.seed));
  trim(config.trace, config.active());
  if (config.texts_underway() > 1) config.trace = traces::side_by_side(config.trace, config.texts_underway());
  if (s.policies.pool > 1) regroup(config);
  if (s.model.bits) config.levels = draw_levels(config);
  if (s.machine.ranks > 1)
    config.placement = s.policies.placement.make()->place(
        placement_view_of(config, placement_view(config.trace, {0, w.skip * config.step_tokens()})));
}

}  // namespace orrery::experiments::experts
