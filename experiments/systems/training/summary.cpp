#include "experiments/systems/training/summary.hpp"

#include <algorithm>

namespace orrery::experiments::training {
namespace {

using sim::Node;

struct Source {
  const TrainingConfig& config;
  const TrainingResult& result;
  const StepTimes& times() const { return result.run.times; }
  double tokens() const {
    return static_cast<double>(result.global_batch) * static_cast<double>(config.params.workload.sequence);
  }
  double seconds_for_tokens() const { return config.params.workload.tokens / tokens() * times().time_s; }
};

struct StageSource {
  const Source& of;
  std::size_t stage;
  const StageCosts& costs() const { return of.result.costs.stages[stage]; }
  const StageMemory& memory() const { return of.result.memory[stage]; }
};

FigureValue bytes(std::int64_t value) {
  return value;
}

const FigureTable<StageSource>& stage_table() {
  using S = StageSource;
  static const FigureTable<S> table{
      {"layers", "layers", "Layers of this stage.", [](const S& s) { return s.of.result.layers[s.stage]; }},
      {"{forward_s,backward_s}", "s",
       "Forward and backward time of a micro-batch through all chunks of the stage; backward includes recomputation.",
       [](const S& s) { return s.costs().forward_s(); }, [](const S& s) { return s.costs().backward_s(); }},
      {"{busy_s,gradients_s,optimizer_s}", "s",
       "Time in passes; gradient reduction over data-parallel copies, if it ran alone; the optimizer step.",
       [](const S& s) { return s.of.result.run.busy_s[s.stage]; }, [](const S& s) { return s.costs().gradients_s; },
       [](const S& s) { return s.costs().optimizer_s + s.costs().gathers_s; }},
      {"parameters", "count", "Parameters that a rank of the stage holds.",
       [](const S& s) { return s.costs().parameters; }},
      {"memory_bytes.{peak,weights,gradients,optimizer,activations,working,buffers}", "B",
       "Memory of a rank at its fullest: total, weights, gradients, optimizer states, activations kept between passes, "
       "and working memory of the largest pass. `buffers`: gradient buckets, what is taken before any tensor, and "
       "what is on its way to host memory or back.",
       [](const S& s) { return bytes(s.memory().total()); }, [](const S& s) { return bytes(s.memory().weights); },
       [](const S& s) { return bytes(s.memory().gradients); }, [](const S& s) { return bytes(s.memory().optimizer); },
       [](const S& s) { return bytes(s.memory().activations); }, [](const S& s) { return bytes(s.memory().working); },
       [](const S& s) { return bytes(s.memory().buffers); }},
      {"memory_bytes.reserved", "B",
       "What the allocator (machine.allocator) reserves for a rank; absent without one and where that is not modelled.",
       [](const S& s) -> FigureValue {
         const auto& all = s.of.result.reserved;
         if (s.stage >= all.size() || !all[s.stage]) return std::nullopt;
         return all[s.stage]->reserved;
       }},
      {"host_bytes.{weights,gradients,optimizer,activations}", "B",
       "What of a rank lies in host memory at its most: weights, gradients, optimizer states, activations.",
       [](const S& s) { return bytes(s.costs().host_weight_bytes); },
       [](const S& s) { return bytes(s.costs().host_gradient_bytes); },
       [](const S& s) { return bytes(s.costs().host_state_bytes); },
       [](const S& s) { return bytes(s.of.result.run.peak_host_bytes[s.stage]); }},
      {"host_waits_s", "s",
       "Time of a step in which passes of the stage wait for what is on its way to host memory or back.",
       [](const S& s) {
         double waits = 0;
         for (const ChunkCosts& chunk : s.costs().chunks) waits += chunk.host_waits_s();
         return waits * static_cast<double>(s.of.result.plan.micro_batches);
       }},
      {"interference_s", "s",
       "Time of a step by which the stage's passes are longer because work runs at once: kernels, copies to and from "
       "the host, gathers and sums (machine.interference).",
       [](const S& s) {
         double longer = 0;
         for (const ChunkCosts& chunk : s.costs().chunks) longer += chunk.interference_s();
         return longer * static_cast<double>(s.of.result.plan.micro_batches);
       }},
      {"memory_moment", "",
       "When a rank of the stage is fullest: `passes`, when most activations are kept; `last_gradients`, when the "
       "backward pass ends; `update`, during the optimizer step.",
       [](const S& s) { return std::string(sim::to_string(s.memory().moment)); }}};
  return table;
}

const FigureTable<Source>& step_table() {
  using S = Source;
  static const FigureTable<S> table{
      {"iteration_s", "s", "Time of a training step.", [](const S& s) { return s.times().time_s; }},
      {"closed_form_s", "s", "Time of a training step in closed form, as used by searches.",
       [](const S& s) { return s.result.closed.time_s; }},
      {"breakdown_s.{compute,recompute,collectives,bubble,gradients,optimizer}", "s",
       "Time of the busiest stage by cause, adding up to iteration_s. `compute`: kernels, or the host where they wait "
       "for it. `recompute`: forward passes run again. `collectives`: within a layer (tensor, context and expert "
       "parallelism). `bubble`: waiting for other stages. `gradients`: gradient reduction that nothing hides. "
       "`optimizer`: the optimizer step.",
       [](const S& s) { return s.times().compute_s; }, [](const S& s) { return s.times().recompute_s; },
       [](const S& s) { return s.times().collective_s; }, [](const S& s) { return s.times().bubble_s; },
       [](const S& s) { return s.times().gradients_s; }, [](const S& s) { return s.times().optimizer_s; }},
      {"tokens_per_s", "1/s", "Tokens of the whole batch per second.",
       [](const S& s) { return s.tokens() / s.times().time_s; }},
      {"utilisation.{mfu,bubble}", "ratio",
       "MFU: FLOPs of the model's products, without recomputation, over the devices' peak in their number format. "
       "Bubble: share of the step spent waiting for other stages.",
       [](const S& s) {
         const double peak = peak_flops(s.config.machine, product_type(s.config.model.forward));
         return s.result.model_flops / (s.times().time_s * peak);
       },
       [](const S& s) { return s.times().bubble_s / s.times().time_s; }},
      {"model_flops", "", "FLOPs of a step, without recomputation.", [](const S& s) { return s.result.model_flops; }},
      {"plan.{tensor_parallel,context_parallel,pipeline_parallel,data_parallel,expert_parallel,micro_batches,micro_"
       "batch}",
       "count", "Plan as it was run.", [](const S& s) { return s.result.plan.tensor; },
       [](const S& s) { return s.result.plan.context; }, [](const S& s) { return s.result.plan.pipeline; },
       [](const S& s) { return s.result.plan.data; }, [](const S& s) { return s.result.plan.experts; },
       [](const S& s) { return s.result.plan.micro_batches; }, [](const S& s) { return s.result.plan.micro_batch; }},
      {"experts.busiest", "ratio",
       "Rows of the busiest expert-parallel rank over the mean of the ranks, with workload.router.",
       [](const S& s) -> FigureValue {
         if (!s.result.busiest) return std::nullopt;
         return *s.result.busiest;
       }},
      {"memory_bytes.{peak,available}", "B", "Memory of the fullest rank; memory of a device.",
       [](const S& s) { return s.result.memory[s.result.fullest].total(); },
       [](const S& s) { return s.result.available_bytes; }},
      {"memory_bytes.reserved", "B",
       "What the allocator (machine.allocator) reserves for the rank for which it reserves most.",
       [](const S& s) -> FigureValue {
         std::int64_t most = 0;
         for (const auto& stage : s.result.reserved)
           if (stage) most = std::max(most, stage->reserved);
         if (most == 0) return std::nullopt;
         return most;
       }},
      {"host_bytes.{used,available}", "B",
       "What the ranks of the fullest node keep in host memory; machine.host_memory, if that is given.",
       [](const S& s) { return s.result.host_bytes; },
       [](const S& s) -> FigureValue {
         if (!s.config.machine.host_memory) return std::nullopt;
         return *s.config.machine.host_memory;
       }},
      {"energy_j.{total,idle}", "J", "Energy of a step over all devices; the idle part of it.",
       [](const S& s) { return s.result.energy_j; }, [](const S& s) { return s.result.idle_j; }},
      {"whole.{days,device_hours}", "", "Time and device hours to train on workload.tokens, if that is given.",
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0) return std::nullopt;
         return s.seconds_for_tokens() / 86400;
       },
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0) return std::nullopt;
         return s.seconds_for_tokens() / 3600 * static_cast<double>(s.config.machine.devices);
       }},
      {"whole.energy_j", "J", "Energy of all devices to train on workload.tokens.",
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0) return std::nullopt;
         return s.config.params.workload.tokens / s.tokens() * s.result.energy_j;
       }},
      {"whole.cost", "", "Cost of these device hours at workload.price.",
       [](const S& s) -> FigureValue {
         const WorkloadParams& w = s.config.params.workload;
         if (w.tokens <= 0 || w.price_per_hour <= 0) return std::nullopt;
         return s.seconds_for_tokens() / 3600 * static_cast<double>(s.config.machine.devices) * w.price_per_hour;
       }},
      {"stages.*", stage_table().infos(),
       [](const S& s) {
         Node list = Node::array();
         for (std::size_t i = 0; i < s.result.costs.stages.size(); ++i) list.push(stage_table().written({s, i}));
         return list;
       }},
      {"events", "count", "Events of the simulation engine.",
       [](const S& s) { return static_cast<std::int64_t>(s.result.run.events); }}};
  return table;
}

const FigureTable<Source>& status_table() {
  using S = Source;
  static const FigureTable<S> table{{"status", "", "`ok` or `infeasible`.", [](const S& s) { return s.result.status; }},
                                    {"reason", "", "Why the plan is infeasible.", [](const S& s) -> FigureValue {
                                       if (s.result.reason.empty()) return std::nullopt;
                                       return s.result.reason;
                                     }}};
  return table;
}

}  // namespace

Node summarise(const TrainingConfig& config, const TrainingResult& result) {
  const Source source{config, result};
  Node summary = status_table().written(source);
  if (!result.timed) return summary;
  const Node step = step_table().written(source);
  for (const auto& [name, value] : step.members()) summary.set(name, value);
  return summary;
}

std::vector<FigureInfo> training_figures() {
  std::vector<FigureInfo> all = status_table().infos();
  for (FigureInfo& info : step_table().infos()) all.push_back(std::move(info));
  return all;
}

}  // namespace orrery::experiments::training
