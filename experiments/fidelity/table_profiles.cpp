// `profiles/<gpu>/<model>/tp<k>/{dense,per_sequence,attention,moe}.csv`: modules of vLLM 0.19, bf16, one layer of the
// model (LLMServingSim, llmservingsim/profiler).
//
// Measured: GPU time of the kernels of a module, as CUPTI records it under vLLM's layer-wise profile, mean of three
// passes of the eager engine over a model cut to one layer. Not in it: the launch from the host. What a kernel takes
// from start to drain beside its work is what an empty kernel of a graph takes, launch_graph. Weights are cold (the
// logits' weights alone exceed the L2), and passes are too few and too far apart for the power limit. Ranks are not
// run: tp<k> is a rank's part alone, without collectives; norms and the sampler are those of tp1.
// Norms and gated activations of this release load 16 bytes a thread (csrc/layernorm_kernels.cu,
// activation_kernels.cu), where those of 2023 that the row kernels of hw/tiled/stream.hpp describe load single
// elements: they count as elementwise passes here, without what a reduction across a thread block adds to few rows.
//   layernorm    mean of the first norm (plain) and the second (adds the residual); final_layernorm adds it
//   qk_norm      mean of the norms of queries and of keys, all heads
//   sampler      greedy: logits to fp32, then their maximum
//   attention    cache write, and one launch over a chunk with cached context and n_decode sequences of one token
//   moe          token t takes experts (t k ... t k + k - 1) mod `activated_experts`, so they share rows evenly
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/grouped.hpp"
#include "hw/tiled/stream.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::experiments {
namespace profiles_table {

constexpr hw::DType kType = hw::DType::bf16;
constexpr std::string_view kMeasuredAs = "vllm_one_layer";

/// Fields of a model's public Hugging Face config.json.
struct Model {
  std::string_view name;  ///< how the folder's name starts
  std::int64_t hidden, ffn, heads, kv_heads, head_dim, vocabulary;
  std::int64_t expert_ffn = 0, top_k = 0;
};
constexpr std::array kModels{
    Model{"Llama-3.1-8B", 4096, 14336, 32, 8, 128, 128256},
    Model{"Llama-3.1-70B", 8192, 28672, 64, 8, 128, 128256},
    Model{"Llama-3.1-405B", 16384, 53248, 128, 8, 128, 128256},
    Model{"Mixtral-8x7B", 4096, 14336, 32, 8, 128, 32000, 14336, 2},
    Model{"Mixtral-8x22B", 6144, 16384, 48, 8, 128, 32000, 16384, 2},
    Model{"Qwen3-8B", 4096, 12288, 32, 8, 128, 151936},
    Model{"Qwen3-32B", 5120, 25600, 64, 8, 128, 151936},
    Model{"Qwen3-30B-A3B", 2048, 6144, 32, 4, 128, 151936, 768, 8},
    Model{"Qwen3-235B-A22B", 4096, 12288, 64, 4, 128, 151936, 1536, 8},
};

/// What the path of a table says.
struct Place {
  std::string gpu, model;
  std::int64_t tp = 1;
};

Place place_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  Place place;
  if (parts.size() < 5) return place;
  place.gpu = parts[1];
  place.model = parts[2];
  const std::string_view tp = parts[3].substr(std::min<std::size_t>(2, parts[3].size()));
  std::from_chars(tp.data(), tp.data() + tp.size(), place.tp);
  place.tp = std::max<std::int64_t>(1, place.tp);
  return place;
}

const Model* model_named(std::string_view folder) {
  if (folder.starts_with("Meta-")) folder.remove_prefix(5);
  for (const Model& model : kModels)
    if (folder.starts_with(model.name)) return &model;
  return nullptr;
}

/// One rank's part of a model on a part.
class Rank {
 public:
  Rank(const hw::GpuParams& gpu, const Model& model, std::int64_t tp)
      : gpu_(gpu),
        m_(model),
        tp_(tp),
        heads_(std::max<std::int64_t>(1, model.heads / tp)),
        kv_heads_(std::max<std::int64_t>(1, model.kv_heads / tp)) {}

  /// A module of dense.csv or per_sequence.csv over `rows` tokens or sequences, s; nothing for one that is not known.
  std::optional<double> module_s(std::string_view name, std::int64_t rows) const {
    using namespace hw;
    const std::int64_t dim = m_.head_dim, ffn = m_.ffn / tp_;
    if (name == "qkv_proj") return product_s(rows, (heads_ + 2 * kv_heads_) * dim, m_.hidden);
    if (name == "o_proj") return product_s(rows, m_.hidden, heads_ * dim);
    if (name == "gate_up_proj") return product_s(rows, 2 * ffn, m_.hidden);
    if (name == "down_proj") return product_s(rows, m_.hidden, ffn);
    if (name == "lm_head") return product_s(rows, m_.vocabulary / tp_, m_.hidden);
    if (name == "embedding") return pass_s(embedding_kernel(rows, m_.hidden, kType));
    if (name == "layernorm") return (norm_s(rows, m_.hidden) + added_norm_s(rows)) / 2;
    if (name == "final_layernorm") return added_norm_s(rows);
    if (name == "qk_norm") return (head_norm_s(rows * m_.heads) + head_norm_s(rows * m_.kv_heads)) / 2;
    if (name == "rotary_emb") return pass_s(rope_kernel(rows, heads_, kv_heads_, dim, kType));
    if (name == "act_fn") return wide_s(activation_kernel(Activation::silu, true, rows, ffn, kType));
    if (name == "sampler") return sampler_s(rows);
    return std::nullopt;
  }

  double attention_s(std::int64_t chunk, std::int64_t past, std::int64_t decodes, std::int64_t context) const {
    hw::AttentionPrefill prompt{.sequences = chunk > 0 ? 1 : 0,
                                .q_tokens = chunk,
                                .kv_tokens = past + chunk,
                                .pairs = chunk * past + chunk * (chunk + 1) / 2,
                                .q_tiles = hw::ceil_div(chunk, 128),
                                .heads = heads_,
                                .kv_heads = kv_heads_,
                                .head_dim = m_.head_dim};
    // A decode attends to its new token beside the context.
    const hw::AttentionDecode others{decodes, decodes * (context + 1), heads_, kv_heads_, m_.head_dim};
    return 2 * gpu_.launch_graph_s + hw::tiled_mixed(gpu_, prompt, others, kType).time_s +
           hw::tiled_cache_write(gpu_, chunk + decodes, kv_heads_ * m_.head_dim, kType).time_s;
  }

  double experts_s(std::int64_t tokens, std::int64_t activated) const {
    const std::int64_t routed = tokens * m_.top_k;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(activated), routed / activated);
    for (std::int64_t i = 0; i < routed % activated; ++i) ++rows[static_cast<std::size_t>(i)];
    const hw::MoeLayer layer{
        .tokens = tokens, .hidden = m_.hidden, .intermediate = m_.expert_ffn / tp_, .top_k = m_.top_k};
    return hw::moe_layer_time(gpu_, layer, rows, kType);
  }

 private:
  double pass_s(const hw::Kernel& kernel) const {
    return gpu_.launch_graph_s +
           hw::tiled_streaming(gpu_, std::get<hw::Streaming>(kernel.shape), kernel.op, kernel.dtype).time_s;
  }
  /// A row kernel whose threads load 16 bytes each.
  double wide_s(hw::Kernel kernel) const {
    std::get<hw::Streaming>(kernel.shape).pass = hw::Pass::elementwise;
    std::get<hw::Streaming>(kernel.shape).rows = 0;
    return pass_s(kernel);
  }
  double product_s(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return gpu_.launch_graph_s + hw::plan_gemm(gpu_, {m, n, k}, kType, {.weight_copies = 0, .activity = 0}).time.time_s;
  }
  double norm_s(std::int64_t rows, std::int64_t width) const {
    return wide_s(hw::norm_kernel(hw::Norm::rms, rows, width, kType));
  }
  /// Rows as short as a head: a thread block a row, and its start bounds it, not its loads.
  double head_norm_s(std::int64_t rows) const {
    return pass_s(hw::norm_kernel(hw::Norm::rms, rows, m_.head_dim, kType));
  }
  /// The norm of a sum, which is kept too.
  double added_norm_s(std::int64_t rows) const {
    hw::Kernel kernel = hw::norm_kernel(hw::Norm::rms, rows, m_.hidden, kType);
    auto& pass = std::get<hw::Streaming>(kernel.shape);
    const std::int64_t elements = rows * m_.hidden;
    pass.read_bytes += elements * hw::bytes_of(kType);
    pass.write_bytes += elements * hw::bytes_of(kType);
    pass.flops += elements;
    return wide_s(kernel);
  }
  double sampler_s(std::int64_t rows) const {
    const std::int64_t logits = rows * m_.vocabulary;
    hw::Kernel widen = hw::copy_kernel(0);
    widen.shape = hw::Streaming{logits * hw::bytes_of(kType), logits * hw::bytes_of(hw::DType::fp32)};
    return pass_s(widen) + pass_s(hw::sampling_kernel(rows, m_.vocabulary, true, hw::DType::fp32));
  }

  const hw::GpuParams& gpu_;
  const Model& m_;
  std::int64_t tp_, heads_, kv_heads_;
};

/// Names of modules as regimes, which live as long as the program.
constexpr std::array<std::string_view, 12> kModules{"act_fn",       "down_proj", "embedding",  "final_layernorm",
                                                    "gate_up_proj", "layernorm", "lm_head",    "o_proj",
                                                    "qk_norm",      "qkv_proj",  "rotary_emb", "sampler"};

class ProfileTables final : public TableKind {
 public:
  std::string_view name() const override { return "profiles"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("profiles/") && (path.ends_with("/dense.csv") || path.ends_with("/per_sequence.csv") ||
                                             path.ends_with("/attention.csv") || path.ends_with("/moe.csv"));
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const Place place = place_of(table.name());
    const auto found = parts.for_table<hw::GpuParams>(place.gpu);
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    if (found.measured_as != kMeasuredAs && found.entry->name != place.gpu)
      return out.skip_all("time", table, fmt::format("nothing is known of profiles as '{}'", found.measured_as));
    const Model* model = model_named(place.model);
    if (!model) return out.skip_all("time", table, fmt::format("layers of model '{}' are not known", place.model));
    const Rank rank(found.entry->part, *model, place.tp);
    out.each_row("time", table, [&](std::size_t row) {
      if (table.has("prefill_chunk")) {
        attention_row(table, row, rank, out);
      } else if (table.has("activated_experts")) {
        experts_row(table, row, *model, rank, out);
      } else {
        module_row(table, row, rank, out);
      }
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key = table.name();
    for (const char* column :
         {"layer", "tokens", "sequences", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "activated_experts"})
      if (table.has(column)) key += "x" + table.text(row, column);
    return key;
  }

 private:
  static void module_row(const MeasuredTable& table, std::size_t row, const Rank& rank, Predictions& out) {
    const std::string& layer = table.text(row, "layer");
    const std::int64_t count = table.count(row, table.has("tokens") ? "tokens" : "sequences");
    const auto regime = std::find(kModules.begin(), kModules.end(), layer);
    const std::optional<double> s = rank.module_s(layer, count);
    if (!s || regime == kModules.end()) return out.skip("time", row, fmt::format("module '{}' is not known", layer));
    out.add("time", row, table.number(row, "time_us"), *s * 1e6, {*regime});
  }

  static void attention_row(const MeasuredTable& table, std::size_t row, const Rank& rank, Predictions& out) {
    const std::int64_t chunk = table.count(row, "prefill_chunk", 0), decodes = table.count(row, "n_decode", 0);
    const double s =
        rank.attention_s(chunk, table.count(row, "kv_prefill", 0), decodes, table.count(row, "kv_decode", 0));
    const std::string_view regime = decodes == 0 ? "prefill only" : chunk == 0 ? "decode only" : "mixed";
    out.add("time", row, table.number(row, "time_us"), s * 1e6, {regime});
  }

  static void experts_row(const MeasuredTable& table, std::size_t row, const Model& model, const Rank& rank,
                          Predictions& out) {
    const std::int64_t tokens = table.count(row, "tokens"), activated = table.count(row, "activated_experts");
    if (model.top_k == 0 || activated < 1 || activated > tokens * model.top_k)
      return out.skip("time", row, "a model without experts, or more of them than tokens can reach");
    const std::string_view regime = tokens <= 16     ? "tokens <= 16"
                                    : tokens <= 1024 ? "16 < tokens <= 1024"
                                                     : "tokens > 1024";
    out.add("time", row, table.number(row, "time_us"), rank.experts_s(tokens, activated) * 1e6, {regime});
  }
};

}  // namespace profiles_table

std::unique_ptr<TableKind> profile_tables() {
  return std::make_unique<profiles_table::ProfileTables>();
}

}  // namespace orrery::experiments
