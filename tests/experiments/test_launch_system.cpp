// The system `launch`: what the study of coupled platforms must show from its mechanism, files, and faults of configs.
#include <catch2/catch.hpp>
#include <map>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/launch/run.hpp"
#include "experiments/systems/launch/summary.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_launch_system {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::launch;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

const std::string kStudy = ORRERY_SOURCE_DIR "/experiments/studies/skip_batch_sweep.json";
constexpr std::size_t kA100 = 0, kH100 = 1, kGh200 = 2, kModels = 4, kLlama = 3;

LaunchConfig config_of(const std::vector<std::string>& assignments = {}) {
  sim::Faults faults;
  LaunchConfig config = read_launch_config(sim::read_config(kStudy, assignments), *test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

const LaunchResult& study() {
  static const LaunchResult result = run_launch(config_of());
  return result;
}

const Series& series(std::size_t platform, std::size_t model) {
  return study().series[platform * kModels + model];
}

}  // namespace

TEST_CASE("study skip_batch_sweep: TKLQT of an encoder at batch 1 is the null kernel's launch", "[golden]") {
  // Table V of arXiv 2504.11750. On the A100 the products of batch 1 already make the kernels behind them wait a
  // little.
  const double latency_s[] = {2260.5e-9, 2374.6e-9, 2771.6e-9};
  const double within[] = {1.25, 1.05, 1.01};
  for (std::size_t platform = 0; platform < 3; ++platform)
    for (std::size_t model = 0; model < kLlama; ++model) {
      const hw::LaunchFigures& figures = series(platform, model).points.front().stream;
      const double mean_s = figures.tklqt_s / static_cast<double>(figures.launches);
      CHECK(mean_s >= latency_s[platform] * (1 - 1e-9));
      CHECK(mean_s <= latency_s[platform] * within[platform]);
      CHECK(figures.bound == hw::LaunchBound::cpu);
    }
}

TEST_CASE("study skip_batch_sweep: the knees of TKLQT and IL coincide", "[golden]") {
  for (const Series& one : study().series) {
    CAPTURE(one.platform, one.model);
    REQUIRE(one.crossover.tklqt);
    CHECK(one.crossover.il == one.crossover.tklqt);
    // They bracket the batch at which device and thread are equally busy; it may be the batch before on the grid
    // itself.
    CHECK(*one.crossover.balance <= *one.crossover.tklqt);
    CHECK(*one.crossover.balance >= *one.crossover.tklqt / 2);
  }
}

TEST_CASE("study skip_batch_sweep: closely coupled is slower at low batch and faster at high, and crosses later",
          "[golden]") {
  for (std::size_t model = 0; model < kModels; ++model)
    for (const std::size_t other : {kA100, kH100}) {
      CAPTURE(model, other);
      const Series& gh200 = series(kGh200, model);
      const Series& pcie = series(other, model);
      CHECK(gh200.points.front().stream.il_s > pcie.points.front().stream.il_s);
      CHECK(gh200.points.back().stream.il_s < pcie.points.back().stream.il_s);
      // By the knee of TKLQT, as the paper reads it; whole batches at balance are coarser than the grid at this end.
      CHECK(*gh200.crossover.tklqt >= 2 * *pcie.crossover.tklqt);
      CHECK(*gh200.crossover.tklqt <= 6 * *pcie.crossover.tklqt);
      CHECK(*gh200.crossover.balance > *pcie.crossover.balance);
    }
}

TEST_CASE("study skip_batch_sweep: fusion gains by launches saved, and nothing past the crossover", "[golden]") {
  for (const Series& one : study().series)
    for (std::size_t i = 0; i < one.points.size(); ++i) {
      const Point& point = one.points[i];
      CHECK(fusion_gain(point) >= 1);
      if (i > 0) CHECK(fusion_gain(point) <= fusion_gain(one.points[i - 1]) + 1e-9);
      if (point.batch >= 4 * *one.crossover.balance) CHECK(fusion_gain(point) < 1.05);
      // A graph needs no more than the device's own time and one launch.
      CHECK(point.graph.il_s < point.stream.il_s * 1.01);
      CHECK(point.graph.launches == 1);
    }
}

TEST_CASE("study skip_batch_sweep: fusion by proximity saves launches, and time only where they bound", "[golden]") {
  for (const Series& one : study().series)
    for (const Point& point : one.points) {
      CAPTURE(one.platform, one.model, point.batch);
      REQUIRE(point.proximity.size() == 8);
      for (const ProximityPoint& fused : point.proximity) {
        CAPTURE(fused.length);
        // Every fused occurrence saves length - 1 launches, and none makes a pass longer.
        CHECK((point.stream.launches - fused.launches) % (fused.length - 1) == 0);
        CHECK((fused.chains > 0) == (fused.launches < point.stream.launches));
        CHECK(fused.il_s <= point.stream.il_s * (1 + 1e-9));
        if (point.batch >= 4 * *one.crossover.balance) CHECK(point.stream.il_s / fused.il_s < 1.05);
      }
      // BERT's 248 kernels: no chain of 256.
      if (one.model == 0) CHECK(point.proximity.back().chains == 0);
    }
}

TEST_CASE("launch: a faster core crosses earlier", "[prop]") {
  std::int64_t before = 1000;
  for (const char* speed : {"0.3", "0.5", "0.8", "1.2"}) {
    const LaunchResult result = run_launch(config_of(
        {std::string("machine.platforms.2.single_thread=") + speed, "workload.models=[\"bert-base-uncased\"]"}));
    const std::int64_t balance = *result.series[kGh200].crossover.balance;
    CHECK(balance < before);
    before = balance;
  }
}

TEST_CASE("launch: summary and files", "[unit]") {
  const Scratch scratch;
  const auto experiment =
      read_experiment(test_systems(), kStudy, {"workload.batches=[1, 8]", "workload.models=[\"gpt2\"]"});
  const Outcome outcome = experiment->run({.folder = scratch / ""});
  CHECK(outcome.feasible());
  CHECK(outcome.summary.dump(0) == experiment->run({}).summary.dump(0));
  const sim::Node& point =
      *outcome.summary.find("platforms")->find("platform-gh200")->find("gpt2")->find("batches")->find("8");
  for (const char* key : {"tklqt_s", "akd_s", "il_s", "gpu_idle_s", "launches", "bound", "fusion_gain"})
    CHECK(point.find(key) != nullptr);
  CHECK(outcome.summary.find("comparison")->find("gpt2")->find("platform-a100-epyc7313") != nullptr);
  const std::vector<Row> rows = read_csv(scratch / "points.csv");
  REQUIRE(rows.size() == 6);
  CHECK(rows[5].at("platform") == "platform-gh200");
  CHECK(rows[5].at("batch") == "8");
  CHECK(rows[5].at("bound") == "cpu");
  CHECK(fs::file_size(scratch / "timeline.pftrace") > 1000);
  // Joules by class and power in bins of 10 us are of one ledger.
  std::map<std::string, double> by_class, by_power;
  for (const Row& row : read_csv(scratch / "energy.csv")) by_class[row.at("device")] += std::stod(row.at("energy_j"));
  for (const Row& row : read_csv(scratch / "series.csv"))
    by_power[row.at("device")] += std::stod(row.at("power_w")) * 10e-6;
  REQUIRE(by_class.size() == 3);
  for (const auto& [device, joules] : by_class) CHECK(by_power.at(device) == Approx(joules).epsilon(1e-5));
  CHECK(by_class.at("platform-gh200/gpu") == Approx(outcome.summary.find("platforms")
                                                        ->find("platform-gh200")
                                                        ->find("gpt2")
                                                        ->find("batches")
                                                        ->find("1")
                                                        ->find("energy_j")
                                                        ->find("total")
                                                        ->as_number()));
}

TEST_CASE("launch: faults of a config", "[unit]") {
  const auto fault_of = [](const std::string& assignment) -> std::string {
    sim::Faults faults;
    read_launch_config(sim::read_config(kStudy, std::vector<std::string>{assignment}), *test_systems().registries(),
                       faults);
    REQUIRE(faults.size() == 1);
    return faults.all().front().where.pointer + ": " + faults.all().front().message;
  };
  CHECK_THAT(fault_of("workload.models=[\"bert\"]"),
             Contains("/workload/models/0: expected a model of models/catalog/eager, found no 'bert'"));
  CHECK_THAT(fault_of("workload.batches=[1, 4, 2]"), Contains("/workload/batches/2: expected more than 4"));
  CHECK_THAT(fault_of("workload.proximity.lengths=[4, 2]"),
             Contains("/workload/proximity/lengths: expected more than 4, the length before, got 2"));
  CHECK_THAT(fault_of("workload.proximity.threshold=0"), Contains("/workload/proximity/threshold: expected"));
  CHECK_THAT(fault_of("workload.batches=[2, 4]"), Contains("/run/timeline/batch: expected one of workload.batches"));
  CHECK_THAT(fault_of("machine.platforms.0.part=platform-mi300"), Contains("/machine/platforms/0/part"));
  CHECK_THAT(fault_of("machine.platforms.0.part=platform-gh200"),
             Contains("/machine/platforms/2: another platform is named 'platform-gh200'"));
  CHECK_THAT(fault_of("machine.platforms.1.single_thread=0"), Contains("/machine/platforms/1/single_thread"));
}

}  // namespace test_launch_system
