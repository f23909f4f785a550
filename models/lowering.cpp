#include "models/lowering.hpp"

namespace orrery::models {
namespace {

enum class Part : std::uint8_t { dense, attention, all };

/// Appends what an operator becomes for one batch.
struct Lower {
  const Op& op;
  hw::DType dtype;
  const BatchDims& batch;
  const BatchSizes& bindings;
  Launches& out;

  void operator()(const GemmShape& s) const { push(hw::Gemm{.m = bindings[op.rows], .n = s.n, .k = s.k, .batch = 1}); }
  void operator()(const AttentionShape& s) const {
    if (op.op == hw::OpClass::attention_prefill) {
      const PrefillSums& p = batch.prefill;
      push(hw::AttentionPrefill{.sequences = p.sequences,
                                .q_tokens = p.q_tokens,
                                .kv_tokens = p.kv_tokens,
                                .pairs = p.pairs,
                                .q_tiles = p.q_tiles,
                                .heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .head_dim = s.head_dim});
    } else {
      push(hw::AttentionDecode{.sequences = batch.decode.sequences,
                               .context_tokens = batch.decode.context_tokens,
                               .heads = s.heads,
                               .kv_heads = s.kv_heads,
                               .head_dim = s.head_dim});
    }
  }
  void operator()(const StreamShape& s) const {
    push(hw::Streaming{.read_bytes = s.read_bytes.eval(bindings.values()),
                       .write_bytes = s.write_bytes.eval(bindings.values()),
                       .flops = op.flops.eval(bindings.values()),
                       .rows = bindings[op.rows]});
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

void lower(const Transformer& t, const std::vector<Op>& ops, Part part, const BatchDims& batch, Launches& out) {
  const BatchSizes bindings = batch.bindings();
  for (const Op& op : ops) {
    if (bindings[op.rows] == 0) continue;
    const bool attention = std::holds_alternative<AttentionShape>(op.shape);
    if (part != Part::all && attention != (part == Part::attention)) continue;
    std::visit(Lower{op, t.dtype, batch, bindings, out}, op.shape);
  }
}

}  // namespace

void lower_layer(const Transformer& t, const BatchDims& batch, Launches& out) {
  lower(t, t.layer, Part::all, batch, out);
}

void lower_dense(const Transformer& t, std::int64_t tokens, Launches& out) {
  lower(t, t.layer, Part::dense, {.tokens = tokens}, out);
}

void lower_attention(const Transformer& t, const PrefillSums& prefill, const DecodeSums& decode, Launches& out) {
  lower(t, t.layer, Part::attention, {.prefill = prefill, .decode = decode}, out);
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
  return totals(t).matrix_flops.eval(batch.bindings().values());
}

}  // namespace orrery::models
