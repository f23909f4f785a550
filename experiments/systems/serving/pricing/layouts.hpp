// A replica that can change its parallel layout: an iteration model with a mode for each, and the store in host memory
// through which keys and values go from one to the other.
//
// A layout is TP x PP devices. Pipelines are in throughput form: micro-batches follow each other without a gap, so
//
//   iteration = m (t(batch / g) ceil(L / PP) / L + hop),   g = m = PP with decodes, g = m = 1 for prompts alone
//
// with t the time of all L layers (and edges) on TP devices, all-reduces included, and hop the hand-over of activations
// to the next stage. A sequence in decode is in one stage at a time, so its batch is cut into PP micro-batches that
// follow each other round; prompts are independent, so every batch of them costs one stage's time. Left out: filling
// and draining, stages of unlike work, hand-over beside compute. Switching loads each device's shard of the weights
// from host memory over its own host link. Source: Seesaw (MLSys 2025, section 3: throughput of a configuration;
// section 4.1).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/gpu/gpu.hpp"
#include "models/transformer/hf_config.hpp"
#include "models/transformer/transformer.hpp"
#include "policies/kvcache/tier.hpp"
#include "sim/base/params.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

struct LayoutParams {
  std::int64_t tensor_parallel = 1;
  std::int64_t pipeline_parallel = 1;
  std::int64_t devices() const { return tensor_parallel * pipeline_parallel; }

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("tensor_parallel", &LayoutParams::tensor_parallel, sim::Unit::count,
                                      sim::between(1, 4096), "Devices that share every layer."),
                           sim::field("pipeline_parallel", &LayoutParams::pipeline_parallel, sim::Unit::count,
                                      sim::between(1, 4096), "Stages that the layers are divided into.")};
  }
};

struct LayoutsParams {
  std::vector<LayoutParams> modes;
  double host_bandwidth = 16.0 * (1 << 30);
  double host_memory = 80.0 * (1 << 30);
  bool empty() const { return modes.empty(); }

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("modes", &LayoutsParams::modes,
                   "Layouts that the policy may switch between, the first at the start, all of equally many devices; "
                   "none: replica.tensor_parallel. Without cluster.replicas, as many replicas as devices suffice for."),
        sim::field("host_bandwidth", &LayoutsParams::host_bandwidth, sim::Unit::bytes_per_s, sim::positive(),
                   "Between host memory and one device, each way: weights when layouts change, swapped KV."),
        sim::field("host_memory", &LayoutsParams::host_memory, sim::Unit::bytes, sim::at_least(0),
                   "Host memory for swapped KV, a device; 0: none.")};
  }
};

/// Why a model cannot be laid out so, or nothing.
std::optional<std::string> layout_obstacle(const models::ModelConfig& model, const LayoutParams& layout,
                                           std::int64_t devices);

class LayoutIteration final : public IterationModel {
 public:
  /// One layout.
  struct Mode {
    LayoutParams layout;
    models::Transformer transformer;
    std::unique_ptr<IterationModel> ranks;  ///< all layers on TP devices
  };
  /// `hidden_bytes`: activations of a token between two layers; `host_bandwidth` in bytes/s, of a device.
  LayoutIteration(std::vector<Mode> modes, const hw::LinkParams& link, std::int64_t hidden_bytes,
                  double host_bandwidth);

  void cost(const BatchShape& shape, IterationCost& out) override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override;
  /// Bytes of a device's shard of the weights.
  std::int64_t weight_bytes(std::int32_t mode) const;

 private:
  const Mode& mode(std::int32_t index) const;

  std::vector<Mode> modes_;
  hw::LinkParams link_;
  std::int64_t hidden_bytes_;
  double host_bandwidth_;
};

/// A device's largest shard of the weights, and bytes of KV a token, over all modes.
struct LayoutMemory {
  std::int64_t weight_bytes = 0, kv_bytes_per_token = 0;
};
LayoutMemory layout_memory(const std::vector<LayoutIteration::Mode>& modes);

/// KV in host memory. A copy runs beside the iteration that follows it; what is not over then stalls the next. Both
/// directions have a link of their own.
class HostStore final : public policies::KvTier {
 public:
  /// Bytes are those of one device, which copies its shard over its own link of `bandwidth` bytes/s.
  HostStore(const sim::Engine& engine, std::int64_t bytes_per_token, std::int64_t capacity_tokens, double bandwidth)
      : engine_(engine), bytes_per_token_(bytes_per_token), free_tokens_(capacity_tokens), bandwidth_(bandwidth) {}
  std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                       std::int64_t pieces) override;
  std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override;
  void drop(std::int64_t key) override;

 private:
  /// One direction: when its link is free again, in ps on the clock of the engine.
  struct Way {
    std::int64_t free_at = 0;
    sim::Time asked{-1};
  };
  std::int64_t copy(Way& way, std::int64_t tokens);

  const sim::Engine& engine_;
  std::int64_t bytes_per_token_, free_tokens_;
  double bandwidth_;
  Way out_, in_;
  std::map<std::int64_t, std::int64_t> held_;  // tokens by key
};

}  // namespace orrery::experiments
