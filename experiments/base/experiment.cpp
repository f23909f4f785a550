#include "experiments/base/experiment.hpp"

#include <fmt/format.h>

#include "experiments/base/study_file.hpp"
#include "sim/base/home.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::experiments {
namespace {

/// The keys that say what kind of document this is.
void check_kind(const sim::Node& root, sim::Faults& faults) {
  const sim::Node* kind = root.find("kind");
  if (kind != nullptr && !(kind->is_string() && kind->as_string() == "experiment"))
    faults.add(kind->origin(), fmt::format("expected \"experiment\", got {}", kind->shown()));
  const sim::Node* format = root.find("version");
  if (format != nullptr && !(format->kind() == sim::Node::Kind::integer && format->as_integer() == 1))
    faults.add(format->origin(), fmt::format("expected format version 1, got {}", format->shown()));
  const sim::Node* title = root.find("title");
  if (title != nullptr && !title->is_string())
    faults.add(title->origin(), fmt::format("expected a string, got {}", title->shown()));
}

}  // namespace

Outcome Outcome::infeasible(std::string reason, std::vector<std::string> notes) {
  Outcome outcome{.summary = sim::Node::object(), .notes = std::move(notes)};
  outcome.summary.set("status", sim::Node::string("infeasible"));
  outcome.summary.set("reason", sim::Node::string(std::move(reason)));
  return outcome;
}

Outcome Outcome::ended(const EndedEarly& early) {
  Outcome outcome = infeasible(early.reason);
  outcome.summary.set("status", sim::Node::string("ended"));
  sim::Node value = sim::Node::real(early.value);
  for (std::size_t end = early.path.size(), dot = 0; end > 0; end = dot) {  // from the last name to the first
    dot = early.path.rfind('.', end - 1);
    if (dot == std::string::npos) {
      outcome.summary.set(early.path.substr(0, end), std::move(value));
      break;
    }
    sim::Node outer = sim::Node::object();
    outer.set(early.path.substr(dot + 1, end - dot - 1), std::move(value));
    value = std::move(outer);
  }
  return outcome;
}

bool Outcome::feasible() const {
  const sim::Node* status = summary.find("status");
  return status != nullptr && status->is_string() && status->as_string() == "ok";
}

std::unique_ptr<Experiment> read_experiment(const Systems& systems, const sim::Node& root) {
  sim::Faults faults;
  check_kind(root, faults);
  std::vector<std::string> names;
  for (const System& system : systems.all()) names.push_back(system.name);
  const sim::Node* name = root.find("system");
  if (name == nullptr || !name->is_string()) {
    faults.add(name == nullptr ? root.origin_of("system") : name->origin(), "expected the name of a system",
               sim::name_hint("", names));
    faults.throw_if_any();
  }
  const std::string spelt = sim::same_spelling(name->as_string(), names);
  for (const System& system : systems.all()) {
    if (system.name != spelt) continue;
    auto experiment = system.read(root, systems, faults);
    faults.throw_if_any();
    experiment->set_notes(faults.notes());
    return experiment;
  }
  faults.add(name->origin(), fmt::format("unknown system '{}'", name->as_string()),
             sim::name_hint(name->as_string(), names));
  throw sim::ConfigError(faults.all());
}

std::unique_ptr<Experiment> read_experiment(const Systems& systems, const std::filesystem::path& config,
                                            const std::vector<std::string>& assignments) {
  sim::Node document = sim::read_json(config.lexically_normal());
  const std::string kind = document_kind(document);
  const auto refuse = [&](const char* got, const char* hint) {
    sim::throw_fault({config.string(), "/kind"}, fmt::format("expected an experiment, got {}", got), hint);
  };
  if (kind == "claim") refuse("a claim study", "`orrery reproduce` runs it");  // whose base is no file
  if (kind == "study") refuse("a study", "`orrery sweep` and `orrery search` explore it");
  if (kind == "evolve") refuse("a study of expressions", "`orrery evolve` searches it");
  return read_experiment(systems, sim::read_config(std::move(document), assignments));
}

std::filesystem::path home_folder() {
  return sim::home_folder();
}

std::string_view version() {
  return ORRERY_VERSION;
}

}  // namespace orrery::experiments
