// Constants of a training run from a table of measured plans: found again where they made the table.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "experiments/fidelity/table_training_steps.hpp"
#include "experiments/fidelity/training_calibration.hpp"
#include "tests/experiments/support.hpp"
#include "tests/measured.hpp"

namespace test_training_calibration {

using namespace orrery;
using namespace orrery::experiments;
using Catch::Matchers::Contains;
using experiments::test::shelf;

namespace {

constexpr const char* kColumns =
    "hidden,intermediate,heads,kv_heads,layers,vocab,sequence,micro_batch,global_batch,gpus,zero,iter_s\n";

/// Rows of two models and three micro-batches on so many GPUs, with the times that `run` makes of them; `count` rows.
std::string table_of(const training::InSitu& in_situ, const training::LaunchHost& host, std::int64_t gpus,
                     std::size_t count, std::int64_t hidden = 1024) {
  const auto row = [&](std::size_t place, double seconds) {
    const auto i = static_cast<std::int64_t>(place);
    const std::int64_t micro = 1 + i % 3;
    return fmt::format("{},{},16,16,{},32000,1024,{},{},{},{},{}\n", (1 + i % 2) * hidden, 4 * (1 + i % 2) * hidden,
                       2 + i / 6, micro, 2 * micro * gpus, gpus, gpus > 1 ? "weights" : "none", seconds);
  };
  std::string text = kColumns;
  for (std::size_t i = 0; i < count; ++i) text += row(i, 1);
  const MeasuredTable plans = MeasuredTable::parse(text, "training/h100_pytorch.steps.csv");
  const auto part = shelf().for_table<hw::GpuParams>(plans.stem());
  StepPredictor predictor(shelf(), part.entry->part, steps_system(part));
  predictor.set_run(in_situ, host);
  Predictions out;
  predict_steps(plans, predictor, out);
  REQUIRE(out.columns().front().rows.size() == count);
  text = kColumns;
  for (const Predictions::Row& predicted : out.columns().front().rows) text += row(predicted.row, predicted.predicted);
  return text;
}

struct Folder {
  experiments::test::Scratch scratch;
  explicit Folder(const std::string& text) {
    std::filesystem::create_directories(scratch / "training");
    scratch.write("training/h100_pytorch.steps.csv", text);
  }
  CalibrationOptions options() const { return {.device = "h100-sxm5-80gb", .data = scratch / ""}; }
};

double found(const CalibrationResult& result, std::string_view path) {
  const CalibrationResult::Block& block = result.blocks.front();
  for (std::size_t i = 0; i < block.constants.size(); ++i)
    if (block.constants[i].path == path) return block.fit.values[i];
  FAIL("not fitted: " << path);
  return 0;
}

const FidelityLine& line(const CalibrationResult& result, std::string_view role) {
  for (const CalibrationResult::Error& error : result.errors)
    if (error.role == role && error.line.regime == "all") return error.line;
  FAIL("no errors of " << role);
  return result.errors.front().line;
}

}  // namespace

TEST_CASE("constants that made a table of plans are found from a fifth of it", "[unit][fidelity]") {
  const training::LaunchHost host{.operator_s = 40e-6, .view_s = 0, .backward_s = 40e-6};
  const Folder folder(table_of({.kernel = 0.7, .overlapped = 0.5}, host, 16, 40));
  const CalibrationResult result = calibrate_training(folder.options(), shelf());
  CHECK(result.blocks.front().rows == 8);  // of 40
  CHECK(found(result, "machine.in_situ.kernel") == Approx(0.7).epsilon(0.01));
  CHECK(found(result, "machine.in_situ.overlapped") == Approx(0.5).epsilon(0.02));
  CHECK(found(result, "machine.host.operator") == Approx(40e-6).epsilon(0.02));
  CHECK(line(result, "before").covered == 40);
  CHECK(line(result, "before").errors.mape > 0.2);
  CHECK(line(result, "held out").covered == 32);
  CHECK(line(result, "held out").errors.mape < 0.01);
  // What is written is a part of a config: whoever lays it below one has these constants.
  const sim::Node* machine = result.entry.find("machine");
  REQUIRE(machine != nullptr);
  CHECK(machine->at("in_situ.kernel")->as_number() == Approx(0.7).epsilon(0.01));
  CHECK(machine->at("host.backward")->as_string() == machine->at("host.operator")->as_string());
  CHECK(machine->at("host.view")->as_string() == "0 s");
}

TEST_CASE("a constant that no fitted row depends on is left as it is, and said so", "[unit][fidelity]") {
  const Folder folder(table_of({.kernel = 0.8}, {}, 1, 20, 4096));  // one GPU has no collectives
  const CalibrationResult result = calibrate_training(folder.options(), shelf());
  CHECK(found(result, "machine.in_situ.kernel") == Approx(0.8).epsilon(0.01));
  CHECK(found(result, "machine.host.operator") == 0);  // nobody waits for it, at its start of 5 us an operator neither
  REQUIRE(result.notes.size() == 3);
  CHECK(result.notes[1] == "machine.in_situ.overlapped: not fitted, no fitted row depends on it");
  CHECK(result.notes[2] == "machine.host.operator: not fitted, no fitted row depends on it");
  CHECK(result.entry.at("machine.in_situ.overlapped")->as_number() == 1);
  CHECK(result.entry.at("machine.host.operator")->as_string() == "0 s");
}

TEST_CASE("of a small table the first row of each model is fitted, of others every fifth", "[unit][fidelity]") {
  const auto mask = [](const std::string& text) {
    const std::vector<char> fitted = fitted_steps(MeasuredTable::parse(text, "training/x.steps.csv"));
    std::string shown;
    for (const char one : fitted) shown += one != 0 ? '1' : '0';
    return shown;
  };
  const std::string columns = "hidden,layers,sequence,micro_batch,iter_s\n";
  // A model is its sizes: another sequence or micro-batch is none.
  CHECK(mask(columns + "8,2,16,1,1\n8,2,16,2,1\n8,3,16,1,1\n8,2,32,1,1\n9,2,16,1,1\n") == "10101");
  std::string many = columns;
  for (int i = 0; i < 20; ++i) many += "8,2,16,1,1\n";
  CHECK(mask(many) == "10000100001000010000");
}

TEST_CASE("what cannot be calibrated is said in one line", "[unit][fidelity]") {
  const Folder folder(table_of({}, {}, 1, 4));  // two models: two rows are fitted
  const auto fault = [&](const std::function<void(CalibrationOptions&)>& change) -> std::string {
    CalibrationOptions options = folder.options();
    change(options);
    try {
      (void)calibrate_training(options, shelf());
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(fault([](auto& o) { o.blocks = {"kernels"}; }),
             Contains("unknown constant 'kernels'") && Contains("kernel"));
  CHECK_THAT(fault([](auto& o) { o.device = "h100-sxm5-80g"; }), Contains("unknown part 'h100-sxm5-80g'"));
  CHECK_THAT(fault([](auto& o) { o.device = "a100-sxm4-80gb"; }), Contains("no table 'training/*.steps.csv'"));
  CHECK_THAT(fault([](auto& o) { o.hold_out_shapes = true; }), Contains("has no meaning with --training"));
  CHECK_THAT(fault([](auto& o) { o.blocks = {"overlapped"}; }), Contains("no fitted row depends on"));
  const Folder one(table_of({}, {}, 1, 1));
  CalibrationOptions options = one.options();
  CHECK_THROWS_WITH(calibrate_training(options, shelf()), Contains("1 row to fit, too few for 2 constants"));
  options.blocks = {"kernel"};
  CHECK(calibrate_training(options, shelf()).blocks.front().rows == 1);
  // At most so many rows of a table are fitted (--rows); the others are judged.
  CalibrationOptions few = folder.options();
  few.rows_per_table = 1;
  few.blocks = {"kernel"};
  const CalibrationResult result = calibrate_training(few, shelf());
  CHECK(result.blocks.front().rows == 1);
  CHECK(line(result, "held out").covered == 3);
}

}  // namespace test_training_calibration
