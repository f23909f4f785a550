// The tabulated iteration model: near the model it samples, and its own prices, costs and ledger exactly agree.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"
#include "sim/base/random.hpp"

namespace test_tabulated_iteration {

using namespace orrery;
using namespace orrery::experiments;

namespace {

struct Models {
  explicit Models(const std::string& name) {
    const hw::GpuParams gpu = hw::read_part<hw::GpuParams>(home_folder() / "hw/catalog/a100-sxm4-80gb.json").part;
    const models::ModelConfig config = models::load_model("catalog:" + name, home_folder() / "models/catalog");
    layers = static_cast<std::int32_t>(config.layers);
    exact = std::make_unique<DeviceIterationModel>(models::build_transformer(config, hw::DType::fp16, 1),
                                                   hw::device_of(gpu));
    table = std::make_unique<TabulatedIteration>(*exact, layers);
  }
  BatchShape decodes(std::int64_t sequences, std::int64_t context) const {
    BatchShape shape;
    Segment segment{.first = 0, .last = layers, .tokens = sequences};
    segment.decode = {sequences, context};
    shape.segments.push_back(segment);
    shape.logit_rows = shape.sequences = sequences;
    return shape;
  }
  std::int32_t layers = 0;
  std::unique_ptr<DeviceIterationModel> exact;
  std::unique_ptr<TabulatedIteration> table;
};

IterationCost cost(IterationModel& model, const BatchShape& shape) {
  IterationCost out;
  model.cost(shape, out);
  return out;
}

}  // namespace

// What the model does at whole tiles of KV (every sequence at once, since it takes their mean) is smoothed: real
// batches mix lengths. Everything else is close.
TEST_CASE("the table is near the model it samples", "[prop]") {
  Models m(GENERATE("llama-2-7b", "llama-3-8b"));
  sim::RandomStream random(1, "table");
  double sum = 0;
  int far = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto sequences = static_cast<std::int64_t>(1 + random.below(400));
    const auto context = sequences * static_cast<std::int64_t>(std::exp2(random.uniform() * 9 + 4));
    BatchShape shape = m.decodes(sequences, context);
    if (i % 2 == 0) {
      shape.segments[0].tokens += 500;
      shape.segments[0].prefill.add(500, 100);
    }
    const auto exact = static_cast<double>(cost(*m.exact, shape).time_ps);
    const auto table = static_cast<double>(cost(*m.table, shape).time_ps);
    CAPTURE(sequences, context, exact, table);
    const double error = std::abs(table - exact) / exact;
    CHECK(error <= 0.15);
    far += error > 0.01 ? 1 : 0;
    sum += error;
  }
  CHECK(sum / 2000 < 0.003);
  CHECK(far < 100);  // 5 %
}

TEST_CASE("prices, costs and ledgers of the table agree to the last picosecond", "[prop]") {
  Models m("llama-2-7b");
  sim::RandomStream random(2, "ledger");
  const auto ledger = m.table->ledger();
  RunCost sum;
  for (int i = 0; i < 300; ++i) {
    const auto sequences = static_cast<std::int64_t>(1 + random.below(100));
    BatchShape shape = m.decodes(sequences, sequences * static_cast<std::int64_t>(1 + random.below(3000)));
    const IterationPrice price = m.table->price(shape);
    REQUIRE(price.horizon >= 1);
    const auto steps = static_cast<std::int64_t>(1 + random.below(static_cast<std::size_t>(price.horizon)));
    ledger->book(shape, steps);
    for (std::int64_t k = 0; k < steps; ++k) {
      const IterationCost one = cost(*m.table, shape);
      REQUIRE(one.time_ps == price.time_ps + k * price.step_ps);
      REQUIRE(one.compute_pj + one.memory_pj + one.network_pj == price.energy_pj + k * price.step_energy_pj);
      sum.add(one);
      advance(shape, 1);
    }
  }
  const RunCost total = ledger->total();
  CHECK((total.time_ps == sum.time_ps && total.flops == sum.flops && total.dram_bytes == sum.dram_bytes));
  CHECK((total.compute_pj == sum.compute_pj && total.memory_pj == sum.memory_pj));
  CHECK((total.class_ps == sum.class_ps && total.class_pj == sum.class_pj));
}

TEST_CASE("a model without a table is asked for every iteration of a leap", "[unit]") {
  // 100 ps and one for each token that decodes attend to: two of 10 tokens together, then 12, then 14.
  struct Plain final : IterationModel {
    int asked = 0;
    void cost(const BatchShape& shape, IterationCost& out) override {
      ++asked;
      out.time_ps = 100 + shape.segments[0].decode.context_tokens;
      out.compute_pj = 7;
    }
  } model;
  BatchShape shape;
  Segment segment{.first = 0, .last = 32, .tokens = 2};
  segment.decode = {2, 10};
  shape.segments.push_back(segment);
  const auto ledger = model.ledger();
  ledger->book(shape, 3);
  CHECK((ledger->total().time_ps == 300 + 10 + 12 + 14));
  CHECK((ledger->total().compute_pj == 21));
  CHECK(model.asked == 3);
  ledger->book(shape, 1);  // from the shape that it is given
  CHECK((ledger->total().time_ps == 336 + 110));
  IterationCost more;
  more.time_ps = 5;
  ledger->book_cost(more);
  CHECK((ledger->total().time_ps == 336 + 110 + 5));
  CHECK(model.price(shape).time_ps == 110);
  CHECK(model.price(shape).energy_pj == 7);
  CHECK(shape.segments[0].decode.context_tokens == 10);
}

TEST_CASE("a batch with no entry costs what the model says", "[unit]") {
  Models m("llama-2-7b");
  BatchShape shape = m.decodes(4, 400);
  shape.segments[0].last = 7;  // layers of its own
  CHECK(cost(*m.table, shape).time_ps == cost(*m.exact, shape).time_ps);
  CHECK(m.table->price(shape).horizon == 1);
  const auto ledger = m.table->ledger();
  CHECK_THROWS_AS(ledger->book(shape, 2), std::logic_error);
}

}  // namespace test_tabulated_iteration
