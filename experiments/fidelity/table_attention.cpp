// Attention: `attention/<stem>.context.csv` and `.generation.csv` by batch, tokens or context, heads, key heads and
// head dimension; `edge/flashattn_<device>.csv` and `edge/power_log_<device>.csv` of Jetson parts.
//
// A row of `attention/` is a call of vLLM's attention layer (aiconfigurator, collector/vllm/collect_attn.py): the
// kernel that writes new keys and values into the pages of the cache, then attention over the pages, bf16, causal,
// replayed as a graph on the same operands. `context` counts all tokens that a generated one attends to. A table
// measured as "pytorch" or "cudnn" (tools/profile_gpu.py) has attention alone, of FlashAttention-2 or of cuDNN, and in
// `.backward.csv` its gradient; cuDNN is taken for the part's own library. Those are metrics of their own. A row of
// `edge/` is the attention kernel alone with the splits and packing that the row names, launched from a stream.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::experiments {
namespace {

constexpr std::string_view kNoPart = "no part of the catalog stands for it";

/// How the library of a table planned FlashAttention-3's launches.
///   h200_sxm: ahead, for other heads than those of the call. Splits are those of 8 key heads whatever the call has,
///   and
///     prefill works through the tiles of two query heads a key head; the collector overrides the heads of a model's
///     configuration, which that release of vLLM read elsewhere.
///   h100_sxm: inside the call, by a kernel of its own (prepare_varlen_num_blocks). It shows no other heads' plan, and
///     takes so much longer than h200_sxm whatever the call: fitted to it, the kernel's start in a graph included.
struct LaunchPlan {
  std::string_view stem;
  std::int64_t heads = 0, kv_heads = 0;  ///< planned for; 0: those of the call
  double inside_s = 0;                   ///< of planning, inside the call
};
constexpr std::array<LaunchPlan, 2> kLaunchPlans{{{"h200_sxm", 16, 8}, {.stem = "h100_sxm", .inside_s = 2.2e-6}}};

LaunchPlan launch_plan(std::string_view stem) {
  const auto found =
      std::find_if(kLaunchPlans.begin(), kLaunchPlans.end(), [&](const LaunchPlan& plan) { return plan.stem == stem; });
  return found == kLaunchPlans.end() ? LaunchPlan{} : *found;
}

std::string_view batch_regime(std::int64_t batch) {
  return batch <= 4 ? "batch <= 4" : batch <= 32 ? "4 < batch <= 32" : "batch > 32";
}

std::string_view group_regime(std::int64_t heads, std::int64_t kv_heads) {
  return heads == kv_heads                                  ? "MHA"
         : heads / std::max<std::int64_t>(1, kv_heads) <= 8 ? "GQA"
                                                            : "more than 8 heads a key head";
}

std::string_view dim_regime(std::int64_t dim) {
  return dim <= 64    ? "head_dim <= 64"
         : dim <= 128 ? "head_dim 128"
         : dim <= 256 ? "head_dim 192, 256"
                      : "head_dim > 256";
}

std::string joined(const MeasuredTable& table, std::size_t row, std::initializer_list<std::string_view> columns) {
  std::string key;
  for (const std::string_view column : columns) key += table.text(row, column) + "/";
  return key;
}

class AttentionTables final : public TableKind {
 public:
  std::string_view name() const override { return "attention"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("attention/") &&
           (path.ends_with(".context.csv") || path.ends_with(".generation.csv") || path.ends_with(".backward.csv"));
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, kNoPart);
    const bool pytorch = found.measured_as == "pytorch", alone = pytorch || found.measured_as == "cudnn";
    hw::GpuParams gpu = found.entry->part;
    if (pytorch) gpu = hw::with_attention(gpu, hw::AttentionLibrary::flash2);
    const LaunchPlan plan = launch_plan(table.stem());
    const hw::AttentionConditions how{.resident = true, .plan_heads = plan.heads, .plan_kv_heads = plan.kv_heads};
    const bool context = !table.name().ends_with(".generation.csv");
    const bool backward = table.name().ends_with(".backward.csv");
    std::string_view metric = "time";
    if (pytorch) metric = backward ? "flash2 gradient" : "flash2";
    if (alone && !pytorch) metric = backward ? "gradient" : "alone";
    out.each_row(metric, table, [&](std::size_t row) {
      const std::int64_t batch = table.count(row, "batch"), length = table.count(row, context ? "tokens" : "context");
      const std::int64_t heads = table.count(row, "num_heads"), kv_heads = table.count(row, "num_kv_heads");
      const std::int64_t dim = table.count(row, "head_dim");
      hw::AttentionPrefill prompt = prompts(batch, length, heads, kv_heads, dim);
      prompt.backward = backward;
      const hw::AttentionDecode decodes{batch, batch * length, heads, kv_heads, dim};
      const double attention_s = context ? hw::tiled_prefill(gpu, prompt, hw::DType::bf16, how).time_s
                                         : hw::tiled_decode(gpu, decodes, hw::DType::bf16, how).time_s;
      const double write_s = alone ? 0
                                   : gpu.launch_graph_s + hw::tiled_cache_write(gpu, context ? batch * length : batch,
                                                                                kv_heads * dim, hw::DType::bf16, how)
                                                              .time_s;
      const double us = (attention_s + gpu.launch_graph_s + write_s + plan.inside_s) * 1e6;
      const hw::Kernel kernel = context ? hw::Kernel{hw::OpClass::attention_prefill, hw::DType::bf16, prompt}
                                        : hw::Kernel{hw::OpClass::attention_decode, hw::DType::bf16, decodes};
      out.add(metric, row, table.number(row, "time_us"), us,
              {batch_regime(batch), group_regime(heads, kv_heads), dim_regime(dim)}, {},
              learnable(*found.entry, found.measured_as, kernel));
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return joined(table, row,
                  {"batch", table.has("tokens") ? "tokens" : "context", "num_heads", "num_kv_heads", "head_dim"});
  }
  std::string group_key(const MeasuredTable& table, std::size_t row) const override {
    return joined(table, row, {"num_heads", "num_kv_heads", "head_dim"});
  }

 private:
  static hw::AttentionPrefill prompts(std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                                      std::int64_t kv_heads, std::int64_t dim) {
    return {.sequences = batch,
            .q_tokens = batch * tokens,
            .kv_tokens = batch * tokens,
            .pairs = batch * tokens * (tokens + 1) / 2,
            .q_tiles = batch * hw::ceil_div(tokens, 128),
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = dim};
  }
};

class EdgeAttentionTables final : public TableKind {
 public:
  std::string_view name() const override { return "edge_attention"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("edge/flashattn_") || path.starts_with("edge/power_log_");
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const bool power = table.has("power_GPU");
    const std::string_view metric = power ? "power" : "time";
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (power && table.has("power_MEM")) out.skip_all("memory power", table, "the memory's own power is not modelled");
    if (!found) return out.skip_all(metric, table, kNoPart);
    out.each_row(metric, table, [&](std::size_t row) {
      const std::string& format = table.text(row, "precision");
      const std::optional<hw::DType> dtype = dtype_named(format);
      if (!dtype) return out.skip(metric, row, fmt::format("number format '{}' is not modelled", format));
      const hw::GpuParams& gpu = found.entry->part;
      const hw::AttentionPrefill shape = shape_of(table, row);
      hw::AttentionConditions how{.resident = true};
      if (!power) {
        how.splits = table.count(row, "num_splits");
        how.pack = table.text(row, "pack_gqa") == "True" ? shape.heads / std::max<std::int64_t>(1, shape.kv_heads) : 1;
      }
      const double s = hw::tiled_prefill(gpu, shape, *dtype, how).time_s + gpu.launch_graph_s;
      const std::string_view regime = shape.causal ? "causal" : "full";
      if (power) {
        const double j =
            hw::work_of({hw::OpClass::attention_prefill, *dtype, shape}).flops * hw::matrix_flop_energy(gpu, *dtype);
        out.add(metric, row, table.number(row, "power_GPU"), gpu.power.idle_w + gpu.power.active_w + j / s, {regime});
      } else {
        out.add(metric, row, table.number(row, "min_runtime") * 1e-3, s, {regime});
      }
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return joined(table, row, {"seq_len_q", "seq_len_kv", "num_heads_q", "num_heads_kv", "head_dim", "is_causal"});
  }

 private:
  /// New tokens at the end of their keys, one sequence.
  static hw::AttentionPrefill shape_of(const MeasuredTable& table, std::size_t row) {
    const std::int64_t q = table.count(row, "seq_len_q"), kv = table.count(row, "seq_len_kv");
    const bool causal = table.text(row, "is_causal") == "True";
    return {.sequences = 1,
            .q_tokens = q,
            .kv_tokens = kv,
            .pairs = causal ? q * (kv - q) + q * (q + 1) / 2 : q * kv,
            .q_tiles = hw::ceil_div(q, 128),
            .heads = table.count(row, "num_heads_q"),
            .kv_heads = table.count(row, "num_heads_kv"),
            .head_dim = table.count(row, "head_dim"),
            .causal = causal};
  }
};

}  // namespace

std::unique_ptr<TableKind> attention_tables() {
  return std::make_unique<AttentionTables>();
}

std::unique_ptr<TableKind> edge_attention_tables() {
  return std::make_unique<EdgeAttentionTables>();
}

}  // namespace orrery::experiments
