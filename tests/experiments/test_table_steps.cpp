// A user's table of measured plans, and what we measured ourselves on an H100.
#include <catch2/catch.hpp>
#include <string>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/fidelity.hpp"
#include "tests/measured.hpp"

namespace test_table_steps {

using namespace orrery;
using namespace orrery::experiments;
using experiments::test::shelf;

namespace {

Predictions predict(const std::string& text) {
  return experiments::test::predict(*training_step_tables(), "training/h100_pytorch.steps.csv", text);
}

const Predictions::Row& only_row(const Predictions& out, std::string_view metric) {
  for (const Predictions::Column& column : out.columns())
    if (column.metric == metric && column.rows.size() == 1) return column.rows[0];
  FAIL("no row of " << metric);
  return out.columns()[0].rows[0];
}

constexpr const char* kSizes = "hidden,intermediate,heads,kv_heads,layers,vocab,sequence";

}  // namespace

TEST_CASE("a row of a measured plan needs a model and a step's time; the rest has defaults", "[unit][fidelity]") {
  const std::string sizes = "2048,8192,32,8,4,32000,2048";
  const auto base = predict(std::string(kSizes) + ",iter_s\n" + sizes + ",0.5\n");
  CHECK(only_row(base, "iteration").measured == 0.5);
  CHECK(base.columns().size() == 1);  // no memory was measured
  const double alone_s = only_row(base, "iteration").predicted;
  // Two micro-batches take twice the passes, and one update.
  const auto two = predict(std::string(kSizes) + ",micro_batch,global_batch,iter_s\n" + sizes + ",1,2,0.5\n");
  CHECK(only_row(two, "iteration").predicted > 1.5 * alone_s);
  CHECK(only_row(two, "iteration").predicted < 2 * alone_s);
  // What runs again costs time and saves memory.
  const auto with = [&](const std::string& recompute) {
    return predict(std::string(kSizes) + ",micro_batch,global_batch,recompute,iter_s,allocated_gib\n" + sizes +
                   ",8,8," + recompute + ",0.5,10\n");
  };
  const auto none = with("none"), full = with("full");
  CHECK(only_row(full, "iteration").predicted > 1.15 * only_row(none, "iteration").predicted);
  CHECK(only_row(full, "memory").predicted < 0.8 * only_row(none, "memory").predicted);
  // Two GPUs of tensor parallelism hold half of the states.
  const auto shared =
      predict(std::string(kSizes) + ",gpus,tensor_parallel,iter_s,allocated_gib\n" + sizes + ",2,2,0.5,10\n");
  const auto whole =
      predict(std::string(kSizes) + ",gpus,tensor_parallel,iter_s,allocated_gib\n" + sizes + ",1,1,0.5,10\n");
  CHECK(only_row(shared, "memory").predicted < 0.7 * only_row(whole, "memory").predicted);
}

TEST_CASE("passes of a step are metrics of their own, and add up to it", "[unit][fidelity]") {
  const auto out = predict(std::string(kSizes) + ",micro_batch,global_batch,iter_s,forward_s,backward_s,optimizer_s\n" +
                           "2048,8192,32,8,4,32000,2048,1,4,0.5,0.1,0.3,0.1\n");
  const auto predicted = [&](std::string_view metric) { return only_row(out, metric).predicted; };
  CHECK(predicted("forward") + predicted("backward") + predicted("optimizer") == Approx(predicted("iteration")));
  CHECK(only_row(out, "backward").measured == 0.3);
}

TEST_CASE("a model of the catalog is its sizes", "[unit][fidelity]") {
  const auto named = predict("config,sequence,iter_s\nllama-3.1-8b,2048,1\n");
  const auto sized = predict(std::string(kSizes) + ",iter_s\n4096,14336,32,8,32,128256,2048,1\n");
  CHECK(only_row(named, "iteration").predicted == Approx(only_row(sized, "iteration").predicted));
}

TEST_CASE("a plan that cannot be is told for its row", "[unit][fidelity]") {
  const std::string sizes = "2048,8192,32,8,4,32000,2048";
  CHECK(predict(std::string(kSizes) + ",iter_s\n2048,8192,32,8,1000000,32000,2048,1\n").columns()[0].reasons[0] ==
        "more layers than any model has");
  const auto reason = [&](const std::string& columns, const std::string& cells) {
    const auto out = predict(std::string(kSizes) + ",iter_s," + columns + "\n" + sizes + ",0.5," + cells + "\n");
    REQUIRE(out.columns().size() == 1);
    REQUIRE(out.columns()[0].reasons.size() == 1);
    return out.columns()[0].reasons[0];
  };
  CHECK(reason("recompute", "some") ==
        "expected one of none, selective, by_op, full in column 'recompute', got 'some'");
  CHECK(reason("compiled", "yes") == "expected 0 or 1 in column 'compiled', got 'yes'");
  CHECK(reason("micro_batch,global_batch", "3,4").find("4") != std::string::npos);
}

TEST_CASE("what was measured on our H100 is predicted as docs/fidelity.md says", "[unit][fidelity]") {
  struct Bound {
    const char *table, *metric;
    double most;  ///< MAPE, a little above what it is
  };
  // A mutation of any of the kernels' models moves one of these past its bound.
  const Bound bounds[] = {
      {"gemm/h100_pytorch.csv", "time", 0.075},
      {"attention/h100_pytorch.context.csv", "flash2", 0.10},
      {"attention/h100_pytorch.generation.csv", "flash2", 0.13},
      {"attention/h100_pytorch.backward.csv", "flash2 gradient", 0.055},
      {"attention/h100_cudnn.backward.csv", "gradient", 0.066},
      {"grouped/h100_pytorch.csv", "time", 0.095},
      {"stream/h100_pytorch.csv", "time", 0.20},
      {"training/h100_pytorch.steps.csv", "iteration", 0.18},
      {"training/h100_pytorch.steps.csv", "memory", 0.010},
  };
  const auto lines = measure_fidelity(home_folder() / "experiments/measured", shelf());
  for (const Bound& bound : bounds) {
    bool found = false;
    for (const FidelityLine& line : lines) {
      if (line.table != bound.table || line.metric != bound.metric || line.regime != "all") continue;
      found = true;
      INFO(bound.table << " " << bound.metric);
      CHECK(line.errors.mape < bound.most);
      CHECK(line.errors.mape > 0.005);
    }
    CHECK(found);
  }
}

}  // namespace test_table_steps
