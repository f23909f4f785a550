// `serving/silicon_ttft_tpot.csv`: mean TTFT and TPOT of whole deployments under a closed loop of clients, by model,
// system, engine, number format, lengths, batch and parallelism (aiconfigurator's collection of public benchmarks).
//
// One pool is simulated (experiments/fidelity/deployment_loop.hpp), a disaggregated deployment is priced in closed form
// (deployment.hpp), on the catalog's part and model. What a row means:
//   clients      batch_size for each rank of attention_dp_size; disaggregated decode_batch_size x decode_num_workers
//   lengths      1024 and 8192 tokens are drawn uniformly from 0.8 to 1 of that, ten requests a client (the public
//                benchmark that these rows come from); other lengths are taken as given
//   ranks        tp x attention_dp, experts in moe_ep groups. Where that is more than a node's 8 and moe_tp = moe_ep,
//                the label was "tp N, ep N" on N ranks and the row counts them twice: N ranks, every expert on one.
//                Likewise "tp N, attention_dp N, moe_ep N^2": N ranks of tensor parallelism with the experts shared
//                out. MiniMax-M2.5 on two B200 shows it: such rows have the TPOT (within 1 %) and the TTFT of the rows
//                "tp 2, moe_ep 2" at twice the clients, at seven numbers of clients.
//   formats      fp8: weights of products; nvfp4: of feed-forward and experts, and of attention in dense models;
//                int4_wo: of experts; gpt-oss always as published (mxfp4 experts). Cache in 8 bits where weights have
//                fewer than 16, except with SGLang on Hopper and vLLM's gpt-oss on Hopper (their defaults).
// What an engine adds to its kernels stands in kEngines: named assumptions, set on the rows of Llama-3.1-70B and of
// DeepSeek-R1 with SGLang on H200, and judged on all others (docs/explain/serving-models.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/deployment.hpp"
#include "experiments/fidelity/deployment_loop.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"

namespace orrery::experiments {
namespace silicon_table {

struct Engine {
  std::string_view name;
  EngineOverheads overheads;
  std::string_view full_name, policy;  ///< of ServedRun
};
/// What TensorRT-LLM's host profile says.
constexpr HostStages kHost = kTensorRtLlmStages;
/// Seconds: step, sequence, request, host time of a kernel and of a layer of latent attention in a prompt's step.
constexpr std::array kEngines{
    Engine{"trtllm",
           {kHost.sample_s, kHost.sample_sequence_s, kHost.request_s, kHost.launch_kernel_s, 1.0e-3},
           "TensorRT-LLM",
           "tensorrt_llm"},
    Engine{"vllm", {1.3e-3, 5e-6, 46e-3, 25e-6, 1.0e-3}, "vLLM 0.9 and later", "vllm_v1"},
    Engine{"sglang", {0.5e-3, 3e-6, 100e-3, 30e-6, 1.2e-3}, "SGLang 0.4 and later", "sglang"},
};

/// A row's deployment as the benchmark's scripts see it.
struct Served {
  bool blackwell = false, latent = false, sinks = false;  ///< latent attention: DeepSeek; sinks: gpt-oss
  bool fp8 = false;                                       ///< linear layers
  bool recent = false;                                    ///< TensorRT-LLM of 1.2 and later
  std::int64_t ranks = 1;                                 ///< of tensor parallelism
  double clients = 0, isl = 0, osl = 0;
};

/// How long prompts wait for others (policy tensorrt_llm).
struct BatchWait {
  int iterations = 0;
  double ratio = 0;
};

/// Llama at 1024 and 1024 tokens on fewer than 8 ranks; with 1.2 DeepSeek in fp8 on Blackwell from 64 clients on.
BatchWait batch_wait(const Served& run) {
  if (run.sinks || run.isl != 1024 || run.osl != 1024) return {};
  if (!run.latent) return run.ranks < 8 ? BatchWait{20, 0.9} : BatchWait{};
  return run.recent && run.blackwell && run.fp8 && run.clients >= 64 ? BatchWait{40, 0.8} : BatchWait{};
}

/// Most tokens in an iteration of TensorRT-LLM.
double iteration_tokens(const Served& run) {
  if (run.sinks) return 20000;
  if (!run.latent) return run.blackwell ? 16384 : run.isl + run.osl;
  const double one_prompt = std::floor((run.clients + run.isl + 127) / 64) * 64;
  return run.recent ? std::max(8192.0, one_prompt) : one_prompt;
}

/// How it puts batches together, as the benchmark's scripts start it (InferenceMAX, of the time of the row's release).
/// SGLang on Blackwell: --scheduler-recv-interval 30 for 16 clients and more, else 10.
std::string batching_params(const Engine& engine, const Served& run) {
  if (engine.policy == "sglang")
    return fmt::format(R"({{"max_sequences": 8192, "recv_interval": {}}})", !run.blackwell      ? 1
                                                                            : run.clients >= 16 ? 30
                                                                                                : 10);
  if (engine.policy != "tensorrt_llm") return R"({"max_num_batched_tokens": 8192, "max_num_seqs": 8192})";
  const BatchWait wait = batch_wait(run);
  return fmt::format(R"({{"max_num_tokens": {}, "max_batch_size": 8192, "batch_wait_timeout_iters": {},
                         "batch_wait_max_tokens_ratio": {}}})",
                     iteration_tokens(run), wait.iterations, wait.ratio);
}

policies::BatchingRegistry::Choice batching_of(const Engine& engine, const Served& run) {
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  sim::Faults faults;
  const sim::Node params = sim::parse_json(batching_params(engine, run), "batching");
  auto choice = registry.prepare(std::string(engine.policy), &params, {}, faults);
  faults.throw_if_any();
  return choice;
}

/// A model of the table: how its name starts, up to a '-' or the end (publishers add "-Instruct", "-FP8" …), and the
/// catalog's entry.
struct Named {
  std::string_view name, entry;
  std::string_view regime;
};
constexpr std::array kModels{
    Named{"DeepSeek-R1", "deepseek-r1", "DeepSeek-R1"},
    Named{"DeepSeek-V3", "deepseek-v3", "DeepSeek-V3"},
    Named{"DeepSeek-V3.1", "deepseek-v3", "DeepSeek-V3"},
    Named{"Kimi-K2", "kimi-k2", "Kimi-K2"},
    Named{"Kimi-K2.5", "kimi-k2", "Kimi-K2"},
    Named{"Llama-3.1-8B", "llama-3.1-8b", "Llama-3.1-8B"},
    Named{"Llama-3.1-70B", "llama-3.1-70b", "Llama-3.1-70B"},
    Named{"Llama-3.3-70B", "llama-3.1-70b", "Llama-3.1-70B"},
    Named{"MiniMax-M2.5", "minimax-m2.5", "MiniMax-M2.5"},
    Named{"gpt-oss-120b", "gpt-oss-120b", "gpt-oss-120b"},
    Named{"gpt-oss-20b", "gpt-oss-20b", "gpt-oss-20b"},
    Named{"Qwen3.5-397B-A17B", "qwen3.5-397b-a17b", "Qwen3.5"},
    Named{"Qwen3-32B", "qwen3-32b", "Qwen3-32B"},
    Named{"Qwen3-30B-A3B", "qwen3-30b-a3b", "Qwen3-30B-A3B"},
    Named{"Qwen3-235B-A22B", "qwen3-235b-a22b", "Qwen3-235B"},
};
/// Systems as regimes, which live as long as the program.
constexpr std::array<std::string_view, 6> kSystems{"b200_sxm", "b300_sxm", "gb200", "gb300", "h100_sxm", "h200_sxm"};
constexpr std::int64_t kNodeRanks = 8;
constexpr std::int64_t kRackRanks = 72;  ///< of a GB200 NVL72
constexpr double kShortest = 0.8;        ///< of the longest prompt and output

/// A cell that may be empty or 0 for "none".
std::int64_t ranks_of(const MeasuredTable& table, std::size_t row, std::string_view column) {
  if (!table.has(column) || table.text(row, column).empty()) return 1;
  return std::max<std::int64_t>(1, table.integer(row, column));
}

/// What is not modelled, as a reason that rows share.
struct Uncovered {
  std::string why;
};

models::Split split_of(const MeasuredTable& table, std::size_t row, const std::string& prefix, bool rack) {
  const std::int64_t tp = ranks_of(table, row, prefix + "tp_size");
  const std::int64_t dp = ranks_of(table, row, prefix + "attention_dp_size");
  const std::int64_t moe_tp = ranks_of(table, row, prefix + "moe_tp_size");
  const std::int64_t moe_ep = ranks_of(table, row, prefix + "moe_ep_size");
  if (ranks_of(table, row, prefix + "pp_size") != 1) throw Uncovered{"pipeline stages are not part of the closed form"};
  if (tp > 1 && dp == tp && moe_ep == tp * tp) return {tp, 1, tp};
  models::Split split{tp, dp, std::min(moe_ep, tp * dp)};
  if (tp * dp > kNodeRanks && moe_tp == moe_ep)
    split = dp > 1 ? models::Split{1, moe_ep, moe_ep} : models::Split{moe_ep, 1, moe_ep};
  if (split.ranks() > (rack ? kRackRanks : kNodeRanks)) throw Uncovered{"more ranks than devices behind one switch"};
  return split;
}

class SiliconTables final : public TableKind {
 public:
  std::string_view name() const override { return "silicon"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("serving/silicon_") && path.ends_with(".csv");
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    std::map<std::string, models::ModelConfig> configs;
    for (const Named& named : kModels)
      configs.try_emplace(std::string(named.entry),
                          models::load_model("catalog:" + std::string(named.entry), home_folder() / "models/catalog"));
    for (std::size_t row = 0; row < table.rows(); ++row) {
      try {
        predict_row(table, row, parts, configs, out);
      } catch (const Uncovered& reason) {
        skip(row, reason.why, out);
      } catch (const sim::ConfigError& error) {
        skip(row, error.faults().front().message, out);
      }
    }
  }

  /// Rows of one deployment are held out together, whatever the clients.
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column : {"model_path", "system", "backend", "precision", "mode", "tp_size", "attention_dp_size"})
      if (table.has(column)) key += table.text(row, column) + "x";
    return key;
  }

 private:
  static void skip(std::size_t row, std::string_view why, Predictions& out) {
    out.skip("tpot", row, why);
    out.skip("ttft", row, why);
  }

  static const Named& model_of(const MeasuredTable& table, std::size_t row) {
    const std::string& path = table.text(row, "model_path");
    std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    if (name.starts_with("Meta-")) name.remove_prefix(5);
    if (name.find("Distill") != std::string_view::npos) name = {};  // another architecture under the teacher's name
    for (const Named& named : kModels)
      if (name.starts_with(named.name) && (name.size() == named.name.size() || name[named.name.size()] == '-'))
        return named;
    throw Uncovered{fmt::format("layers of {} are not modelled", path)};
  }

  static const Engine& engine_of(const MeasuredTable& table, std::size_t row) {
    for (const Engine& engine : kEngines)
      if (engine.name == table.text(row, "backend")) return engine;
    throw Uncovered{fmt::format("nothing is known of engine '{}'", table.text(row, "backend"))};
  }

  static models::NumberFormats formats_of(const MeasuredTable& table, std::size_t row, const models::ModelConfig& c) {
    using hw::WeightFormat;
    const auto format = [&](std::string_view column) {
      const std::string& text = table.text(row, column);
      if (text.starts_with("fp8")) return WeightFormat::fp8;
      if (text == "nvfp4") return WeightFormat::nvfp4;
      if (text == "int4_wo") return WeightFormat::int4;
      if (text.empty() || text == "bf16" || text == "bfloat16" || text == "fp16") return WeightFormat::as_dtype;
      throw Uncovered{fmt::format("weights in '{}' are not modelled", text)};
    };
    // A single scale is known beforehand and rides in the pass before; scales by block take a pass of their own.
    models::NumberFormats out{.dtype = hw::DType::bf16, .cache = {}, .activations = models::ActivationScales::block};
    out.ffn = out.attention = format("gemm_quant_mode");
    out.experts = format("moe_quant_mode");
    // Published 4-bit checkpoints keep latent attention, and int4 ones all but the experts, in 16 bits.
    if (out.ffn == WeightFormat::int4) out.ffn = out.attention = WeightFormat::as_dtype;
    if (c.latent.kv_rank > 0 && out.attention == WeightFormat::nvfp4) out.attention = WeightFormat::as_dtype;
    if (c.attention_sinks) out.attention = out.ffn = c.weights, out.experts = c.expert_weights;
    const std::string& backend = table.text(row, "backend");
    const bool hopper = table.text(row, "system").starts_with("h");
    const bool quantised = out.experts != WeightFormat::as_dtype || out.ffn != WeightFormat::as_dtype;
    const bool wide = hopper && (backend == "sglang" || (backend == "vllm" && c.attention_sinks));
    if (quantised && !wide) out.cache = hw::DType::fp8;
    return out;
  }

  static ClosedLoop loop_of(const MeasuredTable& table, std::size_t row, double clients) {
    ClosedLoop loop;
    loop.clients = clients;
    loop.prompt_tokens = table.number(row, "isl");
    loop.output_tokens = table.number(row, "osl");
    const bool drawn = loop.prompt_tokens == 1024 || loop.prompt_tokens == 8192;
    loop.spread = drawn ? 1 - kShortest : 0;
    const double mean = 1 - loop.spread / 2;
    loop.prompt_tokens *= mean;
    loop.output_tokens *= mean;
    return loop;
  }

  static void predict_row(const MeasuredTable& table, std::size_t row, const PartShelf& parts,
                          const std::map<std::string, models::ModelConfig>& configs, Predictions& out) {
    const Named& named = model_of(table, row);
    const std::string& system = table.text(row, "system");
    const auto found = parts.for_table<hw::GpuParams>(system);
    if (!found) throw Uncovered{fmt::format("no part of the catalog stands for '{}'", system)};
    const models::ModelConfig& config = configs.at(std::string(named.entry));
    const Engine& engine = engine_of(table, row);
    const bool rack = system.starts_with("gb");
    const bool apart = table.text(row, "mode") == "disagg";
    const auto model = [&](const models::Split& split) {
      if (models::split_obstacle(config, split))
        throw Uncovered{"ranks that the model's sizes do not divide by: several groups counted as one"};
      DeploymentParams params;
      params.model = config;
      params.gpu = found.entry->part;
      params.formats = formats_of(table, row, config);
      params.split = split;
      params.overheads = engine.overheads;
      return DeploymentModel(std::move(params));
    };
    LoopLatency latency;
    if (apart) {
      if (table.text(row, "decode_batch_size").empty())
        throw Uncovered{"disaggregated: batch and number of workers are not given"};
      const models::Split prefill = split_of(table, row, "prefill_", rack),
                          decode = split_of(table, row, "decode_", rack);
      PrefillPool pool;
      pool.workers = static_cast<double>(ranks_of(table, row, "prefill_num_workers") * prefill.attention_dp);
      pool.decode_workers = static_cast<double>(ranks_of(table, row, "decode_num_workers") * decode.attention_dp);
      const ClosedLoop loop = loop_of(table, row, table.number(row, "decode_batch_size") * pool.decode_workers);
      const DeploymentModel workers = model(decode), prompts = model(prefill);
      latency = workers.disaggregated(loop, prompts, pool);
    } else {
      const models::Split split = split_of(table, row, "", rack);
      const double all =
          table.number(row, "batch_size") * static_cast<double>(ranks_of(table, row, "attention_dp_size"));
      const ClosedLoop loop = loop_of(table, row, all / static_cast<double>(split.attention_dp));
      Served served{
          .blackwell = !system.starts_with("h"), .latent = config.latent.kv_rank > 0, .sinks = config.attention_sinks};
      served.fp8 = table.text(row, "gemm_quant_mode").starts_with("fp8");
      served.recent = table.text(row, "backend_version") >= "1.2";
      served.ranks = split.tp;
      served.clients = all;
      served.isl = table.number(row, "isl");
      served.osl = table.number(row, "osl");
      latency = simulate_loop(model(split), loop, batching_of(engine, served));
    }
    if (latency.requests < 1) throw Uncovered{"weights and one request do not fit the memory"};
    const auto listed = std::find(kSystems.begin(), kSystems.end(), system);
    const std::string_view system_regime = listed == kSystems.end() ? "another system" : *listed;
    const std::initializer_list<std::string_view> regimes{named.regime, system_regime, engine.name,
                                                          apart ? "disaggregated" : "one pool"};
    ServedRun run{"tpot", found.entry->name, engine.full_name, engine.policy, config.experts.count > 0};
    // Apart: what releases of SGLang add to these layers is not known yet.
    const bool linear = config.linear.interval > 0;
    out.add(linear ? "tpot (linear attention)" : "tpot", row, table.number(row, "silicon_tpot_ms"),
            latency.tpot_s * 1e3, regimes, run);
    run.figure = "ttft";
    out.add(linear ? "ttft (linear attention)" : "ttft", row, table.number(row, "silicon_ttft_ms"),
            latency.ttft_s * 1e3, regimes, run);
  }
};

}  // namespace silicon_table

std::unique_ptr<TableKind> silicon_tables() {
  return std::make_unique<silicon_table::SiliconTables>();
}

}  // namespace orrery::experiments
