#include "experiments/systems/pim/system.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/base/platform_choice.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/pim/decode_overlap.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace pim {
namespace {

using sim::Node;

struct Part {
  std::string part;
  Node override_;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        names_part(sim::required(
            sim::field("part", &Part::part, Unit::reference, sim::any_value(), "Part from the catalog."))),
        sim::annotated(
            sim::field("override", &Part::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
    };
  }
};

struct MachineParams {
  Part device, pim;
  hw::CostModelRegistry::Choice cost;
  double memory_margin = 0.1;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        sim::required(
            sim::field("device", &M::device,
                       "Device, such as a GPU, that computes products and the attention that is not moved to memory.")),
        sim::required(sim::field("pim", &M::pim, "Memory that computes attention, a part of kind attention_pim.")),
        sim::choice("cost", &M::cost, "by_kind", "Cost model of the device."),
        sim::field("memory_margin", &M::memory_margin, sim::Unit::ratio, sim::between(0, 0.99),
                   "Share of memory that weights and KV may not use."),
    };
  }
};

struct ModelParams {
  std::string config;
  hw::DType dtype = hw::DType::fp16;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        names_model(sim::required(sim::field("config", &ModelParams::config, Unit::reference, sim::any_value(),
                                             "Dense model: a config.json, or \"catalog:NAME\"."))),
        sim::field("dtype", &ModelParams::dtype, "Number format of weights, activations, keys and values."),
    };
  }
};

struct WorkloadParams {
  std::int64_t batch = 32, context = 1024;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::field("batch", &W::batch, Unit::count, sim::between(1, 1 << 20), "Sequences in the decode batch."),
        sim::field("context", &W::context, Unit::tokens, sim::between(1, 1 << 24),
                   "Context length that each sequence attends to."),
    };
  }
};

struct PolicyParams {
  hw::DecodeSchedule schedule = hw::DecodeSchedule::serial;
  double share = 1;
  static constexpr auto fields() {
    using P = PolicyParams;
    return sim::FieldTable{
        sim::field(
            "schedule", &P::schedule,
            "Where attention is computed. `gpu_only`: on the device alone. `serial`: all in the memory, after the "
            "products. `split`: `share` of the sequences in the memory. `interleaved`: two half batches take turns."),
        sim::field("share", &P::share, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the sequences whose attention is computed in the memory (schedule `split`)."),
    };
  }
};

struct Sections {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PolicyParams policies;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "The device, and the memory beside it.")),
                           sim::required(sim::section("model", &S::model, "The model that decodes.")),
                           sim::section("workload", &S::workload, "Batch and context."),
                           sim::section("policies", &S::policies, "Where attention is computed, and when.")};
  }
};

class PimExperiment final : public ConfigExperiment {
 public:
  PimExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    config_ = read_sections<Sections>(root, *systems.registries(), faults);
    const Node machine = section(root, "machine"), model = section(root, "model");
    if (!faults.empty()) return;
    read_device(machine, faults);
    Node entry = read_part_entry(*machine.find("pim"), config_.machine.pim.part, inputs_, faults);
    if (entry.is_object()) {
      if (config_.machine.pim.override_.is_object()) sim::merge_over(entry, config_.machine.pim.override_);
      pim_ = hw::parse_part<hw::AttentionPimParams>(entry, faults).part;
    }
    read_model(model, faults);
    resolved_ = resolved_config("pim", config_);
  }

  Outcome run(const RunSink&) const override {
    const Bytes bytes = needed();
    if (const auto reason = shortage(bytes)) return Outcome::infeasible(*reason);
    Outcome outcome;
    const hw::LayerPhases phases =
        hw::layer_phases(pim_, *device_->model, layer_, config_.workload.batch, config_.workload.context, on_device());
    const hw::DecodeStep step = hw::decode_step(pim_, phases, config_.policies.schedule);
    const hw::DecodeStep alone = hw::decode_step(pim_, phases, hw::DecodeSchedule::gpu_only);
    Node& node = outcome.summary = Node::object();
    node.set("status", Node::string("ok"));
    node.set("step_s", Node::real(step.time_s));
    node.set("gpu_only_s", Node::real(alone.time_s));
    node.set("gain", ratio(alone.time_s, step.time_s));
    Node& throughput = node.set("throughput", Node::object());
    throughput.set("output_tokens_per_s", ratio(static_cast<double>(config_.workload.batch), step.time_s));
    Node& busy = node.set("utilisation", Node::object());
    busy.set("device", ratio(step.gpu_busy_s, step.time_s));
    busy.set("pim", ratio(step.pim_busy_s, step.time_s));
    Node& memory = node.set("memory_bytes", Node::object());
    memory.set("weights", Node::real(bytes.weights));
    memory.set("kv_pim", Node::real(bytes.kv_pim));
    memory.set("kv_device", Node::real(bytes.kv_device));
    node.set("on_pim", Node::integer(on_device()));
    return outcome;
  }

 private:
  struct Bytes {
    double weights = 0, kv_pim = 0, kv_device = 0;
  };

  void read_device(const Node& machine, sim::Faults& faults) {
    const Node entry = read_part_entry(*machine.find("device"), config_.machine.device.part, inputs_, faults);
    if (!entry.is_object() || !config_.machine.cost.make) return;
    const auto part = hw::parse_computing_part(entry, config_.machine.device.override_, faults);
    if (part)
      device_ = hw::make_device(part->name, part->part, config_.machine.cost, place_of(machine, "cost"), faults);
  }

  void read_model(const Node& node, sim::Faults& faults) {
    const sim::Origin where = place_of(node, "config");
    const std::filesystem::path file = model_file(config_.model.config, where, faults);
    if (file.empty()) return;
    inputs_.push_back(file);
    const models::ModelConfig model = models::load_model(file.string(), {}, where);
    if (model.experts.count > 0 || model.latent.kv_rank > 0 || model.linear.interval > 0)
      faults.add(where, "expected a dense model with plain attention");
    layer_ = {.hidden = model.hidden_size,
              .intermediate = model.intermediate_size,
              .heads = model.heads,
              .kv_heads = model.kv_heads,
              .head_dim = model.head_dim,
              .layers = model.layers,
              .dtype = config_.model.dtype};
    weights_ = static_cast<double>(models::parameters(model) * hw::bytes_of(config_.model.dtype));
  }

  std::int64_t on_device() const {
    switch (config_.policies.schedule) {
      case hw::DecodeSchedule::gpu_only:
        return 0;
      case hw::DecodeSchedule::split:
        return std::llround(config_.policies.share * static_cast<double>(config_.workload.batch));
      case hw::DecodeSchedule::serial:
      case hw::DecodeSchedule::interleaved:
        return config_.workload.batch;
    }
    return 0;
  }

  Bytes needed() const {
    const double sequence = static_cast<double>(config_.workload.context * 2 * layer_.kv_heads * layer_.head_dim *
                                                layer_.layers * hw::bytes_of(layer_.dtype));
    const auto here = static_cast<double>(on_device());
    return {.weights = weights_,
            .kv_pim = sequence * here,
            .kv_device = sequence * (static_cast<double>(config_.workload.batch) - here)};
  }

  /// Why it does not fit; nothing where it does.
  std::optional<std::string> shortage(const Bytes& bytes) const {
    if (const auto why = device_->alone_obstacle()) return why;
    const double keep = 1 - config_.machine.memory_margin;
    const double stacks = static_cast<double>(pim_.stacks) * pim_.dram.capacity_bytes();
    const auto short_of = [&](const char* what, double need, double have) -> std::optional<std::string> {
      if (need <= keep * have) return std::nullopt;
      return fmt::format("{} need {}, of {} a share of {} is kept free", what, sim::humanise(need, sim::Unit::bytes),
                         sim::humanise(have, sim::Unit::bytes), config_.machine.memory_margin);
    };
    if (pim_.shared_memory)
      return short_of("weights and keys in the stacks", bytes.weights + bytes.kv_pim + bytes.kv_device, stacks);
    if (const auto reason = short_of("keys in the stacks", bytes.kv_pim, stacks)) return reason;
    return short_of("weights and keys of the host", bytes.weights + bytes.kv_device,
                    static_cast<double>(device_->memory_bytes));
  }

  Sections config_;
  hw::AttentionPimParams pim_;
  hw::DecodeLayer layer_;
  std::optional<hw::Device> device_;
  double weights_ = 0;
};

}  // namespace
}  // namespace pim

System pim_system() {
  return {.name = "pim",
          .doc = "One decode step on a device, with attention computed in memory beside it.",
          .fields = describe_sections<pim::Sections>,
          .read = read_as<pim::PimExperiment>};
}

}  // namespace orrery::experiments
