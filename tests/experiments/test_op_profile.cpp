// Iterations priced by measured tables: interpolation by hand, sums, and that a table leaps.
#include "experiments/systems/serving/pricing/op_profile.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "hw/network/library_collective.hpp"
#include "hw/parts/catalog.hpp"
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

TEST_CASE("batches are padded to the sizes that graphs are captured for", "[unit]") {
  const Scratch scratch;
  const fs::path folder = write_tables(scratch, kAttention);
  const auto padded = [&](std::int64_t graph_tokens, std::int64_t tokens) {
    return ProfileIteration(OpProfile::read(folder), {.graph_tokens = graph_tokens}, {}, nullptr).padded(tokens);
  };
  // 1, 2, 4, multiples of 8 up to 256, of 16 beyond.
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{
      {1, 1},     {2, 2},     {3, 4},     {4, 4},     {5, 8},     {8, 8},     {9, 16},   {16, 16},
      {249, 256}, {256, 256}, {257, 272}, {272, 272}, {273, 288}, {512, 512}, {513, 513}};
  for (const auto& [tokens, size] : sizes) {
    CAPTURE(tokens);
    CHECK(padded(512, tokens) == size);
    CHECK(padded(0, tokens) == tokens);
  }
  CHECK(padded(500, 496) == 496);
  CHECK(padded(500, 497) == 497);  // 512 is captured no more
}

TEST_CASE("what tables leave out is priced beside them: collectives, sampling, counts", "[unit]") {
  const Scratch scratch;
  const fs::path folder = write_tables(scratch, kAttention);
  const hw::LinkParams link = hw::read_part<hw::GpuParams>(home_folder() / "hw/catalog/a100-sxm4-80gb.json").part.link;
  BatchShape shape;
  Segment segment{.first = 0, .last = 3, .tokens = 30};
  segment.decode = {30, 3000};
  shape.segments.push_back(segment);
  const auto cost_of = [&](const ProfileParams& params, const ProfileFacts& facts, IterationModel* counts = nullptr) {
    ProfileIteration model(OpProfile::read(folder), params, facts, counts);
    IterationCost cost;
    model.cost(shape, cost);
    return cost;
  };
  const auto of = [](const IterationCost& cost, hw::OpClass op) { return cost.class_ps[static_cast<std::size_t>(op)]; };
  const auto ps = [](double seconds) { return static_cast<std::int64_t>(std::ceil(seconds * 1e12)); };
  const ProfileParams plain{.graph_tokens = 0, .sampling_bytes = 0};
  const ProfileFacts one{.layers = 3, .hidden = 4096, .vocab_rows = 50'000, .memory_bandwidth = 1e12, .link = link};
  ProfileFacts two = one;
  two.tensor_parallel = 2;
  // Two sums of 30 x 4096 x 2 bytes over two ranks a layer; none on one rank, none with a head of no rows.
  const double sum = hw::library_collective(link, hw::LibraryCall::all_reduce, 2, 30 * 4096 * 2).time_s;
  CHECK(of(cost_of(plain, one), hw::OpClass::all_reduce) == 0);
  CHECK(of(cost_of(plain, two), hw::OpClass::all_reduce) == Approx(3 * ps(2 * sum)).margin(3));
  const std::int64_t layers_ps = cost_of(plain, two).time_ps;
  CHECK(layers_ps - cost_of(plain, one).time_ps == Approx(3 * ps(2 * sum)).margin(3));
  const std::int64_t no_head_ps = cost_of(plain, one).time_ps;
  shape.logit_rows = 1;
  CHECK(cost_of(plain, one).time_ps - no_head_ps == Approx(11'000'000).margin(3));
  // The head of 3 rows: 11 us of the table (10 and 1), and all 3 x 50,000 x 2 logits of two bytes are gathered.
  shape.logit_rows = 3;
  const double gather = hw::library_collective(link, hw::LibraryCall::all_gather, 2, 3 * 50'000 * 2 * 2).time_s;
  CHECK(cost_of(plain, two).time_ps - layers_ps == Approx(11'000'000 + ps(gather)).margin(5));
  CHECK(cost_of(plain, one).time_ps == Approx(cost_of(plain, two).time_ps - 3 * ps(2 * sum) - ps(gather)).margin(5));
  // Every rank samples: 40 bytes a logit of 300,000 at 1 TB/s are 12 us. From the L2, at 4 TB/s, where 12 bytes a logit
  // fit into it: 3 us.
  const ProfileParams samples{.graph_tokens = 0, .sampling_bytes = 40};
  const auto sampling = [&](const ProfileFacts& facts) {
    return static_cast<double>(of(cost_of(samples, facts), hw::OpClass::sampling) -
                               of(cost_of(plain, facts), hw::OpClass::sampling));
  };
  CHECK(sampling(two) == Approx(12e6).margin(2));
  CHECK(sampling(one) == Approx(6e6).margin(2));
  two.l2_bandwidth = 4e12;
  CHECK(sampling(two) == Approx(12e6).margin(2));
  two.l2_bytes = 3'600'000;
  CHECK(sampling(two) == Approx(3e6).margin(2));
  two.l2_bytes = 3'599'999;
  CHECK(sampling(two) == Approx(12e6).margin(2));
  two.l2_bytes = 1e9;
  two.l2_bandwidth = 0;  // nobody knows how fast it is
  CHECK(sampling(two) == Approx(12e6).margin(2));
  // FLOPs, bytes and energy are those of the model beside it; time is the tables'.
  struct Counts final : IterationModel {
    void cost(const BatchShape&, IterationCost& out) override {
      out.time_ps = out.class_ps[0] = 1'000'000'000;
      out.flops = 77;
      out.compute_pj = 5;
    }
  } counts;
  const IterationCost with = cost_of(plain, one, &counts), without = cost_of(plain, one);
  CHECK(with.time_ps == without.time_ps);
  CHECK((with.class_ps == without.class_ps));
  CHECK(with.flops == 77);
  CHECK(with.compute_pj == 5);
  CHECK(without.flops == 0);
  // Layers from the second on: no embedding, and two layers.
  const std::int64_t whole = without.time_ps;
  shape.segments[0].first = 1;
  const std::int64_t later = cost_of(plain, one).time_ps;
  shape.segments[0].last = 2;
  const std::int64_t layer = later - cost_of(plain, one).time_ps;
  CHECK(whole - later == Approx(layer + 2 * 1'300'000).margin(5));  // embedding and last norm of 1.3 us each
}

TEST_CASE("ranks that share out the experts gather their tokens and scatter the sums", "[unit]") {
  const Scratch scratch;
  const fs::path folder = write_tables(scratch, kAttention);
  const hw::LinkParams link = hw::read_part<hw::GpuParams>(home_folder() / "hw/catalog/a100-sxm4-80gb.json").part.link;
  BatchShape shape;
  Segment segment{.first = 0, .last = 2, .tokens = 30};
  segment.decode = {30, 3000};
  shape.segments.push_back(segment);
  const auto moved = [&](std::int64_t ranks) {
    ProfileIteration model(OpProfile::read(folder), {.graph_tokens = 0, .sampling_bytes = 0, .expert_ranks = ranks},
                           {.layers = 2, .hidden = 4096, .vocab_rows = 100, .memory_bandwidth = 1e12, .link = link},
                           nullptr);
    IterationCost cost;
    model.cost(shape, cost);
    return static_cast<double>(cost.class_ps[static_cast<std::size_t>(hw::OpClass::all_reduce)]);
  };
  CHECK(moved(4) == 0);  // the tables have no experts
  scratch.write("moe.csv", "tokens,activated_experts,time_us\n1,2,2\n1,4,4\n64,2,2\n64,4,4\n");
  CHECK(moved(1) == 0);
  // 30 x 4096 x 2 bytes of each rank, in each of two layers.
  for (const std::int64_t ranks : {2, 4}) {
    const std::int64_t bytes = ranks * 30 * 4096 * 2;
    const double seconds = hw::library_collective(link, hw::LibraryCall::all_gather, ranks, bytes).time_s +
                           hw::library_collective(link, hw::LibraryCall::reduce_scatter, ranks, bytes).time_s;
    CHECK(moved(ranks) == Approx(2 * seconds * 1e12).margin(4));
  }
}

TEST_CASE("attention of a launch is its chunks' up to what they take alone, and its decodes'", "[unit]") {
  const Scratch scratch;
  // A chunk of 10 takes 8 us alone, 18 with a decode of 100 tokens, and 6 with one of 200: faster than alone.
  const fs::path folder = write_tables(scratch,
                                       "0,0,1,100,10\n0,0,1,200,20\n0,0,3,100,30\n0,0,3,200,60\n"
                                       "10,0,0,0,8\n10,0,1,100,18\n10,0,1,200,6\n");
  const auto attention = [&](std::int64_t chunk, std::int64_t decodes, std::int64_t context) {
    ProfileIteration model(OpProfile::read(folder), {.graph_tokens = 0, .ragged_decode = 0.5},
                           {.layers = 1, .hidden = 64, .vocab_rows = 100, .memory_bandwidth = 1e12}, nullptr);
    BatchShape shape;
    Segment segment{.first = 0, .last = 1, .tokens = chunk + decodes};
    if (chunk > 0) segment.prefill.add(chunk, 0);
    segment.decode = {decodes, decodes * context};
    shape.segments.push_back(segment);
    IterationCost cost;
    model.cost(shape, cost);
    const auto us = [&](hw::OpClass op) {
      return static_cast<double>(cost.class_ps[static_cast<std::size_t>(op)]) * 1e-6;
    };
    return std::pair(us(hw::OpClass::attention_prefill), us(hw::OpClass::attention_decode));
  };
  const auto check = [&](std::pair<double, double> got, double chunks, double decodes) {
    CHECK(got.first == Approx(chunks).margin(1e-5));
    CHECK(got.second == Approx(decodes).margin(1e-5));
  };
  check(attention(10, 0, 0), 8, 0);
  check(attention(10, 1, 100), 8, 10);
  check(attention(10, 1, 200), 6, 0);
  // Decodes alone take half as long again where there are several of unequal context.
  check(attention(0, 1, 150), 0, 15);
  check(attention(0, 2, 150), 0, (15 + 45) / 2 * 1.5);
  check(attention(0, 3, 150), 0, 45 * 1.5);
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
