// A user's table of measured plans as training steps (table_training_steps.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {

/// Whether the file of this relative path is such a table: "training/<stem>.steps.csv".
bool is_steps_table(std::string_view path);
/// The machine and software of a table that was measured on a part: nodes of eight, 200 Gb/s a GPU.
MeasuredSystem steps_system(const PartShelf::Found<hw::GpuParams>& part);
/// Predicts its rows: times of a step and, of one stage, of its passes; memory allocated.
void predict_steps(const MeasuredTable& table, StepPredictor& predictor, Predictions& out);
/// What makes two rows one shape.
std::string steps_shape_key(const MeasuredTable& table, std::size_t row);
/// What makes two rows one model.
std::string steps_model_key(const MeasuredTable& table, std::size_t row);

}  // namespace orrery::experiments
