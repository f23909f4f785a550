// A whole deployment under a benchmark client: what its steps take, and TTFT and TPOT of one whose prompts have workers
// of their own, in closed form. One pool of workers is simulated (deployment_loop.hpp).
//
// C clients send a request each, wait for its last token and send the next. Disaggregated: prompts of X = T(a prompt)
// on workers of their own, TPOT = D = T(n decodes, mean context), L output tokens,
//   n    = N L TPOT / (TTFT + L TPOT)
//   TTFT = request + queue + X + D
// solved by iteration. Queue: all requests of the first round come at once and wait for half of the prompts of their
// worker, as many in a step as `batched_tokens` allow. They end as far apart as they were let in (A = N X), and by the
// spread of their lengths, which adds up: in round k they come within W = sqrt(A^2 + B^2), B = spread sqrt(k) cycle, a
// cycle at most: an M/D/1 queue of load N X / W, times B / W, since what A keeps apart does not collide.
//
// Kernels are those of models/transformer/lowering.hpp with the engines' fusions: residual sums are part of norms;
// small all-reduces go the engines' own way (each rank reads all others' buffers once).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hw/cost/cost_model.hpp"
#include "models/transformer/lowering.hpp"

namespace orrery::experiments {

/// What an engine adds to what kernels take, s. Named assumptions; docs/explain/serving-models.md says how they were
/// set.
struct EngineOverheads {
  double step_s = 0;      ///< between the steps of the device: scheduling and input preparation that nothing hides
  double sequence_s = 0;  ///< of each sequence in a step: sampling, detokenising, streams of answers
  double request_s = 0;   ///< of a request before its first step and after its first token: HTTP, tokeniser, queues
  double kernel_s = 0;    ///< host time of a kernel in a step with a prompt, which runs outside of any graph
  double latent_s = 0;    ///< further host time there of a layer with latent attention: it gathers and joins parts
};

struct DeploymentParams {
  models::ModelConfig model;
  models::NumberFormats formats;
  models::Split split;
  models::RouterParams router;
  hw::GpuParams gpu;
  EngineOverheads overheads;
  double memory_share = 0.9;           ///< of the device, for weights and cache
  std::int64_t batched_tokens = 8192;  ///< new tokens of a step at most
  double expert_sort_s = 4e-6;         ///< sorting of tokens by the kernels for experts of 4 bits
  double direct_base_s = 5e-6;         ///< of an all-reduce in which ranks read each other's buffers
  double direct_share = 0.7;           ///< of the link's bandwidth that it reaches
};

/// What clients do.
struct ClosedLoop {
  double clients = 1;  ///< per group of attention data parallelism
  double prompt_tokens = 1024, output_tokens = 1024;
  double rounds = 10;   ///< requests of a client in the run; the first meets all others
  double spread = 0.2;  ///< lengths are uniform from 1 - spread to 1 of the longest; those above are the means
};

/// Workers of a disaggregated deployment beside the decoding ones.
struct PrefillPool {
  models::Split split;
  double workers = 1;         ///< each with its own ranks
  double decode_workers = 1;  ///< that share the clients
};

struct LoopLatency {
  double ttft_s = 0, tpot_s = 0;
  double requests = 0;  ///< that the cache holds at a time, per group; clients beyond wait
};

/// Prices steps of one deployment. Not safe across threads.
class DeploymentModel {
 public:
  /// Throws sim::ConfigError where the model cannot be split so.
  explicit DeploymentModel(DeploymentParams params);

  /// Time of a step, s: `decodes` of `context` tokens each, and `prompts` of `prompt_tokens` new tokens each.
  double step_s(double decodes, double context, double prompts, double prompt_tokens) const;
  /// Requests of `tokens` cached tokens each that fit beside the weights, per group; negative: weights alone do not
  /// fit.
  double capacity(double tokens) const;
  const EngineOverheads& overheads() const { return p_.overheads; }
  /// `prefill`: the model of a prefill worker.
  LoopLatency disaggregated(const ClosedLoop& loop, const DeploymentModel& prefill, const PrefillPool& pool) const;

 private:
  /// Of a pass through the model: device time, and kernels that a host would launch.
  struct Price {
    double device_s = 0, kernels = 0;
  };
  void add(const models::Launches& launches, double times, Price& sum) const;
  double collective_s(const models::Communication& c) const;
  double prompt_s(double decodes, double context, double tokens) const;
  double burst_s(double clients, double tokens) const;
  /// Mean wait for the prompts of `others`, over the rounds of a run.
  static double queue_s(const ClosedLoop& loop, double others, double prompt_s, double cycle_s, double burst_s);

  DeploymentParams p_;
  models::Transformer t_;
  std::unique_ptr<hw::CostModel> cost_;
};

}  // namespace orrery::experiments
