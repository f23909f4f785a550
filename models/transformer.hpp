// A dense transformer as a list of operators, per rank of tensor parallelism, with the batch left symbolic.
//
// A layer is: norm, qkv_proj, [qk_norm], rope, kv_write, attention (prompt chunks and decodes apart), out_proj,
// residual, norm, ffn_up (gate and up in one product), activation, ffn_down, residual; the edges are the embedding
// before the layers and final norm, lm_head and sampling after them. Tensor parallelism is that of Megatron-LM (Shoeybi
// et al., 2019): qkv_proj and ffn_up by columns, out_proj and ffn_down by rows with an all-reduce after each, embedding
// and head by vocabulary (an all-reduce after the one, an all-gather of logits after the other); with more ranks than
// KV heads, each KV head is held by several ranks. Norms, and the biases of row-parallel products, are on every rank.
//
// Exact: parameters, FLOPs of matrix products and attention, KV bytes. Counted by convention (docs/models.md): FLOPs
// and bytes of the passes over memory. Left out: indices (token ids, slots, block tables), biases in traffic and FLOPs
// (they ride in the products' epilogues), sequence parallelism, pipeline stages (the caller takes layers and edges
// apart).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hw/kernel.hpp"
#include "models/batch_dims.hpp"
#include "models/hf_config.hpp"

namespace orrery::models {

/// [rows, k] times [k, n]; rows is the Op's dimension.
struct GemmShape {
  std::int64_t n = 0, k = 0;
};
/// Attention of prompt chunks (over `query_tokens`) or of decodes (over `sequences`).
struct AttentionShape {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};
/// A pass over memory.
struct StreamShape {
  SymExpr read_bytes, write_bytes;
};
enum class Collective : std::uint8_t { all_reduce, all_gather };
std::string_view to_string(Collective kind);
/// A collective that leaves `bytes` on every rank.
struct CollectiveShape {
  Collective kind = Collective::all_reduce;
  SymExpr bytes;
  std::int64_t ranks = 1;
};

/// One operator of one rank. Its traffic with device memory is weight_bytes + activation_bytes + kv_bytes.
struct Op {
  std::string name;
  hw::OpClass op = hw::OpClass::residual;
  Dim rows = Dim::tokens;  ///< the operator runs when this is above 0; the expressions hold from there
  std::variant<GemmShape, AttentionShape, StreamShape, CollectiveShape> shape;
  std::int64_t parameters = 0;  ///< held by the rank
  SymExpr flops;
  SymExpr weight_bytes;      ///< parameters read
  SymExpr activation_bytes;  ///< activations read and written
  SymExpr kv_bytes;          ///< cached keys and values read and written
};

/// True for matrix products and attention, whose FLOPs are the model's; the others run on the vector units.
bool is_matrix(const Op& op);

/// One rank's share of a model.
struct Transformer {
  ModelConfig config;
  hw::DType dtype = hw::DType::fp16;
  std::int64_t tp = 1;
  std::int64_t heads = 0, kv_heads = 0, intermediate_size = 0;  ///< of the rank
  std::int64_t vocab_rows = 0;  ///< of the rank; the vocabulary is padded to a multiple of the ranks
  std::vector<Op> embedding, layer, head;
};

/// Why the model cannot be split over `tp` ranks, or nothing if it can: tp divides the heads and the intermediate size,
/// and KV heads divide evenly over ranks or ranks over KV heads.
std::optional<std::string> tp_obstacle(const ModelConfig& config, std::int64_t tp);

/// The operators of a rank. Throws sim::ConfigError at `where` if there is an obstacle to `tp`.
Transformer build_transformer(const ModelConfig& config, hw::DType dtype, std::int64_t tp,
                              const sim::Origin& where = {});

/// Parameters of the whole model; a tied head counts once.
std::int64_t parameters(const ModelConfig& config);

/// Parameters and bytes that the rank holds for one layer, for the embedding, and for the head (final norm included).
/// A tied head holds no table of its own where the embedding is; a rank with the head alone holds embedding and head.
std::int64_t layer_parameters(const Transformer& t);
std::int64_t embedding_parameters(const Transformer& t);
std::int64_t head_parameters(const Transformer& t);
/// Of all layers and both edges.
std::int64_t rank_parameters(const Transformer& t);
std::int64_t weight_bytes(const Transformer& t);

/// Bytes that one cached token takes on the rank, in one layer and in all.
std::int64_t kv_bytes_per_token_layer(const Transformer& t);
std::int64_t kv_bytes_per_token(const Transformer& t);

/// Sums over operators, per rank.
struct Totals {
  SymExpr matrix_flops, vector_flops, weight_bytes, activation_bytes, kv_bytes;
  SymExpr reduced_bytes, gathered_bytes;  ///< left on every rank by collectives
  /// Adds the operators `times` times over.
  void add(const std::vector<Op>& ops, std::int64_t times = 1);
};
/// Of a forward pass through embedding, all layers and head.
Totals totals(const Transformer& t);

}  // namespace orrery::models
