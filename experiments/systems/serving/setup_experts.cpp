// What the ranks of a replica have of the experts: which ones, and how rows travel between them.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/experts/placement_trial.hpp"
#include "experiments/systems/serving/setup_state.hpp"

namespace orrery::experiments {
namespace {

/// Rows of a token that its ranks exchange: one for each choice, or for each group of experts if there are fewer.
std::int64_t exchanged_rows(const models::Transformer& t) {
  return std::max<std::int64_t>(1, std::min(t.config.experts.per_token, t.split.expert_parallel));
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
