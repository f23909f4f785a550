// Expert parallelism over nodes.
//
// `systems/deepep_bandwidth.csv`: what DeepEP's kernels reach, by hw/network/expert_exchange. Normal rows count the
// bytes of their link (RDMA: to all nodes; NVLink: to all GPUs), low-latency rows are times.
// `systems/wide_ep_serving_points.csv`: tokens/s of a node of DeepSeek-V3 in fp8 on H100 or H800. A step is what one
// GPU computes of its own tokens and of its share of all GPUs' rows, and two exchanges a layer with experts: rows in
// fp8 there, in bf16 back. Two halves of a batch take turns at computing and exchanging, exchanges being 1.43 times
// slower than alone: what the rows dispatch and combine of deepseek_dualpipe_profile.csv make (3.85 + 6.2 ms
// against 2.35 + 4.7). Compute has the SMs that the exchanges leave it. No constant of this table. Left out: draft
// tokens, batches without KV length.
#include <algorithm>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/halves_in_turns.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/network/expert_exchange.hpp"
#include "models/transformer/hf_config.hpp"

namespace orrery::experiments {
namespace wide_ep {

using hw::ExchangeKernel;

class Exchanges final : public TableKind {
 public:
  std::string_view name() const override { return "deepep"; }
  bool reads(std::string_view path) const override { return path == "systems/deepep_bandwidth.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    constexpr std::string_view kTime = "time of the bytes";
    out.each_row(kTime, table, [&](std::size_t row) {
      const bool first = table.text(row, "version") == "V1";
      const bool quick = table.text(row, "kernel") == "low_latency";
      const ExchangeKernel kernel = quick ? ExchangeKernel::low_latency : ExchangeKernel::normal;
      const bool dispatch = table.text(row, "phase") == "dispatch";
      // Version 2 dispatches bf16 as well, says its README.
      const std::int64_t element = dispatch && first ? 1 : 2;
      const hw::ExchangeShape shape{.tokens = table.count(row, "tokens"),
                                    .top_k = 8,
                                    .gpus = table.count(row, "ep"),
                                    .node_gpus = 8,
                                    .node_limit = quick ? 0 : 4,
                                    .row_bytes = 7168 * element};
      const hw::ExchangeRates rates = first ? hw::deepep_v1(kernel) : hw::deepep_v2(table.count(row, "sms"));
      const hw::ExchangeTime time = hw::expert_exchange(kernel, shape, rates);
      // Both sides as times of the bytes that the measurement counts.
      const double counted = table.text(row, "link") == "NVLink" ? time.node_bytes : time.logical_bytes;
      const double measured_s =
          quick ? 1e-6 * table.number(row, "latency_us") : counted / (1e9 * table.number(row, "bandwidth_gbs"));
      out.add(kTime, row, measured_s, time.time_s,
              {quick   ? "version 1, low latency"
               : first ? "version 1, normal"
                       : "version 2"});
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "kernel") + table.text(row, "ep") + table.text(row, "phase");
  }
};

/// A step of one GPU among `ep`.
struct Step {
  std::int64_t ep = 1, decodes = 0, prompt_tokens = 0, length = 1;
  double imbalance = 0;  ///< of the fullest GPU's rows over the mean
};

class Serving final : public TableKind {
 public:
  std::string_view name() const override { return "wide_ep"; }
  bool reads(std::string_view path) const override { return path == "systems/wide_ep_serving_points.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    constexpr std::string_view kRate = "tokens/s of a node";
    const auto* gpu = parts.find<hw::GpuParams>("h100-sxm5-80gb");
    if (gpu == nullptr) return out.skip_all(kRate, table, "the catalog has no H100");
    const hw::Device device = hw::device_of(gpu->part);
    out.each_row(kRate, table, [&](std::size_t row) {
      const std::string& system = table.text(row, "system");
      const std::string& metric = table.text(row, "metric");
      const bool gain = metric == "two_batch_overlap gain" && table.text(row, "phase") == "decode";
      const bool known = system.starts_with("SGLang default routing") || system == "SGLang" ||
                         system.starts_with("SGLang perfect balance") || system == "DeepSeek profile";
      const std::string& length = table.text(row, "input_or_kv_len");
      if (const auto batch = batch_of_users(table, row))
        return add_rate(
            out, kRate, table, row,
            {.ep = table.count(row, "ep"), .decodes = *batch, .length = std::stoll(length), .imbalance = kEven},
            device);
      if (!known || (metric != "tokens_per_s_node" && !gain) || (length.empty() && !gain))
        return out.skip(kRate, row, "no rate of a step whose batch and lengths are stated, or with draft tokens");
      // The gain at a batch of 32 is of the same run as that at 256: 2,000 tokens each.
      Step step{.ep = table.count(row, "ep"), .length = length.empty() ? 2000 : table.count(row, "input_or_kv_len")};
      const std::string& batch = table.text(row, "batch_per_gpu");
      const bool prefill = table.text(row, "phase") == "prefill";
      (prefill ? step.prompt_tokens : step.decodes) = std::stoll(batch);
      // EPLB leaves 0.109 on 32 GPUs (moe_ep_imbalance.csv, TensorRT-LLM); profiles and "perfect balance" nothing.
      if (system == "SGLang" || system.starts_with("SGLang default")) step.imbalance = kEven;
      if (gain)
        return out.add("two-batch overlap", row, table.number(row, "value"),
                       alone_s(device, step) / in_turns_s(device, step));
      add_rate(out, kRate, table, row, step, device);
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "phase") + table.text(row, "ep") + table.text(row, "batch_per_gpu");
  }

 private:
  /// EPLB's (moe_ep_imbalance.csv, TensorRT-LLM, 32 GPUs).
  static constexpr double kEven = 0.109;

  /// Decodes of a GPU, by Little's law, where a table says tokens/s of a node (this row) and of a user: who has 21
  /// tokens a second is there 1/21 s for each. Nothing for other rows.
  static std::optional<std::int64_t> batch_of_users(const MeasuredTable& table, std::size_t row) {
    if (table.text(row, "metric") != "tokens_per_s_node" || table.text(row, "phase") != "decode" ||
        !table.text(row, "batch_per_gpu").empty() || table.text(row, "input_or_kv_len").empty())
      return std::nullopt;
    for (std::size_t i = 0; i < table.rows(); ++i) {
      if (table.text(i, "metric") != "tokens_per_s_per_user" || table.text(i, "system") != table.text(row, "system") ||
          table.text(i, "ep") != table.text(row, "ep"))
        continue;
      const std::string& range = table.text(i, "value");  // "20-22"
      const std::size_t dash = range.find('-');
      const double low = std::stod(range), high = dash == std::string::npos ? low : std::stod(range.substr(dash + 1));
      return std::llround(table.number(row, "value") / 8 / ((low + high) / 2));
    }
    return std::nullopt;
  }

  void add_rate(Predictions& out, std::string_view figure, const MeasuredTable& table, std::size_t row,
                const Step& step, const hw::Device& device) const {
    const double tokens = static_cast<double>(step.decodes + step.prompt_tokens);
    out.add(figure, row, table.number(row, "value"), 8 * tokens / in_turns_s(device, step),
            {step.prompt_tokens > 0 ? "prefill" : "decode"});
  }

  /// What a GPU does for a batch, s: before the dispatch and behind it, and both exchanges alone.
  struct Parts {
    double attention_s = 0, experts_s = 0, dispatch_s = 0, combine_s = 0;
  };

  static ExchangeKernel kernel_of(const Step& step) {
    return step.prompt_tokens > 0 ? ExchangeKernel::normal : ExchangeKernel::low_latency;
  }

  static BatchShape shape_of(const Step& step, std::int64_t layers) {
    BatchShape shape;
    Segment segment{.first = 0, .last = static_cast<std::int32_t>(layers), .tokens = step.decodes + step.prompt_tokens};
    for (std::int64_t i = 0; i < step.decodes; ++i) segment.decode.add(step.length);
    for (std::int64_t left = step.prompt_tokens; left > 0; left -= step.length)
      segment.prefill.add(std::min(left, step.length), 0);
    shape.sequences = shape.logit_rows = segment.decode.sequences + segment.prefill.sequences;
    shape.segments.push_back(segment);
    return shape;
  }

  Parts parts_of(const hw::Device& device, const Step& step) const {
    const models::NumberFormats formats{.dtype = hw::DType::bf16,
                                        .attention = hw::WeightFormat::fp8,
                                        .ffn = hw::WeightFormat::fp8,
                                        .experts = hw::WeightFormat::fp8,
                                        .cache = {},
                                        .activations = models::ActivationScales::block};
    const models::ModelConfig config = models::load_model("catalog:deepseek-v3", home_folder() / "models/catalog");
    // 256 experts do not share out over 72 or 144 GPUs; with redundant ones each has four or two. The model has as many
    // GPUs as keep so many experts of one: 64 or 128.
    std::int64_t ranks = 1;
    while (2 * ranks <= step.ep) ranks *= 2;
    DeviceIterationModel model(
        models::build_transformer(config, formats, {.tp = 1, .attention_dp = ranks, .expert_parallel = ranks},
                                  {.skew = 0, .correlation = 0}),
        device);
    IterationCost cost;
    model.cost(shape_of(step, config.layers), cost);
    Parts out;
    for (std::size_t i = 0; i < hw::kOpClasses; ++i) {
      const auto op = static_cast<hw::OpClass>(i);
      if (op == hw::OpClass::all_reduce) continue;  // a library's exchange, in place of which DeepEP's comes
      const double time_s = static_cast<double>(cost.class_ps[i]) * 1e-12;
      const bool product = op == hw::OpClass::expert_up || op == hw::OpClass::expert_down;
      out.experts_s += behind_dispatch(op) * time_s * (product ? 1 + step.imbalance : 1);
      out.attention_s += (1 - behind_dispatch(op)) * time_s;
    }
    const auto way_s = [&](std::int64_t element) {
      const hw::ExchangeShape shape{.tokens = step.decodes + step.prompt_tokens,
                                    .top_k = config.experts.per_token,
                                    .gpus = step.ep,
                                    .node_gpus = 8,
                                    .node_limit = kernel_of(step) == ExchangeKernel::normal ? 4 : 0,
                                    .row_bytes = config.hidden_size * element};
      // The fullest GPU has as many rows more to receive, and to send back.
      return (1 + step.imbalance) * static_cast<double>(config.layers - config.experts.dense_layers) *
             hw::expert_exchange(kernel_of(step), shape, hw::deepep_v1(kernel_of(step))).time_s;
    };
    out.dispatch_s = way_s(1);
    out.combine_s = way_s(2);
    return out;
  }

  /// One batch, nothing beside each other.
  double alone_s(const hw::Device& device, const Step& step) const {
    const Parts p = parts_of(device, step);
    return p.attention_s + p.experts_s + p.dispatch_s + p.combine_s;
  }

  /// Two halves that take turns. Normal kernels keep cores of the GPU, low-latency ones none.
  double in_turns_s(const hw::Device& device, Step step) const {
    step.decodes = (step.decodes + 1) / 2;
    step.prompt_tokens = (step.prompt_tokens + 1) / 2;
    const Parts p = parts_of(device, step);
    const bool normal = kernel_of(step) == ExchangeKernel::normal;
    return hw::layer_in_turns({.attention_s = p.attention_s,
                               .experts_s = p.experts_s,
                               .dispatch_s = p.dispatch_s,
                               .combine_s = p.combine_s,
                               .cores_share = normal ? hw::kExchangeCores / static_cast<double>(device.cores) : 0});
  }
};

}  // namespace wide_ep

std::unique_ptr<TableKind> deepep_tables() {
  return std::make_unique<wide_ep::Exchanges>();
}
std::unique_ptr<TableKind> wide_ep_tables() {
  return std::make_unique<wide_ep::Serving>();
}

}  // namespace orrery::experiments
