#include "experiments/rl/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <stdexcept>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/parallel.hpp"
#include "experiments/base/quartiles.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/rl/policy_file.hpp"
#include "experiments/rl/training.hpp"

namespace orrery::experiments {
namespace rl {
namespace {

using sim::Node;

/// Episodes of another environment of the same kind, which the trained policy plays at the end.
struct HeldOutParams {
  std::string name;
  Node env;

  static constexpr auto fields() {
    using P = HeldOutParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("name", &P::name, Unit::text, sim::any_value(), "Name in the summary.")),
        sim::field("env", &P::env, "Changes to the parameters of the environment."),
    };
  }
};

struct TrainParams {
  std::int64_t steps = 100'000, envs = 8;
  Agents agents = Agents::as_is;
  std::int64_t eval_every = 10'000, eval_episodes = 10, eval_steps = 10'000;
  std::optional<double> target;
  std::vector<HeldOutParams> held_out;
  std::int64_t log = 0;
  std::vector<std::string> from_logs;

  static constexpr auto fields() {
    using P = TrainParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("steps", &P::steps, Unit::count, sim::between(1, 1e12), "Environment steps in all (at least)."),
        sim::field("envs", &P::envs, Unit::count, sim::between(1, 65536),
                   "Number of environments stepped in parallel."),
        sim::field("agents", &P::agents,
                   "Agents that learn. `as_is`: those of the environment. `joint`: one for all of them. `split`: one "
                   "for each part of a single agent's choices."),
        sim::field("eval_every", &P::eval_every, Unit::count, sim::at_least(1), "Steps between two evaluations."),
        sim::field("eval_episodes", &P::eval_episodes, Unit::count, sim::between(1, 1e6), "Episodes per evaluation."),
        sim::field("eval_steps", &P::eval_steps, Unit::count, sim::at_least(1), "Most steps of an evaluation episode."),
        sim::field("target", &P::target, Unit::none, sim::any_value(),
                   "Evaluation return at which the environment counts as solved; null: none."),
        sim::field("held_out", &P::held_out,
                   "Environments that the trained policies play at the end, with seeds not used in training: other "
                   "workloads, other policies to compare with."),
        sim::field("log", &P::log, Unit::count, sim::between(0, 1e8),
                   "Number of first steps of each training run that are logged in seed-N.steps; 0: none."),
        sim::field("from_logs", &P::from_logs, Unit::path, sim::any_value(),
                   "Logged steps to learn from, over and over, in place of acting; the environment is only used for "
                   "evaluation."),
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
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0),
                   "Seed of the first training run; the others follow it."),
        sim::field("seeds", &P::seeds, Unit::count, sim::between(1, 10'000), "Number of training runs."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(1, 1024),
                   "Number of threads; results do not depend on it."),
        sim::field("state", &P::state,
                   "Folder in which training runs keep their state, to continue when started again; empty: none."),
    };
  }
};

struct Sections {
  EnvRegistry::Choice env;
  LearnerRegistry::Choice learner;
  TrainParams train;
  RunParams run;

  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{
        sim::required(sim::choice("env", &S::env, nullptr, "Environment in which the learner is trained.")),
        sim::choice("learner", &S::learner, "ppo", "The learner."),
        sim::section("train", &S::train, "Length of the training, and its evaluation."),
        sim::section("run", &S::run, "Seeds and threads.")};
  }
};

/// A number of a table; nothing where there is none.
void append_number(std::string& out, double value) {
  out += ',';
  if (!std::isnan(value)) append(out, "{}", value);
}

/// Why the steps of a training cannot be logged; empty: they can, or are not to be.
std::string log_obstacle(const TrainParams& train, const EnvSpec& spec) {
  constexpr double kMostBytes = 1 << 30;  // of a training, in memory until its end
  if (train.log == 0) return {};
  if (!train.from_logs.empty()) return "log: steps that are learned from logs are not logged again";
  const double each = 8.0 * static_cast<double>(2 * spec.observation_size() + spec.action_size() + spec.agents.size()) +
                      2.0 * static_cast<double>(spec.masked ? spec.mask_size() : 0) + 2;
  if (each * static_cast<double>(train.log) <= kMostBytes) return {};
  return fmt::format("log: {} steps of {} bytes are more than 1 GiB; expected {} steps at most", train.log, each,
                     static_cast<std::int64_t>(kMostBytes / each));
}

/// What came of one training.
struct Trained {
  std::vector<CurvePoint> curve;
  std::vector<Played> held_out;
};

class RlExperiment final : public Experiment {
 public:
  RlExperiment(const Node& root, const Systems& systems, sim::Faults& faults)
      : systems_(systems), config_(read_sections<Sections>(root, *systems.registries(), faults)) {
    if (!faults.empty()) return;
    spec_ = try_out(section(root, "env"), section(root, "learner"), section(root, "train"), faults);
    read_held_out(section(root, "train"), faults);
    resolved_ = resolved_config("rl", config_);
  }

  const Node& resolved() const override { return resolved_; }
  std::vector<std::filesystem::path> inputs() const override {
    std::vector<std::filesystem::path> files;
    Node root = resolved_;
    sim::for_each_path<Sections>(*systems_.registries(), root,
                                 [&](Node& path) { files.emplace_back(path.as_string()); });
    return files;
  }
  Node identity() const override {
    Node root = resolved_;
    sim::for_each_path<Sections>(*systems_.registries(), root, [](Node& path) { path = Node::string("an input"); });
    root.find("run")->erase("jobs");
    root.find("run")->erase("state");
    return root;
  }
  std::int64_t seed() const override { return config_.run.seed; }
  Outcome run(const RunSink& sink) const override;

 private:
  TrainingPlan plan(std::uint64_t seed) const {
    return {.make_env = env_factory(config_.env, systems_),
            .make_learner = config_.learner.make,
            .agents = config_.train.agents,
            .steps = config_.train.steps,
            .eval_every = config_.train.eval_every,
            .eval_episodes = config_.train.eval_episodes,
            .eval_steps = config_.train.eval_steps,
            .envs = static_cast<std::size_t>(config_.train.envs),
            .seed = seed,
            .from = logs_,
            .log = static_cast<std::size_t>(config_.train.log)};
  }
  /// Makes environment and learner once and reads the logs, so that what does not go together is a fault of the config.
  EnvSpec try_out(const Node& env, const Node& learner, const Node& train, sim::Faults& faults) {
    EnvSpec spec;
    try {
      spec = make_env(plan(0))->spec();
    } catch (const std::invalid_argument& error) {
      faults.add(env.origin(), error.what());
      return spec;
    }
    try {
      if (!config_.train.from_logs.empty())
        logs_ = std::make_shared<const StepLog>(read_step_logs(config_.train.from_logs, spec));
      if (const std::string why = log_obstacle(config_.train, spec); !why.empty()) faults.add(train.origin(), why);
      (void)make_learner(plan(0), spec);
    } catch (const sim::ConfigError& fault) {  // of a file of steps
      faults.add(fault.faults().front().where, fault.faults().front().message, fault.faults().front().hint);
    } catch (const std::invalid_argument& error) {
      faults.add(learner.origin(), error.what());
    }
    return spec;
  }
  /// Environments of train.held_out, each made once to see that it can be.
  void read_held_out(const Node& train, sim::Faults& faults) {
    for (std::size_t i = 0; i < config_.train.held_out.size(); ++i) {
      const HeldOutParams& one = config_.train.held_out[i];
      Node params = config_.env.params;
      if (one.env.is_object()) sim::merge_over(params, one.env);
      const sim::Origin where = train.find("held_out")->items()[i].origin();
      auto choice = systems_.registry<EnvRegistry>().prepare(config_.env.name, &params, where, faults);
      if (!faults.empty()) return;
      try {
        held_out_info_.push_back(choice.make(systems_)->spec().info);
      } catch (const std::invalid_argument& error) {
        faults.add(where, error.what());
        return;
      }
      held_out_.push_back(env_factory(choice, systems_));
    }
  }
  /// What a checkpoint must agree with: all that decides a training.
  std::string training_identity(std::uint64_t seed) const {
    Node root = identity();
    root.erase("run");
    root.find("train")->erase("target");
    root.find("train")->erase("held_out");
    const std::uint64_t logs = logs_ ? logs_->hash() : 0;
    return fmt::format("{:016x} seed {}{}", sim::hash_text(root.dump()), seed,
                       logs_ ? fmt::format(" logs {:016x}", logs) : "");
  }
  void train(std::size_t index, const RunSink& sink, const std::function<void(std::int64_t)>& moved,
             Trained& trained) const;
  Node summary(const std::vector<Trained>& all) const;
  void write_curves(const std::filesystem::path& path, const std::vector<Trained>& all) const;

  Systems systems_;
  Sections config_;
  std::vector<EnvFactory> held_out_;
  std::vector<std::vector<std::string>> held_out_info_;  ///< names of their figures
  EnvSpec spec_;
  std::shared_ptr<const StepLog> logs_;
  Node resolved_;
};

void RlExperiment::train(std::size_t index, const RunSink& sink, const std::function<void(std::int64_t)>& moved,
                         Trained& trained) const {
  const std::uint64_t seed = static_cast<std::uint64_t>(config_.run.seed) + index;
  const std::string name = fmt::format("seed-{}.ckpt", seed), identity = training_identity(seed);
  Training training(plan(seed));
  std::optional<std::filesystem::path> kept;
  if (!config_.run.state.empty()) kept = std::filesystem::path(config_.run.state) / name;
  if (kept && std::filesystem::exists(*kept)) {
    Archive archive = read_checkpoint(*kept, identity);
    training.state(archive);
    archive.finish();
  }
  std::int64_t told = 0;
  while (!training.done()) {
    try {
      training.advance();
    } catch (const std::domain_error& error) {
      sim::throw_fault({},
                       fmt::format("the learner '{}' diverged near step {} of seed {}: {}", config_.learner.name,
                                   training.steps(), seed, error.what()),
                       "a smaller rate, or rewards of another scale");
    }
    moved(training.steps() - told);
    told = training.steps();
    if (!kept) continue;
    Archive archive;
    training.state(archive);
    write_checkpoint(*kept, identity, archive);
  }
  trained.curve = training.curve();
  PolicyFile policy = training.policy(config_.env, config_.learner);
  for (const EnvFactory& make : held_out_) {
    const auto env = regroup(make(), config_.train.agents);
    const auto learner = learner_of(policy, env->spec(), systems_.registry<LearnerRegistry>());
    trained.held_out.push_back(
        play_episodes(*env, *learner, config_.train.eval_episodes, config_.train.eval_steps, env_seed(seed, 2)));
  }
  if (!sink.folder) return;
  Archive archive;
  training.state(archive);
  write_checkpoint(*sink.folder / name, identity, archive);
  write_policy(*sink.folder / fmt::format("seed-{}.policy", seed), policy);
  if (config_.train.log > 0) write_step_log(*sink.folder / fmt::format("seed-{}.steps", seed), training.log());
}

Outcome RlExperiment::run(const RunSink& sink) const {
  if (!config_.run.state.empty()) {
    std::error_code error;
    std::filesystem::create_directories(config_.run.state, error);
    if (error) sim::throw_fault({config_.run.state, ""}, "cannot make the folder of states: " + error.message());
  }
  const auto seeds = static_cast<std::size_t>(config_.run.seeds);
  std::vector<Trained> all(seeds);
  std::vector<std::exception_ptr> errors(seeds);
  std::mutex mutex;
  Progress progress{.total = config_.train.steps * config_.run.seeds, .what = "steps"};
  const auto moved = [&](std::int64_t steps) {
    const std::lock_guard lock(mutex);
    progress.done += steps;
    if (sink.progress) sink.progress(progress);
  };
  parallel_for(seeds, static_cast<std::size_t>(config_.run.jobs), [&](std::size_t i) {
    try {
      train(i, sink, moved, all[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (sink.folder) write_curves(*sink.folder / "curve.csv", all);
  Outcome outcome;
  outcome.summary = summary(all);
  for (const Trained& one : all) outcome.events += static_cast<std::uint64_t>(one.curve.back().steps);
  return outcome;
}

namespace {

/// Whom a gain is over: what stands in front of it, "" for the environment's own policy. Nothing for another figure.
std::optional<std::string_view> rival_of(std::string_view figure) {
  for (const std::string_view gain : {"mean_gain", "worst_gain"})
    if (figure.ends_with(gain)) return figure.substr(0, figure.size() - gain.size());
  return std::nullopt;
}

/// All of them, "" first.
std::vector<std::string> rivals_of(const std::vector<std::string>& figures) {
  std::vector<std::string> all{""};
  for (const std::string& figure : figures)
    if (const auto rival = rival_of(figure); rival && std::ranges::find(all, *rival) == all.end())
      all.emplace_back(*rival);
  return all;
}

}  // namespace

Node RlExperiment::summary(const std::vector<Trained>& all) const {
  Node node = Node::object();
  node.set("status", Node::string("ok"));
  node.set("env", Node::string(config_.env.name));
  node.set("learner", Node::string(config_.learner.name));
  node.set("seeds", Node::integer(config_.run.seeds));
  node.set("steps", Node::integer(all[0].curve.back().steps));
  std::vector<double> first, last, best, solved, reward;
  for (const Trained& one : all) {
    const std::vector<CurvePoint>& curve = one.curve;
    first.push_back(curve.front().eval_return);
    last.push_back(curve.back().eval_return);
    double most = curve.front().eval_return, when = std::nan("");
    for (const CurvePoint& point : curve) {
      most = std::max(most, point.eval_return);
      if (config_.train.target && std::isnan(when) && point.eval_return >= *config_.train.target)
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
  node.set("steps_to_target", config_.train.target ? quartile_figures(solved) : Node{});
  Node& info = node.set("info", Node::object());
  for (std::size_t i = 0; i < spec_.info.size(); ++i) {
    std::vector<double> values;
    for (const Trained& one : all) values.push_back(one.curve.back().info[i]);
    info.set(spec_.info[i], quartile_figures(values));
  }
  Node& held_out = node.set("held_out", Node::object());
  for (std::size_t h = 0; h < held_out_.size(); ++h) {
    Node& of_it = held_out.set(config_.train.held_out[h].name, Node::object());
    Node figures = Node::object(), above = Node::object();
    const auto over = [&](const std::string& name, auto figure) {
      std::vector<double> values;
      for (const Trained& one : all) values.push_back(figure(one.held_out[h]));
      above.set(name, Node::integer(std::count_if(values.begin(), values.end(), [](double x) { return x > 0; })));
      return quartile_figures(values);
    };
    const std::vector<std::string>& names = held_out_info_[h];
    of_it.set("return", over("return", [](const Played& played) { return played.returned; }));
    for (std::size_t i = 0; i < names.size(); ++i)
      figures.set(names[i], over(names[i], [i](const Played& played) { return played.info[i]; }));
    of_it.set("info", std::move(figures));
    for (const std::string& rival : rivals_of(names))
      above.set(rival + "every_gain", Node::integer(std::count_if(all.begin(), all.end(), [&](const Trained& one) {
                  for (std::size_t i = 0; i < names.size(); ++i)
                    if (rival_of(names[i]) == rival && !(one.held_out[h].info[i] > 0)) return false;
                  return true;
                })));
    of_it.set("above_zero", std::move(above));
  }
  return node;
}

void RlExperiment::write_curves(const std::filesystem::path& path, const std::vector<Trained>& all) const {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out += "seed,steps,episodes,train_return,eval_return,eval_length";
  for (const std::string& name : spec_.info) append(out, ",{}", name);
  for (const auto& [name, value] : make_learner(plan(0), spec_)->figures()) append(out, ",{}", name);
  out += '\n';
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const CurvePoint& point : all[i].curve) {
      append(out, "{},{},{}", config_.run.seed + static_cast<std::int64_t>(i), point.steps, point.episodes);
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
  return {.name = "rl",
          .doc = "Trains a learner in an environment, from several seeds.",
          .fields = describe_sections<rl::Sections>,
          .read = read_as<rl::RlExperiment>};
}

}  // namespace orrery::experiments
