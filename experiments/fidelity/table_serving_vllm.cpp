// `serving/vllm_<gpu>_<model>.csv` with its `.meta.json`: requests of a real vLLM (0.19) run, replayed.
//
// Arrivals and lengths go through `vllm_v1` with the run's own settings (meta.json: sequences, token budget, blocks,
// parallelism); iterations are priced twice, by the operator tables of `profiles/<gpu>/<model>/tp<k>` of the same
// folder (metrics *.tables) and by the analytic models of the catalog (*.model). What is not in meta.json is vLLM's
// default:
//   memory       0.9 of the device, less weights and kActivations; a block of them is never handed out
//   prefixes     kept by block hashes; requests share no text, but a preempted one finds what is left of its own
//   scheduler    a prompt is admitted when blocks for all of it are free; the next iteration is settled when one begins
//   graphs       up to min(512, 2 max_num_seqs) tokens
//   ranks        of data parallelism that share experts step together, each padded to the fullest
//   sampling     at temperature 1, the default of requests that say nothing (the tables sample greedily)
// Metrics: TTFT, TPOT and E2E of each request as in docs/explain/serving.md, and their means over the run (mean_*). One
// constant is fitted, kRagged; it touches *.tables alone. Left out: what the first iteration of a new process takes to
// warm up.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/replay.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/lane_share.hpp"
#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace vllm_table {

namespace fs = std::filesystem;
using sim::Node;

constexpr std::string_view kPrefix = "serving/vllm_";
constexpr hw::DType kType = hw::DType::bf16;
constexpr double kActivations = 2.0 * (1 << 30);  ///< bytes of activations, graphs and the CUDA context: an assumption
constexpr std::int64_t kBlockTokens = 16;
constexpr double kRagged = 0.05;  ///< ProfileParams::ragged_decode: fitted to both open runs together, the one constant

/// What meta.json says of the engine.
struct Settings {
  std::string model;
  std::int64_t tp = 1, dp = 1, max_num_seqs = 256, budget = 2048;
  bool experts_shared = false;
  std::optional<std::int64_t> max_context, blocks;
  std::int64_t block_tokens = kBlockTokens;
  double utilisation = 0.9;
};

const Node* member(const Node* node, const char* key) {
  if (node == nullptr || !node->is_object()) return nullptr;
  const Node* found = node->find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

Settings read_settings(const fs::path& file) {
  const Node root = sim::read_json(file);
  const Node* kwargs = member(&root, "engine_kwargs");
  const Node* cache = member(&root, "kv_cache");
  Settings settings;
  if (const Node* model = member(&root, "model")) settings.model = model->as_string();
  const auto whole = [](const Node* node, const char* key, std::int64_t fallback) {
    const Node* found = member(node, key);
    return found != nullptr && found->is_number() ? static_cast<std::int64_t>(found->as_number()) : fallback;
  };
  settings.tp = whole(kwargs, "tensor_parallel_size", 1);
  settings.dp = whole(kwargs, "data_parallel_size", 1);
  settings.max_num_seqs = whole(kwargs, "max_num_seqs", 256);
  settings.budget = whole(kwargs, "max_num_batched_tokens", 2048);
  if (const Node* shared = member(kwargs, "enable_expert_parallel")) settings.experts_shared = shared->as_boolean();
  if (member(kwargs, "max_model_len") != nullptr) settings.max_context = whole(kwargs, "max_model_len", 0);
  if (member(cache, "num_gpu_blocks") != nullptr) settings.blocks = whole(cache, "num_gpu_blocks", 0);
  settings.block_tokens = whole(cache, "block_size", kBlockTokens);
  return settings;
}

/// The catalog's model whose name is the longest that begins that of the run ("meta-llama/Llama-3.1-8B").
std::optional<std::string> catalog_model(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  std::optional<std::string> best;
  for (const std::string& known : models::catalog_models(home_folder() / "models/catalog"))
    if (name.starts_with(known) && (!best || known.size() > best->size())) best = known;
  return best;
}

/// One run: its part, model and settings.
struct Run {
  std::string part;  ///< of the catalog
  const hw::GpuParams& gpu;
  models::Transformer transformer;
  Settings settings;
  std::vector<ReplayRequest> requests;
};

policies::BatchingRegistry::Choice vllm_v1(const Settings& settings) {
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  sim::Faults faults;
  const Node params =
      sim::parse_json(fmt::format(R"({{"max_num_batched_tokens": {}, "max_num_seqs": {}, "room_for_prompt": true}})",
                                  settings.budget, settings.max_num_seqs),
                      "vllm_v1");
  auto choice = registry.prepare("vllm_v1", &params, {}, faults);
  faults.throw_if_any();
  return choice;
}

policies::KvCacheRegistry::Choice block_hash(const Settings& settings) {
  policies::KvCacheRegistry registry("kvcache");
  policies::register_kv_caches(registry);
  sim::Faults faults;
  const Node params = sim::parse_json(fmt::format(R"({{"block_tokens": {}}})", settings.block_tokens), "block_hash");
  auto choice = registry.prepare("block_hash", &params, {}, faults);
  faults.throw_if_any();
  return choice;
}

std::vector<std::optional<ReplayTimes>> replay_run(const Run& run, IterationModel& exact) {
  TabulatedIteration model(exact, static_cast<std::int32_t>(run.transformer.config.layers));
  HostRegistry hosts("host");
  register_host_times(hosts);
  sim::Faults faults;
  const auto host = hosts.prepare("vllm_v1", nullptr, {}, faults).make(std::nullopt);
  ReplayParts parts;
  parts.model = &model;
  parts.host = host.get();
  parts.batching = vllm_v1(run.settings);
  parts.kvcache = block_hash(run.settings);
  parts.geometry.bytes_per_token = models::kv_bytes_per_token(run.transformer);
  const std::int64_t block_bytes = run.settings.block_tokens * parts.geometry.bytes_per_token;
  const double room = static_cast<double>(run.gpu.memory_bytes) * run.settings.utilisation - kActivations -
                      static_cast<double>(models::weight_bytes(run.transformer));
  const std::int64_t blocks = run.settings.blocks.value_or(static_cast<std::int64_t>(room) / block_bytes);
  parts.geometry.bytes_available = std::max<std::int64_t>(0, blocks - 1) * block_bytes;
  parts.limits = {run.settings.max_context.value_or(run.transformer.config.max_position_embeddings),
                  static_cast<std::int32_t>(run.transformer.config.layers)};
  parts.replicas = run.settings.dp;
  parts.lock_step = run.settings.dp > 1 && run.settings.experts_shared;
  return replay(parts, run.requests);
}

/// Compares; `how` is "tables" or "model".
void compare(const MeasuredTable& table, const Run& run, const std::vector<std::optional<ReplayTimes>>& times,
             std::string_view how, Predictions& out) {
  struct Metric {
    std::string name;
    double measured = 0, predicted = 0;
    std::size_t rows = 0;
  };
  std::vector<Metric> metrics{
      {fmt::format("ttft.{}", how)}, {fmt::format("tpot.{}", how)}, {fmt::format("e2e.{}", how)}};
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (!times[row]) {
      for (const Metric& metric : metrics) out.skip(metric.name, row, "rejected in the replay");
      continue;
    }
    const double arrived = run.requests[row].arrived_s;
    const double first = table.number(row, "first_token_at") - arrived;
    const double last = table.number(row, "last_token_at") - arrived;
    const ReplayTimes& ours = *times[row];
    const auto gaps = static_cast<double>(run.requests[row].output_tokens - 1);
    const auto add = [&](Metric& metric, double measured, double predicted) {
      out.add(metric.name, row, measured, predicted);
      metric.measured += measured;
      metric.predicted += predicted;
      ++metric.rows;
    };
    add(metrics[0], first, ours.first_token_s);
    if (gaps > 0) add(metrics[1], (last - first) / gaps, (ours.last_token_s - ours.first_token_s) / gaps);
    add(metrics[2], last, ours.last_token_s);
  }
  for (const Metric& metric : metrics) {
    if (metric.rows == 0) continue;
    const auto n = static_cast<double>(metric.rows);
    std::optional<ServedRun> served;
    if (metric.name == "ttft.model" || metric.name == "tpot.model")
      served = ServedRun{metric.name == "ttft.model" ? "ttft" : "tpot", run.part, "vLLM 0.19", "vllm_v1",
                         run.transformer.config.experts.count > 0};
    out.add("mean_" + metric.name, 0, metric.measured / n, metric.predicted / n, {}, std::move(served));
  }
}

class VllmRuns final : public TableKind {
 public:
  std::string_view name() const override { return "serving_vllm"; }
  bool reads(std::string_view path) const override { return path.starts_with(kPrefix); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const std::string run_name = table.name().substr(kPrefix.size(), table.name().size() - kPrefix.size() - 4);
    const std::string gpu = run_name.substr(0, run_name.find('_'));
    const std::string model = run_name.substr(std::min(run_name.size(), gpu.size() + 1));
    const auto found = parts.for_table<hw::GpuParams>(gpu);
    if (!found) return out.skip_all("ttft", table, fmt::format("no part of the catalog stands for '{}'", gpu));
    fs::path meta = table.root() / table.name();
    meta.replace_extension(".meta.json");
    const Settings settings = read_settings(meta);
    const std::optional<std::string> known = catalog_model(settings.model.empty() ? model : settings.model);
    if (!known) return out.skip_all("ttft", table, fmt::format("model '{}' is not in the catalog", settings.model));
    const models::ModelConfig config =
        models::load_model("catalog:" + *known, home_folder() / "models/catalog", {meta.string(), "/model"});
    Run run{found.entry->name,
            found.entry->part,
            models::build_transformer(config, {.dtype = kType, .cache = {}}, plan_of(settings), {},
                                      models::Sampler::random),
            settings,
            {}};
    for (std::size_t row = 0; row < table.rows(); ++row)
      run.requests.push_back({table.number(row, "arrived_at"), table.count(row, "num_prefill_tokens"),
                              table.count(row, "num_decode_tokens")});
    const fs::path folder = table.root() / "profiles" / gpu / model / fmt::format("tp{}", settings.tp);
    DeviceIterationModel analytic(run.transformer, hw::device_of(run.gpu));
    LaneShare lane(analytic, settings.dp);
    try {
      ProfileIteration tables(OpProfile::read(folder), profile_params(settings), profile_facts(run), nullptr);
      compare(table, run, replay_run(run, tables), "tables", out);
    } catch (const sim::ConfigError& error) {
      out.skip_all("ttft.tables", table, error.faults().front().text());
    }
    compare(table, run, replay_run(run, settings.experts_shared ? static_cast<IterationModel&>(lane) : analytic),
            "model", out);
  }

  std::string shape_key(const MeasuredTable& table, std::size_t) const override { return table.name(); }

 private:
  /// Ranks of data parallelism that do not share experts are replicas; those that do, one model.
  static models::Split plan_of(const Settings& settings) {
    if (!settings.experts_shared) return {.tp = settings.tp};
    return {.tp = settings.tp, .attention_dp = settings.dp, .expert_parallel = settings.tp * settings.dp};
  }
  static ProfileParams profile_params(const Settings& settings) {
    ProfileParams params;
    params.graph_tokens = std::min<std::int64_t>(512, 2 * settings.max_num_seqs);
    params.ragged_decode = kRagged;
    if (settings.experts_shared) params.expert_ranks = settings.dp * settings.tp;
    return params;
  }
  static ProfileFacts profile_facts(const Run& run) {
    return {.layers = run.transformer.config.layers,
            .hidden = run.transformer.config.hidden_size,
            .vocab_rows = run.transformer.vocab_rows,
            .tensor_parallel = run.transformer.tp,
            .memory_bandwidth = run.gpu.memory_bandwidth,
            .l2_bandwidth = run.gpu.l2_bandwidth,
            .l2_bytes = static_cast<double>(run.gpu.l2_bytes),
            .link = run.gpu.link};
  }
};

}  // namespace vllm_table

std::unique_ptr<TableKind> serving_vllm_tables() {
  return std::make_unique<vllm_table::VllmRuns>();
}

}  // namespace orrery::experiments
