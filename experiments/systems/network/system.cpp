#include "experiments/systems/network/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "experiments/systems/network/files.hpp"
#include "experiments/systems/network/run.hpp"
#include "experiments/systems/network/summary.hpp"
#include "hw/network/topology_query.hpp"

namespace orrery::experiments {
namespace network {
namespace {

class NetworkExperiment final : public Experiment {
 public:
  NetworkExperiment(NetworkConfig config, SharedRegistries registries)
      : config_(std::move(config)), registries_(std::move(registries)) {}

  const sim::Node& resolved() const override { return config_.resolved; }
  std::int64_t seed() const override { return config_.run.seed; }
  std::string description() const override { return hw::describe(*config_.topology); }

  std::vector<std::filesystem::path> inputs() const override {
    std::vector<std::filesystem::path> files;
    sim::Node root = config_.resolved;
    sim::for_each_path<NetworkSections>(*registries_, root,
                                        [&](sim::Node& path) { files.emplace_back(path.as_string()); });
    return files;
  }

  sim::Node identity() const override {
    sim::Node root = config_.resolved;
    sim::for_each_path<NetworkSections>(*registries_, root,
                                        [](sim::Node& path) { path = sim::Node::string("an input"); });
    return root;
  }

  Outcome run(const RunSink& sink) const override {
    try {
      return run_in_range(sink);
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    } catch (const std::length_error& error) {
      sim::throw_fault({config_.file, "/workload"}, fmt::format("expected less to send at once: {}", error.what()),
                       "give a window, to the traffic or to the algorithm 'direct'");
    }
  }

 private:
  /// Throws std::overflow_error for a time past the reach of the tick, std::length_error for too many messages.
  Outcome run_in_range(const RunSink& sink) const {
    Outcome outcome;
    std::unique_ptr<NetworkFiles> files;
    if (sink.folder) files = std::make_unique<NetworkFiles>(*sink.folder, config_);
    const NetworkResult result = run_network(config_, files.get(), sink.progress);
    outcome.summary = summarise(config_, result);
    outcome.events = result.events;
    if (config_.run.replications > 1) replicate(sink, outcome);
    if (result.closed)
      outcome.notes.emplace_back("the time is a closed form's: nothing is known of links (\"mode\": \"chunks\")");
    if (result.cut_off) outcome.notes.emplace_back("run.until ended the run before everything had arrived");
    if (!files) return outcome;
    files->finish(result);
    if (files->timeline_truncated())
      outcome.notes.push_back(
          fmt::format("timeline.pftrace shows the first {} slices (run.timeline.slices)", config_.run.timeline.slices));
    if (files->timeline_full()) outcome.notes.push_back(*files->timeline_full());
    if (!files->loads_sampled())
      outcome.notes.emplace_back("timeline.pftrace shows no loads: the network has too many links");
    return outcome;
  }

  /// The further replications, without files.
  void replicate(const RunSink& sink, Outcome& outcome) const {
    std::vector<sim::Node> summaries{outcome.summary};
    for (std::int64_t i = 1; i < config_.run.replications; ++i) {
      const NetworkResult result = run_network(config_, nullptr, sink.progress, i);
      summaries.push_back(summarise(config_, result));
      outcome.events += result.events;
    }
    outcome.summary.set("replications", summarise_replications(summaries));
  }

  NetworkConfig config_;
  SharedRegistries registries_;
};

}  // namespace
}  // namespace network

System network_system() {
  return {
      .name = "network",
      .doc = "Simulates collectives, flows and generated traffic on a network of shared links.",
      .fields = describe_sections<network::NetworkSections>,
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        network::NetworkConfig config = network::read_network_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<network::NetworkExperiment>(std::move(config), systems.registries());
      }};
}

}  // namespace orrery::experiments
