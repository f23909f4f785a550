#include "experiments/systems/graph/system.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "experiments/systems/graph/files.hpp"
#include "experiments/systems/graph/summary.hpp"

namespace orrery::experiments {
namespace graph {
namespace {

class GraphExperiment final : public Experiment {
 public:
  explicit GraphExperiment(GraphConfig config) : config_(std::move(config)) {}

  const sim::Node& resolved() const override { return config_.resolved; }
  std::vector<std::filesystem::path> inputs() const override { return config_.inputs; }
  sim::Node identity() const override { return config_.resolved; }
  std::int64_t seed() const override { return config_.run.seed; }

  std::string description() const override {
    std::string text = fmt::format("{}: {} ops, {} tensors before passes; dimensions:", config_.model.name,
                                   config_.model.op_count(), config_.model.tensor_count());
    for (const models::Symbol symbol : config_.model.symbols()) text += " " + symbol.name();
    return text + "\n";
  }

  Outcome run(const RunSink& sink) const override {
    try {
      const GraphResult result = run_graph(config_, sink.progress);
      if (sink.folder) write_files(*sink.folder, config_, result);
      Outcome outcome;
      outcome.summary = summarise(config_, result);
      outcome.events = result.events;
      outcome.notes = config_.notes;
      for (const auto& [name, count] : config_.unmapped)
        outcome.notes.push_back(fmt::format("no operator of ours for {} x {}: a custom op", count, name));
      for (const PassOutcome& pass : result.passes)
        for (const std::string& note : pass.report.notes) outcome.notes.push_back(pass.name + ": " + note);
      return outcome;
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    } catch (const std::domain_error& error) {
      sim::throw_fault({config_.file, "/workload/bind"}, error.what());
    } catch (const models::UnboundSymbol& error) {
      sim::throw_fault({config_.file, "/workload/bind"}, error.what());
    } catch (const models::GraphError& error) {
      sim::throw_fault({config_.file, "/model"}, error.what());
    }
  }

 private:
  GraphConfig config_;
};

}  // namespace
}  // namespace graph

System graph_system() {
  return {
      .name = "graph",
      .doc = "Runs an operator graph, rewritten by passes, on a device for requests of varying size.",
      .fields = describe_sections<graph::GraphParams>,
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        graph::GraphConfig config = graph::read_graph_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<graph::GraphExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
