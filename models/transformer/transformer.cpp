#include "models/transformer/transformer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/transformer/transformer_ops.hpp"

namespace orrery::models {
namespace {

std::int64_t held(const std::vector<Op>& ops) {
  std::int64_t sum = 0;
  for (const Op& op : ops) sum += op.parameters;
  return sum;
}
std::int64_t held_bytes(const std::vector<Op>& ops) {
  std::int64_t sum = 0;
  for (const Op& op : ops) sum += op.parameter_bytes;
  return sum;
}

/// The share of one rank of a split that has no obstacle.
Transformer build(const ModelConfig& config, const NumberFormats& formats, const Split& split,
                  const RouterParams& router, Sampler sampler) {
  Transformer t;
  t.sampler = sampler;
  t.config = config;
  t.formats = formats;
  t.dtype = formats.dtype;
  t.split = split;
  t.tp = split.tp;
  t.heads = config.heads / split.tp;
  t.kv_heads = config.kv_heads >= split.tp ? config.kv_heads / split.tp : 1;
  t.intermediate_size = config.intermediate_size / split.tp;
  t.vocab_rows = (config.vocab_size + split.tp - 1) / split.tp;
  if (config.experts.count > 0) {
    t.experts = config.experts.count / split.expert_parallel;
    t.expert_intermediate_size = config.experts.intermediate_size / split.expert_tp();
    t.router = Router(router, config.experts.count, config.experts.per_token, split.expert_parallel);
  }
  build_ops(t);
  return t;
}

}  // namespace

bool is_matrix(const Op& op) {
  return std::holds_alternative<GemmShape>(op.shape) || std::holds_alternative<AttentionShape>(op.shape) ||
         std::holds_alternative<ExpertShape>(op.shape);
}

std::optional<std::string> tp_obstacle(const ModelConfig& config, std::int64_t tp) {
  if (tp < 1) return fmt::format("expected at least 1 rank of tensor parallelism, got {}", tp);
  if (config.heads % tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the {} attention heads, got {}", config.heads,
                       tp);
  if (config.intermediate_size % tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the intermediate size {}, got {}",
                       config.intermediate_size, tp);
  if (config.latent.kv_rank == 0 && config.kv_heads % tp != 0 && tp % config.kv_heads != 0)
    return fmt::format(
        "expected ranks of tensor parallelism that divide the {} KV heads or are a multiple of them, got {}",
        config.kv_heads, tp);
  if (config.linear.interval > 0 && config.linear.key_heads % tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the {} key heads of linear attention, got {}",
                       config.linear.key_heads, tp);
  return std::nullopt;
}

std::optional<std::string> split_obstacle(const ModelConfig& config, const Split& split) {
  if (std::optional<std::string> obstacle = tp_obstacle(config, split.tp)) return obstacle;
  if (split.attention_dp < 1 || split.expert_parallel < 1)
    return fmt::format("expected at least 1 rank of attention and expert parallelism, got {} and {}",
                       split.attention_dp, split.expert_parallel);
  const ExpertConfig& e = config.experts;
  if (e.count == 0) {
    if (split.expert_parallel == 1 && split.attention_dp == 1) return std::nullopt;
    return "expected a model with experts for attention or expert parallelism: a dense one has replicas instead";
  }
  if (split.ranks() % split.expert_parallel != 0 || e.count % split.expert_parallel != 0)
    return fmt::format("expected groups of experts that divide the {} ranks and the {} experts, got {}", split.ranks(),
                       e.count, split.expert_parallel);
  if (e.intermediate_size % split.expert_tp() != 0)
    return fmt::format("expected ranks of an expert that divide its intermediate size {}, got {}", e.intermediate_size,
                       split.expert_tp());
  if (e.shared_intermediate_size % split.tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the shared experts' size {}, got {}",
                       e.shared_intermediate_size, split.tp);
  return std::nullopt;
}

Transformer build_transformer(const ModelConfig& config, const NumberFormats& formats, const Split& split,
                              const RouterParams& router, Sampler sampler, const sim::Origin& where) {
  if (std::optional<std::string> obstacle = split_obstacle(config, split))
    sim::throw_fault(where, std::move(*obstacle));
  return build(config, formats, split, router, sampler);
}

Transformer build_transformer(const ModelConfig& config, hw::DType dtype, std::int64_t tp, const sim::Origin& where) {
  return build_transformer(config, {.dtype = dtype, .cache = {}}, {.tp = tp}, {}, Sampler::greedy, where);
}

std::int64_t parameters(const ModelConfig& config) {
  return rank_parameters(build(config, {}, {}, {}, Sampler::greedy));
}

std::int64_t active_parameters(const ModelConfig& config) {
  const Transformer t = build(config, {}, {}, {}, Sampler::greedy);
  std::int64_t idle = 0;
  for (const LayerKind& kind : t.kinds)
    for (const Op& op : kind.ops)
      if (std::holds_alternative<ExpertShape>(op.shape))
        idle += kind.count * (op.parameters / config.experts.count) * (config.experts.count - config.experts.per_token);
  return rank_parameters(t) - idle;
}

std::int64_t layer_parameters(const Transformer& t, std::size_t kind) {
  return held(t.kinds.at(kind).ops);
}
std::int64_t embedding_parameters(const Transformer& t) {
  return held(t.embedding);
}
std::int64_t head_parameters(const Transformer& t) {
  return held(t.head);
}

std::int64_t rank_parameters(const Transformer& t) {
  std::int64_t sum = embedding_parameters(t) + head_parameters(t);
  for (const LayerKind& kind : t.kinds) sum += kind.count * held(kind.ops);
  return sum;
}

std::int64_t weight_bytes(const Transformer& t) {
  std::int64_t sum = held_bytes(t.embedding) + held_bytes(t.head);
  for (const LayerKind& kind : t.kinds) sum += kind.count * held_bytes(kind.ops);
  return sum;
}
std::int64_t layer_weight_bytes(const Transformer& t, std::size_t kind) {
  return held_bytes(t.kinds.at(kind).ops);
}

std::int64_t expert_bytes(const Transformer& t, std::size_t kind) {
  std::int64_t bytes = 0;
  for (const Op& op : t.kinds.at(kind).ops)
    if (op.rows == Dim::expert_rows && t.experts > 0) bytes += op.parameter_bytes / t.experts;
  return bytes;
}

std::int64_t mtp_parameters(const Transformer& t) {
  if (t.config.mtp_layers == 0) return 0;
  return t.config.mtp_layers * (held(t.mtp) + held(t.kinds.back().ops) + t.config.hidden_size);
}
std::int64_t mtp_weight_bytes(const Transformer& t) {
  if (t.config.mtp_layers == 0) return 0;
  return t.config.mtp_layers *
         (held_bytes(t.mtp) + held_bytes(t.kinds.back().ops) + t.config.hidden_size * hw::bytes_of(t.dtype));
}

std::int64_t kv_bytes_per_token_layer(const Transformer& t) {
  const std::int64_t element = hw::bytes_of(t.formats.cache.value_or(t.dtype));
  const LatentConfig& latent = t.config.latent;
  if (latent.kv_rank > 0) return (latent.kv_rank + latent.rope_dim) * element;
  return 2 * t.kv_heads * t.config.head_dim * element;
}
std::int64_t kv_bytes_per_token(const Transformer& t) {
  return t.config.cached_layers() * kv_bytes_per_token_layer(t);
}
std::int64_t state_bytes_per_sequence(const Transformer& t) {
  const LinearConfig& l = t.config.linear;
  if (l.interval == 0) return 0;
  const std::int64_t state = l.value_heads * l.key_dim * l.value_dim * 4;
  const std::int64_t window = (l.conv - 1) * l.channels() * hw::bytes_of(t.dtype);
  return (t.config.layers - t.config.cached_layers()) * ((state + window) / t.tp);
}

void Totals::add(const std::vector<Op>& ops, std::int64_t times) {
  for (const Op& op : ops) {
    (is_matrix(op) ? matrix_flops : vector_flops) += op.flops * times;
    weight_bytes += op.weight_bytes * times;
    activation_bytes += op.activation_bytes * times;
    kv_bytes += op.kv_bytes * times;
    const auto* collective = std::get_if<CollectiveShape>(&op.shape);
    if (collective == nullptr) continue;
    const Collective kind = collective->kind;
    (kind == Collective::all_reduce   ? reduced_bytes
     : kind == Collective::all_gather ? gathered_bytes
                                      : exchanged_bytes) += collective->bytes * times;
  }
}

Totals totals(const Transformer& t) {
  Totals sum;
  sum.add(t.embedding);
  for (const LayerKind& kind : t.kinds) sum.add(kind.ops, kind.count);
  sum.add(t.head);
  return sum;
}

}  // namespace orrery::models
