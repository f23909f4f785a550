// The config of reinforcement learning from feedback: models, calls of them in an iteration, where each call runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/search/driver.hpp"
#include "experiments/systems/training/config.hpp"
#include "models/transformer/hf_config.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments::feedback {

/// What a call does with a batch: writes its answers; scores them in a forward pass; trains on them.
enum class CallKind : std::uint8_t { generate, infer, train };
constexpr auto enum_names(CallKind) {
  using enum CallKind;
  return sim::names<CallKind>({{"generate", generate}, {"infer", infer}, {"train", train}});
}

struct ModelParams {
  std::string name, config;
  bool value_head = false, in_host = false;
  static constexpr auto fields() {
    using sim::Unit;
    using M = ModelParams;
    return sim::FieldTable{sim::required(sim::field("name", &M::name, "Name by which calls refer to the model.")),
                           sim::required(sim::field("config", &M::config, Unit::path, sim::any_value(),
                                                    "Model from the catalog (catalog:NAME), or a config.json.")),
                           sim::field("value_head", &M::value_head,
                                      "Whether the model gives one number per token, like critics and reward models, "
                                      "in place of the vocabulary's logits."),
                           sim::field("in_host", &M::in_host,
                                      "Whether weights of a model that nobody trains lie in host memory, and come over "
                                      "machine.host_link before each of its calls.")};
  }
};

/// Devices that follow one another, and how they share a call: data x pipeline x tensor of them.
struct LayoutParams {
  std::int64_t first = 0, data = 1, pipeline = 1, tensor = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using L = LayoutParams;
    constexpr sim::Range kRanks = sim::between(1, 1 << 14);
    return sim::FieldTable{
        sim::field("first", &L::first, Unit::count, sim::between(0, 1 << 20), "Number of the first device."),
        sim::field("data", &L::data, Unit::count, kRanks, "Data-parallel copies that divide the sequences."),
        sim::field("pipeline", &L::pipeline, Unit::count, kRanks, "Pipeline stages that divide the layers."),
        sim::field("tensor", &L::tensor, Unit::count, kRanks, "Tensor-parallel ranks that split each layer.")};
  }
};

struct CallParams {
  std::string name, model;
  CallKind kind = CallKind::infer;
  std::vector<std::string> after;
  std::optional<LayoutParams> layout;
  static constexpr auto fields() {
    using C = CallParams;
    return sim::FieldTable{
        sim::required(sim::field("name", &C::name, "Name by which other calls refer to this one.")),
        sim::required(sim::field("model", &C::model, "Name of a model of section `models`.")),
        sim::required(sim::field("kind", &C::kind, "Whether the call generates answers, infers on them, or trains.")),
        sim::field("after", &C::after, "Calls of the same iteration whose results this one reads."),
        sim::field("layout", &C::layout, "Layout of the call, for plans.choose `stated`.")};
  }
};

struct WorkloadParams {
  std::int64_t prompt = 128, generated = 128, sequences = 512, minibatches = 4, lag = 0;
  std::optional<traces::LengthRegistry::Choice> answers;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    constexpr sim::Range kTokens = sim::between(1, 1 << 20);
    return sim::FieldTable{
        sim::field("prompt", &W::prompt, Unit::tokens, kTokens, "Prompt tokens of a sequence."),
        sim::field("generated", &W::generated, Unit::tokens, kTokens,
                   "Generated tokens of a sequence; the most, if answers are drawn."),
        sim::choice("answers", &W::answers, "geometric",
                    "Distribution of answer lengths: its draws for outputs, at most `generated`, the same in every "
                    "iteration. null: all answers have that length."),
        sim::field("sequences", &W::sequences, Unit::count, sim::between(1, 1 << 20), "Sequences of an iteration."),
        sim::field("minibatches", &W::minibatches, Unit::count, sim::between(1, 1 << 12),
                   "Mini-batches of an iteration; each is an optimizer step."),
        sim::field("lag", &W::lag, Unit::count, sim::between(0, 64),
                   "Iterations by which the weights of a generation may be out of date (PipelineRL), so that it does "
                   "not wait for their training. 0: generation and training take turns.")};
  }
};

/// stated: each call's layout. one_plan: all devices for every call, in one division: tensor parallelism in a node, as
/// few stages as memory allows, copies for the rest. fastest_one_plan: the division that is fastest when all calls have
/// it. searched: a driver moves one call at a time. exhaustive: all plans.
enum class PlanChoice : std::uint8_t { stated, one_plan, fastest_one_plan, searched, exhaustive };
constexpr auto enum_names(PlanChoice) {
  using enum PlanChoice;
  return sim::names<PlanChoice>({{"stated", stated},
                                 {"one_plan", one_plan},
                                 {"fastest_one_plan", fastest_one_plan},
                                 {"searched", searched},
                                 {"exhaustive", exhaustive}});
}

struct PlansParams {
  PlanChoice choose = PlanChoice::searched;
  search::DriverRegistry::Choice driver;
  std::int64_t budget = 20'000, options = 1000;
  static constexpr auto fields() {
    using sim::Unit;
    using P = PlansParams;
    return sim::FieldTable{sim::field("choose", &P::choose,
                                      "What decides where calls run: stated layouts; one division of all devices for "
                                      "every call, or the fastest such; a search; all plans."),
                           sim::choice("driver", &P::driver, "annealing",
                                       "Driver of the search, which has one parameter per call: its layout."),
                           sim::field("budget", &P::budget, Unit::count, sim::between(1, 10'000'000),
                                      "Number of plans that the search evaluates."),
                           sim::field("options", &P::options, Unit::count, sim::between(1, 100'000),
                                      "Number of layouts per call that are searched over, the fastest ones.")};
  }
};

struct EngineParams {
  bool captured = true;
  double generation_memory = 1;
  training::Zero zero = training::Zero::optimizer;
  training::Recompute recompute = training::Recompute::full;
  static constexpr auto fields() {
    using sim::Unit;
    using E = EngineParams;
    return sim::FieldTable{
        sim::field("captured", &E::captured,
                   "Whether generation steps run as captured graphs, so that devices do not wait for machine.host."),
        sim::field("generation_memory", &E::generation_memory, Unit::ratio, sim::between(0.01, 1),
                   "Share of device memory for weights and KV cache of a generation; sequences that do not fit wait "
                   "for those before them."),
        sim::field("zero", &E::zero, "States that data-parallel copies divide among them in training (ZeRO)."),
        sim::field("recompute", &E::recompute, "What the backward pass recomputes in training.")};
  }
};

struct RunParams {
  std::int64_t seed = 1, iterations = 4;
  double tick_s = 1e-12;
  static constexpr auto fields() {
    using sim::Unit;
    using R = RunParams;
    return sim::FieldTable{
        sim::field("seed", &R::seed, Unit::none, sim::at_least(0), "Seed of the search."),
        sim::field("iterations", &R::iterations, Unit::count, sim::between(2, 10'000),
                   "Iterations that are simulated and measured; with a lag, as many more before and after."),
        sim::field("tick", &R::tick_s, Unit::seconds, sim::positive(), "Time resolution of the run.")};
  }
};

struct Sections {
  training::MachineParams machine;
  std::vector<ModelParams> models;
  std::vector<CallParams> calls;
  WorkloadParams workload;
  EngineParams engine;
  PlansParams plans;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "Devices, nodes and host.")),
                           sim::required(sim::field("models", &S::models, "The models.")),
                           sim::required(sim::field("calls", &S::calls,
                                                    "Calls of an iteration, each after the calls that it depends on.")),
                           sim::section("workload", &S::workload, "The batch of an iteration."),
                           sim::section("engine", &S::engine, "How the engine runs calls."),
                           sim::section("plans", &S::plans, "Which devices calls run on."),
                           sim::section("run", &S::run, "Seed, iterations and time resolution.")};
  }
};

/// A call, as read.
struct Call {
  std::string name;
  std::size_t model = 0;
  CallKind kind = CallKind::infer;
  std::vector<std::size_t> after;  ///< earlier calls
  std::optional<LayoutParams> layout;
};

/// A model, as read. Equal configs are one entry of `kinds`.
struct FeedbackConfig {
  std::string file;
  Sections params;
  training::TrainingMachine machine;
  std::vector<training::TrainedModel> kinds;      ///< by distinct config
  std::vector<models::ModelConfig> transformers;  ///< the same for generation
  std::vector<std::size_t> kind_of;               ///< of each model
  policies::ScheduleRegistry::Choice schedule;    ///< of a training step's stages
  std::vector<Call> calls;
  std::vector<std::int64_t> answers;  ///< tokens of each sequence's answer, as drawn; empty: all have `generated`
  /// Tokens of an answer, mean, rounded up: what infers and trains goes by it, sequences being packed.
  std::int64_t answer_tokens = 0;
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> notes;
  sim::Node resolved;

  /// The call that trains a model; none: its weights never change.
  std::optional<std::size_t> trainer(std::size_t model) const;
  /// Whether its weights lie in the host's memory between its calls.
  bool in_host(std::size_t model) const { return params.models[model].in_host; }
  /// The iteration whose training a call of iteration `round` waits for; none: it begins with the weights it has.
  std::optional<std::size_t> trained_before(std::size_t call, std::size_t round) const;
};

FeedbackConfig read_feedback_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::feedback
