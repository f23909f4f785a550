// Iterations priced by measured tables: interpolation by hand, sums, and that a table leaps.
#include "experiments/systems/serving/pricing/op_profile.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "sim/base/fault.hpp"
#include "tests/experiments/support.hpp"

namespace test_op_profile {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Tables with round numbers: modules of 1 + tokens / 100 us, head of 10 us, attention as in each test.
fs::path write_tables(const Scratch& scratch, const std::string& attention) {
  std::string dense = "layer,tokens,time_us\n";
  for (const char* name : {"layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj",
                           "embedding", "final_layernorm"})
    dense += std::string(name) + ",1,1.01\n" + name + ",101,2.01\n";
  scratch.write("dense.csv", dense);
  scratch.write("per_sequence.csv",
                "layer,sequences,time_us\nlm_head,1,10\nlm_head,256,10\nsampler,1,1\nsampler,256,1\n");
  scratch.write("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n" + attention);
  return scratch / "";
}

constexpr const char* kAttention =
    "0,0,1,100,10\n0,0,1,200,20\n0,0,3,100,30\n0,0,3,200,60\n"
    "10,0,0,0,8\n10,0,1,100,18\n10,0,1,200,28\n10,100,0,0,16\n10,100,1,100,26\n10,100,1,200,36\n"
    "20,0,0,0,12\n20,0,1,100,22\n20,0,1,200,32\n20,100,0,0,20\n20,100,1,100,30\n20,100,1,200,40\n";

}  // namespace

TEST_CASE("tables are linear between knots, axis by axis", "[unit]") {
  const Scratch scratch;
  const OpProfile profile = OpProfile::read(write_tables(scratch, kAttention));
  CHECK(profile.layer().size() == 7);
  CHECK(profile.layer()[0].curve(51) == Approx(1.51));
  CHECK(profile.layer()[0].curve(201) == Approx(3.01));  // the last two knots go on
  CHECK(profile.attention_us(0, 0, 1, 150) == Approx(15));
  CHECK(profile.attention_us(0, 0, 2, 100) == Approx(20));
  CHECK(profile.attention_us(0, 0, 2, 150) == Approx((15 + 45) / 2.0));
  CHECK(profile.attention_us(15, 50, 0, 0) == Approx((8 + 16 + 12 + 20) / 4.0));
  CHECK(profile.attention_us(10, 0, 1, 50) == Approx(13));  // half-way to the launch without decodes
  CHECK(profile.attention_us(10, 0, 0.5, 100) == Approx(13));
}

TEST_CASE("a launch without decodes stands for decodes of no context, where the table has it", "[unit]") {
  // Bent lines: with a chunk 8 us, then 18 at 100 and 22 at 200; of decodes alone 10 and 16, and nothing at none.
  const Scratch scratch;
  const OpProfile profile = OpProfile::read(write_tables(scratch,
                                                         "0,0,1,100,10\n0,0,1,200,16\n"
                                                         "10,0,0,0,8\n10,0,1,100,18\n10,0,1,200,22\n"));
  CHECK(profile.attention_us(10, 0, 1, 0) == Approx(8));
  CHECK(profile.attention_us(10, 0, 1, 50) == Approx(13));  // half-way from 8 to 18
  CHECK(profile.attention_us(10, 0, 1, 100) == Approx(18));
  CHECK(profile.attention_us(10, 0, 1, 150) == Approx(20));  // half-way from 18 to 22
  CHECK(profile.attention_us(10, 0, 1, 300) == Approx(26));
  CHECK(profile.attention_us(0, 0, 1, 150) == Approx(13));
  CHECK(profile.attention_us(0, 0, 1, 50) == Approx(10));  // no row without decodes: as at the first context
}

TEST_CASE("experts that a batch reaches, by the law of their popularity", "[unit]") {
  const Scratch scratch;
  const fs::path folder = write_tables(scratch, kAttention);
  // A microsecond an expert: 2 of 4 for a token.
  scratch.write("moe.csv", "tokens,activated_experts,time_us\n1,2,2\n1,4,4\n64,2,2\n64,4,4\n");
  const auto model = [&](double skew, std::int64_t ranks) {
    return ProfileIteration(OpProfile::read(folder),
                            {.graph_tokens = 0, .sampling_bytes = 0, .expert_skew = skew, .expert_ranks = ranks},
                            {.layers = 1, .hidden = 64, .vocab_rows = 100, .memory_bandwidth = 1e12}, nullptr);
  };
  // All alike: each expert is one of the two with chance 1/2; 3 tokens miss it with 1/8.
  CHECK(model(0, 1).activated_experts(3) == Approx(4 * (1 - 1.0 / 8)));
  CHECK(model(0, 1).activated_experts(1) == Approx(2));  // no fewer than a token takes
  CHECK(model(0, 1).activated_experts(1000) == Approx(4));
  // On two ranks, 6 tokens reach 4 (1 - 1/64) experts, half of them here; no fewer than a token takes, which is 1 here.
  CHECK(model(0, 2).activated_experts(3) == Approx(2 * (1 - 1.0 / 64)));
  CHECK(model(0, 4).activated_experts(1) == Approx(1 - 1.0 / 16));
  // Weights 1, 1/4, 1/9 and 1/16 of 205/144: the first is always one of the two, the others with 72/205, 32/205,
  // 18/205.
  const auto missed = [](double chance, int tokens) { return std::pow(1 - chance, tokens); };
  CHECK(model(2, 1).activated_experts(10) ==
        Approx(4 - missed(72.0 / 205, 10) - missed(32.0 / 205, 10) - missed(18.0 / 205, 10)));
  CHECK(model(2, 2).activated_experts(5) ==
        Approx((4 - missed(72.0 / 205, 10) - missed(32.0 / 205, 10) - missed(18.0 / 205, 10)) / 2));
  // And that is what they take, a layer.
  ProfileIteration priced = model(0, 1);
  BatchShape shape;
  Segment segment{.first = 0, .last = 1, .tokens = 3};
  segment.decode = {3, 300};
  shape.segments.push_back(segment);
  IterationCost cost;
  priced.cost(shape, cost);
  CHECK(static_cast<double>(cost.class_ps[static_cast<std::size_t>(hw::OpClass::expert_up)]) ==
        Approx(3.5e6).margin(2));
}

TEST_CASE("several chunks count by their tokens and pairs", "[unit]") {
  const Scratch scratch;
  const OpProfile profile = OpProfile::read(write_tables(scratch, kAttention));
  models::PrefillSums one;
  one.add(10, 50);
  CHECK(profile.attention_us(one, 0, 0) == Approx(12));
  models::PrefillSums two;  // 20 tokens and 110 pairs, where one prompt of 20 has 210: the launch's 8 us, 110/210 of 4
  two.add(10, 0);
  two.add(10, 0);
  CHECK(profile.attention_us(two, 0, 0) == Approx(8 + 4 * 110 / 210.0));
}

TEST_CASE("an iteration is the sum of its operators, padded to a captured graph", "[unit]") {
  const Scratch scratch;
  const OpProfile profile = OpProfile::read(write_tables(scratch, kAttention));
  const ProfileParams params{.graph_tokens = 16, .sampling_bytes = 0};
  ProfileIteration model(profile, params, {.layers = 2, .hidden = 64, .vocab_rows = 100, .memory_bandwidth = 1e12},
                         nullptr);
  CHECK(model.padded(3) == 4);
  CHECK(model.padded(9) == 16);
  CHECK(model.padded(17) == 17);
  BatchShape shape;
  shape.sequences = shape.logit_rows = 3;
  Segment segment{.first = 0, .last = 2, .tokens = 3};
  segment.decode = {3, 450};  // 150 each: 45 us
  shape.segments.push_back(segment);
  IterationCost cost;
  model.cost(shape, cost);
  // Four tokens: 1.04 us a module, 8 a layer with the second norm, 2 layers, embedding and last norm; head 11.
  const double us = 2 * (8 * 1.04 + 45) + 2 * 1.04 + 11;
  CHECK(static_cast<double>(cost.time_ps) == Approx(us * 1e6).margin(40));
  std::int64_t classes = 0;
  for (const std::int64_t ps : cost.class_ps) classes += ps;
  CHECK(classes == cost.time_ps);
}

TEST_CASE("tables leap: prices within a horizon are those of every iteration", "[prop]") {
  const Scratch scratch;
  ProfileIteration exact(OpProfile::read(write_tables(scratch, kAttention)), {},
                         {.layers = 4, .hidden = 64, .vocab_rows = 100, .memory_bandwidth = 1e12}, nullptr);
  TabulatedIteration model(exact, 4);
  for (std::int64_t n = 1; n < 6; ++n) {
    BatchShape shape;
    shape.sequences = shape.logit_rows = n;
    Segment segment{.first = 0, .last = 4, .tokens = n};
    segment.decode = {n, 130 * n};
    shape.segments.push_back(segment);
    const IterationPrice price = model.price(shape);
    REQUIRE(price.horizon > 1);
    for (std::int64_t i = 0; i < price.horizon; ++i) {
      CHECK(model.price(shape).time_ps == price.time_ps + i * price.step_ps);
      advance(shape, 1);
    }
  }
}

TEST_CASE("faults of operator tables", "[unit]") {
  const Scratch scratch;
  CHECK_THROWS_AS(OpProfile::read(scratch / "none"), sim::ConfigError);
  const fs::path folder = write_tables(scratch, "0,0,1,100,10\n");
  CHECK_THROWS_WITH(OpProfile::read(folder), Catch::Contains("with one"));
  scratch.write("attention.csv", std::string("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n") + kAttention);
  scratch.write("dense.csv", "layer,tokens,time_us\nlayernorm,1,1\n");
  CHECK_THROWS_WITH(OpProfile::read(folder), Catch::Contains("qkv_proj"));
}

}  // namespace test_op_profile
