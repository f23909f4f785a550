// Configs of the experts system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/node_params.hpp"
#include "experiments/base/router_source.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "hw/parts/nic.hpp"
#include "models/transformer/transformer.hpp"
#include "policies/expert_order/expert_order.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "policies/expert_schedule/expert_schedule.hpp"
#include "policies/experts/expert_cache.hpp"
#include "policies/token_groups/token_groups.hpp"

namespace orrery::experiments::experts {

struct HostParams {
  std::string part;
  sim::Node override_;
  std::int64_t sockets = 1;
  double efficiency = 1, layer_gap_s = 0;
  std::optional<hw::WeightFormat> weights;
  static constexpr auto fields() {
    using H = HostParams;
    using sim::Unit;
    return sim::FieldTable{
        names_part(sim::field("part", &H::part, Unit::reference, sim::any_value(),
                              "A CPU that computes experts; empty: it only keeps them.")),
        sim::annotated(
            sim::field("override", &H::override_, "Fields that replace the part's."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
        sim::field("sockets", &H::sockets, Unit::count, sim::between(1, 64),
                   "CPUs, among which each expert is divided: each reads what lies in its own memory."),
        sim::field("efficiency", &H::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Of the engine's expert kernels against the part's cost model."),
        sim::field("layer_gap", &H::layer_gap_s, Unit::seconds, sim::between(0, 1),
                   "A layer that uses the host takes so much more: activations there and back, threads that meet."),
        sim::field("weights", &H::weights, "Format of the host's experts; null: that of the GPU's.")};
  }
};

struct MachineParams {
  std::string part;
  sim::Node override_;
  std::int64_t devices = 1, ranks = 1;
  NodeParams node;
  HostParams host;
  std::string link = "pcie4-x16", storage;
  double memory_margin = 0.1, step_gap_s = 0;
  hw::CostModelRegistry::Choice cost;
  static constexpr auto fields() {
    using M = MachineParams;
    using sim::Unit;
    return sim::FieldTable{
        names_part(sim::required(
            sim::field("part", &M::part, Unit::reference, sim::any_value(), "The GPU, a part of the catalog."))),
        sim::annotated(
            sim::field("override", &M::override_, "Fields that replace the part's."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
        sim::field("devices", &M::devices, Unit::count, sim::between(1, 1024),
                   "GPUs that share every layer (tensor parallelism); each has a link of its own."),
        sim::field("ranks", &M::ranks, Unit::count, sim::between(1, 4096),
                   "Ranks among which experts are placed (expert parallelism), each of `devices` GPUs. Each does the "
                   "dense part of its texts."),
        sim::field("node", &M::node, "What joins the GPUs of ranks."),
        sim::field("host", &M::host, "CPUs and their memory, where experts lie that the GPUs have no room for."),
        sim::field("link", &M::link, Unit::reference, sim::any_value(), "Link of the catalog from host to GPU."),
        names_part(sim::field("storage", &M::storage, Unit::reference, sim::any_value(),
                              "Drive that has all experts, where the host's memory does not: a memory part of the "
                              "catalog; empty: none.")),
        sim::field("memory_margin", &M::memory_margin, Unit::ratio, sim::between(0, 0.99),
                   "Share of the GPU's memory that is kept from weights and keys."),
        sim::field("step_gap", &M::step_gap_s, Unit::seconds, sim::between(0, 10),
                   "A step takes so much more: the engine's host between two steps."),
        sim::choice("cost", &M::cost, "by_kind", "Cost model of GPU and host.")};
  }
};

struct BitLevel {
  hw::WeightFormat weights = hw::WeightFormat::int4;
  double share = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("weights", &BitLevel::weights, "Format of an expert's weights at this level.")),
        sim::required(sim::field("share", &BitLevel::share, sim::Unit::ratio, sim::between(0, 1),
                                 "Of a token's experts, or of all experts, that are computed with it."))};
  }
};

/// Who has a number of bits: each choice of each token, or each expert for all tokens.
enum class BitsBy : std::uint8_t { token, expert };
constexpr auto enum_names(BitsBy) {
  using enum BitsBy;
  return sim::names<BitsBy>({{"token", token}, {"expert", expert}});
}

struct BitsParams {
  std::vector<BitLevel> levels;
  BitsBy by = BitsBy::token;
  bool nested = true;
  std::int64_t seed = 1;
  static constexpr auto fields() {
    using P = BitsParams;
    return sim::FieldTable{
        sim::required(sim::field("levels", &P::levels, "Numbers of bits, the fewest first; 2 to 8 levels.")),
        sim::field("by", &P::by,
                   "Who has a level: each choice of a token, as a second router says; or each expert, those chosen "
                   "most often the most bits."),
        sim::field("nested", &P::nested,
                   "Whether a level adds bits to the one below it; else each is a copy of all weights."),
        sim::field("seed", &P::seed, sim::Unit::none, sim::at_least(0), "Of the second router's draws.")};
  }
};

struct ModelParams {
  std::string config;
  hw::DType dtype = hw::DType::bf16;
  std::optional<hw::WeightFormat> weight_format, expert_format;
  std::optional<std::int64_t> active;
  std::optional<BitsParams> bits;
  std::vector<std::int64_t> modules;
  static constexpr auto fields() {
    using M = ModelParams;
    using sim::Unit;
    return sim::FieldTable{
        names_model(sim::required(sim::field("config", &M::config, Unit::reference, sim::any_value(),
                                             "A model with experts: a config.json, or \"catalog:NAME\"."))),
        sim::field("dtype", &M::dtype, "Of activations, and of weights without a format."),
        sim::field("weight_format", &M::weight_format, "Of projections and feed-forward; null: as published."),
        sim::field("expert_format", &M::expert_format, "Of experts; null: as weight_format, else as published."),
        sim::field("active", &M::active, Unit::count, sim::between(1, 1 << 14),
                   "Experts that a token uses of those its router chose, the best first; null: all."),
        sim::field("bits", &M::bits,
                   "Experts in several numbers of bits, as D2MoE has them; null: all as expert_format."),
        sim::field(
            "modules", &M::modules, Unit::count, sim::between(0, 1 << 24),
            "Intermediate size of each expert, where they are unlike as Duo-LLM's; 0: the layer is skipped. Empty: "
            "all as the model says.")};
  }
};

struct WorkloadParams {
  RouterSource router;
  std::int64_t batch = 1, chunk = 1, context = 1024, skip = 0;
  std::optional<std::int64_t> steps;
  static constexpr auto fields() {
    using W = WorkloadParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("router", &W::router, "Who chooses which experts: a trace or a generator.")),
        sim::field("batch", &W::batch, Unit::count, sim::between(1, 1 << 16), "Texts that go side by side."),
        sim::field("chunk", &W::chunk, Unit::tokens, sim::between(1, 1 << 20),
                   "Tokens of a text in a step: 1 decodes, more are chunks of a prompt."),
        sim::field("context", &W::context, Unit::tokens, sim::between(1, 1 << 24),
                   "Tokens that a text has before, in every step."),
        sim::field("skip", &W::skip, Unit::count, sim::at_least(0), "First steps, which fill the caches, not counted."),
        sim::field("steps", &W::steps, Unit::count, sim::at_least(1), "Steps at most; null: all that the trace has.")};
  }
};

/// How many experts of each layer the GPUs hold: in all layers alike, whole layers first, or one cache for all layers.
enum class SlotSpread : std::uint8_t { even, front, pooled };
constexpr auto enum_names(SlotSpread) {
  using enum SlotSpread;
  return sim::names<SlotSpread>({{"even", even}, {"front", front}, {"pooled", pooled}});
}

struct PrefetchParams {
  double accuracy = 0;
  std::int64_t layers = 1, seed = 1;
  bool across = false;
  static constexpr auto fields() {
    using P = PrefetchParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field(
            "accuracy", &P::accuracy, Unit::ratio, sim::between(0, 1),
            "Chance that an expert of a coming layer is predicted; a wrong one is in its place. 0: no prefetch."),
        sim::field("layers", &P::layers, Unit::count, sim::between(1, 1024), "Layers ahead, the nearest first."),
        sim::field("across", &P::across,
                   "Whether the next step's layers are predicted too, as by a predictor that reads the prompt."),
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0), "Seed of the predictions.")};
  }
};

/// Where rows come from. `home`: from the rank of their text, and the results go back there. `onward`: from the rank of
/// their experts in the layer before, as MoETuner counts (arXiv 2502.06643).
enum class RowSource : std::uint8_t { home, onward };
constexpr auto enum_names(RowSource) {
  using enum RowSource;
  return sim::names<RowSource>({{"home", home}, {"onward", onward}});
}

/// How often a token travels: to each of its experts; once to each rank that has any; once to each node, and from the
/// rank with the same place there on to that node's ranks (DeepEP's normal kernels).
enum class RowSends : std::uint8_t { expert, rank, node };
constexpr auto enum_names(RowSends) {
  using enum RowSends;
  return sim::names<RowSends>({{"expert", expert}, {"rank", rank}, {"node", node}});
}

struct ExchangeParams {
  RowSource rows = RowSource::home;
  RowSends once = RowSends::expert;
  std::optional<hw::DType> dispatch;
  bool in_turns = false;
  static constexpr auto fields() {
    using P = ExchangeParams;
    return sim::FieldTable{
        sim::field("rows", &P::rows, "Which rank rows come from: that of their text, or that of the layer before."),
        sim::field("once", &P::once, "What a token goes to once: each of its experts, each rank or each node of them."),
        sim::field("dispatch", &P::dispatch, "Type of rows on their way to experts; null: that of activations."),
        sim::field("in_turns", &P::in_turns,
                   "Whether each rank's texts make two halves, of which one computes while the other's rows travel.")};
  }
};

struct PolicyParams {
  policies::ExpertCacheRegistry::Choice cache;
  policies::ExpertScheduleRegistry::Choice schedule;
  policies::ExpertOrderRegistry::Choice order;
  policies::TokenGroupsRegistry::Choice groups;
  std::int64_t pool = 1;
  bool as_they_come = true;
  std::optional<double> share, host_share;
  policies::ExpertCacheRegistry::Choice host_cache;
  SlotSpread spread = SlotSpread::even;
  PrefetchParams prefetch;
  policies::ExpertPlacementRegistry::Choice placement;
  std::int64_t redundant = 0;
  ExchangeParams exchange;
  static constexpr auto fields() {
    using P = PolicyParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::choice("cache", &P::cache, "lru", "Which experts stay in the GPU's memory."),
        sim::choice("schedule", &P::schedule, "host", "Where experts are computed that are not there."),
        sim::choice("order", &P::order, "by_expert", "Which missing experts, or levels of them, come first."),
        sim::field("as_they_come", &P::as_they_come,
                   "Whether the GPU computes each expert once it has arrived; else all once the last has."),
        sim::choice("groups", &P::groups, "arrival", "Which of the tokens that wait share a step."),
        sim::field("pool", &P::pool, Unit::count, sim::between(1, 256),
                   "Steps' worth of texts that `groups` chooses from: `batch` times so many go side by side."),
        sim::field("share", &P::share, Unit::ratio, sim::between(0, 1),
                   "Of the experts, that the GPUs have slots for; null: as many as fit."),
        sim::choice("host_cache", &P::host_cache, "lru", "With a drive: which experts stay in the host's memory."),
        sim::field("host_share", &P::host_share, Unit::ratio, sim::between(0, 1),
                   "With a drive: of the experts, that the host's memory keeps; null: as many as fit."),
        sim::field("spread", &P::spread,
                   "Whether all layers have as many slots, the first layers all of theirs, or all layers one cache."),
        sim::field("prefetch", &P::prefetch, "Experts of coming layers that are copied ahead while the link is idle."),
        sim::choice("placement", &P::placement, "contiguous",
                    "Which rank holds which experts, planned on the choices of the first steps, which are skipped."),
        sim::field("redundant", &P::redundant, Unit::count, sim::between(0, 1 << 16),
                   "Slots of a layer, over all ranks, beyond one an expert."),
        sim::field("exchange", &P::exchange, "Of rows between ranks.")};
  }
};

struct RunParams {
  std::int64_t seed = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0), "Seed of a drawn router trace.")};
  }
};

struct Sections {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PolicyParams policies;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "GPU, host and link.")),
                           sim::required(sim::section("model", &S::model, "A model with experts.")),
                           sim::required(sim::section("workload", &S::workload, "Router choices, batch, context.")),
                           sim::section("policies", &S::policies, "Cache, schedule, prefetch."),
                           sim::section("run", &S::run, "The run.")};
  }
};

/// A validated config.
struct Config {
  std::string file;
  Sections sections;
  std::optional<hw::Device> gpu, host;
  hw::LinkPart link;
  std::optional<hw::MemoryTier> storage;
  std::optional<hw::NicPart> nic;  ///< where ranks are on several nodes
  models::ModelConfig model;
  models::NumberFormats formats, host_formats;
  /// Read whole; of a generator only how many experts there are, until draw_choices().
  traces::RouterTrace trace;
  std::int64_t tokens = 0;                          ///< of the trace
  std::vector<std::vector<std::uint8_t>> levels;    ///< of model.bits: by layer of the trace and choice
  std::vector<std::int64_t> texts;                  ///< by token of the trace: whose it is
  std::vector<policies::LayerPlacement> placement;  ///< by layer of the trace; empty for one rank
  std::vector<std::filesystem::path> inputs;
  /// Layers with experts.
  std::int64_t expert_layers() const;
  /// Tokens of a step, and steps that are played, those that are skipped among them.
  std::int64_t step_tokens() const { return sections.workload.batch * sections.workload.chunk; }
  std::int64_t steps() const;
  /// Texts that are under way.
  std::int64_t texts_underway() const { return sections.workload.batch * sections.policies.pool; }
  /// Experts that a token uses.
  std::int64_t active() const { return sections.model.active.value_or(trace.top_k); }
};

Config read_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

/// What a run needs beside: `trace` drawn where a generator does, with the choices that count and its tokens in the
/// order in which steps take them; `levels`, and `placement` of several ranks. Kept from read_config(), for a config is
/// read far more often than it is run.
void draw_choices(Config& config);

}  // namespace orrery::experiments::experts
