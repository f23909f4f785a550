// What the CPU of a serving engine does for an iteration, and how much of it the devices wait for.
//
// Stages of an iteration of s sequences and t new tokens through l layers and k kernels:
//   schedule    a + b s        the scheduler, block tables, the queue
//   prepare     a + b s + c t  input tensors and their way to the device
//   launch      a + b l + c k  handing over kernels; as a captured graph (up to graph_tokens tokens) a + b l of its own
//   sample      a + b s        what the host does with the logits' result
//   detokenise  b s            text, stop strings, streams of output
// And before any iteration, beside all others, `request`: HTTP, chat template, tokeniser.
// Where the machine names a platform (hw/coupling), launches are counted in place of the times above: a kernel costs
// the framework's time of an operator and a call of the driver, a captured graph one call, graphs in pieces (those with
// a graph_launch_layer) one for each layer and its attention as a kernel; kernels last as the platform's do, in a
// stream or as nodes of a graph, collectives like them. The other stages take the platform's core as much longer as it
// is slower. Kernels run while later ones are launched, so that launching and running never add up: whichever is longer
// counts.
//   exposed time of an iteration = the stages that are not hidden
//   length = exposed + max(devices, launch + hidden stages)
// Models that draft are launched likewise, pass by pass. In a pipeline the stages launch for themselves: a stage lasts
// no shorter than its own launches, and what the scheduler does comes before the first one.
// `serial` hides nothing: devices idle while the CPU works (vLLM V0, Sarathi-Serve, ORCA). `overlapped` hides every
// stage: the next iteration is prepared while the devices run this one (SGLang's overlap scheduler, vLLM V1's
// asynchronous scheduling). `staged` says which stages are hidden.
// An engine that prepares ahead has decided on the next iteration when this one begins (`decides_ahead`): whoever
// arrives meanwhile is admitted one iteration later. Left out: that slots and blocks of a sequence that ends are also
// free one iteration later; contention of the CPU's threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "sim/base/params.hpp"
#include "sim/base/registry.hpp"

namespace orrery::experiments {

/// What the host does for an iteration, or for the layers of it that a stage of a pipeline has, ps.
struct HostWork {
  std::int64_t exposed_ps = 0;  ///< stages that the devices wait for
  std::int64_t hidden_ps = 0;   ///< stages that run beside them
  std::int64_t launch_ps = 0;   ///< handing over what the devices run, beside them too
  std::int64_t calls = 0;       ///< that hand it over: one a kernel, or one a captured graph
  std::int64_t latency_ps = 0;  ///< from a call to the begin of what it launches on an idle device
  std::int64_t longer_ps = 0;   ///< that the devices take than the model says
  std::int64_t beside_ps() const { return hidden_ps + launch_ps; }
};

/// The price of an iteration for which the host does that. Leaves price.horizon true. Sets price.host.
void lengthen(const HostWork& work, IterationPrice& price);

class HostTime {
 public:
  virtual ~HostTime() = default;
  /// For a batch, of which `price` tells what devices are given (launches, draft_passes, draft_layers).
  virtual HostWork work(const BatchShape& shape, const IterationPrice& price) const = 0;
  /// Whether an iteration is decided upon when the one before it begins.
  virtual bool decides_ahead() const { return false; }
  /// What a request takes before the scheduler sees it, s.
  virtual double request_s() const { return 0; }
  /// Lengthens the price of an iteration that no pipeline cuts.
  void apply(const BatchShape& shape, IterationPrice& price) const { lengthen(work(shape, price), price); }
};

/// What a platform's launches cost. All but `core_speed` in s.
struct LaunchCosts {
  double kernel_s = 0;      ///< of the host: an operator of one kernel
  double graph_call_s = 0;  ///< of the host: a captured graph
  double latency_s = 0;     ///< from a call to its kernel on an idle device
  double node_s = 0;        ///< that a kernel lasts longer as a node of a graph than in a stream
  double core_speed = 1;    ///< of the core that runs the engine; HostStages are of one of speed 1
};

/// Seconds of the stages. All zero: the host takes no time.
struct HostStages {
  double schedule_s = 0, schedule_sequence_s = 0;
  double prepare_s = 0, prepare_sequence_s = 0, prepare_token_s = 0;
  double launch_s = 0, launch_layer_s = 0, launch_kernel_s = 0;
  double graph_launch_s = 0, graph_launch_layer_s = 0;
  std::int64_t graph_tokens = 0;
  bool graph_prompts = true;
  double sample_s = 0, sample_sequence_s = 0;
  double detokenise_sequence_s = 0;
  double request_s = 0;
};

/// TensorRT-LLM 1.0 to 1.2 (PyTorch backend): decodes are captured graphs (scripts of InferenceMAX: up to 1,024
/// sequences), iterations with prompts are launched kernel by kernel. A kernel, a sequence and a request (its overlap
/// scheduler leaves nothing else between iterations): set on its rows of Llama-3.1-70B in serving/silicon_ttft_tpot.csv
/// (B200 and H200, 216 rows), judged on its others (docs/explain/serving-models.md).
inline constexpr HostStages kTensorRtLlmStages{.launch_kernel_s = 30e-6,
                                               .graph_tokens = 1024,
                                               .graph_prompts = false,
                                               .sample_sequence_s = 2e-6,
                                               .request_s = 22e-3};

/// Which of them run while the devices do.
struct HiddenStages {
  bool schedule = false, prepare = false, sample = false, detokenise = false;
  bool ahead = false;
};

class StagedHostTime final : public HostTime {
 public:
  /// `counted`: of the machine's platform; none: launches cost what the stages say.
  StagedHostTime(const HostStages& stages, const HiddenStages& hidden,
                 const std::optional<LaunchCosts>& counted = std::nullopt);
  HostWork work(const BatchShape& shape, const IterationPrice& price) const override;
  bool decides_ahead() const override { return hidden_.ahead; }
  double request_s() const override { return request_s_; }

 private:
  /// Picoseconds: a + b sequences + c tokens.
  struct Line {
    std::int64_t fixed = 0, sequence = 0, token = 0;
    void add(const Line& other) {
      fixed += other.fixed;
      sequence += other.sequence;
      token += other.token;
    }
  };
  /// Of handing over so many passes, layers and launches.
  struct Launching {
    std::int64_t pass = 0, layer = 0, launch = 0;
    std::int64_t calls_a_pass = 0, calls_a_layer = 0, calls_a_launch = 0;
    std::int64_t longer = 0;  ///< that devices take for each launch
  };
  HiddenStages hidden_;
  Line exposed_, covered_;
  Launching stream_, graph_;
  std::int64_t graph_tokens_, latency_ps_ = 0;
  double request_s_;
  bool graph_prompts_;
};

/// Another's work, and a time for every iteration and every sequence in it that the devices wait for.
class AddedHostTime final : public HostTime {
 public:
  AddedHostTime(std::unique_ptr<HostTime> base, std::int64_t iteration_ps, std::int64_t sequence_ps)
      : base_(std::move(base)), iteration_ps_(iteration_ps), sequence_ps_(sequence_ps) {}
  HostWork work(const BatchShape& shape, const IterationPrice& price) const override {
    HostWork work = base_->work(shape, price);
    work.exposed_ps += iteration_ps_ + sequence_ps_ * shape.sequences;
    return work;
  }
  bool decides_ahead() const override { return base_->decides_ahead(); }
  double request_s() const override { return base_->request_s(); }

 private:
  std::unique_ptr<HostTime> base_;
  std::int64_t iteration_ps_, sequence_ps_;
};

/// Profiles of engines, made for what the machine's platform makes launches cost (none: it names none).
using HostRegistry = sim::Registry<HostTime, const std::optional<LaunchCosts>&>;

/// `serial`, `overlapped`, `staged`, and the engines' own settings under the engines' names.
void register_host_times(HostRegistry& registry);

}  // namespace orrery::experiments
