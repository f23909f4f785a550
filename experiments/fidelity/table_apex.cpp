// `serving/apex_8xh100_vllm.csv`: mean TTFT and TPOT of vLLM (V0, 2024) on eight H100 under plans of tensor and data
// parallelism (APEX+'s measured runs), Llama-3.1-70B in bf16 and Mistral-Large in fp8.
//
// A row is one engine of one plan: `..._creation_05_validation_2DP4TP_0.txt` is the first of two engines of four ranks
// that share 0.5 requests a second. Read from the row: plan, model, traffic, its requests, and the means of its prompts
// and of the answers that were served (which differ from the trace's). Not known: arrival times and the lengths of
// single requests. They are drawn: Poisson arrivals at the plan's rate, dealt to the engines in turn; log-normal
// lengths with the row's means and kVariation. The rate was checked by Little's law: what a sequence in the batch adds
// to TPOT is the same 0.3 to 0.5 ms whichever engine's share of 0.25 or 0.5 a second it is computed with.
//
// The engine: host `vllm_2024`, prompts in chunks of kChunk tokens (both models have 131,072 positions, for which that
// vLLM cuts prompts), Mistral's products in 8 bits with one scale of the activations that three kernels find. The
// host's constants are fitted to the rows of 8TP; kDetokenise, which is Mistral's alone, to the TPOT of its four rows
// there. Plans of 4TP and 2TP are predicted.
//
// In some rows the sum of latencies is 2 to 5 times requests x (TTFT + answer x TPOT): the file holds more than one
// run, or waiting that TTFT does not. Their TTFT is a metric of its own ("ttft (totals contradict)").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/replay.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/transformer.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments {
namespace {

constexpr std::string_view kPart = "h100-sxm5-80gb";
constexpr double kDetokenise = 0.38e-3;           ///< s a token of Mistral: fitted to its rows on 8TP
constexpr std::int64_t kChunk = 512;              ///< tokens of an iteration, vLLM from 0.5.4 (#6666) to 0.6.4 (#10544)
constexpr double kContradicts = 1.15;             ///< of the sum that means and lengths give: the totals' own is more
constexpr double kVariation = 1;                  ///< of lengths: an assumption
constexpr double kMemoryShare = 0.9;              ///< vLLM's default
constexpr double kActivations = 1.0 * (1 << 30);  ///< bytes of activations of kChunk tokens: an assumption
constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kMostSequences = 256;  ///< vLLM's default
constexpr std::int64_t kRequests = 400;       ///< simulated of each engine at most: means settle before

/// What the name of a result file says.
struct Plan {
  bool mistral = false;
  std::string_view traffic;  ///< "creation", "lmsys", "summarization"
  double rate = 0;           ///< requests a second of the whole plan
  std::int64_t engines = 1, ranks = 1;
};

constexpr std::array<std::string_view, 3> kTraffic{"creation", "lmsys", "summarization"};

/// Number before `unit` in "2DP4TP"; 0 where there is none.
std::int64_t count_of(std::string_view name, std::string_view unit) {
  const std::size_t at = name.find(unit);
  if (at == std::string_view::npos || at == 0 || name[at - 1] < '1' || name[at - 1] > '8') return 0;
  return name[at - 1] - '0';
}

/// `vllm/results/llama_creation_05_validation_2DP4TP_0.txt`; nothing for a name of another form.
std::optional<Plan> plan_of(std::string_view file) {
  constexpr std::string_view kFolder = "vllm/results/";
  if (!file.starts_with(kFolder)) return std::nullopt;
  file.remove_prefix(kFolder.size());
  Plan plan;
  plan.mistral = file.starts_with("mistral_");
  if (!plan.mistral && !file.starts_with("llama_")) return std::nullopt;
  for (const std::string_view traffic : kTraffic)
    if (file.find(fmt::format("_{}_", traffic)) != std::string_view::npos) plan.traffic = traffic;
  plan.rate = file.find("_025_") != std::string_view::npos  ? 0.25
              : file.find("_05_") != std::string_view::npos ? 0.5
                                                            : 0;
  const std::size_t at = file.find("validation_");
  if (plan.traffic.empty() || plan.rate == 0 || at == std::string_view::npos) return std::nullopt;
  plan.ranks = count_of(file.substr(at), "TP");
  plan.engines = std::max<std::int64_t>(1, count_of(file.substr(at), "DP"));
  if (plan.ranks == 0) return std::nullopt;
  return plan;
}

/// Lengths with the given mean, at least 2 (a TPOT needs two tokens).
std::int64_t length(sim::RandomStream& random, double mean) {
  const double spread = sim::det_log1p(kVariation * kVariation);  // sigma^2
  const double drawn = random.log_normal(sim::det_log(mean) - spread / 2, std::sqrt(spread));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(drawn + 0.5), 2, 16'384);
}

class ApexRuns final : public TableKind {
 public:
  std::string_view name() const override { return "serving_apex"; }
  bool reads(std::string_view path) const override { return path == "serving/apex_8xh100_vllm.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto* part = parts.find<hw::GpuParams>(std::string(kPart));
    if (part == nullptr) return out.skip_all("tpot", table, fmt::format("the catalog has no {}", kPart));
    std::map<std::pair<bool, std::int64_t>, Engine> engines;
    out.each_row("tpot", table, [&](std::size_t row) {
      const auto skip = [&](std::string_view why) {
        out.skip("tpot", row, why);
        out.skip("ttft", row, why);
      };
      const std::string& file = table.text(row, "result_file");
      if (file.starts_with("sglang/")) return skip("SGLang: its TPOT is below the time of reading the weights");
      const std::optional<Plan> plan = plan_of(file);
      if (!plan) return skip("a result file of another form");
      const std::int64_t requests = table.count(row, "requests_logged", 0);
      if (requests == 0 || table.text(row, "mean_tpot_s").empty()) return skip("an empty row");
      Engine& engine = engines.try_emplace({plan->mistral, plan->ranks}, part->part, *plan).first->second;
      const auto n = static_cast<double>(requests);
      const Means ours = simulate(engine, *plan, requests, table.number(row, "prompt_tokens") / n,
                                  table.number(row, "output_tokens") / n);
      if (ours.served == 0) return skip("no request is served");
      const std::string_view ranks = plan->ranks == 8
                                         ? (plan->mistral ? "Mistral-Large 8TP (fitted)" : "Llama 8TP (fitted)")
                                     : plan->ranks == 4 ? (plan->mistral ? "Mistral-Large 4TP" : "Llama 4TP")
                                                        : (plan->mistral ? "Mistral-Large 2TP" : "Llama 2TP");
      ServedRun run{"tpot", std::string(kPart), "vLLM of 2024", "sarathi"};
      out.add("tpot", row, table.number(row, "mean_tpot_s"), ours.tpot_s, {ranks, plan->traffic}, run);
      if (contradicts(table, row, n)) {
        out.add("ttft (totals contradict)", row, table.number(row, "mean_ttft_s"), ours.ttft_s, {ranks, plan->traffic});
        return;
      }
      run.figure = "ttft";
      out.add("ttft", row, table.number(row, "mean_ttft_s"), ours.ttft_s, {ranks, plan->traffic}, run);
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "result_file");
  }

 private:
  /// Model and part of an engine, with the prices found so far.
  struct Engine {
    Engine(const hw::GpuParams& gpu, const Plan& plan)
        : config(models::load_model(plan.mistral ? "catalog:mistral-large" : "catalog:llama-3.1-70b",
                                    home_folder() / "models/catalog")),
          transformer(models::build_transformer(config, formats(plan), models::Split{.tp = plan.ranks})),
          room(static_cast<double>(gpu.memory_bytes) * kMemoryShare - kActivations -
               static_cast<double>(models::weight_bytes(transformer))),
          exact(transformer, hw::device_of(gpu)),
          prices(exact, static_cast<std::int32_t>(config.layers)) {}
    static models::NumberFormats formats(const Plan& plan) {
      models::NumberFormats out{.dtype = hw::DType::bf16, .cache = {}};
      if (!plan.mistral) return out;
      out.attention = out.ffn = hw::WeightFormat::fp8;
      out.activations = models::ActivationScales::tensor;
      return out;
    }
    models::ModelConfig config;
    models::Transformer transformer;
    double room;
    DeviceIterationModel exact;
    TabulatedIteration prices;
  };

  /// Whether the sum of latencies is not what its own means say.
  static bool contradicts(const MeasuredTable& table, std::size_t row, double requests) {
    const double answer = table.number(row, "output_tokens") / requests;
    const double mean = table.number(row, "mean_ttft_s") + answer * table.number(row, "mean_tpot_s");
    return table.number(row, "sum_latency_s") > kContradicts * requests * mean;
  }

  struct Means {
    double ttft_s = 0, tpot_s = 0;
    std::int64_t served = 0;
  };

  /// All engines of the plan under their shared traffic; means over all requests.
  static Means simulate(Engine& engine, const Plan& plan, std::int64_t requests, double prompt, double output) {
    sim::RandomStream arrivals(1, "apex.arrivals"), lengths(1, "apex.lengths");
    std::vector<ReplayRequest> load;
    double now = 0;
    for (std::int64_t i = 0; i < std::min(requests, kRequests) * plan.engines; ++i) {
      now += arrivals.exponential(1 / plan.rate);
      const std::int64_t in = length(lengths, prompt), answer = length(lengths, output);
      load.push_back({now, in, answer});
    }
    ReplayParts parts;
    parts.model = &engine.prices;
    sim::Faults faults;
    HostRegistry hosts("host");
    register_host_times(hosts);
    sim::Node profile = sim::Node::object();
    if (plan.mistral) profile.set("detokenise_sequence", sim::Node::string(fmt::format("{} s", kDetokenise)));
    const std::unique_ptr<HostTime> host = hosts.prepare("vllm_2024", &profile, {}, faults).make(std::nullopt);
    parts.host = host.get();
    policies::BatchingRegistry batching("batching");
    policies::register_batching_policies(batching);
    sim::Node chunks = sim::Node::object();
    chunks.set("token_budget", sim::Node::integer(kChunk));
    chunks.set("max_sequences", sim::Node::integer(kMostSequences));
    parts.batching = batching.prepare("sarathi", &chunks, {}, faults);
    policies::KvCacheRegistry caches("kvcache");
    policies::register_kv_caches(caches);
    parts.kvcache = caches.prepare("paged", nullptr, {}, faults);
    faults.throw_if_any();
    parts.geometry.bytes_per_token = models::kv_bytes_per_token(engine.transformer);
    const std::int64_t block = kBlockTokens * parts.geometry.bytes_per_token;
    parts.geometry.bytes_available = static_cast<std::int64_t>(std::max(0.0, engine.room)) / block * block;
    parts.limits = {engine.config.max_position_embeddings, static_cast<std::int32_t>(engine.config.layers)};
    parts.replicas = plan.engines;
    Means means;
    const auto times = replay(parts, load);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!times[i]) continue;
      means.ttft_s += times[i]->first_token_s;
      means.tpot_s +=
          (times[i]->last_token_s - times[i]->first_token_s) / static_cast<double>(load[i].output_tokens - 1);
      ++means.served;
    }
    if (means.served > 0) {
      means.ttft_s /= static_cast<double>(means.served);
      means.tpot_s /= static_cast<double>(means.served);
    }
    return means;
  }
};

}  // namespace

std::unique_ptr<TableKind> serving_apex_tables() {
  return std::make_unique<ApexRuns>();
}

}  // namespace orrery::experiments
