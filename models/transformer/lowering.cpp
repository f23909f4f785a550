#include "models/transformer/lowering.hpp"

#include <algorithm>

namespace orrery::models {
namespace {

enum class Part : std::uint8_t { dense, attention, beside_experts, experts, all };

/// Appends what an operator becomes for one batch.
struct Lower {
  const Op& op;
  hw::DType dtype;
  const BatchDims& batch;
  const BatchSizes& bindings;
  Launches& out;

  void operator()(const GemmShape& s) const {
    push(hw::Gemm{.m = bindings[op.rows], .n = s.n, .k = s.k, .batch = s.batch, .weights = s.weights});
  }
  void operator()(const ExpertShape& s) const {
    const RoutedRows& r = batch.routed;
    push(hw::GroupedGemm{.groups = r.experts,
                         .rows = r.rows,
                         .max_rows = r.max_rows,
                         .row_tiles = r.row_tiles,
                         .n = s.n,
                         .k = s.k,
                         .weights = s.weights});
  }
  void operator()(const AttentionShape& s) const {
    if (op.op == hw::OpClass::attention_prefill) {
      const PrefillSums p = batch.prefill.within(s.window);
      push(hw::AttentionPrefill{.sequences = p.sequences,
                                .q_tokens = p.q_tokens,
                                .kv_tokens = p.kv_tokens,
                                .pairs = p.pairs,
                                .q_tiles = p.q_tiles,
                                .heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .head_dim = s.head_dim,
                                .value_dim = s.value_dim,
                                .window = s.window,
                                .cache_element = s.cache_element});
    } else {
      const DecodeSums d = batch.decode.within(s.window);
      push(hw::AttentionDecode{.sequences = d.sequences,
                               .context_tokens = d.context_tokens,
                               .heads = s.heads,
                               .kv_heads = s.kv_heads,
                               .head_dim = s.head_dim,
                               .value_dim = s.value_dim,
                               .latent = s.latent,
                               .cache_element = s.cache_element});
    }
  }
  void operator()(const StreamShape& s) const {
    push(hw::Streaming{.read_bytes = s.read_bytes.eval(bindings.values()),
                       .write_bytes = s.write_bytes.eval(bindings.values()),
                       .flops = op.flops.eval(bindings.values()),
                       .rows = bindings[op.rows],
                       .pass = s.pass});
  }
  void operator()(const CollectiveShape& s) const {
    out.communications.push_back({.kind = s.kind,
                                  .op = op.op,
                                  .bytes = s.bytes.eval(bindings.values()),
                                  .ranks = s.ranks,
                                  .after = out.kernels.size()});
  }

 private:
  template <class Shape>
  void push(const Shape& shape) const {
    out.kernels.push_back({.op = op.op, .dtype = dtype, .shape = shape});
  }
};

/// Whether an operator works on the cache or on what comes out of it: its rows are none of the dense parts'.
bool is_attention(const Op& op) {
  return op.rows != Dim::tokens && op.rows != Dim::logit_rows && op.rows != Dim::expert_rows;
}

/// Whether an operator works on routed rows, or exchanges them.
bool is_routed(const Op& op) {
  const auto* sent = std::get_if<CollectiveShape>(&op.shape);
  return op.rows == Dim::expert_rows || (sent != nullptr && sent->kind == Collective::all_to_all);
}

bool belongs(const Op& op, Part part) {
  switch (part) {
    case Part::dense:
      return !is_attention(op);
    case Part::attention:
      return is_attention(op);
    case Part::beside_experts:
      return !is_attention(op) && !is_routed(op);
    case Part::experts:
      return is_routed(op);
    case Part::all:
      return true;
  }
  return true;
}

void lower(const Transformer& t, const std::vector<Op>& ops, Part part, const BatchDims& batch, Launches& out) {
  const BatchSizes bindings = batch.bindings();
  for (const Op& op : ops) {
    if (bindings[op.rows] == 0) continue;
    if (!belongs(op, part)) continue;
    std::visit(Lower{op, t.dtype, batch, bindings, out}, op.shape);
  }
}

}  // namespace

RoutedRows route(const Transformer& t, const TokenMix& mix) {
  const std::int64_t groups = t.split.attention_dp;
  return t.router.route({mix.decode * groups, mix.prompt * groups, mix.prompts * groups});
}

void lower_layer(const Transformer& t, std::size_t kind, const BatchDims& batch, Launches& out) {
  const LayerKind& layer = t.kinds.at(kind);
  if (!layer.experts || batch.routed.rows > 0) return lower(t, layer.ops, Part::all, batch, out);
  BatchDims routed = batch;
  const std::int64_t prompt = batch.prefill.q_tokens;
  routed.routed = route(t, {batch.tokens - prompt, prompt, batch.prefill.sequences});
  lower(t, layer.ops, Part::all, routed, out);
}

void lower_dense(const Transformer& t, std::size_t kind, const TokenMix& mix, Launches& out) {
  BatchDims batch{.tokens = mix.tokens()};
  const LayerKind& layer = t.kinds.at(kind);
  if (layer.experts) batch.routed = route(t, mix);
  lower(t, layer.ops, Part::dense, batch, out);
}

void lower_beside_experts(const Transformer& t, std::size_t kind, std::int64_t tokens, Launches& out) {
  lower(t, t.kinds.at(kind).ops, Part::beside_experts, {.tokens = tokens}, out);
}

void lower_experts(const Transformer& t, std::size_t kind, std::int64_t tokens, const RoutedRows& rows, Launches& out) {
  lower(t, t.kinds.at(kind).ops, Part::experts, {.tokens = tokens, .routed = rows}, out);
}

void lower_attention(const Transformer& t, std::size_t kind, const PrefillSums& prefill, const DecodeSums& decode,
                     Launches& out) {
  lower(t, t.kinds.at(kind).ops, Part::attention, {.prefill = prefill, .decode = decode}, out);
}

void lower_layer(const Transformer& t, const BatchDims& batch, Launches& out) {
  lower_layer(t, 0, batch, out);
}
void lower_dense(const Transformer& t, std::int64_t tokens, Launches& out) {
  lower_dense(t, 0, {.decode = tokens}, out);
}
void lower_attention(const Transformer& t, const PrefillSums& prefill, const DecodeSums& decode, Launches& out) {
  lower_attention(t, 0, prefill, decode, out);
}

void lower_mtp(const Transformer& t, const BatchDims& batch, Launches& out) {
  if (t.config.mtp_layers == 0) return;
  lower(t, t.mtp, Part::all, batch, out);
  lower_layer(t, t.kinds.size() - 1, batch, out);
}

void lower_embedding(const Transformer& t, std::int64_t tokens, Launches& out) {
  lower(t, t.embedding, Part::all, {.tokens = tokens}, out);
}

void lower_head(const Transformer& t, std::int64_t rows, Launches& out) {
  lower(t, t.head, Part::all, {.logit_rows = rows}, out);
}

void lower_edges(const Transformer& t, const BatchDims& batch, bool first, bool last, Launches& out) {
  if (first) lower_embedding(t, batch.tokens, out);
  if (last) lower_head(t, batch.logit_rows, out);
}

std::int64_t matrix_flops(const Transformer& t, const BatchDims& batch) {
  if (t.config.experts.count == 0 || batch.routed.rows > 0)
    return totals(t).matrix_flops.eval(batch.bindings().values());
  BatchDims routed = batch;
  const std::int64_t prompt = batch.prefill.q_tokens;
  routed.routed = route(t, {batch.tokens - prompt, prompt, batch.prefill.sequences});
  return totals(t).matrix_flops.eval(routed.bindings().values());
}

}  // namespace orrery::models
