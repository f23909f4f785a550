// What the decoder builder is told: sizes, or a model of the catalog whose sizes replace them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/builders/net.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

/// Positions whose logits are computed.
enum class Logits : std::uint8_t { last, all };
constexpr auto enum_names(Logits) {
  using enum Logits;
  return sim::names<Logits>({{"last", last}, {"all", all}});
}

/// How products of experts are run: all in one kernel, or one product an expert.
enum class ExpertProducts : std::uint8_t { grouped, per_expert };
constexpr auto enum_names(ExpertProducts) {
  using enum ExpertProducts;
  return sim::names<ExpertProducts>({{"grouped", grouped}, {"per_expert", per_expert}});
}

/// Parameters of the builder.
struct DecoderParams {
  std::string config;
  std::int64_t layers = 16, hidden = 2048, heads = 32, kv_heads = 8, head_dim = 64, intermediate = 8192;
  std::int64_t vocab = 128256;
  bool tied = true, qkv_bias = false, out_bias = false, mlp_bias = false, qk_norm = false;
  std::int64_t experts = 0, experts_per_token = 2, expert_intermediate = 0, shared_intermediate = 0;
  std::int64_t dense_layers = 0, further_tokens = 0;
  bool router_bias = false, expert_bias = false;
  std::int64_t window = 0, full_every = 0;
  bool sinks = false;
  std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 128, rope_dim = 64, value_dim = 128;
  ExpertProducts expert_products = ExpertProducts::grouped;
  std::optional<FloatType> dtype;
  ElementType type = ElementType::bf16;  ///< where dtype says nothing; no field: the config's
  std::vector<bool> windowed;            ///< by layer; no field: the config's. Empty: by full_every
  AttentionForm attention = AttentionForm::sdpa;
  PassForm passes = PassForm::library;
  bool merged = false, cache = false, loss = false, wide_loss = false, eager_loss = false, sample = false;
  bool value_head = false;
  Logits logits = Logits::last;
  double dropout = 0;

  /// Tokens that a layer attends to; 0: all.
  std::int64_t window_of(std::int64_t layer) const {
    const auto place = static_cast<std::size_t>(layer);
    const bool has = windowed.empty() ? full_every == 0 || (layer + 1) % full_every != 0
                                      : place < windowed.size() && windowed[place];
    return has ? window : 0;
  }

  static constexpr auto fields() {
    using D = DecoderParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    constexpr sim::Range kOptional = sim::between(0, 1 << 24);
    return sim::FieldTable{
        sim::field("config", &D::config, Unit::path, sim::any_value(),
                   "Model of the catalog (catalog:NAME) or a config.json, whose sizes replace those below."),
        sim::field("layers", &D::layers, Unit::layers, kSize, "Number of layers."),
        sim::field("hidden", &D::hidden, Unit::count, kSize, "Hidden size: width of a token."),
        sim::field("heads", &D::heads, Unit::count, kSize, "Number of query heads."),
        sim::field("kv_heads", &D::kv_heads, Unit::count, kSize,
                   "Number of heads of keys and values, a divisor of heads."),
        sim::field("head_dim", &D::head_dim, Unit::count, kSize, "Width of an attention head."),
        sim::field("intermediate", &D::intermediate, Unit::count, kSize, "Width of the feed-forward network."),
        sim::field("vocab", &D::vocab, Unit::count, kSize, "Size of the vocabulary, in tokens."),
        sim::field("tied", &D::tied, "Whether the output head reads the embedding table."),
        sim::field("qkv_bias", &D::qkv_bias, "Whether the projections of q, k and v have biases."),
        sim::field("out_bias", &D::out_bias, "Whether the output projection of attention has a bias."),
        sim::field("mlp_bias", &D::mlp_bias, "Whether the feed-forward network has biases."),
        sim::field("qk_norm", &D::qk_norm, "Whether each head of q and k has an RMS norm."),
        sim::field("experts", &D::experts, Unit::count, kOptional,
                   "Number of experts per layer; 0: a dense feed-forward network."),
        sim::field("experts_per_token", &D::experts_per_token, Unit::count, kSize,
                   "Number of experts that each token goes to."),
        sim::field("expert_intermediate", &D::expert_intermediate, Unit::count, kOptional,
                   "Width of an expert; 0: that of the feed-forward network."),
        sim::field("shared_intermediate", &D::shared_intermediate, Unit::count, kOptional,
                   "Width of a shared feed-forward network that every token passes besides its experts; 0: none."),
        sim::field("router_bias", &D::router_bias, "Whether the router's product has a bias."),
        sim::field("expert_bias", &D::expert_bias, "Whether the products of experts have biases."),
        sim::field("dense_layers", &D::dense_layers, Unit::layers, kOptional,
                   "Number of first layers with a dense feed-forward network, where the others have experts."),
        sim::field("further_tokens", &D::further_tokens, Unit::count, sim::between(0, 16),
                   "Number of modules that predict the tokens after the next one, each with its own loss; needs loss."),
        sim::field("window", &D::window, Unit::tokens, sim::between(0, std::int64_t{1} << 40),
                   "Number of last tokens that layers with a window attend to; 0: no layer has a window."),
        sim::field(
            "full_every", &D::full_every, Unit::layers, kOptional,
            "With window: every so many layers one attends to all tokens, the last of them (gpt-oss: 2); 0: none "
            "does."),
        sim::field("sinks", &D::sinks,
                   "Whether each head has a learned logit that takes part in the softmax and has no value."),
        sim::field(
            "kv_rank", &D::kv_rank, Unit::count, kOptional,
            "Width of the latent that keys and values are projected from; 0: they are projected from the token."),
        sim::field(
            "q_rank", &D::q_rank, Unit::count, kOptional,
            "With kv_rank: width of the latent that queries are projected from; 0: they are projected from the token."),
        sim::field("nope_dim", &D::nope_dim, Unit::count, kSize,
                   "With kv_rank: width of the part of a head's key without positions."),
        sim::field("rope_dim", &D::rope_dim, Unit::count, kSize,
                   "With kv_rank: width of the part of a head's key with rotary positions."),
        sim::field("value_dim", &D::value_dim, Unit::count, kSize, "With kv_rank: width of a head's value."),
        sim::field("expert_products", &D::expert_products,
                   "How experts' products run: as one kernel for all (vLLM, PyTorch), or as one product per expert "
                   "(Transformer Engine)."),
        sim::field("dtype", &D::dtype,
                   "Type of weights and activations; absent: that of the config, or bf16 without one."),
        sim::field("attention", &D::attention,
                   "How attention runs: as one kernel (sdpa), or as separate products and passes (eager)."),
        sim::field("passes", &D::passes,
                   "How norms and rotary embeddings run: as one kernel, of a library or compiled, or as elementary "
                   "passes (eager)."),
        sim::field("merged", &D::merged,
                   "Whether q, k and v are merged into one product, and gate and up into another."),
        sim::field("cache", &D::cache, "Whether keys and values are written to a KV cache of past and new tokens."),
        sim::field("logits", &D::logits, "Positions whose logits are computed: the last one, or all."),
        sim::field("value_head", &D::value_head,
                   "Whether the head gives one number per token instead of logits, as in critics and reward models. "
                   "The loss is then the mean squared error."),
        sim::field("sample", &D::sample, "Whether the graph ends in sampling the next token."),
        sim::field("loss", &D::loss,
                   "Whether the graph ends in the cross entropy with labels, over the logits of all positions."),
        sim::field("wide_loss", &D::wide_loss, "Whether logits are cast to fp32 before the cross entropy."),
        sim::field("eager_loss", &D::eager_loss,
                   "Whether the cross entropy runs in fp32 with kernels that each write their own logits, as in eager "
                   "PyTorch."),
        sim::field("dropout", &D::dropout, Unit::ratio, sim::between(0, 0.99),
                   "Dropout probability of attention and residuals."),
    };
  }
};

/// Puts the sizes of the config in that it names, if any, and checks that all fit together. Throws sim::ConfigError.
DecoderParams resolved(DecoderParams params, const std::filesystem::path& catalog);

}  // namespace orrery::models
