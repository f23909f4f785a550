// Sections of a training config that arguments of several programs become.
#pragma once

#include "experiments/import/training_args.hpp"

namespace orrery::experiments {

/// {"kind": …, "system": "training", "machine": {…}} of so many devices, in nodes of eight.
sim::Node training_root(ArgumentReader& reader, const TrainingImport& options, std::int64_t devices);
/// Section `model`: a builder with its parameters, and in `policies` the passes in order.
void set_builder(sim::Node& root, const char* builder, sim::Node params);
void set_passes(sim::Node& root, bool fused);
/// A decoder of the catalog or of a file as PyTorch trains it.
sim::Node pytorch_decoder(const std::string& config, bool compiled);
/// Chooses policy `name` of `kind`; its parameters, to be set.
sim::Node& set_policy(sim::Node& root, const char* kind, const char* name);
/// A link to the host's memory, where the plan keeps something there.
void set_host_link(sim::Node& root);
/// That, and a host that updates the optimizer's states that it holds; answers what to say of it.
std::string set_host_updates(sim::Node& root);

}  // namespace orrery::experiments
