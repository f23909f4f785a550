#include "experiments/rl/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/parallel.hpp"
#include "experiments/base/quartiles.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/rl/training.hpp"

namespace orrery::experiments {
namespace rl {
namespace {

using sim::Node;

struct TrainParams {
  std::int64_t steps = 100'000, envs = 8;
  Agents agents = Agents::as_is;
  std::int64_t eval_every = 10'000, eval_episodes = 10, eval_steps = 10'000;
  std::optional<double> target;

  static constexpr auto fields() {
    using P = TrainParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("steps", &P::steps, Unit::count, sim::between(1, 1e12), "Environment steps in all, at least."),
        sim::field("envs", &P::envs, Unit::count, sim::between(1, 65536), "Environments stepped together."),
        sim::field("agents", &P::agents,
                   "The environment's agents, one for all of them, or one for each part of a single agent's choices."),
        sim::field("eval_every", &P::eval_every, Unit::count, sim::at_least(1), "Steps from evaluation to evaluation."),
        sim::field("eval_episodes", &P::eval_episodes, Unit::count, sim::between(1, 1e6), "Episodes of each."),
        sim::field("eval_steps", &P::eval_steps, Unit::count, sim::at_least(1), "Steps of such an episode, at most."),
        sim::field("target", &P::target, Unit::none, sim::any_value(),
                   "Evaluated return at which the environment counts as solved; null: none."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1, seeds = 1, jobs = 1;
  std::string state;

  static constexpr auto fields() {
    using P = RunParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0), "Of the first training; the others' follow on it."),
        sim::field("seeds", &P::seeds, Unit::count, sim::between(1, 10'000), "Trainings."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(1, 1024),
                   "Threads; decide nothing but how long it takes."),
        sim::field("state", &P::state,
                   "Folder in which trainings keep their state, to go on from when they are started again; empty: "
                   "none."),
    };
  }
};

std::vector<sim::FieldInfo> fields() {
  std::vector<sim::FieldInfo> sections;
  sections.push_back(policy_field("env", "What is learned.", env_registry().components(), nullptr));
  sections.back().required = true;
  sections.push_back(policy_field("learner", "What learns it.", learner_registry().components(), "ppo"));
  sections.push_back(object_field("train", "How long, and how it is judged.", sim::describe_params<TrainParams>()));
  sections.push_back(object_field("run", "Seeds and threads.", sim::describe_params<RunParams>()));
  return sections;
}

/// A number of a table; nothing where there is none.
void append_number(std::string& out, double value) {
  out += ',';
  if (!std::isnan(value)) append(out, "{}", value);
}

class RlExperiment final : public Experiment {
 public:
  RlExperiment(const Node& root, sim::Faults& faults) {
    check_keys(root, fields(), faults);
    const Node env = section(root, "env"), learner = section(root, "learner");
    if (root.find("env") == nullptr) {
      faults.add(root.origin_of("env"), "expected an environment", sim::name_hint("", env_registry().names()));
    } else {
      env_ = env_registry().parse_block(env, "", faults);
    }
    learner_ = learner_registry().parse_block(learner, "ppo", faults);
    train_ = sim::parse_params<TrainParams>(section(root, "train"), faults);
    run_ = sim::parse_params<RunParams>(section(root, "run"), faults);
    if (!faults.empty()) return;
    spec_ = try_out(env, learner, faults);
    resolved_ = resolved_header("rl");
    resolved_.set("env", EnvRegistry::write_block(env_));
    resolved_.set("learner", LearnerRegistry::write_block(learner_));
    resolved_.set("train", sim::write_params(train_));
    resolved_.set("run", sim::write_params(run_));
  }

  const Node& resolved() const override { return resolved_; }
  std::vector<std::filesystem::path> inputs() const override {
    std::vector<std::filesystem::path> files;
    Node root = resolved_;
    sim::for_each_path(fields(), root, [&](Node& path) { files.emplace_back(path.as_string()); });
    return files;
  }
  Node identity() const override {
    Node root = resolved_;
    sim::for_each_path(fields(), root, [](Node& path) { path = Node::string("an input"); });
    root.find("run")->erase("jobs");
    root.find("run")->erase("state");
    return root;
  }
  std::int64_t seed() const override { return run_.seed; }
  Outcome run(const RunSink& sink) const override;

 private:
  TrainingPlan plan(std::uint64_t seed) const {
    return {.make_env = env_.make,
            .make_learner = learner_.make,
            .agents = train_.agents,
            .steps = train_.steps,
            .eval_every = train_.eval_every,
            .eval_episodes = train_.eval_episodes,
            .eval_steps = train_.eval_steps,
            .envs = static_cast<std::size_t>(train_.envs),
            .seed = seed};
  }
  /// Makes environment and learner once, so that what does not go together is a fault of the config.
  EnvSpec try_out(const Node& env, const Node& learner, sim::Faults& faults) const {
    EnvSpec spec;
    try {
      spec = make_env(plan(0))->spec();
    } catch (const std::invalid_argument& error) {
      faults.add(env.origin(), error.what());
      return spec;
    }
    try {
      (void)make_learner(plan(0), spec);
    } catch (const std::invalid_argument& error) {
      faults.add(learner.origin(), error.what());
    }
    return spec;
  }
  /// What a checkpoint must agree with: all that decides a training.
  std::string training_identity(std::uint64_t seed) const {
    Node root = identity();
    root.erase("run");
    root.find("train")->erase("target");
    return fmt::format("{:016x} seed {}", sim::hash_text(root.dump()), seed);
  }
  void train(std::size_t index, const RunSink& sink, const std::function<void(std::int64_t)>& moved,
             std::vector<CurvePoint>& curve) const;
  Node summary(const std::vector<std::vector<CurvePoint>>& curves) const;
  void write_curves(const std::filesystem::path& path, const std::vector<std::vector<CurvePoint>>& curves) const;

  EnvRegistry::Choice env_;
  LearnerRegistry::Choice learner_;
  TrainParams train_;
  RunParams run_;
  EnvSpec spec_;
  Node resolved_;
};

void RlExperiment::train(std::size_t index, const RunSink& sink, const std::function<void(std::int64_t)>& moved,
                         std::vector<CurvePoint>& curve) const {
  const std::uint64_t seed = static_cast<std::uint64_t>(run_.seed) + index;
  const std::string name = fmt::format("seed-{}.ckpt", seed), identity = training_identity(seed);
  Training training(plan(seed));
  std::optional<std::filesystem::path> kept;
  if (!run_.state.empty()) kept = std::filesystem::path(run_.state) / name;
  if (kept && std::filesystem::exists(*kept)) {
    Archive archive = read_checkpoint(*kept, identity);
    training.state(archive);
    archive.finish();
  }
  std::int64_t told = 0;
  while (!training.done()) {
    training.advance();
    moved(training.steps() - told);
    told = training.steps();
    if (!kept) continue;
    Archive archive;
    training.state(archive);
    write_checkpoint(*kept, identity, archive);
  }
  curve = training.curve();
  if (!sink.folder) return;
  Archive archive;
  training.state(archive);
  write_checkpoint(*sink.folder / name, identity, archive);
}

Outcome RlExperiment::run(const RunSink& sink) const {
  if (!run_.state.empty()) {
    std::error_code error;
    std::filesystem::create_directories(run_.state, error);
    if (error) sim::throw_fault({run_.state, ""}, "cannot make the folder of states: " + error.message());
  }
  const auto seeds = static_cast<std::size_t>(run_.seeds);
  std::vector<std::vector<CurvePoint>> curves(seeds);
  std::vector<std::exception_ptr> errors(seeds);
  std::mutex mutex;
  Progress progress{.total = train_.steps * run_.seeds, .what = "steps"};
  const auto moved = [&](std::int64_t steps) {
    const std::lock_guard lock(mutex);
    progress.done += steps;
    if (sink.progress) sink.progress(progress);
  };
  parallel_for(seeds, static_cast<std::size_t>(run_.jobs), [&](std::size_t i) {
    try {
      train(i, sink, moved, curves[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (sink.folder) write_curves(*sink.folder / "curve.csv", curves);
  Outcome outcome;
  outcome.summary = summary(curves);
  for (const auto& curve : curves) outcome.events += static_cast<std::uint64_t>(curve.back().steps);
  return outcome;
}

Node RlExperiment::summary(const std::vector<std::vector<CurvePoint>>& curves) const {
  Node node = Node::object();
  node.set("status", Node::string("ok"));
  node.set("env", Node::string(env_.name));
  node.set("learner", Node::string(learner_.name));
  node.set("seeds", Node::integer(run_.seeds));
  node.set("steps", Node::integer(curves[0].back().steps));
  std::vector<double> first, last, best, solved, reward;
  for (const auto& curve : curves) {
    first.push_back(curve.front().eval_return);
    last.push_back(curve.back().eval_return);
    double most = curve.front().eval_return, when = std::nan("");
    for (const CurvePoint& point : curve) {
      most = std::max(most, point.eval_return);
      if (train_.target && std::isnan(when) && point.eval_return >= *train_.target)
        when = static_cast<double>(point.steps);
    }
    best.push_back(most);
    reward.push_back(curve.back().best_reward);
    solved.push_back(when);
  }
  node.set("untrained_return", quartile_figures(first));
  node.set("eval_return", quartile_figures(last));
  node.set("best_return", quartile_figures(best));
  node.set("best_reward", quartile_figures(reward));
  node.set("steps_to_target", train_.target ? quartile_figures(solved) : Node{});
  Node& info = node.set("info", Node::object());
  for (std::size_t i = 0; i < spec_.info.size(); ++i) {
    std::vector<double> values;
    for (const auto& curve : curves) values.push_back(curve.back().info[i]);
    info.set(spec_.info[i], quartile_figures(values));
  }
  return node;
}

void RlExperiment::write_curves(const std::filesystem::path& path,
                                const std::vector<std::vector<CurvePoint>>& curves) const {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out += "seed,steps,episodes,train_return,eval_return,eval_length";
  for (const std::string& name : spec_.info) append(out, ",{}", name);
  for (const auto& [name, value] : make_learner(plan(0), spec_)->figures()) append(out, ",{}", name);
  out += '\n';
  for (std::size_t i = 0; i < curves.size(); ++i)
    for (const CurvePoint& point : curves[i]) {
      append(out, "{},{},{}", run_.seed + static_cast<std::int64_t>(i), point.steps, point.episodes);
      for (const double value : {point.train_return, point.eval_return, point.eval_length}) append_number(out, value);
      for (const double value : point.info) append_number(out, value);
      for (const double value : point.figures) append_number(out, value);
      out += '\n';
      file.line_done();
    }
  file.close();
}

}  // namespace
}  // namespace rl

System rl_system() {
  System system;
  system.name = "rl";
  system.doc = "Trains a learner in an environment, from several seeds.";
  system.fields = rl::fields();
  system.read = [](const sim::Node& root, sim::Faults& faults) -> std::unique_ptr<Experiment> {
    auto experiment = std::make_unique<rl::RlExperiment>(root, faults);
    faults.throw_if_any();
    return experiment;
  };
  return system;
}

}  // namespace orrery::experiments
