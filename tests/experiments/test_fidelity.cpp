// Fidelity and calibration: tables, errors, the shelf of parts, and fits that find what made the data.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/calibration.hpp"
#include "experiments/fidelity/fidelity.hpp"
#include "hw/cost/cost_model.hpp"
#include "sim/base/random.hpp"

namespace test_fidelity {

using namespace orrery;
using namespace orrery::experiments;

namespace {

namespace fs = std::filesystem;

const char* const kPart = "a100-sxm4-80gb";

PartShelf shelf() {
  return PartShelf(home_folder() / "hw/catalog");
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "no fault";
}

/// A folder of measured tables that goes away with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / "orrery_test_fidelity";
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

/// Products "measured" on a part of known constants: what a fit has to find again.
std::string synthetic_gemm(const hw::GpuParams& truth, int rows) {
  const auto model = hw::make_cost_model("tiled", truth);
  sim::RandomStream random(11, "synthetic");
  std::string text = "dtype,m,n,k,time_us\n";
  for (int i = 0; i < rows; ++i) {
    const auto size = [&] { return static_cast<std::int64_t>(64 * std::pow(2.0, random.uniform(0, 7))); };
    const hw::Gemm shape{random.integer(1, 4096), size(), size()};
    const double us = model->cost({hw::OpClass::ffn_up, hw::DType::fp16, shape}).time_s * 1e6;
    text += "fp16," + std::to_string(shape.m) + ',' + std::to_string(shape.n) + ',' + std::to_string(shape.k) + ',' +
            std::to_string(us) + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("a table is read by the names of its columns", "[unit][fidelity]") {
  const auto table = MeasuredTable::parse("# source\nm, time_us\n1,2.5\n# note\n3,4\r\n", "gemm/a100.x.csv");
  CHECK(table.rows() == 2);
  CHECK(table.folder() == "gemm");
  CHECK(table.stem() == "a100");
  CHECK(table.number(1, "time_us") == 4);
  CHECK(table.integer(0, "m") == 1);
  CHECK(table.subset({0, 1}).number(0, "m") == 3);
  CHECK(MeasuredTable::parse("a,b\n\"x,y\",2\n", "t").text(0, "a") == "x,y");
  CHECK(message_of([&] { (void)table.number(0, "time"); }) ==
        "gemm/a100.x.csv: expected a column 'time' (did you mean 'time_us'?)");
  CHECK(message_of([&] { (void)table.integer(0, "time_us"); }) ==
        "gemm/a100.x.csv: line 3: expected a whole number in column 'time_us', got '2.5'");
  CHECK(message_of([] { (void)MeasuredTable::parse("", "t"); }) ==
        "t: expected a header line with column names, found none");
  CHECK(message_of([] { (void)MeasuredTable::parse("a,a\n", "t"); }) == "t: line 1: column 'a' stands twice");
}

TEST_CASE("errors as fractions", "[unit][fidelity]") {
  // e = -0.1, 0.1, 0.3, -0.2: |e| mean 0.175, median 0.15, bias 0.025; p90 lies 0.7 of the way from 0.2 to 0.3.
  const ErrorSummary s = summarise_errors({-0.1, 0.1, 0.3, -0.2});
  CHECK(s.rows == 4);
  CHECK(s.mape == Approx(0.175));
  CHECK(s.median == Approx(0.15));
  CHECK(s.bias == Approx(0.025));
  CHECK(s.p90 == Approx(0.27));
  CHECK(summarise_errors({}).rows == 0);
}

TEST_CASE("every part of the catalog is read, and a table finds its part", "[unit][fidelity]") {
  PartShelf parts = shelf();
  for (const std::string& name : parts.names()) {
    INFO(name);
    sim::Faults faults;
    (void)hw::parse_any_part(parts.node(name), faults);
    for (const sim::Fault& fault : faults.all()) FAIL_CHECK(fault.text());
  }
  const auto found = parts.for_table<hw::GpuParams>("a100");
  REQUIRE(found);
  CHECK(found.entry->name == kPart);
  CHECK(found.measured_as == "kernel");
  CHECK_FALSE(parts.for_table<hw::GpuParams>("z9000"));
  CHECK(parts.find<hw::GpuParams>("nothing") == nullptr);
  parts.set(kPart, "memory_bandwidth", 1.25e12);
  CHECK(parts.get(kPart, "memory_bandwidth") == 1.25e12);
  CHECK(parts.find<hw::GpuParams>(kPart)->part.memory_bandwidth == 1.25e12);
  CHECK(message_of([&] { parts.set(kPart, "memory_bandwith", 1); }) ==
        std::string(kPart) + ": expected the path of a number of a gpu, got 'memory_bandwith'");
}

TEST_CASE("tables of unknown devices are counted and named", "[unit][fidelity]") {
  const Folder folder;
  folder.write("gemm/z9000.csv", "dtype,m,n,k,time_us\nfp16,16,64,64,3\nfp16,32,64,64,3\n");
  folder.write("training/runs.csv", "set,time\nsingle,3\n");
  folder.write("traces/ignored.csv", "x\n1\n");
  const auto lines = measure_fidelity(folder.path, shelf());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].table == "gemm/z9000.csv");
  CHECK(lines[0].rows == 2);
  CHECK(lines[0].covered == 0);
  CHECK(lines[0].reason == "no part of the catalog stands for it");
  CHECK(lines[1].table == "training/runs.csv");
  CHECK(lines[1].covered == 0);
  const sim::Node json = fidelity_json(lines);
  const sim::Node& first = json.find("tables")->items()[0];
  CHECK(first.find("regime")->as_string() == "all");
  CHECK(first.find("mape")->is_null());
  CHECK(message_of([&] { (void)measure_fidelity(folder.path / "none", shelf()); }).find("found none") !=
        std::string::npos);
}

TEST_CASE("a prediction never depends on what was measured", "[prop][fidelity]") {
  const PartShelf parts = shelf();
  for (const auto& kind : table_kinds()) {
    if (kind->name() != "gemm") continue;
    Predictions low, high;
    kind->predict(MeasuredTable::parse("dtype,m,n,k,time_us\nfp16,16,64,64,3\n", "gemm/a100.csv"), parts, low);
    kind->predict(MeasuredTable::parse("dtype,m,n,k,time_us\nfp16,16,64,64,3000\n", "gemm/a100.csv"), parts, high);
    CHECK(low.columns()[0].rows[0].predicted == high.columns()[0].rows[0].predicted);
    CHECK(low.columns()[0].rows[0].measured != high.columns()[0].rows[0].measured);
  }
}

TEST_CASE("a fit finds the constants of a curve", "[unit][fit]") {
  // y = a + b x with one wild row, which a robust loss leaves aside.
  std::vector<double> x, y;
  for (int i = 1; i <= 60; ++i) {
    x.push_back(i);
    y.push_back(3 + 0.5 * i);
  }
  y[30] *= 5;
  const std::vector<FitConstant> constants{{"a", 1, 0.1, 100}, {"b", 5, 0.01, 100}};
  const FitResult result = fit(constants, y, [&](std::span<const double> c, std::span<double> out) {
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = c[0] + c[1] * x[i];
  });
  CHECK(result.values[0] == Approx(3).epsilon(0.01));
  CHECK(result.values[1] == Approx(0.5).epsilon(0.01));
  CHECK_FALSE(result.at_bound[0]);
  // Held back by a bound, a constant says so.
  const std::vector<FitConstant> narrow{{"a", 1, 0.1, 100}, {"b", 0.2, 0.1, 0.3}};
  const FitResult bound = fit(narrow, y, [&](std::span<const double> c, std::span<double> out) {
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = c[0] + c[1] * x[i];
  });
  CHECK(bound.at_bound[1]);
}

TEST_CASE("a prior keeps what few rows do not tell, and yields to many", "[unit][fit]") {
  // y = a: nothing tells of b, and two rows tell of a.
  const std::vector<FitConstant> constants{{"a", 2, 0.1, 100}, {"b", 5, 0.01, 100}};
  const auto fitted = [&](std::size_t rows, double prior) {
    const std::vector<double> y(rows, 8.0);
    FitOptions options;
    options.prior = prior;
    return fit(
        constants, y, [](std::span<const double> c, std::span<double> out) { std::fill(out.begin(), out.end(), c[0]); },
        options);
  };
  CHECK(fitted(2, 0).values[0] == Approx(8).epsilon(0.01));
  const FitResult held = fitted(2, 10);
  CHECK(held.values[0] > 2);
  CHECK(held.values[0] < 7.5);
  CHECK(held.values[1] == Approx(5).epsilon(0.01));
  CHECK(fitted(20000, 10).values[0] == Approx(8).epsilon(0.01));
  // The error is that of the rows, the prior's not among them: two rows at 8 are a / 8 - 1 each.
  CHECK(held.mape == Approx(std::abs(held.values[0] / 8 - 1)).epsilon(1e-6));
}

TEST_CASE("rows of a shape are held out together, two fifths of them", "[prop][fidelity]") {
  int held = 0;
  for (int i = 0; i < 10'000; ++i) held += is_held_out(std::to_string(i) + "x4096x4096") ? 1 : 0;
  CHECK(held == Approx(4000).margin(250));
}

TEST_CASE("calibration gets back the machine that made the data", "[unit][calibration]") {
  PartShelf parts = shelf();
  hw::GpuParams truth = parts.find<hw::GpuParams>(kPart)->part;
  truth.gemm.efficiency = 0.6;
  truth.gemm.memory_efficiency = 0.65;
  const Folder folder;
  folder.write("gemm/a100.csv", synthetic_gemm(truth, 1500));
  CalibrationOptions options;
  options.device = kPart;
  options.data = folder.path;
  options.hold_out_shapes = true;
  options.blocks = {"gemm"};
  const CalibrationResult result = calibrate(options, parts);
  REQUIRE(result.blocks.size() == 1);
  CHECK(result.blocks[0].fit.mape < 0.02);
  bool held_out = false;
  for (const auto& error : result.errors) {
    if (error.role != "held out" || error.line.regime != "all") continue;
    held_out = true;
    CHECK(error.line.covered > 400);
    CHECK(error.line.errors.mape < 0.03);
  }
  CHECK(held_out);
  // The entry that is written is a part that reads back with the fitted constants, and says where they come from.
  sim::Faults faults;
  const auto entry = hw::parse_part<hw::GpuParams>(result.entry, faults);
  faults.throw_if_any();
  CHECK(entry.part.gemm.efficiency == Approx(0.6).epsilon(0.05));
  bool said = false;
  for (const auto& [field, source] : entry.sources)
    said = said || (field == "gemm.*" && source.find("gemm/a100.csv") != std::string::npos);
  CHECK(said);
}

TEST_CASE("calibration holds out the rows whose column has a value", "[unit][calibration]") {
  const PartShelf parts = shelf();
  const Folder folder;
  folder.write("gemm/a100.csv", synthetic_gemm(parts.find<hw::GpuParams>(kPart)->part, 600));
  CalibrationOptions options;
  options.device = kPart;
  options.data = folder.path;
  options.blocks = {"gemm"};
  const MeasuredTable table = MeasuredTable::read(folder.path, "gemm/a100.csv");
  options.column = "n";
  options.values = {table.text(0, "n"), "no such value"};
  std::size_t with = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) with += table.text(row, "n") == options.values[0];
  const CalibrationResult result = calibrate(options, parts);
  CHECK(result.blocks[0].rows == table.rows() - with);
  for (const auto& error : result.errors)
    if (error.line.regime == "all" && error.role != "before")
      CHECK(error.line.covered == (error.role == "held out" ? with : table.rows() - with));
  options.values = {"-1"};
  CHECK(message_of([&] { (void)calibrate(options, shelf()); }).find("no row of a100-sxm4-80gb has n -1") !=
        std::string::npos);
  options.column = "ranks";
  CHECK(message_of([&] {
          (void)calibrate(options, shelf());
        }).find("no table of a100-sxm4-80gb has a column 'ranks'") != std::string::npos);
}

TEST_CASE("faults of a calibration", "[unit][calibration]") {
  const Folder folder;
  folder.write("gemm/z9000.csv", "dtype,m,n,k,time_us\nfp16,16,64,64,3\n");
  CalibrationOptions options;
  options.data = folder.path;
  options.device = "a100-sxm4-80g";
  CHECK(message_of([&] { (void)calibrate(options, shelf()); }).find("unknown part 'a100-sxm4-80g'") !=
        std::string::npos);
  options.device = kPart;
  options.blocks = {"gem"};
  CHECK(message_of([&] { (void)calibrate(options, shelf()); }) ==
        "calibrate: unknown block 'gem' (did you mean 'gemm'?)");
  options.blocks = {};
  CHECK(message_of([&] { (void)calibrate(options, shelf()); }).find("no table in") != std::string::npos);
}

TEST_CASE("blocks that no row of the tables is of use to are left out, unless they are asked for", "[unit][fidelity]") {
  // A table of vLLM says nothing of gradients, nor of FlashAttention-2.
  const Folder folder;
  std::string text = "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n";
  for (int tokens = 64; tokens <= 8192; tokens *= 2) text += "1," + std::to_string(tokens) + ",32,8,128,100\n";
  folder.write("attention/h100_sxm.context.csv", text);
  CalibrationOptions options{.device = "h100-sxm5-80gb", .data = folder.path};
  options.fit.rounds = 1;
  const CalibrationResult all = calibrate(options, shelf());
  REQUIRE(all.blocks.size() == 1);
  CHECK(all.blocks[0].name == "attention");
  options.blocks = {"attention_gradient"};
  CHECK(message_of([&] { (void)calibrate(options, shelf()); }) ==
        "attention/h100_sxm.context.csv: no row is of use to block 'attention_gradient' (`orrery fidelity` says why "
        "rows are not covered)");
}

}  // namespace test_fidelity
