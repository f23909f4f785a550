// Training steps that papers measured, predicted by system `training`: a GPT by its sizes, a plan, a machine of one
// part.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "experiments/fidelity/part_shelf.hpp"
#include "experiments/systems/training/iteration.hpp"
#include "models/builders/builder.hpp"

namespace orrery::experiments {

/// A GPT as Megatron-LM trains it.
struct GptSizes {
  std::int64_t layers = 12, hidden = 768, heads = 12, sequence = 1024, vocabulary = 51200;
  /// Scale, mask and softmax of attention in one kernel; else passes in fp32.
  bool fused_softmax = true;
  /// Attention in one kernel that keeps no scores (then none of the above), and no dropout.
  bool flash = false;
  friend auto operator<=>(const GptSizes&, const GptSizes&) = default;
};

struct MeasuredStep {
  GptSizes model;
  training::PlanParams plan;
  std::int64_t gpus = 1, global_batch = 1;
  std::string schedule = "1f1b";
};

/// What the measuring's machine and software are, beside the part.
struct MeasuredSystem {
  std::int64_t node_gpus = 8;
  std::string nic = "ib-hdr-4x";
  std::int64_t nics = 8;
  training::LaunchHost host;
  training::InSitu in_situ;
};

/// Predicts steps on one part; graphs and costs are kept from one to the next.
class StepPredictor {
 public:
  StepPredictor(const PartShelf& parts, const hw::GpuParams& gpu, const MeasuredSystem& system);
  ~StepPredictor();
  StepPredictor(const StepPredictor&) = delete;
  StepPredictor& operator=(const StepPredictor&) = delete;
  struct Prediction {
    training::StepCosts costs;
    training::StepRun run;
    training::StepTimes closed;
  };
  /// Nothing, with `why`, where the plan does not fit the model or the devices.
  std::optional<Prediction> predict(const MeasuredStep& step, std::string& why);

 private:
  struct Trained;
  Trained& trained(const GptSizes& model);
  training::TrainingMachine machine_;
  models::BuilderRegistry builders_{"builder"};
  policies::ScheduleRegistry schedules_{"schedule"};
  policies::PassRegistry passes_{"pass"};
  std::map<GptSizes, std::unique_ptr<Trained>> models_;
};

}  // namespace orrery::experiments
