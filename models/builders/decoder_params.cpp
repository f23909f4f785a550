#include "models/builders/decoder_params.hpp"

#include "models/transformer/hf_config.hpp"

namespace orrery::models {
namespace {

/// What of a config this builder does not write down, or nothing.
const char* not_written(const ModelConfig& c) {
  if (c.linear.interval > 0) return "linear attention";
  if (c.layer_norm || !c.gated || c.learned_positions > 0 || c.parallel_block) return "layers unlike Llama's";
  const ExpertConfig& e = c.experts;
  if (e.count > 0 && e.step != 1) return "layers with and without experts in turns";
  return nullptr;
}

void read_config(DecoderParams& p, const std::filesystem::path& catalog) {
  if (p.config.empty()) return;
  const ModelConfig config = load_model(p.config, catalog, builder_origin("decoder", "config"));
  if (const char* what = not_written(config))
    sim::throw_fault(builder_origin("decoder", "config"),
                     std::string("expected a model of this builder, got one with ") + what,
                     "the serving model takes it, operator graphs do not");
  p.experts = config.experts.count;
  p.shared_intermediate = config.experts.shared_intermediate_size;
  if (config.experts.count > 0) p.experts_per_token = config.experts.per_token;
  p.expert_intermediate = config.experts.intermediate_size;
  p.router_bias = config.experts.router_bias;
  p.expert_bias = config.experts.expert_bias;
  p.window = config.sliding_window;
  p.windowed = config.windowed;
  p.sinks = config.attention_sinks;
  p.dense_layers = config.experts.count > 0 ? config.experts.dense_layers : 0;
  p.kv_rank = config.latent.kv_rank;
  if (p.kv_rank > 0) {
    p.q_rank = config.latent.q_rank;
    p.nope_dim = config.latent.nope_dim;
    p.rope_dim = config.latent.rope_dim;
    p.value_dim = config.latent.value_dim;
  }
  p.layers = config.layers;
  p.hidden = config.hidden_size;
  p.heads = config.heads;
  p.kv_heads = config.kv_heads;
  p.head_dim = config.head_dim;
  p.intermediate = config.intermediate_size;
  p.vocab = config.vocab_size;
  p.tied = config.tie_word_embeddings;
  p.qkv_bias = config.qkv_bias;
  p.out_bias = config.out_bias;
  p.mlp_bias = config.mlp_bias;
  p.qk_norm = config.qk_norm;
  if (config.dtype) p.type = element_type(*config.dtype);
}

void check(const DecoderParams& p) {
  sim::Faults faults;
  if (p.heads % p.kv_heads != 0)
    faults.add(builder_origin("decoder", "kv_heads"),
               "expected a divisor of " + std::to_string(p.heads) + " heads, got " + std::to_string(p.kv_heads));
  if (p.experts > 0 && p.experts_per_token > p.experts)
    faults.add(
        builder_origin("decoder", "experts_per_token"),
        "expected at most the " + std::to_string(p.experts) + " experts, got " + std::to_string(p.experts_per_token));
  if (p.full_every > 0 && p.window == 0)
    faults.add(builder_origin("decoder", "full_every"), "expected none without a window");
  if (p.loss && p.cache)
    faults.add(builder_origin("decoder", "loss"), "expected no loss beside a cache of keys and values");
  if (p.value_head && (p.sample || p.further_tokens > 0))
    faults.add(builder_origin("decoder", "value_head"), "expected none beside tokens that are chosen or predicted");
  if (p.further_tokens > 0 && !p.loss)
    faults.add(builder_origin("decoder", "further_tokens"), "expected none without a loss, which they add to");
  if (p.kv_rank > 0 && p.cache)
    faults.add(
        builder_origin("decoder", "cache"),
        "expected no cache beside attention over a latent: whether it holds latents or keys is not written down");
  if (p.kv_rank > 0 && p.qk_norm)
    faults.add(builder_origin("decoder", "qk_norm"), "expected none beside attention over a latent");
  if (p.loss && p.sample) faults.add(builder_origin("decoder", "sample"), "expected no choice of tokens beside a loss");
  faults.throw_if_any();
}

}  // namespace

DecoderParams resolved(DecoderParams params, const std::filesystem::path& catalog) {
  read_config(params, catalog);
  check(params);
  return params;
}

}  // namespace orrery::models
