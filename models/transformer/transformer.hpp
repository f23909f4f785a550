// A transformer as lists of operators, per rank, with the batch left symbolic.
//
// A layer is: norm, qkv_proj, [qk_norm], rope, kv_write, attention (prompt chunks and decodes apart), out_proj,
// residual, norm, ffn_up (gate and up in one product), activation, ffn_down, residual; the edges are the embedding
// before the layers and final norm, lm_head and sampling after them. Layers of one kind (with or without experts, with
// or without a window) share one list. Tensor parallelism is that of Megatron-LM (Shoeybi et al., 2019): qkv_proj and
// ffn_up by columns, out_proj and ffn_down by rows with an all-reduce after each, embedding and head by vocabulary (an
// all-reduce after the one, an all-gather of logits after the other); with more ranks than KV heads, each KV head is
// held by several ranks. Norms, routers, and the biases of row-parallel products, are on every rank.
//
// Experts: router (product, top-k), expert_sort, expert_up and expert_down (grouped products over the experts that
// have a row), activation, expert_sum; shared experts are a feed-forward beside them. The ranks of tensor parallelism x
// attention_dp are shared out again: experts over expert_parallel groups, each expert over the ranks of a group. With
// attention_dp 1 every rank has every token, and one all-reduce adds up what experts did; else tokens travel: with
// expert parallelism two all-to-alls (a row for each choice, or rank if there are fewer), without it an all-gather and
// a reduce-scatter. Latent attention (MLA): a prompt's latents are projected to keys and values of every head; decodes
// fold that projection into queries and outputs and attend to the latents, which are all that is cached.
//
// Linear attention (Gated DeltaNet): queries, keys, values, a gate and two numbers a head are projected; a convolution
// over the last tokens; then S = S exp(g) (1 - beta k k^T) + beta v k^T, o = S q, with S of key_dim x value_dim a value
// head. Prompts work it off in chunks of 64 tokens by products (flash-linear-attention: keys and queries with keys, the
// triangular system, what it makes of keys and values, states from chunk to chunk, outputs); decodes read and write the
// state, in fp32. Then a gated norm and the projection back.
//
// Number formats: `dtype` of activations, norms, embedding and head; formats of their own for the weights of attention,
// feed-forward and experts, and for the cache. Products in 8 or 4 bits take activations in as many: `activations` says
// what finds their scales (ActivationScales).
//
// Exact: parameters, FLOPs of matrix products and attention, KV bytes (windowed layers: at most, see AttentionShape).
// Counted by convention (docs/explain/models.md): FLOPs and bytes of the passes over memory. Left out: indices (token
// ids, slots, block tables), biases in traffic and FLOPs (they ride in the products' epilogues), sequence parallelism,
// pipeline stages (the caller takes layers and edges apart).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hw/base/kernel.hpp"
#include "models/transformer/batch_dims.hpp"
#include "models/transformer/hf_config.hpp"
#include "models/transformer/number_formats.hpp"
#include "models/transformer/router.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

/// [rows, k] times [k, n], `batch` times over with weights of their own.
struct GemmShape {
  std::int64_t n = 0, k = 0, batch = 1;
  hw::WeightFormat weights = hw::WeightFormat::as_dtype;
};
/// The same for each expert that has rows.
struct ExpertShape {
  std::int64_t n = 0, k = 0;
  hw::WeightFormat weights = hw::WeightFormat::as_dtype;
};
/// Attention of prompt chunks (over `query_tokens`) or of decodes (over `sequences`). With a window of w tokens, sums
/// are taken as if all sequences were alike: at most w keys a query, w cached tokens a decode; exact where all contexts
/// are longer than the window or none is.
struct AttentionShape {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;      ///< 0: as head_dim
  bool latent = false;             ///< values are the first elements of the keys
  std::int64_t window = 0;         ///< 0: none
  std::int64_t cache_element = 0;  ///< bytes of an element of the cache; 0: as dtype
};
/// A pass over memory.
struct StreamShape {
  SymExpr read_bytes, write_bytes;
  hw::Pass pass = hw::Pass::by_class;
};
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
constexpr auto enum_names(Collective) {
  using enum Collective;
  return sim::names<Collective>({{"all_reduce", all_reduce},
                                 {"all_gather", all_gather},
                                 {"reduce_scatter", reduce_scatter},
                                 {"all_to_all", all_to_all}});
}

/// A collective among `ranks`. `bytes`: what an all-reduce or all-gather leaves on every rank, what a reduce-scatter or
/// all-to-all finds there.
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
  std::variant<GemmShape, AttentionShape, StreamShape, CollectiveShape, ExpertShape> shape;
  std::int64_t parameters = 0;       ///< held by the rank
  std::int64_t parameter_bytes = 0;  ///< in their formats
  SymExpr flops;
  SymExpr weight_bytes;      ///< parameters read
  SymExpr activation_bytes;  ///< activations read and written
  SymExpr kv_bytes;          ///< cached keys and values read and written
};

/// True for matrix products and attention, whose FLOPs are the model's; the others run on the vector units.
bool is_matrix(const Op& op);

/// How ranks share a model. tp x attention_dp ranks in all; expert_parallel divides them.
struct Split {
  std::int64_t tp = 1;
  std::int64_t attention_dp = 1;  ///< groups of tp ranks with requests of their own, which meet in the experts
  std::int64_t expert_parallel = 1;
  std::int64_t ranks() const { return tp * attention_dp; }
  std::int64_t expert_tp() const { return ranks() / expert_parallel; }
};

/// Layers that have the same operators.
struct LayerKind {
  bool experts = false;
  bool linear = false;  ///< a recurrence over a state in place of attention
  std::int64_t window = 0;
  std::int64_t count = 0;  ///< layers of the kind
  std::vector<Op> ops;
};

/// One rank's share of a model.
struct Transformer {
  ModelConfig config;
  NumberFormats formats;
  Sampler sampler = Sampler::greedy;
  hw::DType dtype = hw::DType::fp16;
  Split split;
  std::int64_t tp = 1;
  std::int64_t heads = 0, kv_heads = 0, intermediate_size = 0;  ///< of the rank
  std::int64_t expert_intermediate_size = 0, experts = 0;       ///< of the rank
  std::int64_t vocab_rows = 0;  ///< of the rank; the vocabulary is padded to a multiple of the ranks
  Router router;                ///< of the rank's experts
  std::vector<Op> embedding, head;
  std::vector<LayerKind> kinds;       ///< in the order in which layers bring them up
  std::vector<std::int32_t> kind_of;  ///< of each layer: its index in `kinds`
  std::vector<Op> mtp;                ///< of a layer that predicts a further token, what precedes the layer itself
  std::int64_t ranks() const { return split.ranks(); }
};

/// Why the model cannot be split over `tp` ranks, or nothing if it can: tp divides the heads and the intermediate size,
/// and KV heads divide evenly over ranks or ranks over KV heads.
std::optional<std::string> tp_obstacle(const ModelConfig& config, std::int64_t tp);
/// The same for a whole split: expert_parallel divides ranks and experts, what is left of the ranks the experts' size.
std::optional<std::string> split_obstacle(const ModelConfig& config, const Split& split);

/// The operators of a rank. Throws sim::ConfigError at `where` if there is an obstacle to the split. The router counts
/// only for models with experts.
Transformer build_transformer(const ModelConfig& config, hw::DType dtype, std::int64_t tp,
                              const sim::Origin& where = {});
Transformer build_transformer(const ModelConfig& config, const NumberFormats& formats, const Split& split,
                              const RouterParams& router = {}, Sampler sampler = Sampler::greedy,
                              const sim::Origin& where = {});

/// Parameters of the whole model; a tied head counts once.
std::int64_t parameters(const ModelConfig& config);

/// Parameters and bytes that the rank holds for one layer, for the embedding, and for the head (final norm included).
/// A tied head holds no table of its own where the embedding is; a rank with the head alone holds embedding and head.
std::int64_t layer_parameters(const Transformer& t, std::size_t kind = 0);
std::int64_t embedding_parameters(const Transformer& t);
std::int64_t head_parameters(const Transformer& t);
/// Of all layers and both edges, without layers that predict further tokens.
std::int64_t rank_parameters(const Transformer& t);
std::int64_t weight_bytes(const Transformer& t);
/// Of one layer of a kind.
std::int64_t layer_weight_bytes(const Transformer& t, std::size_t kind = 0);
/// Of these, what one of the rank's experts takes; 0 in a layer without experts.
std::int64_t expert_bytes(const Transformer& t, std::size_t kind);
/// Of the layers that predict further tokens, all `mtp_layers` of them: embedding and head are the model's own.
std::int64_t mtp_parameters(const Transformer& t);
std::int64_t mtp_weight_bytes(const Transformer& t);
/// Parameters of the whole model that a token passes: of the experts, those it picks and the shared ones.
std::int64_t active_parameters(const ModelConfig& config);

/// Bytes that one sequence takes on the rank whatever its length: the states of layers with linear attention, in fp32,
/// and the last tokens of their convolutions.
std::int64_t state_bytes_per_sequence(const Transformer& t);
/// Bytes that one cached token takes on the rank, in one layer and in all. Windowed layers count as the others: their
/// blocks are kept.
std::int64_t kv_bytes_per_token_layer(const Transformer& t);
std::int64_t kv_bytes_per_token(const Transformer& t);

/// Sums over operators, per rank.
struct Totals {
  SymExpr matrix_flops, vector_flops, weight_bytes, activation_bytes, kv_bytes;
  SymExpr reduced_bytes, gathered_bytes;  ///< left on every rank by all-reduces and all-gathers
  SymExpr exchanged_bytes;                ///< found on every rank by reduce-scatters and all-to-alls
  /// Adds the operators `times` times over.
  void add(const std::vector<Op>& ops, std::int64_t times = 1);
};
/// Of a forward pass through embedding, all layers and head.
Totals totals(const Transformer& t);

}  // namespace orrery::models
