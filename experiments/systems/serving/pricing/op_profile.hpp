// Measured times of the operators of a model's rank, by the sizes of a batch.
//
// A folder holds what a profiler of one layer wrote, in the layout of the reference data (LLMServingSim's tables):
//   dense.csv         layer,tokens,time_us       per layer: layernorm (twice), qkv_proj, qk_norm (queries and keys, if
//                     there), rotary_emb, o_proj, gate_up_proj, act_fn, down_proj; once: embedding, final_layernorm
//   per_sequence.csv  layer,sequences,time_us    lm_head, sampler
//   attention.csv     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us   one launch over one chunk with cached
//                     context and n_decode sequences of equal context
//   moe.csv           tokens,activated_experts,time_us   in place of gate_up_proj … down_proj, if there
// Between knots times are linear, axis by axis; beyond the last knot the last two go on. Attention: several chunks are
// taken as one that has as many new tokens and as many pairs of query and key (fresh prompts have fewer pairs than one
// chunk of all their tokens: of what such a chunk takes above a chunk of one pair, they take the share of their pairs).
// Left out: contexts of unequal length within a launch; ProfileIteration has a factor for them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hw/base/kernel.hpp"
#include "models/transformer/batch_dims.hpp"

namespace orrery::experiments {

class OpProfile {
 public:
  /// Reads a folder. Throws sim::ConfigError where a table is missing, a module lacks, or a cell is no number.
  static OpProfile read(const std::filesystem::path& folder);

  /// One module: a time by size, taken `times` times over.
  struct Curve {
    std::vector<std::int64_t> at;
    std::vector<double> us;
    double operator()(double size) const;
  };
  struct Module {
    std::string name;
    hw::OpClass op = hw::OpClass::norm;
    double times = 1;
    Curve curve;
  };
  const std::vector<Module>& layer() const { return layer_; }  ///< of every layer, by new tokens
  const std::vector<Module>& once() const { return once_; }    ///< once, by new tokens
  const std::vector<Module>& head() const { return head_; }    ///< once, by rows of logits

  bool has_experts() const { return !experts_by_tokens_.at.empty(); }
  /// Experts of a layer and experts of a token: the most and the fewest that the table activates.
  std::int64_t experts() const { return experts_; }
  std::int64_t experts_per_token() const { return experts_per_token_; }
  /// Experts of one layer over `tokens` tokens that reach `activated` of them, us.
  double experts_us(double tokens, double activated) const;

  /// Attention of one layer, cache write included, us: one chunk of `chunk` tokens (0: none) on `past` cached ones, and
  /// `decodes` sequences of `context` tokens each.
  double attention_us(double chunk, double past, double decodes, double context) const;
  /// The same for sums over a batch; `context` in place of the mean of the decodes' contexts.
  double attention_us(const models::PrefillSums& prefill, std::int64_t decodes, double context) const;

 private:
  /// Values under growing keys, four deep.
  template <class T>
  struct Level {
    std::vector<std::int64_t> at;
    std::vector<T> next;
  };
  using Contexts = Level<double>;
  using Decodes = Level<Contexts>;
  using Pasts = Level<Decodes>;

  void read_modules(const std::filesystem::path& folder);
  void read_attention(const std::filesystem::path& folder);
  void read_experts(const std::filesystem::path& folder);
  double over_decodes(const Decodes& table, double decodes, double context) const;
  double over_pasts(const Pasts& table, double past, double decodes, double context) const;

  std::vector<Module> layer_, once_, head_;
  Decodes decodes_alone_;
  Level<Pasts> chunks_;
  Level<Curve> experts_by_tokens_;
  std::int64_t experts_ = 0, experts_per_token_ = 0;
};

}  // namespace orrery::experiments
