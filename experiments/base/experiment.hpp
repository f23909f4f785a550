// Experiments: what a config becomes once it is validated, whatever system it is about.
//
// A System reads its config sections into an Experiment; the command line, studies and tests then run it without
// knowing which system it is. The config of a system is one parameter struct with a field table, from which reading,
// checking, the resolved config, the JSON Schema, `describe` and the docs come.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/base/early_end.hpp"
#include "experiments/base/figure_table.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"
#include "sim/base/registry_set.hpp"

namespace orrery::experiments {

/// How far a run has come; calls come at most a few times a second of host time.
struct Progress {
  std::int64_t done = 0;
  std::optional<std::int64_t> total;
  double simulated_s = 0;
  const char* what = "requests";  ///< that `done` counts
};

/// Where a run puts what it produces. Without a folder it writes no files.
struct RunSink {
  std::optional<std::filesystem::path> folder;
  std::function<void(const Progress&)> progress;  ///< may be empty
  std::vector<RunEnd> ends{};                     ///< on figures that the system can end on (System::ends_on)
};

/// What a run gives back. `summary` is summary.json: status "ok", or what went otherwise with a `reason` ("infeasible"
/// for a design that does not fit, "stalled" for one that gets stuck, "ended" for a run that ended early): a result,
/// not an error.
struct Outcome {
  sim::Node summary;
  std::uint64_t events = 0;
  std::vector<std::string> notes;  ///< for the user: skipped lines, truncated timeline …
  bool feasible() const;
  /// Of a design that cannot be, and nothing else known of it.
  static Outcome infeasible(std::string reason, std::vector<std::string> notes = {});
  /// Of a run that ended early, with the figure that it ended on as it was then.
  static Outcome ended(const EndedEarly& early);
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  /// The config with every default filled in; a pure function of the config.
  virtual const sim::Node& resolved() const = 0;
  /// Files besides the config whose content decides the result (trace, model, part).
  virtual std::vector<std::filesystem::path> inputs() const = 0;
  /// The resolved config without the paths of its inputs: what decides a result, wherever the files lie.
  virtual sim::Node identity() const = 0;
  virtual std::int64_t seed() const = 0;
  /// For people, beside the resolved config: what the config does not say by itself. Lines, or nothing.
  virtual std::string description() const { return {}; }
  /// What is asked, in a few lines to stand above the answer: {"model", "llama-2-7b, fp16"}, …; or nothing.
  virtual std::vector<std::pair<std::string, std::string>> restated() const { return {}; }
  /// Runs from the start; may be called more than once, with equal outcomes. Throws sim::ConfigError for faults that
  /// only reading the inputs shows.
  virtual Outcome run(const RunSink& sink) const = 0;

  /// For the user: what reading the config made of names (sim::Faults::notes).
  const std::vector<std::string>& notes() const { return notes_; }
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }

 private:
  std::vector<std::string> notes_;
};

class Systems;

/// A kind of experiment: "serving", "network".
struct System {
  std::string name;
  std::string doc;
  /// Sections of its config.
  std::function<std::vector<sim::FieldInfo>(const sim::RegistrySet&)> fields;
  /// Those of summary.json that a figure table writes; experiments/outputs.json declares the others.
  std::vector<FigureInfo> figures;
  /// Reports every fault of a config. What it needs of `systems` later it keeps: that is a handle.
  std::function<std::unique_ptr<Experiment>(const sim::Node&, const Systems& systems, sim::Faults&)> read;
  EndFigures ends_on{};  ///< before its time
};

using SharedRegistries = std::shared_ptr<const sim::RegistrySet>;

/// All systems that a config may be about, and the registries that it chooses from: what reading a config needs. Made
/// once, by the roof (experiments/all/systems.hpp), and passed to all who read. Copies are handles on one value, so an
/// experiment that reads others keeps one.
class Systems {
 public:
  Systems(std::vector<System> all, SharedRegistries registries)
      : all_(std::make_shared<const std::vector<System>>(std::move(all))), registries_(std::move(registries)) {}

  const std::vector<System>& all() const { return *all_; }
  const SharedRegistries& registries() const { return registries_; }
  /// The registry of that type, e.g. registry<policies::BatchingRegistry>().
  template <class R>
  const R& registry() const {
    return registries_->get<R>();
  }

 private:
  std::shared_ptr<const std::vector<System>> all_;
  SharedRegistries registries_;
};

/// System::fields of a system whose sections are `S`.
template <sim::Parameters S>
std::vector<sim::FieldInfo> describe_sections(const sim::RegistrySet& registries) {
  return sim::describe_params<S>(registries);
}
/// System::read of an experiment `E` that is made from a document and reports the document's faults.
template <class E>
std::unique_ptr<Experiment> read_as(const sim::Node& root, const Systems& systems, sim::Faults& faults) {
  auto experiment = std::make_unique<E>(root, systems, faults);
  faults.throw_if_any();
  return experiment;
}

/// Reads and validates a config file. Throws sim::ConfigError with all faults.
std::unique_ptr<Experiment> read_experiment(const Systems& systems, const std::filesystem::path& config,
                                            const std::vector<std::string>& assignments = {});
/// The same for a document in memory.
std::unique_ptr<Experiment> read_experiment(const Systems& systems, const sim::Node& root);

/// Folder that holds hw/catalog and models/catalog: $ORRERY_HOME, or the source tree the program was built from.
std::filesystem::path home_folder();

/// Version of the simulator, part of a run's identity.
std::string_view version();

}  // namespace orrery::experiments
