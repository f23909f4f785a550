#include "experiments/answers/answer.hpp"

#include <algorithm>
#include <fstream>
#include <thread>

#include "experiments/answers/calibrating.hpp"
#include "experiments/answers/expert_questions.hpp"
#include "experiments/answers/fits.hpp"
#include "experiments/answers/planning.hpp"
#include "experiments/answers/progress_questions.hpp"
#include "experiments/answers/reproducing.hpp"
#include "experiments/answers/router_questions.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/stopped.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/evolve/process_source.hpp"
#include "experiments/evolve/report.hpp"
#include "experiments/import/training_args.hpp"
#include "experiments/import/vllm_args.hpp"
#include "experiments/rl/play.hpp"
#include "experiments/study/analysis.hpp"
#include "experiments/study/selected.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;
using sim::Node;
using sim::Unit;

std::vector<fs::path> paths(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

Node texts(const std::vector<std::string>& all) {
  Node list = Node::array();
  for (const std::string& text : all) list.push(Node::string(text));
  return list;
}

struct AnalyseParams {
  std::vector<std::string> stores, objectives;
  static constexpr auto fields() {
    using P = AnalyseParams;
    return sim::FieldTable{
        sim::required(sim::field("stores", &P::stores, Unit::path, sim::any_value(), "Stores of studies.")),
        sim::field("objectives", &P::objectives, Unit::text, sim::any_value(), "Objectives to consider; empty: all.")};
  }
};

struct BestParams {
  std::vector<std::string> stores;
  std::int64_t top = 10;
  static constexpr auto fields() {
    using P = BestParams;
    return sim::FieldTable{
        sim::required(sim::field("stores", &P::stores, Unit::path, sim::any_value(), "Stores of studies.")),
        sim::field("top", &P::top, Unit::count, sim::at_least(1),
                   "How many of the best points to give, for one objective.")};
  }
};

struct FidelityParams {
  std::string folder, points;
  static constexpr auto fields() {
    using P = FidelityParams;
    return sim::FieldTable{
        sim::required(sim::field("folder", &P::folder, Unit::path, sim::any_value(), "Folder of measured tables.")),
        sim::field("points", &P::points, Unit::path, sim::any_value(),
                   "CSV file to write, with every row, measured and predicted; empty: none.")};
  }
};

Node fidelity(const FidelityParams& params, const Systems&, const Asking&) {
  const PartShelf parts(home_folder() / "hw/catalog");
  std::ofstream points;
  if (!params.points.empty()) {
    points.open(params.points);
    if (!points) sim::throw_fault({params.points, ""}, "cannot be written");
  }
  return fidelity_json(measure_fidelity(params.folder, parts, points.is_open() ? points_as_csv(points) : PointSink()));
}

struct EvolveParams {
  std::string study, proposer, out;
  std::vector<std::string> set;
  std::int64_t jobs = 0;
  static constexpr auto fields() {
    using P = EvolveParams;
    return sim::FieldTable{
        sim::required(sim::field("study", &P::study, Unit::path, sim::any_value(), "File of kind \"evolve\".")),
        sim::field("proposer", &P::proposer, Unit::text, sim::any_value(),
                   "Shell command of a program that proposes expressions, in place of breeding."),
        sim::field("out", &P::out, Unit::path, sim::any_value(), "Folder to create; empty: none."),
        sim::field("set", &P::set, Unit::text, sim::any_value(), "Changes to the study, as for --set."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(0, 1024), "Parallel runs; 0: as many as cores.")};
  }
};

Node evolve_expression(const EvolveParams& params, const Systems& systems, const Asking& asking) {
  const evolve::EvolveStudy study = evolve::read_evolve_study(params.study, params.set);
  std::unique_ptr<RunFolder> folder;
  if (!params.out.empty()) folder = std::make_unique<RunFolder>(params.out, false);
  const auto source = params.proposer.empty()
                          ? evolve::genetic_source(study)
                          : std::unique_ptr<evolve::Source>(new evolve::ProcessSource(study, params.proposer));
  const evolve::EvolveResult result = evolve::evolve(
      systems, study, *source,
      {.jobs = jobs_or_all(params.jobs),
       .progress =
           [&](std::int64_t generation, std::int64_t) {
             if (asking.progress)
               asking.progress({.done = generation, .total = study.search.generations, .what = "generations"});
           },
       .stop = asking.stop});
  const Node node = evolve::result_node(study, result);
  if (!folder) return node;
  write_text(folder->working() / "evolve.json", node.dump(2) + "\n");
  write_text(folder->working() / "candidates.csv", evolve::candidates_csv(study, result));
  folder->commit();
  return node;
}

struct ImportParams {
  std::string file;
  std::optional<std::string> part, model, trace;
  std::vector<std::string> words;
  static constexpr auto fields() {
    using P = ImportParams;
    return sim::FieldTable{
        sim::field("file", &P::file, Unit::path, sim::any_value(),
                   "JSON file of engine arguments, or of a run's metadata."),
        sim::field("part", &P::part, "Part from the catalog; null: by the device name in the metadata."),
        sim::field("model", &P::model, "The model's config.json, or catalog:NAME; null: as the arguments say."),
        sim::field("trace", &P::trace, "Request log to replay; null: none."),
        sim::field("words", &P::words, Unit::text, sim::any_value(), "Arguments as on vLLM's command line.")};
  }
};

Node imported_node(const ImportedConfig& imported) {
  Node node = Node::object();
  node.set("config", imported.config);
  node.set("notes", texts(imported.notes));
  node.set("ignored", texts(imported.ignored));
  return node;
}

Node import_engine(const ImportParams& params, const Systems&, const Asking&) {
  EngineArguments arguments;
  if (!params.file.empty()) arguments = engine_arguments(fs::path(params.file));
  for (auto& [name, value] : engine_arguments(params.words)) arguments[name] = value;
  return imported_node(import_vllm(arguments, {params.part, params.model, params.trace}));
}

struct PlayParams {
  std::string policy, config;
  std::vector<std::string> set, against, logs;
  std::int64_t seed = 1001, seeds = 5, episodes = 20, jobs = 0;
  static constexpr auto fields() {
    using P = PlayParams;
    return sim::FieldTable{
        sim::required(sim::field("policy", &P::policy, Unit::path, sim::any_value(),
                                 "Policy file of a training: seed-N.policy.")),
        sim::field("config", &P::config, Unit::path, sim::any_value(),
                   "Config of the runs; empty: the one that the policy was trained on."),
        sim::field("set", &P::set, Unit::text, sim::any_value(), "Changes to the config, as for --set."),
        sim::field("against", &P::against, Unit::text, sim::any_value(),
                   "Rules to compare with: NAME, NAME:parameter=value, or all; empty: the config's own."),
        sim::field("logs", &P::logs, Unit::path, sim::any_value(),
                   "Steps logged by a training, over which to report what the policy looks at; empty: it is played."),
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0), "First seed of the runs."),
        sim::field("seeds", &P::seeds, Unit::count, sim::between(1, 10'000), "Number of runs of each policy."),
        sim::field("episodes", &P::episodes, Unit::count, sim::between(1, 1e6),
                   "Episodes, if the environment is not a serving run."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(0, 1024), "Parallel runs; 0: as many as cores.")};
  }
};

Node play_policy(const PlayParams& params, const Systems& systems, const Asking& asking) {
  return rl::play(systems, {.policy = params.policy,
                            .config = params.config.empty() ? fs::path() : fs::path(named_document(params.config)),
                            .assignments = params.set,
                            .logs = params.logs,
                            .against = params.against,
                            .seed = params.seed,
                            .seeds = params.seeds,
                            .episodes = params.episodes,
                            .jobs = jobs_or_all(params.jobs),
                            .progress = [&](const Progress& progress) {
                              if (asking.progress) asking.progress(progress);
                              if (asking.stop && asking.stop()) throw Stopped{};
                            }});
}

struct TrainingImportParams {
  std::string file;
  std::optional<std::string> part, model;
  std::optional<std::int64_t> devices;
  std::vector<std::string> words;
  static constexpr auto fields() {
    using P = TrainingImportParams;
    return sim::FieldTable{
        sim::field("file", &P::file, Unit::path, sim::any_value(), "JSON file of arguments."),
        sim::field("part", &P::part, "Part from the catalog; null: an H100."),
        sim::field("model", &P::model, "catalog:NAME or a config.json; null: as the arguments say."),
        sim::field("devices", &P::devices, Unit::count, sim::between(1, 1 << 20),
                   "Number of devices; null: as the arguments say."),
        sim::field("words", &P::words, Unit::text, sim::any_value(), "Arguments as on a command line.")};
  }
};

using ImportTraining = ImportedConfig (*)(const EngineArguments&, const TrainingImport&);
template <ImportTraining import>
Node import_training(const TrainingImportParams& params, const Systems&, const Asking&) {
  return imported_node(
      import(launch_arguments(params.file, params.words), {params.part, params.model, params.devices}));
}

}  // namespace

std::size_t jobs_or_all(std::int64_t jobs) {
  return jobs > 0 ? static_cast<std::size_t>(jobs) : std::max(1U, std::thread::hardware_concurrency());
}

std::vector<Answer> answers() {
  std::vector<Answer> all{
      make_answer<AnalyseParams>(
          "analyse", "Pareto fronts, search progress and parameter importance from stores of studies.",
          [](const AnalyseParams& p, const Systems&, const Asking&) {
            return study::study_analysis_json(study::analyse_stores(paths(p.stores), p.objectives));
          }),
      make_answer<BestParams>("best", "Best points, or the Pareto front, of several stores together.",
                              [](const BestParams& p, const Systems&, const Asking&) {
                                return study::best_answer_json(paths(p.stores), static_cast<std::size_t>(p.top));
                              }),
      make_answer<CalibrateParams>(
          "calibrate", "Fits the constants of a part to measured tables.",
          [](const CalibrateParams& p, const Systems& systems, const Asking&) { return calibrate_part(p, systems); }),
      make_answer<EvolveParams>("evolve", "Searches for an expression that makes better decisions in a policy.",
                                evolve_expression),
      make_answer<ExpertCacheParams>("expert_cache", "Hit rates of expert caches on a router trace.",
                                     [](const ExpertCacheParams& p, const Systems& systems, const Asking&) {
                                       return expert_cache_node(
                                           ask_expert_caches(p, systems.registry<policies::ExpertCacheRegistry>()));
                                     }),
      make_answer<ExpertPlaceParams>("expert_place", "Imbalance of expert placements on a router trace.",
                                     [](const ExpertPlaceParams& p, const Systems& systems, const Asking&) {
                                       return expert_place_node(ask_expert_placements(
                                           p, systems.registry<policies::ExpertPlacementRegistry>()));
                                     }),
      make_answer<FidelityParams>("fidelity", "Errors of the catalog's parts against measured tables.", fidelity),
      make_answer<FitsParams>(
          "fits", "Whether a model with experts fits a GPU and its host, and at how many tokens per second.",
          [](const FitsParams& p, const Systems& systems, const Asking&) { return fits_node(ask_fits(p, systems)); }),
      make_answer<TrainingImportParams>("import_deepspeed", "DeepSpeed's config as a training config.",
                                        import_training<import_deepspeed>),
      make_answer<TrainingImportParams>("import_megatron", "Megatron-LM's arguments as a training config.",
                                        import_training<import_megatron>),
      make_answer<TrainingImportParams>("import_torchtitan", "torchtitan's arguments as a training config.",
                                        import_training<import_torchtitan>),
      make_answer<ImportParams>("import_vllm", "A real engine's arguments as a serving config.", import_engine),
      make_answer<PlanParams>("plan", "Places buffers with known lifetimes in one arena.",
                              [](const PlanParams& p, const Systems& systems, const Asking&) {
                                return plan_node(plan_buffers(p, systems.registry<policies::MemoryPlannerRegistry>()));
                              }),
      make_answer<PlayParams>("play", "A trained policy beside rules on the same runs, or what it looks at.",
                              play_policy),
      make_answer<CurveParams>(
          "progress_fit", "Fits reward over compute, with a confidence interval of its ceiling.",
          [](const CurveParams& p, const Systems&, const Asking&) { return curve_node(fit_reward_curve(p)); }),
      make_answer<ScoreParams>("progress_score", "AlgoPerf's score from times to targets.",
                               [](const ScoreParams& p, const Systems&, const Asking&) { return score_node(p); }),
      make_answer<ReproduceParams>("reproduce",
                                   "Runs claim studies and compares what papers claim with what comes out.",
                                   [](const ReproduceParams& p, const Systems& systems, const Asking& asking) {
                                     if (p.sensitivity)
                                       return claims::sensitivity_json(claim_sensitivity(systems, p, asking));
                                     return claims::claims_json(reproduce_claims(systems, p, asking));
                                   }),
      make_answer<RouterFitParams>("router_fit", "Fits a generator to a router trace.",
                                   [](const RouterFitParams& p, const Systems& systems, const Asking&) {
                                     return router_fit_node(fit_router_trace(p, systems));
                                   }),
      make_answer<RouterProfileParams>("router_profile", "Profiles a router trace, layer by layer.",
                                       [](const RouterProfileParams& p, const Systems&, const Asking&) {
                                         return router_profile_node(profile_router_trace(p.trace));
                                       }),
  };
  return all;
}

Node answer(const Systems& systems, const std::string& name, const Node& params, const Asking& asking) {
  for (const Answer& one : answers())
    if (one.name == name) return one.give(params, systems, asking);
  std::vector<std::string> known;
  for (const Answer& one : answers()) known.push_back(one.name);
  sim::throw_fault({"ask", ""}, "there is no answer '" + name + "'", sim::name_hint(name, known));
}

}  // namespace orrery::experiments
