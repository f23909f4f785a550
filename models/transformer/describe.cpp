#include "models/transformer/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/base/units.hpp"

namespace orrery::models {
namespace {

constexpr std::size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

struct ShapeText {
  std::string_view rows;
  std::string operator()(const GemmShape& s) const { return fmt::format("[{}, {}] x [{}, {}]", rows, s.k, s.k, s.n); }
  std::string operator()(const ExpertShape& s) const {
    return fmt::format("[{}, {}] x E [{}, {}]", rows, s.k, s.k, s.n);
  }
  std::string operator()(const AttentionShape& s) const {
    return fmt::format("{} heads / {} kv x {}", s.heads, s.kv_heads, s.head_dim);
  }
  std::string operator()(const StreamShape&) const { return "stream"; }
  std::string operator()(const CollectiveShape& s) const {
    return fmt::format("{} {} B, {} ranks", to_string(s.kind), s.bytes.to_string(batch_symbols()), s.ranks);
  }
};

std::string shown(const SymExpr& expr) {
  return expr.is_zero() ? "-" : expr.to_string(batch_symbols());
}

void add_rows(std::vector<Row>& rows, const std::vector<Op>& ops) {
  for (const Op& op : ops)
    rows.push_back({"  " + op.name, std::visit(ShapeText{symbol(op.rows).name()}, op.shape), shown(op.flops),
                    shown(op.weight_bytes), shown(op.activation_bytes), shown(op.kv_bytes)});
}

std::string aligned(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 1; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows)
    if (!row[1].empty()) widths[0] = std::max(widths[0], row[0].size());  // titles may run over
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{} B ({})", bytes, sim::humanise(static_cast<double>(bytes), sim::Unit::bytes));
}

std::string feed_forward(const ModelConfig& c) {
  return fmt::format("{}, intermediate {}{}", c.gated ? "gated SiLU" : "not gated", c.intermediate_size,
                     c.mlp_bias ? ", biases" : "");
}

std::string experts(const ModelConfig& c) {
  const ExpertConfig& e = c.experts;
  std::string text = fmt::format("{} of {}, intermediate {}", e.per_token, e.count, e.intermediate_size);
  if (e.shared_intermediate_size > 0) text += fmt::format(", shared experts of {}", e.shared_intermediate_size);
  if (e.dense_layers > 0) text += fmt::format(", none in the first {} layers", e.dense_layers);
  return text;
}

std::string attention(const ModelConfig& c) {
  std::string text = fmt::format("{} heads, {} KV heads, head_dim {}", c.heads, c.kv_heads, c.head_dim);
  if (c.latent.kv_rank > 0)
    text = fmt::format("{} heads over a latent of {} + {} elements", c.heads, c.latent.kv_rank, c.latent.rope_dim);
  if (c.sliding_window > 0)
    text += fmt::format(", windows of {} tokens in {} layers", c.sliding_window, std::ranges::count(c.windowed, true));
  if (c.qkv_bias) text += c.out_bias ? ", qkv and output biases" : ", qkv biases";
  if (c.qk_norm) text += ", norm of q and k";
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> model_facts(const Transformer& t) {
  const ModelConfig& c = t.config;
  const Totals sum = totals(t);
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](std::string name, std::string value) { facts.emplace_back(std::move(name), std::move(value)); };
  add("model", c.name.empty() ? "(unnamed)" : c.name);
  add("architecture", c.architecture);
  if (!c.source.empty()) add("source", c.source);
  add("layers", fmt::format("{} of hidden size {}", c.layers, c.hidden_size));
  add("attention", attention(c));
  add("feed-forward", feed_forward(c));
  if (c.experts.count > 0) add("experts", experts(c));
  add("vocabulary", fmt::format("{}{}", c.vocab_size, c.tie_word_embeddings ? ", head tied to the embedding" : ""));
  add("positions", std::to_string(c.max_position_embeddings));
  add("parameters", std::to_string(parameters(c)));
  if (c.experts.count > 0) add("active parameters", std::to_string(active_parameters(c)));
  add("dtype", std::string(to_string(t.dtype)));
  add("tensor parallelism", fmt::format("{} rank{}; what follows is one rank's", t.tp, t.tp == 1 ? "" : "s"));
  add("weights", bytes_text(weight_bytes(t)));
  add("KV cache per token", bytes_text(kv_bytes_per_token(t)));
  add("matrix FLOPs", sum.matrix_flops.to_string(batch_symbols()));
  add("vector FLOPs", sum.vector_flops.to_string(batch_symbols()));
  if (t.tp > 1) {
    add("all-reduced bytes", sum.reduced_bytes.to_string(batch_symbols()));
    add("all-gathered bytes", sum.gathered_bytes.to_string(batch_symbols()));
  }
  if (!c.ignored_keys.empty()) add("config keys ignored", fmt::format("{}", fmt::join(c.ignored_keys, ", ")));
  return facts;
}

std::string op_table(const Transformer& t) {
  std::vector<Row> rows;
  rows.push_back({"operator", "shape", "FLOPs", "weight bytes", "activation bytes", "KV bytes"});
  rows.push_back({"before the layers"});
  add_rows(rows, t.embedding);
  for (const LayerKind& kind : t.kinds) {
    std::string title = fmt::format("each of {} layers", kind.count);
    if (t.kinds.size() > 1) title += kind.experts ? " with experts" : " without experts";
    if (kind.window > 0) title += ", windowed";
    rows.push_back({std::move(title)});
    add_rows(rows, kind.ops);
  }
  rows.push_back({"after the layers"});
  add_rows(rows, t.head);
  return aligned(rows);
}

std::string describe_model(const Transformer& t) {
  std::string text;
  const std::vector<std::pair<std::string, std::string>> facts = model_facts(t);
  std::size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  for (const auto& [name, value] : facts) text += fmt::format("{:<{}}  {}\n", name, width, value);
  text += '\n' + op_table(t);
  text +=
      "\nT new tokens, R logit rows; prompt chunks: Q new tokens, K keys read, P query-key pairs; decodes: S "
      "sequences, "
      "C context tokens\n";
  if (t.config.experts.count > 0) text += "E experts of the rank with rows, X rows that they get\n";
  return text;
}

}  // namespace orrery::models
