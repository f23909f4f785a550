#include "experiments/fidelity/training_calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "experiments/fidelity/table_training_steps.hpp"
#include "experiments/systems/training/config.hpp"

namespace orrery::experiments {
namespace training_calibration {

/// What is fitted of a run.
struct RunConstants {
  training::InSitu in_situ;
  training::LaunchHost host;
};

struct Constant {
  const char* name;
  const char* path;  ///< in a training config
  double none;       ///< as if there were no such constant
  double start, min, max;
  void (*set)(RunConstants& run, double value);
};
constexpr Constant kConstants[] = {
    {"kernel", "machine.in_situ.kernel", 1, 1, 0.2, 2,
     [](RunConstants& run, double value) { run.in_situ.kernel = value; }},
    {"overlapped", "machine.in_situ.overlapped", 1, 1, 0.1, 2,
     [](RunConstants& run, double value) { run.in_situ.overlapped = value; }},
    // One time for both passes: tables of plans do not tell them apart.
    {"host", "machine.host.operator", 0, 5e-6, 0, 200e-6,
     [](RunConstants& run, double value) { run.host.operator_s = run.host.backward_s = value; }},
};

constexpr double kHostStarts[] = {5e-6, 20e-6, 60e-6};  ///< s an operator

/// A table, its fitted rows, and who predicts it.
struct StepsTable {
  MeasuredTable whole, training;
  std::vector<char> in_training;
  std::unique_ptr<StepPredictor> predictor;
};

std::vector<StepsTable> load(const CalibrationOptions& options, const PartShelf& parts) {
  std::vector<StepsTable> tables;
  for (const std::string& file : measured_files(options.data)) {
    if (!is_steps_table(file)) continue;
    MeasuredTable table = MeasuredTable::read(options.data, file);
    const auto part = parts.for_table<hw::GpuParams>(table.stem());
    if (!part || part.entry != parts.find<hw::GpuParams>(options.device)) continue;
    StepsTable& one = tables.emplace_back();
    one.in_training = fitted_steps(table);
    for (std::size_t row = 0, fitted = 0; row < one.in_training.size(); ++row)
      if (one.in_training[row] != 0 && ++fitted > options.rows_per_table) one.in_training[row] = 0;
    one.training = table.subset(one.in_training);
    one.whole = std::move(table);
    one.predictor = std::make_unique<StepPredictor>(parts, part.entry->part, steps_system(part));
  }
  return tables;
}

/// Iterations of the fitted rows that a plan is predicted for, measured ones beside them when asked for.
std::vector<double> iterations(std::vector<StepsTable>& tables, const RunConstants& run,
                               std::vector<double>* measured = nullptr) {
  std::vector<double> predicted;
  for (StepsTable& table : tables) {
    table.predictor->set_run(run.in_situ, run.host);
    Predictions out;
    predict_steps(table.training, *table.predictor, out);
    for (const Predictions::Column& column : out.columns()) {
      if (column.metric != "iteration") continue;
      for (const Predictions::Row& row : column.rows) {
        predicted.push_back(row.predicted);
        if (measured != nullptr) measured->push_back(row.measured);
      }
    }
  }
  return predicted;
}

void add_errors(std::vector<StepsTable>& tables, const RunConstants& run, bool before,
                std::vector<CalibrationResult::Error>& errors) {
  for (StepsTable& table : tables) {
    table.predictor->set_run(run.in_situ, run.host);
    Predictions out;
    predict_steps(table.whole, *table.predictor, out);
    std::vector<char> others(table.in_training.size());
    std::transform(table.in_training.begin(), table.in_training.end(), others.begin(), [](char in) { return !in; });
    for (const Predictions::Column& column : out.columns()) {
      if (column.metric != "iteration") continue;
      const auto add = [&](const char* role, const std::vector<char>& mask) {
        for (FidelityLine& line : fidelity_lines(table.whole, column, mask))
          if (line.covered > 0) errors.push_back({role, std::move(line)});
      };
      if (before) {
        add("before", {});
      } else {
        add("fitted", table.in_training);
        add("held out", others);
      }
    }
  }
}

std::string undetermined(const Constant& constant) {
  return fmt::format("{}: not fitted, no fitted row depends on it", constant.path);
}

/// The constants that are asked for and that a fitted row depends on; a note on each that none does.
std::vector<Constant> usable(const CalibrationOptions& options, std::vector<StepsTable>& tables,
                             std::vector<std::string>& notes) {
  std::vector<Constant> found;
  RunConstants start;
  for (const Constant& constant : kConstants) constant.set(start, constant.start);
  const std::vector<double> plain = iterations(tables, start);
  for (const Constant& constant : kConstants) {
    if (!options.blocks.empty() &&
        std::find(options.blocks.begin(), options.blocks.end(), constant.name) == options.blocks.end())
      continue;
    RunConstants moved = start;
    constant.set(moved, constant.start > 0.5 ? constant.start / 2 : constant.max);
    if (iterations(tables, moved) == plain) {
      notes.push_back(undetermined(constant));
    } else {
      found.push_back(constant);
    }
  }
  return found;
}

double four_digits(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

/// Section `machine` of a config with what was found.
sim::Node config_of(const CalibrationResult::Block& block, const RunConstants& run) {
  training::MachineParams machine;
  machine.in_situ = {run.in_situ.kernel, run.in_situ.collective, run.in_situ.attention, run.in_situ.overlapped};
  machine.host = {run.host.operator_s, run.host.view_s, run.host.backward_s};
  sim::Node section = sim::Node::object();
  section.set("in_situ", sim::write_params(machine.in_situ));
  section.set("host", sim::write_params(machine.host));
  sim::Node root = sim::Node::object();
  root.set("title",
           sim::Node::string(fmt::format("fitted by `orrery calibrate --training` to {} rows of {}: mean error "
                                         "{:.1f} %",
                                         block.rows, fmt::join(block.tables, ", "), 100 * block.fit.mape)));
  root.set("machine", std::move(section));
  return root;
}

void check(const CalibrationOptions& options, const PartShelf& parts) {
  sim::Faults faults;
  const std::vector<std::string> devices = parts.names(), constants = training_constants();
  if (std::find(devices.begin(), devices.end(), options.device) == devices.end())
    faults.add({"calibrate", ""}, fmt::format("unknown part '{}'", options.device),
               sim::name_hint(options.device, devices));
  for (const std::string& name : options.blocks)
    if (std::find(constants.begin(), constants.end(), name) == constants.end())
      faults.add({"calibrate", ""}, fmt::format("unknown constant '{}' of a training run", name),
                 sim::name_hint(name, constants));
  if (options.hold_out || options.hold_out_shapes || !options.column.empty())
    faults.add({"--holdout", ""}, "has no meaning with --training", "every fifth row is fitted, the others are judged");
  faults.throw_if_any();
}

}  // namespace training_calibration

std::vector<std::string> training_constants() {
  std::vector<std::string> names;
  for (const training_calibration::Constant& constant : training_calibration::kConstants)
    names.emplace_back(constant.name);
  return names;
}

std::vector<char> fitted_steps(const MeasuredTable& table) {
  constexpr std::size_t kFew = 20, kEvery = 5;
  std::vector<char> fitted(table.rows(), 0);
  std::set<std::string> models;
  for (std::size_t row = 0; row < table.rows(); ++row)
    fitted[row] = table.rows() < kFew ? models.insert(steps_model_key(table, row)).second : row % kEvery == 0;
  return fitted;
}

CalibrationResult calibrate_training(const CalibrationOptions& options, const PartShelf& parts) {
  using namespace training_calibration;
  check(options, parts);
  std::vector<StepsTable> tables = load(options, parts);
  if (tables.empty())
    sim::throw_fault(
        {"calibrate", ""},
        fmt::format("no table 'training/*.steps.csv' in '{}' measures {}", options.data.string(), options.device),
        "`tables` of a catalog entry names the files that stand for it");
  CalibrationResult result;
  add_errors(tables, {}, true, result.errors);
  CalibrationResult::Block& block = result.blocks.emplace_back();
  block.name = "training";
  block.fitted_parts = {options.device};
  for (const StepsTable& table : tables) block.tables.push_back(table.whole.name());
  const std::vector<Constant> constants = usable(options, tables, result.notes);
  std::vector<double> measured;
  (void)iterations(tables, {}, &measured);
  block.rows = measured.size();
  if (constants.empty())
    sim::throw_fault({block.tables.front(), ""}, "no fitted row depends on what is to be fitted",
                     "`orrery fidelity` says which rows are covered");
  if (measured.size() < constants.size())
    sim::throw_fault(
        {block.tables.front(), ""},
        fmt::format("{} to fit, too few for {} constants",
                    measured.size() == 1 ? "1 row" : fmt::format("{} rows", measured.size()), constants.size()),
        "--block chooses among the constants");
  for (const Constant& c : constants) block.constants.push_back({c.path, c.start, c.min, c.max});
  const auto run_of = [&](std::span<const double> values) {
    RunConstants run;
    for (std::size_t i = 0; i < values.size(); ++i) constants[i].set(run, values[i]);
    return run;
  };
  const FitModel model = [&](std::span<const double> values, std::span<double> predicted) {
    const std::vector<double> all = iterations(tables, run_of(values));
    std::copy(all.begin(), all.end(), predicted.begin());
  };
  // A host below what makes anybody wait moves nothing, and a fit that begins there blames the kernels: begin at
  // several.
  for (const double host_s : kHostStarts) {
    std::vector<FitConstant> begin = block.constants;
    for (std::size_t i = 0; i < begin.size(); ++i)
      if (constants[i].none == 0) begin[i].start = host_s;
    FitResult found = fit(begin, measured, model, options.fit);
    if (block.fit.values.empty() || found.loss < block.fit.loss) block.fit = std::move(found);
  }
  for (std::size_t i = 0; i < constants.size(); ++i) block.constants[i].start = constants[i].none;
  for (double& value : block.fit.values) value = four_digits(value);  // more are not known, and the file is read
  for (std::size_t i = 0; i < constants.size(); ++i) {  // a host that is never waited for leaves a fit where it began
    std::vector<double> without = block.fit.values;
    without[i] = constants[i].none;
    if (iterations(tables, run_of(without)) != iterations(tables, run_of(block.fit.values))) continue;
    block.fit.values = without;
    result.notes.push_back(undetermined(constants[i]));
  }
  const RunConstants run = run_of(block.fit.values);
  add_errors(tables, run, false, result.errors);
  result.notes.insert(result.notes.begin(),
                      "fitted: every fifth row from the first; of a table of under 20 rows, the "
                      "first of each model");
  result.entry = config_of(block, run);
  return result;
}

}  // namespace orrery::experiments
