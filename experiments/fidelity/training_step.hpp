// Training steps that papers measured, predicted by system `training`: a model, a plan, a machine of one part.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/fidelity/part_shelf.hpp"
#include "experiments/systems/training/reserved.hpp"
#include "experiments/systems/training/run.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "models/builders/builder.hpp"

namespace orrery::experiments {

/// A GPT as Megatron-LM trains it.
struct GptSizes {
  std::int64_t layers = 12, hidden = 768, heads = 12, sequence = 1024, vocabulary = 51200;
  /// Scale, mask and softmax of attention in one kernel; else passes in fp32.
  bool fused_softmax = true;
  /// Attention in one kernel that keeps no scores (then none of the above), and no dropout.
  bool flash = false;
  double dropout = 0.1;  ///< without flash attention
};

/// What is trained: a builder's graph, and the passes that its software amounts to.
struct TrainedGraph {
  std::string builder;
  sim::Node params;  ///< of the builder
  std::int64_t sequence = 1024;
  std::vector<std::pair<std::string, sim::Node>> passes;  ///< names and their parameters, in order
};
TrainedGraph gpt_graph(const GptSizes& sizes);
/// A decoder of the catalog, as PyTorch trains it.
struct DecoderRun {
  std::string config;  ///< "llama-3.1-8b"; empty: the builder's sizes, to be set
  std::int64_t sequence = 8192;
  bool compiled = true;             ///< passes over memory are fused; else each is a kernel
  bool epilogues = false;           ///< into products too
  bool min_cut = false;             ///< by a compiler that also cuts what is kept (torch.compile)
  bool merged = false;              ///< one product for q, k and v, and one for gate and up
  std::string passes = "eager";     ///< of norms and rotations: "library", "compiled" or "eager"
  bool product_an_expert = false;   ///< experts' products by a library of plain ones
  std::int64_t further_tokens = 0;  ///< modules that predict tokens after the next
  bool wide_loss = false;           ///< logits are cast to fp32
  bool eager_loss = false;          ///< the same, and the loss is not compiled
  std::optional<sim::Node> fp8;     ///< parameters of that pass; none: products in 16 bits
};
TrainedGraph decoder_graph(const DecoderRun& run);

/// Numbers in a cell, with `mark` between: "1|2|1". Throws sim::ConfigError for a cell that is none.
std::vector<double> cell_numbers(const std::string& cell, char mark);

struct MeasuredStep {
  TrainedGraph model;
  training::PlanParams plan;
  std::int64_t gpus = 1, global_batch = 1;
  std::string schedule = "1f1b";
  std::vector<std::int64_t> layers;  ///< of each stage; empty: even
  bool edges_are_layers = false;     ///< embedding and head count as one layer each where stages divide them
};

/// What the measuring's machine and software are, beside the part.
struct MeasuredSystem {
  std::int64_t node_gpus = 8;
  std::string nic = "ib-hdr-4x";
  std::int64_t nics = 8;
  training::LaunchHost host;
  training::InSitu in_situ;
  std::optional<hw::LinkPart> host_link;
  std::optional<hw::AttentionLibrary> attention;  ///< none: the part's own
  /// Bytes/s of a large message over the network, one pair of devices at a time, as measured: what each of `nics` has;
  /// none: as the adapter has it.
  std::optional<double> network_message;
};

/// Predicts steps on one part; graphs and costs are kept from one to the next.
class StepPredictor {
 public:
  StepPredictor(const PartShelf& parts, const hw::GpuParams& gpu, const MeasuredSystem& system);
  ~StepPredictor();
  StepPredictor(const StepPredictor&) = delete;
  StepPredictor& operator=(const StepPredictor&) = delete;
  /// Other constants of a run from here on; graphs stay, their prices go.
  void set_run(const training::InSitu& in_situ, const training::LaunchHost& host);
  struct Prediction {
    training::StepCosts costs;
    training::StepRun run;
    training::StepTimes closed;
    std::vector<training::StageMemory> memory;
    std::vector<training::Reserved> reserved;  ///< by stage; empty: not asked for, or not modelled
    /// Bytes of the fullest stage: tensors, and what the allocator reserves for them (0: not modelled).
    std::int64_t most_allocated() const;
    std::int64_t most_reserved() const;
  };
  /// Whether predictions say what PyTorch's allocator reserves.
  void tell_reserved() { tell_reserved_ = true; }
  /// Layers of each stage of a plan that somebody balanced, and the fewest of them that run again for it to fit
  /// (stage_division.hpp). Nothing where no division fits.
  std::optional<training::StageDivision> balanced(const MeasuredStep& step);
  /// Nothing, with `why`, where the plan does not fit the model or the devices.
  std::optional<Prediction> predict(const MeasuredStep& step, std::string& why);

 private:
  struct Trained;
  Trained& trained(const TrainedGraph& model);
  training::TrainingMachine machine_;
  bool tell_reserved_ = false;
  models::BuilderRegistry builders_{"builder"};
  policies::ScheduleRegistry schedules_{"schedule"};
  policies::PassRegistry passes_{"pass"};
  std::map<std::string, std::unique_ptr<Trained>> models_;  ///< by what the graph says
};

}  // namespace orrery::experiments
