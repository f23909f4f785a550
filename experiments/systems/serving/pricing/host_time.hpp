// What the CPU of a serving engine does for an iteration, and how much of it the devices wait for.
//
// Stages of an iteration of s sequences and t new tokens through l layers:
//   schedule    a + b s        the scheduler, block tables, the queue
//   prepare     a + b s + c t  input tensors and their way to the device
//   launch      a + b l        handing over kernels; as a captured graph (up to graph_tokens tokens) a + b l of its own
//   sample      a + b s        what the host does with the logits' result
//   detokenise  b s            text, stop strings, streams of output
// Kernels run while later ones are launched, so that launching and running never add up: whichever is longer counts.
//   exposed time of an iteration = the stages that are not hidden
//   length = exposed + max(devices, launch + hidden stages)
// `serial` hides nothing: devices idle while the CPU works (vLLM V0, Sarathi-Serve, ORCA). `overlapped` hides every
// stage: the next iteration is prepared while the devices run this one (SGLang's overlap scheduler, vLLM V1's
// asynchronous scheduling). `staged` says which stages are hidden.
// An engine that prepares ahead has decided on the next iteration when this one begins (`decides_ahead`): whoever
// arrives meanwhile is admitted one iteration later. Left out: that slots and blocks of a sequence that ends are also
// free one iteration later; contention of the CPU's threads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "sim/base/params.hpp"
#include "sim/base/registry.hpp"

namespace orrery::experiments {

/// What the host does between iterations: lengthens their price. Must leave price.horizon true.
class HostTime {
 public:
  virtual ~HostTime() = default;
  virtual void apply(const BatchShape& shape, IterationPrice& price) const = 0;
  /// Whether an iteration is decided upon when the one before it begins.
  virtual bool decides_ahead() const { return false; }
};

/// A time for every iteration and one for every sequence in it, nothing of which overlaps with the devices.
class SerialHostTime final : public HostTime {
 public:
  SerialHostTime(std::int64_t iteration_ps, std::int64_t sequence_ps)
      : iteration_ps_(iteration_ps), sequence_ps_(sequence_ps) {}
  void apply(const BatchShape& shape, IterationPrice& price) const override {
    price.time_ps += iteration_ps_ + sequence_ps_ * shape.sequences;
  }

 private:
  std::int64_t iteration_ps_, sequence_ps_;
};

/// Seconds of the stages. All zero: the host takes no time.
struct HostStages {
  double schedule_s = 0, schedule_sequence_s = 0;
  double prepare_s = 0, prepare_sequence_s = 0, prepare_token_s = 0;
  double launch_s = 0, launch_layer_s = 0;
  double graph_launch_s = 0, graph_launch_layer_s = 0;
  std::int64_t graph_tokens = 0;
  bool graph_prompts = true;
  double sample_s = 0, sample_sequence_s = 0;
  double detokenise_sequence_s = 0;
};

/// Which of them run while the devices do.
struct HiddenStages {
  bool schedule = false, prepare = false, sample = false, detokenise = false;
  bool ahead = false;
};

class StagedHostTime final : public HostTime {
 public:
  StagedHostTime(const HostStages& stages, const HiddenStages& hidden);
  void apply(const BatchShape& shape, IterationPrice& price) const override;
  bool decides_ahead() const override { return hidden_.ahead; }

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
  HiddenStages hidden_;
  Line exposed_, covered_;
  std::int64_t launch_ps_, launch_layer_ps_, graph_ps_, graph_layer_ps_, graph_tokens_;
  bool graph_prompts_;
};

/// Another's time, and one for every iteration and every sequence in it that nothing hides.
class AddedHostTime final : public HostTime {
 public:
  AddedHostTime(std::unique_ptr<HostTime> base, std::int64_t iteration_ps, std::int64_t sequence_ps)
      : base_(std::move(base)), added_(iteration_ps, sequence_ps) {}
  void apply(const BatchShape& shape, IterationPrice& price) const override {
    base_->apply(shape, price);
    added_.apply(shape, price);
  }
  bool decides_ahead() const override { return base_->decides_ahead(); }

 private:
  std::unique_ptr<HostTime> base_;
  SerialHostTime added_;
};

using HostRegistry = sim::Registry<HostTime>;

/// `serial`, `overlapped`, `staged`, and the engines' own settings under the engines' names.
void register_host_times(HostRegistry& registry);

}  // namespace orrery::experiments
