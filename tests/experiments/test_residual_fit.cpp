// Fits of residuals: trees find what errors follow, what was held out is held out, and what cannot be fitted is told.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/fidelity/fidelity.hpp"
#include "experiments/fidelity/residual_fit.hpp"
#include "sim/base/random.hpp"

namespace test_residual_fit {

using namespace orrery;
using namespace orrery::experiments;

namespace {

namespace fs = std::filesystem;

hw::ResidualQuery query(std::int64_t m, std::int64_t n, std::int64_t k) {
  return *hw::residual_query({hw::OpClass::ffn_up, hw::DType::fp16, hw::Gemm{m, n, k}}, 84);
}

/// A folder with `gemm/a40.csv` whose times are the model's times a factor of the shape.
struct Measured {
  fs::path folder = fs::temp_directory_path() / "orrery_test_residual_fit";
  template <class Factor>
  explicit Measured(Factor factor, int groups = 40) {
    fs::create_directories(folder / "gemm");
    const PartShelf parts(fs::path(ORRERY_SOURCE_DIR) / "hw/catalog");
    std::string text = "dtype,m,n,k,time_us\n";
    std::vector<std::array<std::int64_t, 3>> shapes;
    for (int g = 0; g < groups; ++g)
      for (const std::int64_t m : {1, 8, 16, 32, 64, 128, 256, 512})
        shapes.push_back({m, 1024 + 128 * g, 512 * (1 + g % 7)});
    for (const auto& [m, n, k] : shapes) text += row(m, n, k, 1);
    write(text);
    // What the model says of them, then the table again with what a part like that would have taken.
    std::vector<double> model;
    measure_fidelity(folder, parts, [&](const MeasuredTable&, const Predictions::Column& column) {
      for (const Predictions::Row& r : column.rows) model.push_back(r.predicted);
    });
    text = "dtype,m,n,k,time_us\n";
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto& [m, n, k] = shapes[i];
      text += row(m, n, k, model.at(i) * factor(m, n, k));
    }
    write(text);
  }
  ~Measured() { fs::remove_all(folder); }
  ResidualFit fitted(std::size_t rows = 4000) const {
    return fit_residual({"a40", folder, rows, {}}, PartShelf(fs::path(ORRERY_SOURCE_DIR) / "hw/catalog"));
  }

 private:
  static std::string row(std::int64_t m, std::int64_t n, std::int64_t k, double us) {
    return "fp16," + std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(k) + "," + std::to_string(us) +
           "\n";
  }
  void write(const std::string& text) const { std::ofstream(folder / "gemm/a40.csv") << text; }
};

}  // namespace

TEST_CASE("boosting finds a step and no more", "[unit][residual]") {
  std::vector<hw::ResidualQuery> queries;
  std::vector<double> targets;
  for (std::int64_t m = 1; m <= 160; ++m) {
    queries.push_back(query(m, 4096, 4096));
    targets.push_back(m > 100 ? 0.1 : -0.05);
  }
  const hw::TreeEnsemble trees =
      fit_trees(queries, targets, {.trees = 80, .splits = 1, .thresholds = 160, .rate = 0.2, .shrink = 0});
  // Each tree takes a fifth of what is left: 0.8^80 is nothing, and leaves are rounded to ten thousandths.
  CHECK(trees.at(query(50, 4096, 4096).all()) == Approx(-0.05).margin(2e-3));
  CHECK(trees.at(query(101, 4096, 4096).all()) == Approx(0.1).margin(2e-3));
  CHECK(trees.at(query(160, 4096, 4096).all()) == Approx(0.1).margin(2e-3));
  CHECK(fit_trees({}, {}).trees.empty());
  const hw::TreeEnsemble again =
      fit_trees(queries, targets, {.trees = 80, .splits = 1, .thresholds = 160, .rate = 0.2, .shrink = 0});
  for (std::size_t i = 0; i < trees.trees.size(); ++i) CHECK(again.trees[i].leaves == trees.trees[i].leaves);
}

TEST_CASE("a wild row pulls no harder than a bad one", "[unit][residual]") {
  std::vector<hw::ResidualQuery> queries;
  std::vector<double> targets;
  for (std::int64_t m = 1; m <= 100; ++m) {
    queries.push_back(query(m, 4096, 4096));
    targets.push_back(m == 50 ? 5 : 0);
  }
  // One tree without a question: the mean of 99 zeros and one row clipped to 0.15, over 100 + 5 rows, times 0.15.
  const hw::TreeEnsemble trees = fit_trees(queries, targets, {.trees = 1, .splits = 0});
  CHECK(trees.at(queries[0].all()) == Approx(0.15 * 0.15 / 105).margin(5e-5));
}

TEST_CASE("what errors follow is learned for weights that no tree saw, noise is not", "[residual]") {
  SECTION("errors that follow the rows") {
    const Measured table([](std::int64_t m, std::int64_t, std::int64_t) { return m > 50 ? 1.2 : 0.9; });
    const ResidualFit fit = table.fitted();
    REQUIRE(fit.tables.size() == 1);
    CHECK(fit.tables[0].rows == 320);
    CHECK(fit.tables[0].groups == 40);
    // Four of eight rows are 0.9 of the model (it is 1/0.9 - 1 = 11.1 % slow), four 1.2 (16.7 % fast): 13.9 %.
    CHECK(fit.tables[0].model == Approx(((1 / 0.9 - 1) + (1 - 1 / 1.2)) / 2).epsilon(1e-3));
    CHECK(fit.tables[0].held_out < 0.01);
    CHECK(fit.residual.blocks.at(0).seen[0] == std::pair(1.0, 512.0));
  }
  SECTION("errors that belong to one size of the weights each, at random") {
    sim::RandomStream random(1, "noise");
    std::map<std::int64_t, double> of;
    const Measured table([&](std::int64_t, std::int64_t n, std::int64_t) {
      return of.try_emplace(n, random.uniform(0.8, 1.2)).first->second;
    });
    const ResidualFit fit = table.fitted();
    // Trees can remember the sizes they saw; of others they know nothing, and must not say that they do.
    CHECK(fit.tables[0].fitted < 0.7 * fit.tables[0].model);
    CHECK(fit.tables[0].held_out > 0.8 * fit.tables[0].model);
  }
}

TEST_CASE("a fidelity run is corrected by a file, and by no file of other constants", "[residual]") {
  const Measured table([](std::int64_t m, std::int64_t, std::int64_t) { return m > 50 ? 1.2 : 0.9; });
  const PartShelf parts(fs::path(ORRERY_SOURCE_DIR) / "hw/catalog");
  const fs::path file = table.folder / "residual.json";
  ResidualFit fit = table.fitted();
  std::ofstream(file) << hw::residual_node(fit.residual).dump();
  const ResidualShelf shelf("", {file.string()});
  const auto lines = measure_fidelity(table.folder, parts, {}, &shelf);
  CHECK(lines.at(0).errors.mape < 0.01);
  CHECK(measure_fidelity(table.folder, parts).at(0).errors.mape > 0.1);
  fit.residual.model = "0";
  std::ofstream(file) << hw::residual_node(fit.residual).dump();
  const ResidualShelf stale("", {file.string()});
  CHECK(measure_fidelity(table.folder, parts, {}, &stale).at(0).reason.find("other constants") != std::string::npos);
}

TEST_CASE("what cannot be fitted is told", "[residual][errors]") {
  const Measured table([](std::int64_t, std::int64_t, std::int64_t) { return 1.0; }, 20);  // 160 rows
  CHECK_THROWS_WITH(table.fitted(), Catch::Contains("fewer than 200 rows"));
  const PartShelf parts(fs::path(ORRERY_SOURCE_DIR) / "hw/catalog");
  CHECK_THROWS_WITH(fit_residual({"l40s", table.folder, 4000, {}}, parts), Catch::Contains("measures l40s"));
  CHECK_THROWS_WITH(fit_residual({"l40", table.folder, 4000, {}}, parts), Catch::Contains("did you mean 'l40s'"));
}

}  // namespace test_residual_fit
