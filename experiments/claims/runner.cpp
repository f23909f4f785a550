#include "experiments/claims/runner.hpp"

#include <exception>
#include <map>
#include <mutex>
#include <set>

#include "experiments/base/figures.hpp"
#include "experiments/base/parallel.hpp"
#include "experiments/base/stopped.hpp"

namespace orrery::experiments::claims {
namespace {

/// One distinct config.
struct Task {
  sim::Node config;
  std::unique_ptr<Experiment> experiment;
  std::shared_ptr<RunResult> result = std::make_shared<RunResult>();
  std::vector<sim::Fault> faults;
  std::exception_ptr error;
};

/// The configs of studies, equal ones once.
class Tasks {
 public:
  /// The task of a config, and faults of making it.
  std::size_t add(const ClaimStudy& study, const Variant& variant, std::size_t point) {
    Task task;
    std::string key;
    try {
      task.config = study.config(variant, point);
      // Paths in a config are relative to its file; a title decides nothing.
      sim::Node named = task.config;
      named.erase("title");
      key = study.file.parent_path().string() + "\n" + named.dump();
    } catch (const sim::ConfigError& error) {
      task.faults = error.faults();
      key = error.what();
    }
    const auto [place, fresh] = index_.emplace(std::move(key), tasks_.size());
    if (fresh) tasks_.push_back(std::move(task));
    return place->second;
  }
  std::vector<Task>& all() { return tasks_; }

  /// Throws the faults of all tasks, each once, or what else went wrong first.
  void throw_if_any() const {
    std::vector<sim::Fault> faults;
    std::set<std::string> seen;
    for (const Task& task : tasks_) {
      if (task.error) std::rethrow_exception(task.error);
      for (const sim::Fault& fault : task.faults)
        if (seen.insert(fault.text()).second) faults.push_back(fault);
    }
    if (!faults.empty()) throw sim::ConfigError(std::move(faults));
  }

 private:
  std::vector<Task> tasks_;
  std::map<std::string, std::size_t> index_;
};

/// Calls `work` for every task, on `jobs` threads; what it throws stays with the task.
template <class Work>
void for_each_task(std::vector<Task>& tasks, std::size_t jobs, Work work) {
  parallel_for(tasks.size(), jobs, [&](std::size_t i) {
    if (!tasks[i].faults.empty()) return;
    try {
      work(tasks[i]);
    } catch (const sim::ConfigError& error) {
      tasks[i].faults = error.faults();
    } catch (...) {
      tasks[i].error = std::current_exception();
    }
  });
}

void run(Task& task, const std::function<bool()>& stop) {
  const std::unique_ptr<Experiment> experiment = std::move(task.experiment);  // gone, with all it holds, when done
  Outcome outcome = experiment->run({.progress = [&](const Progress&) {
    if (stop && stop()) throw Stopped{};
  }});
  task.result->reason = reason_of(outcome.summary);
  task.result->summary = std::move(outcome.summary);
}

}  // namespace

std::vector<StudyResult> run_studies(const Systems& systems, std::vector<ClaimStudy> studies,
                                     const RunOptions& options) {
  Tasks tasks;
  std::vector<std::vector<std::size_t>> wanted;
  for (const ClaimStudy& study : studies) {
    std::vector<std::size_t>& of_study = wanted.emplace_back();
    for (const Variant& variant : study.variants)
      for (std::size_t point = 0; point < study.points(); ++point) of_study.push_back(tasks.add(study, variant, point));
  }
  for_each_task(tasks.all(), options.jobs,
                [&](Task& task) { task.experiment = read_experiment(systems, task.config); });
  tasks.throw_if_any();
  std::mutex mutex;
  std::int64_t done = 0;
  for_each_task(tasks.all(), options.jobs, [&](Task& task) {
    if (options.stop && options.stop()) throw Stopped{};
    run(task, options.stop);
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress) options.progress(done, std::ssize(tasks.all()));
  });
  tasks.throw_if_any();
  std::vector<StudyResult> results;
  for (std::size_t s = 0; s < studies.size(); ++s) {
    StudyResult& result = results.emplace_back(StudyResult{.study = std::move(studies[s])});
    for (const std::size_t task : wanted[s]) result.runs.push_back(tasks.all()[task].result);
  }
  return results;
}

void check_experiments(const Systems& systems, const ClaimStudy& study) {
  Tasks tasks;
  for (const Variant& variant : study.variants)
    for (std::size_t point = 0; point < study.points(); ++point) tasks.add(study, variant, point);
  for_each_task(tasks.all(), 1, [&](Task& task) { (void)read_experiment(systems, task.config); });
  tasks.throw_if_any();
}

}  // namespace orrery::experiments::claims
