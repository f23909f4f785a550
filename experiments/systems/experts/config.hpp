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
#include "experiments/experts/memory_params.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "hw/parts/nic.hpp"
#include "models/transformer/transformer.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "policies/token_groups/token_groups.hpp"

namespace orrery::experiments::experts {

struct MachineParams {
  std::string part;
  sim::Node override_;
  std::int64_t devices = 1, ranks = 1;
  NodeParams node;
  ExpertHostParams host;
  std::string link = "pcie4-x16", storage;
  double memory_margin = 0.1, step_gap_s = 0;
  hw::CostModelRegistry::Choice cost;
  static constexpr auto fields() {
    using M = MachineParams;
    using sim::Unit;
    return sim::FieldTable{
        names_part(sim::required(
            sim::field("part", &M::part, Unit::reference, sim::any_value(), "GPU, a part from the catalog."))),
        sim::annotated(
            sim::field("override", &M::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
        sim::field("devices", &M::devices, Unit::count, sim::between(1, 1024),
                   "GPUs that split every layer (tensor parallelism); each has its own link to the host."),
        sim::field("ranks", &M::ranks, Unit::count, sim::between(1, 4096),
                   "Ranks among which experts are placed (expert parallelism), each of `devices` GPUs. Each rank "
                   "computes the dense part of its own texts."),
        sim::field("node", &M::node, "Nodes that the GPUs of the ranks are in, and their network."),
        sim::field("host", &M::host, "CPUs and their memory, which hold the experts that do not fit on the GPUs."),
        sim::field("link", &M::link, Unit::reference, sim::any_value(), "Link from the catalog between host and GPU."),
        names_part(sim::field(
            "storage", &M::storage, Unit::reference, sim::any_value(),
            "Drive that holds all experts if host memory does not, a memory part from the catalog; empty: none.")),
        sim::field("memory_margin", &M::memory_margin, Unit::ratio, sim::between(0, 0.99),
                   "Share of GPU memory that weights and KV cache may not use."),
        sim::field("step_gap", &M::step_gap_s, Unit::seconds, sim::between(0, 10),
                   "Extra time of a step: work of the engine on the CPU between two steps."),
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
                                 "Share of a token's experts, or of all experts, that are computed at this level."))};
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
        sim::required(sim::field("levels", &P::levels, "Levels of precision, fewest bits first; 2 to 8 levels.")),
        sim::field("by", &P::by,
                   "What a level is assigned to. `token`: each choice of a token, by a second router. `expert`: each "
                   "expert, with the most bits for those chosen most often."),
        sim::field("nested", &P::nested,
                   "Whether a level adds bits to the one below it; if not, each is a full copy of the weights."),
        sim::field("seed", &P::seed, sim::Unit::none, sim::at_least(0), "Seed of the draws of the second router.")};
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
                                             "Model with experts: a config.json, or \"catalog:NAME\"."))),
        sim::field("dtype", &M::dtype, "Number format of activations, and of weights without a format of their own."),
        sim::field("weight_format", &M::weight_format,
                   "Weight format of projections and feed-forward; null: as published."),
        sim::field("expert_format", &M::expert_format,
                   "Weight format of experts; null: as weight_format, or else as published."),
        sim::field("active", &M::active, Unit::count, sim::between(1, 1 << 14),
                   "Experts that a token uses of those that its router chose, the best first; null: all."),
        sim::field("bits", &M::bits, "Experts in several precisions, as in D2MoE; null: all as expert_format."),
        sim::field("modules", &M::modules, Unit::count, sim::between(0, 1 << 24),
                   "Intermediate size of each expert, for experts of unlike sizes as in Duo-LLM; 0: the layer is "
                   "skipped. Empty: all as in the model.")};
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
        sim::required(sim::field("router", &W::router, "Which experts tokens choose: a router trace or a generator.")),
        sim::field("batch", &W::batch, Unit::count, sim::between(1, 1 << 16), "Batch size in texts."),
        sim::field("chunk", &W::chunk, Unit::tokens, sim::between(1, 1 << 20),
                   "Tokens of a text in a step; 1: decode, more: chunks of a prompt."),
        sim::field("context", &W::context, Unit::tokens, sim::between(1, 1 << 24),
                   "Tokens that each text already has, in every step."),
        sim::field("skip", &W::skip, Unit::count, sim::at_least(0),
                   "First steps, which fill the caches and are not counted."),
        sim::field("steps", &W::steps, Unit::count, sim::at_least(1),
                   "Most steps to run; null: all that the trace has.")};
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
        sim::field("rows", &P::rows,
                   "Rank that sends the rows: that of their text (`home`), or where the layer before was computed "
                   "(`onward`)."),
        sim::field("once", &P::once,
                   "What a token is sent to once: each of its experts, or each rank or node that holds any of them."),
        sim::field("dispatch", &P::dispatch, "Number format of rows sent to experts; null: that of activations."),
        sim::field("in_turns", &P::in_turns,
                   "Whether the texts of each rank are split into two halves, one of which computes while the other's "
                   "rows travel.")};
  }
};

struct PolicyParams : ExpertMemoryPolicies {
  std::optional<double> share;
  policies::TokenGroupsRegistry::Choice groups;
  std::int64_t pool = 1;
  policies::ExpertPlacementRegistry::Choice placement;
  std::int64_t redundant = 0;
  ExchangeParams exchange;
  static constexpr auto fields() {
    using P = PolicyParams;
    using sim::Unit;
    return sim::joined(
        sim::inherited<P>(ExpertMemoryPolicies::fields()),
        sim::FieldTable{
            sim::field("share", &P::share, Unit::ratio, sim::between(0, 1),
                       "Share of the experts for which the GPUs have slots; null: as many as fit."),
            sim::choice("groups", &P::groups, "arrival", "Which of the waiting tokens share a step."),
            sim::field("pool", &P::pool, Unit::count, sim::between(1, 256),
                       "Number of batches of texts that `groups` chooses from."),
            sim::choice(
                "placement", &P::placement, "contiguous",
                "Which rank holds which experts, planned on the choices of the first steps, which are skipped."),
            sim::field("redundant", &P::redundant, Unit::count, sim::between(0, 1 << 16),
                       "Expert slots of a layer, over all ranks, beyond one for each expert."),
            sim::field("exchange", &P::exchange, "Exchange of rows between ranks.")});
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
    return sim::FieldTable{
        sim::required(sim::section("machine", &S::machine, "GPUs, host and link.")),
        sim::required(sim::section("model", &S::model, "The model, which has experts.")),
        sim::required(sim::section("workload", &S::workload, "Router choices, batch and context.")),
        sim::section("policies", &S::policies, "Cache, schedule, prefetch, placement and exchange of experts."),
        sim::section("run", &S::run, "Seed of the run.")};
  }
};

/// A validated config.
struct Config : ExpertHome {
  std::string file;
  Sections sections;
  std::optional<hw::Device> gpu;
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
