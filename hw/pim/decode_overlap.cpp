#include "hw/pim/decode_overlap.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "hw/memory/dram_rate.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "sim/task/graph.hpp"

namespace orrery::hw {
namespace {

constexpr double kTicksPerSecond = 1e12;  // the engine's tick of 1 ps

sim::Duration ticks(double seconds) {
  return {static_cast<std::int64_t>(seconds * kTicksPerSecond + 0.5)};
}

/// How much longer attention takes beside products that use a share of the memory's time.
double slow_down(const AttentionPimParams& pim, double gemm_memory_share) {
  if (!pim.shared_memory || !pim.dual_row_buffer) return 1;
  const DramTiming& t = pim.dram.timing;
  const double met =
      std::min(1.0, static_cast<double>(t.rcd_rd) / static_cast<double>(pim.dram.accesses_per_row() * t.ccd_s));
  return 1 + gemm_memory_share * met * static_cast<double>(t.rcd_rd) / 2 / row_period_clocks(pim);
}

using Tasks = std::vector<sim::TaskId>;

class Step {
 public:
  Step(const AttentionPimParams& pim, const LayerPhases& phases)
      : pim_(pim),
        phases_(phases),
        gpu_(graph_.add_resource({.name = "gpu"})),
        units_(graph_.add_resource({.name = "pim"})),
        memory_(graph_.add_resource({.name = "memory"})) {}

  DecodeStep run(DecodeSchedule schedule) {
    const bool interleaved = schedule == DecodeSchedule::interleaved;
    std::array<Tasks, 2> last;
    for (std::int64_t layer = 0; layer < phases_.layers; ++layer) {
      for (std::size_t part = 0; part < (interleaved ? 2 : 1); ++part) {
        products(last[part], interleaved ? phases_.gemm_half_s : phases_.gemm_s);
        if (schedule == DecodeSchedule::gpu_only) {
          add(last[part], phases_.gpu_attention_s, {gpu_});
          step_.gpu_busy_s += phases_.gpu_attention_s;
        } else if (schedule == DecodeSchedule::split) {
          split_attention(last[part]);
        } else {
          attention(last[part], interleaved);
        }
      }
    }
    sim::Engine engine;
    sim::TaskExecutor(engine, graph_).run();
    step_.time_s = static_cast<double>(engine.now().ticks) / kTicksPerSecond;
    return step_;
  }

 private:
  bool blocked() const { return pim_.shared_memory && !pim_.dual_row_buffer; }

  /// A task after `last`, which it replaces.
  void add(Tasks& last, double seconds, std::initializer_list<sim::Demand> on) {
    sim::TaskSpec spec{.duration = ticks(seconds), .on = on};
    spec.after = last;
    last = {graph_.add(spec)};
  }

  void products(Tasks& last, double seconds) {
    step_.gpu_busy_s += seconds;
    if (!blocked()) return add(last, seconds, {gpu_});
    add(last, seconds * phases_.gemm_memory_share, {gpu_, memory_});
    add(last, seconds * (1 - phases_.gemm_memory_share), {gpu_});
  }

  void attention(Tasks& last, bool interleaved) {
    double seconds = interleaved ? phases_.pim_attention_half_s : phases_.pim_attention_s;
    if (interleaved) seconds *= slow_down(pim_, phases_.gemm_memory_share);
    step_.pim_busy_s += seconds;
    if (blocked()) return add(last, seconds, {units_, memory_});
    add(last, seconds, {units_});
  }

  /// Some sequences on the device, the others on the GPU, which reads their keys at the full rate.
  void split_attention(Tasks& last) {
    Tasks device = last, gpu = last;
    if (phases_.pim_split_s > 0) {
      const double seconds = phases_.pim_split_s * (phases_.gpu_split_s > 0 ? slow_down(pim_, 1) : 1);
      step_.pim_busy_s += seconds;
      blocked() ? add(device, seconds, {units_, memory_}) : add(device, seconds, {units_});
    }
    if (phases_.gpu_split_s > 0) {
      step_.gpu_busy_s += phases_.gpu_split_s;
      blocked() ? add(gpu, phases_.gpu_split_s, {gpu_, memory_}) : add(gpu, phases_.gpu_split_s, {gpu_});
    }
    last = device;
    if (gpu != device) last.insert(last.end(), gpu.begin(), gpu.end());
  }

  const AttentionPimParams& pim_;
  const LayerPhases& phases_;
  sim::TaskGraph graph_;
  sim::ResourceId gpu_, units_, memory_;
  DecodeStep step_;
};

}  // namespace

DecodeStep decode_step(const AttentionPimParams& pim, const LayerPhases& phases, DecodeSchedule schedule) {
  return Step(pim, phases).run(schedule);
}

LayerPhases layer_phases(const AttentionPimParams& pim, const CostModel& host, const DecodeLayer& layer,
                         std::int64_t batch, std::int64_t context, std::int64_t split) {
  double bytes = 0;
  const auto products = [&](std::int64_t rows) {
    if (rows <= 0) return 0.0;
    const std::int64_t element = bytes_of(layer.dtype), wide = layer.heads * layer.head_dim;
    const std::int64_t row = rows * layer.hidden * element, middle = rows * layer.intermediate * element;
    const std::array<Kernel, 9> kernels{{
        {OpClass::norm, layer.dtype, Streaming{row, row, 4 * rows * layer.hidden}},
        {OpClass::qkv_proj, layer.dtype, Gemm{rows, wide + 2 * layer.kv_heads * layer.head_dim, layer.hidden}},
        {OpClass::out_proj, layer.dtype, Gemm{rows, layer.hidden, wide}},
        {OpClass::residual, layer.dtype, Streaming{2 * row, row, rows * layer.hidden}},
        {OpClass::norm, layer.dtype, Streaming{row, row, 4 * rows * layer.hidden}},
        {OpClass::ffn_up, layer.dtype, Gemm{rows, 2 * layer.intermediate, layer.hidden}},
        {OpClass::activation, layer.dtype, Streaming{2 * middle, middle, 4 * rows * layer.intermediate}},
        {OpClass::ffn_down, layer.dtype, Gemm{rows, layer.hidden, layer.intermediate}},
        {OpClass::residual, layer.dtype, Streaming{2 * row, row, rows * layer.hidden}},
    }};
    double time = 0;
    bytes = 0;
    for (const Kernel& kernel : kernels) {
      const Cost cost = host.cost(kernel);
      time += cost.time_s;
      bytes += cost.dram_bytes;
    }
    return time;
  };
  const auto decode = [&](std::int64_t rows) {
    return AttentionDecode{rows, rows * context, layer.heads, layer.kv_heads, layer.head_dim};
  };
  const std::int64_t half = (batch + 1) / 2;
  LayerPhases phases;
  phases.layers = layer.layers;
  phases.gemm_half_s = products(half);
  phases.gemm_s = products(batch);
  phases.gpu_attention_s = host.cost({OpClass::attention_decode, layer.dtype, decode(batch)}).time_s;
  phases.pim_attention_s = attention_time(pim, decode(batch), layer.dtype).time_s;
  phases.pim_attention_half_s = attention_time(pim, decode(half), layer.dtype).time_s;
  split = std::clamp<std::int64_t>(split, 0, batch);
  if (split > 0) phases.pim_split_s = attention_time(pim, decode(split), layer.dtype).time_s;
  if (split < batch)
    phases.gpu_split_s = host.cost({OpClass::attention_decode, layer.dtype, decode(batch - split)}).time_s;
  const double rate = static_cast<double>(pim.stacks) * pim.dram.peak_bandwidth() * streaming_share(pim.dram);
  phases.gemm_memory_share = phases.gemm_s > 0 ? std::min(1.0, bytes / rate / phases.gemm_s) : 0;
  return phases;
}

}  // namespace orrery::hw
