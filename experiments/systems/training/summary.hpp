// Figures and files of a training run.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::training {

sim::Node summarise(const TrainingConfig& config, const TrainingResult& result);
std::vector<FigureInfo> training_figures();

/// passes.csv: every pass of every stage; stages.csv: what each stage does and holds.
void write_passes(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result);
void write_activations(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result);
void write_stages(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result);
/// Stages as tracks, messages between them, gradients and the optimizer's step.
void write_timeline(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result);

}  // namespace orrery::experiments::training
