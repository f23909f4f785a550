#include "experiments/feedback/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/feedback/play.hpp"

namespace orrery::experiments {
namespace feedback {
namespace {

using sim::Node;

struct Result {
  const FeedbackConfig& config;
  ChosenPlan chosen;
  FeedbackRun run;
  double flops = 0;
  double idle_j() const {
    return config.machine.device.power.idle_w * static_cast<double>(config.machine.devices) * run.iteration_s;
  }
};

/// A call in its run.
struct CallResult {
  const Result& all;
  std::size_t call = 0;
  const Layout& layout() const { return all.chosen.plan[call]; }
  /// Seconds of an iteration in which all waits for it, or for the weights it needs.
  double critical_s() const {
    double sum = 0;
    for (const CallRun& one : all.run.runs)
      if (one.critical && one.call == call) sum += one.end_s - one.begin_s;
    return sum / static_cast<double>(all.run.iterations);
  }
};

const FigureTable<CallResult>& call_table() {
  using C = CallResult;
  static const FigureTable<C> table{
      {"time_s", "s", "Time of the call, with the weights that it waits for from host memory.",
       [](const C& c) { return c.all.run.calls[c.call].time_s; }},
      {"load_s", "s", "Time in which weights come from host memory before the call (models[].in_host).",
       [](const C& c) { return c.all.run.loads_s[c.call]; }},
      {"energy_j", "J", "Dynamic energy of the call in an iteration.",
       [](const C& c) { return c.all.run.calls[c.call].energy_j; }},
      {"critical_s", "s", "Time of the call on the critical path of an iteration, weights that move to it included.",
       [](const C& c) { return c.critical_s(); }},
      {"{first,devices}", "", "Devices of the call: number of the first, and how many.",
       [](const C& c) { return c.layout().first; }, [](const C& c) { return c.layout().shape.devices(); }},
      {"{data,pipeline,tensor}", "",
       "Parallelism of the call: data-parallel copies, pipeline stages, tensor-parallel ranks.",
       [](const C& c) { return c.layout().shape.data; }, [](const C& c) { return c.layout().shape.pipeline; },
       [](const C& c) { return c.layout().shape.tensor; }}};
  return table;
}

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok` or `infeasible`.", [](const R&) { return std::string("ok"); }},
      {"iteration_s", "s",
       "Time of an iteration, from the end of one to the end of the next, mean over run.iterations; iterations may "
       "overlap.",
       [](const R& r) { return r.run.iteration_s; }},
      {"first_iteration_s", "s", "Time of the first iteration, simulated.", [](const R& r) { return r.run.first_s; }},
      {"estimate_s", "s",
       "Estimate by which plans are compared: the first iteration by list scheduling; with a lag, a lower bound of "
       "overlapping iterations.",
       [](const R& r) { return r.chosen.estimate_s; }},
      {"sequences_per_s", "1/s", "Sequences per second over all devices.",
       [](const R& r) { return static_cast<double>(r.config.params.workload.sequences) / r.run.iteration_s; }},
      {"flops", "",
       "FLOPs of an iteration as ReaLHF counts them: a key and value head for every query head, the vocabulary twice, "
       "training as four forward passes.",
       [](const R& r) { return r.flops; }},
      {"flops_per_s", "1/s", "FLOPs per second: `flops` over the time of an iteration.",
       [](const R& r) { return r.flops / r.run.iteration_s; }},
      {"busy", "ratio", "Share of the devices' time in which they run a call.", [](const R& r) { return r.run.busy; }},
      {"energy_j.{total,idle}", "J",
       "Energy of an iteration over all devices, without moving weights; the idle part of it.",
       [](const R& r) {
         double work = r.idle_j();
         for (const CallWork& call : r.run.calls) work += call.energy_j;
         return work;
       },
       [](const R& r) { return r.idle_j(); }},
      {"answers.{mean,longest}", "tokens", "Tokens of the drawn answers: mean, and longest.",
       [](const R& r) -> FigureValue {
         const auto& all = r.config.answers;
         if (all.empty()) return std::nullopt;
         return static_cast<double>(std::accumulate(all.begin(), all.end(), std::int64_t{0})) /
                static_cast<double>(all.size());
       },
       [](const R& r) -> FigureValue {
         if (r.config.answers.empty()) return std::nullopt;
         return std::ranges::max(r.config.answers);
       }},
      {"moves_s", "s", "Time of an iteration for moving weights from where they are trained to where they are used.",
       [](const R& r) { return r.run.moves_s; }},
      {"lag.{mean,most}", "iterations",
       "Lag of answers: iterations of training by which their weights are out of date when they are trained on; the "
       "mean is of the second half.",
       [](const R& r) { return r.run.mean_lag; }, [](const R& r) { return r.run.most_lag; }},
      {"memory_bytes", "B", "Memory of the fullest device.", [](const R& r) { return r.chosen.memory_bytes; }},
      {"plans.{all,looked_at}", "", "Number of possible plans, and of plans whose time was estimated.",
       [](const R& r) { return r.chosen.options; }, [](const R& r) { return static_cast<double>(r.chosen.looks); }},
      {"calls.*", call_table().infos(), [](const R& r) {
         Node all = Node::object();
         for (std::size_t i = 0; i < r.config.calls.size(); ++i)
           all.set(r.config.calls[i].name, call_table().written(CallResult{r, i}));
         return all;
       }}};
  return table;
}

class FeedbackExperiment final : public ConfigExperiment {
 public:
  explicit FeedbackExperiment(FeedbackConfig config) : config_(std::move(config)) {
    resolved_ = config_.resolved;
    inputs_ = config_.inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const Sections& p = config_.params;
    std::string models;
    for (const ModelParams& model : p.models)
      models += fmt::format("{}{} {}", models.empty() ? "" : ", ", model.name, model.config);
    return {{"machine", fmt::format("{} {}", config_.machine.devices, config_.machine.device.name)},
            {"models", models},
            {"calls", fmt::format("{} an iteration", config_.calls.size())},
            {"batch", fmt::format("{} sequences of {} + {} tokens, {} minibatches", p.workload.sequences,
                                  p.workload.prompt, p.workload.generated, p.workload.minibatches)},
            {"plan", std::string(sim::to_string(p.plans.choose))}};
  }

  Outcome run(const RunSink& sink) const override {
    try {
      return priced(sink);
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    } catch (const std::invalid_argument& error) {
      sim::throw_fault({config_.file, "/machine/devices/0/part"}, error.what());
    } catch (const models::GraphError& error) {
      sim::throw_fault({config_.file, "/models"}, error.what());
    }
  }

 private:
  Outcome priced(const RunSink& sink) const {
    CallPricer pricer(config_);
    Result result{.config = config_, .chosen = choose_plan(config_, pricer)};
    if (!result.chosen.obstacle.empty()) return Outcome::infeasible(result.chosen.obstacle, config_.notes);
    result.run = play(config_, pricer, result.chosen.plan);
    result.flops = pricer.counted_flops();
    if (sink.folder) write(*sink.folder / "calls.csv", result);
    return {.summary = result_table().written(result), .events = result.run.events, .notes = config_.notes};
  }

  void write(const std::filesystem::path& path, const Result& result) const {
    BufferedFile file(path);
    file.buffer() += "iteration,call,what,begin_s,end_s,first,devices,critical\n";
    for (const CallRun& one : result.run.runs) {
      const Layout& layout = result.chosen.plan[one.call];
      append(file.buffer(), "{},{},{},{:.9f},{:.9f},{},{},{}\n", one.iteration, config_.calls[one.call].name,
             one.move ? "weights" : sim::to_string(config_.calls[one.call].kind), one.begin_s, one.end_s, layout.first,
             layout.shape.devices(), one.critical ? 1 : 0);
      file.line_done();
    }
    file.close();
  }

  FeedbackConfig config_;
};

}  // namespace
}  // namespace feedback

System rlhf_system() {
  return {
      .name = "rlhf",
      .doc = "Reinforcement learning from feedback: calls of models, each with its own division of the devices.",
      .fields = describe_sections<feedback::Sections>,
      .figures = figures_or_reason(feedback::result_table().infos()),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        feedback::FeedbackConfig config = feedback::read_feedback_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<feedback::FeedbackExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
