// What the ranks of a replica have of the experts: which ones, and how rows travel between them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "experiments/experts/placement_trial.hpp"
#include "experiments/systems/serving/setup_state.hpp"

namespace orrery::experiments {
namespace {

/// Rows of a token that its ranks exchange: one for each choice, or for each group of experts if there are fewer.
std::int64_t exchanged_rows(const models::Transformer& t) {
  return std::max<std::int64_t>(1, std::min(t.config.experts.per_token, t.split.expert_parallel));
}

/// What tokens chose that come before those of the run.
void add_past(const traces::RouterTrace& trace, std::int64_t tokens, ExpertMemoryPlan& plan) {
  const std::size_t layers = plan.routed.size();
  if (plan.policies.spread != SlotSpread::pooled) {
    for (std::size_t l = 0; l < layers; ++l) {
      const auto chosen = trace.choices(plan.replay->layer_of(l), 0, tokens);
      plan.past.emplace_back(chosen.begin(), chosen.end());
    }
  } else {
    std::vector<traces::ExpertId>& all = plan.past.emplace_back();
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::size_t l = 0; l < layers; ++l)
        for (const traces::ExpertId e : trace.choices(plan.replay->layer_of(l), token, token + 1))
          all.push_back(static_cast<traces::ExpertId>(static_cast<std::int64_t>(l) * trace.experts + e));
  }
  for (const std::vector<traces::ExpertId>& chosen : plan.past) plan.setup.known.push_back({.past = chosen});
}

}  // namespace

std::optional<ExpertExchange> ServingSetup::State::expert_exchange(const ReplicaKind& kind) const {
  const auto& params = config.replica.expert_exchange;
  if (!params) return std::nullopt;
  return ExpertExchange{*params, exchanged_rows(kind.layouts.front().transformer)};
}

std::optional<TurnExchanges> turns_of(const std::optional<ExpertExchange>& exchange, const models::Transformer& t,
                                      const hw::Device& device) {
  if (!exchange || !exchange->params.in_turns) return std::nullopt;
  TurnExchanges out{.by = *exchange, .ranks = t.ranks(), .routed = {}, .alone = t.tp == 1};
  if (exchange->params.kernel == hw::ExchangeKernel::normal)
    out.cores_share = std::min(0.9, hw::kExchangeCores / static_cast<double>(device.cores));
  constexpr std::int64_t kTokens = 1 << 16;  // so many that no device has a remainder
  for (const std::int32_t kind : t.kind_of) {
    const bool routed = t.kinds[static_cast<std::size_t>(kind)].experts;
    out.routed.push_back(routed);
    if (!routed || out.dispatch_bytes > 0) continue;
    models::Launches launches;
    models::lower_dense(t, static_cast<std::size_t>(kind), {.decode = kTokens}, launches);
    for (const models::Communication& c : launches.communications)
      if (c.kind == models::Collective::all_to_all)
        (out.dispatch_bytes == 0 ? out.dispatch_bytes : out.combine_bytes) = c.bytes / kTokens;
  }
  if (out.dispatch_bytes == 0) return std::nullopt;  // its ranks exchange no rows
  return out;
}

void add_redundant_experts(const models::Transformer& model, std::int64_t experts, DecoderMemory& memory) {
  if (experts == 0) return;
  for (std::size_t layer = 0; layer < memory.weights.size(); ++layer) {
    const std::int64_t bytes = experts * models::expert_bytes(model, static_cast<std::size_t>(model.kind_of[layer]));
    memory.weights[layer] += bytes;
    memory.whole += bytes;
  }
}

std::optional<std::string> ServingSetup::State::place_experts(ReplicaKind& kind) const {
  if (config.router_choices == nullptr) return std::nullopt;
  const traces::RouterTrace& all = *config.router_choices;
  policies::ExpertPlacementView view = placement_view(all, {0, config.planned_tokens});
  view.gpus = kind.expert_parallel;
  view.slots = all.experts + config.policies.redundant;
  if (const auto& exchange = config.replica.expert_exchange) {
    const std::int64_t devices = view.gpus * kind.devices_a_rank(), nodes = devices / exchange->node_devices;
    if (nodes > 0 && devices % exchange->node_devices == 0 && view.gpus % nodes == 0) view.nodes = nodes;
  }
  if (const std::string why = policies::placement_obstacle(view); !why.empty())
    return fmt::format("policies.placement: {}", why);
  const auto policy = config.policies.placement.make();
  if (const std::string why = policy->obstacle(view); !why.empty()) return fmt::format("policies.placement: {}", why);
  if (config.policies.rebalance && kind.stages > 1)
    return "policies.rebalance: expected one pipeline stage, whose ranks hold all layers";
  kind.experts = policy->place(view);
  kind.replay = std::make_shared<RouterReplay>(
      std::make_shared<const traces::RouterTrace>(traces::part_of(all, config.planned_tokens, all.tokens())),
      kind.experts, kind.expert_parallel, kind.data_parallel, config.workload.router->walk);
  view.loads.clear();
  view.transitions.clear();
  kind.experts_over = std::move(view);
  return std::nullopt;
}

std::optional<std::string> ServingSetup::State::keep_experts(ReplicaKind& kind, KindLayout& layout) const {
  const auto& params = config.replica.expert_memory;
  if (!params) return std::nullopt;
  if (kind.stages > 1 || kind.data_parallel > 1 || kind.expert_parallel > 1 || !config.layouts.empty())
    return "replica.expert_memory: expected replicas of one layout and of tensor parallelism alone, whose devices "
           "share "
           "every expert";
  const models::Transformer& t = layout.transformer;
  const traces::RouterTrace& trace = *config.router_choices;
  models::NumberFormats host_formats = t.formats;
  host_formats.experts = params->host.weights.value_or(host_formats.experts);
  auto plan = std::make_shared<ExpertMemoryPlan>(ExpertMemoryPlan{
      .policies = *params,
      .times = {{.gpu = part(kind).device,
                 .devices = t.tp,
                 .host = config.expert_home.host,
                 .sockets = params->host.sockets,
                 .host_efficiency = params->host.efficiency,
                 .host_gap_s = params->host.layer_gap_s,
                 .link = config.expert_home.link,
                 .storage = config.expert_home.storage},
                expert_weights(t, models::build_transformer(model, host_formats, {}), config.model.dtype,
                               params->host.sockets)},
      .replay = kind.replay,
      .routed = {},
      .past = {},
      .setup = {.experts = trace.experts,
                .top_k = trace.top_k,
                .slots = layer_slots(config.expert_layers, trace.experts, params->share, params->spread)}});
  for (std::size_t layer = 0; layer < t.kind_of.size(); ++layer) {
    const auto of = static_cast<std::size_t>(t.kind_of[layer]);
    if (!t.kinds[of].experts) continue;
    const std::int64_t elsewhere = trace.experts - plan->setup.slots[plan->routed.size()];
    plan->routed.push_back(static_cast<std::int64_t>(layer));
    const std::int64_t bytes = elsewhere * models::expert_bytes(t, of);
    layout.memory.weights[layer] -= bytes;
    layout.memory.whole -= bytes;
  }
  ExpertLayersSetup& setup = plan->setup;
  setup.filled = true;
  const std::int64_t all = config.expert_layers * trace.experts;
  const bool elsewhere = std::accumulate(setup.slots.begin(), setup.slots.end(), std::int64_t{0}) < all;
  const HostedExperts hosted =
      hosted_experts(config.expert_home, params->host.sockets, elsewhere || config.expert_home.host ? all : 0,
                     plan->times.host_expert_bytes(), params->host_share);
  setup.host_slots = hosted.slots;
  add_past(trace, config.planned_tokens, *plan);
  const policies::ExpertCacheSetup own{
      .experts = trace.experts,
      .top_k = trace.top_k,
      .past = setup.known.front().past,
      .scores = !trace.layers.front().scores.empty() && params->spread != SlotSpread::pooled,
      .foretold = params->prefetch.accuracy > 0};
  setup.scores = own.scores && params->cache.make(own)->reads_scores();
  kind.expert_memory = std::move(plan);
  if (!hosted.lacks.empty()) return "replica.expert_memory: " + hosted.lacks;
  return std::nullopt;
}

std::shared_ptr<Rebalancer> ServingSetup::State::rebalancer(const ReplicaKind& kind) const {
  if (!config.policies.rebalance || kind.replay == nullptr) return nullptr;
  const models::Transformer& shared = kind.transformer();
  ExpertLinks links;
  const std::optional<hw::LinkParams> lanes = between_lanes(kind);
  links.node_bandwidth = lanes ? lanes->bandwidth : on_network(kind, 0, part(kind).device).link.bandwidth;
  links.bandwidth = links.node_bandwidth;
  links.rank_devices = kind.devices_a_rank();
  links.node_ranks = kind.expert_parallel;
  if (const std::optional<ExpertExchange> exchange = expert_exchange(kind)) {
    links.node_ranks = std::max<std::int64_t>(1, exchange->params.node_devices / links.rank_devices);
    links.node_bandwidth = exchange->params.node.value_or(links.node_bandwidth);
    links.bandwidth = exchange->params.nic.value_or(hw::deepep_v1(exchange->params.kernel).nic);
  }
  links.bytes.assign(kind.replay->layers(), 0);
  links.layers.assign(kind.replay->layers(), 0);
  std::size_t routed = 0;
  for (const std::int32_t of : shared.kind_of) {
    if (!shared.kinds[static_cast<std::size_t>(of)].experts) continue;
    const std::size_t layer = kind.replay->layer_of(routed++);
    links.bytes[layer] = models::expert_bytes(shared, static_cast<std::size_t>(of));  // experts of a model are alike
    ++links.layers[layer];
  }
  return std::make_shared<Rebalancer>(*kind.replay, *config.policies.rebalance, config.policies.placement.make(),
                                      kind.experts_over, kind.experts, std::move(links));
}

}  // namespace orrery::experiments
