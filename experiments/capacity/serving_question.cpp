#include "experiments/capacity/serving_question.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "experiments/systems/serving/load/workload.hpp"
#include "experiments/systems/serving/restate.hpp"
#include "sim/batch_means.hpp"

namespace orrery::experiments::capacity {

using sim::Node;

ServingConfig read_serving_part(Node root, std::initializer_list<std::string_view> own, const Systems& systems,
                                sim::Faults& faults) {
  for (const std::string_view section : own) root.erase(section);
  return read_serving_config(root, systems.registries(), faults);
}

double half_width(std::span<const double> values, double mean, double confidence) {
  if (values.size() < 2) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return sim::mean_half_width(squares / static_cast<double>(values.size() - 1), std::ssize(values), confidence);
}

ServingQuestion::ServingQuestion(ServingConfig config, std::string system, Node params)
    : config_(std::move(config)), resolved_(config_.resolved), system_(std::move(system)) {
  resolved_.set("system", Node::string(system_));
  resolved_.set(system_, std::move(params));
}

Node ServingQuestion::identity() const {
  Node node = serving_identity(config_);
  node.set("system", Node::string(system_));
  node.set(system_, *resolved_.find(system_));
  return node;
}

std::vector<std::pair<std::string, std::string>> ServingQuestion::restated() const {
  return restate_serving(resolved_);
}

SetupQuestion::SetupQuestion(ServingConfig config, std::string system, Node params)
    : ServingQuestion(std::move(config), std::move(system), std::move(params)), setup_(config_) {
  traces::TraceRecord first;
  if (!config_.workload.program)
    (void)open_workload(config_, static_cast<std::uint64_t>(config_.run.seed))->next(first);
}

Outcome SetupQuestion::run(const RunSink& sink) const {
  if (setup_.infeasible()) {
    Outcome outcome;
    outcome.summary = summarise(*setup_.infeasible());
    return outcome;
  }
  try {
    Outcome outcome = answer(sink);
    outcome.notes = serving_notes(config_, setup_);
    return outcome;
  } catch (const std::overflow_error& error) {
    sim::throw_fault({config_.file, ""}, error.what());
  }
}

}  // namespace orrery::experiments::capacity
