// Training with experts: what ranks hold, whose gradients are summed with whom, and the plans that can be.
#include <catch2/catch.hpp>

#include "experiments/systems/training/launch_flags.hpp"
#include "experiments/systems/training/plan_text.hpp"
#include "experiments/systems/training/planner.hpp"
#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_experts {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using training::PartName;

namespace {

/// A decoder of four layers with sixteen experts on sixteen H100 in two nodes.
training::TrainingConfig config(const std::string& plan = "{}", const std::string& workload = "",
                                const std::string& placement = "contiguous") {
  const sim::Node root =
      sim::parse_json(R"({"system": "training", "policies": {"placement": {"policy": ")" + placement + R"("}},
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 16}], "node": {"devices": 8, "nic": "ib-ndr-4x", "nics": 8}},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4,
              "head_dim": 64, "vocab": 32768, "tied": false, "loss": true, "experts": 16, "experts_per_token": 2,
              "expert_intermediate": 2048}}},
    "workload": {"sequence": 2048, "global_batch": 64)" +
                          workload + R"(}, "plan": )" + plan + "}",
                      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

training::TrainingResult run(const std::string& plan) {
  return training::train(config(plan));
}

constexpr std::int64_t kExpert = 3 * 1024 * 2048;                           // gate, up, down
constexpr std::int64_t kAttention = 1024 * (1024 + 2 * 256) + 1024 * 1024;  // q, k, v; out
constexpr std::int64_t kLayer = kAttention + 2 * 1024 + 16 * 1024;          // two norms, a router
constexpr std::int64_t kEdges = 2 * 32768 * 1024 + 1024;                    // embedding, head and its norm

}  // namespace

TEST_CASE("A rank holds its experts, and ZeRO shares each kind of parameter out over those that hold it",
          "[golden][training]") {
  for (const std::int64_t ranks : {1, 2, 4, 16}) {
    CAPTURE(ranks);
    const std::string plan = R"({"expert_parallel": )" + std::to_string(ranks);
    const training::StageCosts own = run(plan + "}").costs.stages.front();
    CHECK(own.parameters == 4 * (kLayer + 16 / ranks * kExpert) + kEdges);
    CHECK(own.weight_bytes == 2 * own.parameters);
    CHECK(own.state_bytes == 12 * own.parameters);  // fp32 weights, mean and variance
    // Sixteen copies of what all have, 16 / ranks of an expert.
    const training::StageCosts shared = run(plan + R"(, "zero": "optimizer"})").costs.stages.front();
    CHECK(shared.state_bytes == 12 * (4 * kLayer + kEdges) / 16 + 12 * 4 * (16 / ranks) * kExpert / (16 / ranks));
    const training::StageCosts weights = run(plan + R"(, "zero": "weights"})").costs.stages.front();
    CHECK(weights.weight_bytes == (4 * kLayer + kEdges) * 2 / 16 + 2 * 4 * kExpert);
  }
}

TEST_CASE("An expert's gradients are summed over its copies alone", "[unit][training]") {
  const auto gradients = [](std::int64_t ranks) {
    return run(R"({"expert_parallel": )" + std::to_string(ranks) + "}").costs.stages.front().gradients_s;
  };
  const training::TrainingConfig read = config();
  const auto sum = [&](std::int64_t ranks, std::int64_t stride, std::int64_t parameters) {
    return training::collective(read.machine, hw::LibraryCall::all_reduce,
                                training::rank_group(read.machine, ranks, stride), 2.0 * double(parameters))
        .time_s;
  };
  const double dense = sum(16, 1, 4 * kLayer + kEdges);
  CHECK(gradients(1) == Approx(dense + sum(16, 1, 4 * 16 * kExpert)));
  CHECK(gradients(4) == Approx(dense + sum(4, 4, 4 * 4 * kExpert)));
  CHECK(gradients(16) == Approx(dense));  // nobody else has them
}

TEST_CASE("Experts that only ranks of tensor parallelism hold twice are gathered and summed among them",
          "[unit][training]") {
  const char* plan =
      R"({"tensor_parallel": 16, "sequence_parallel": true, "expert_parallel": 8, "data_parallel": 1, "zero": ")";
  // Four heads of keys: sixteen ranks do not divide them.
  CHECK_THAT(run(std::string(plan) + "none\"}").reason, Contains("do not divide 4 heads of keys"));
  const std::string four =
      R"({"tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 4, "expert_parallel": 2, "zero": ")";
  const training::StageCosts none = run(four + "none\"}").costs.stages[1],
                             all = run(four + "weights\"}").costs.stages[1];
  CHECK(none.weight_bytes - all.weight_bytes == 2 * 8 * kExpert / 2);  // one layer of eight experts, two copies of each
  CHECK(all.chunks.front().gathers_beside_s > 0);
  CHECK(none.chunks.front().gathers_beside_s == 0);
  CHECK(none.gradients_s > 0);
}

TEST_CASE("The same tokens are multiplied however experts are shared out", "[prop][training]") {
  const double flops = run("{}").model_flops;
  for (const char* plan :
       {R"({"expert_parallel": 8})", R"({"expert_parallel": 8, "tensor_parallel": 2, "sequence_parallel": true})",
        R"({"expert_parallel": 4, "pipeline_parallel": 2})", R"({"expert_parallel": 16, "context_parallel": 2})"}) {
    CAPTURE(plan);
    const training::TrainingResult result = run(plan);
    CHECK(result.reason.empty());
    CHECK(result.model_flops == Approx(flops).epsilon(1e-9));
    CHECK(result.closed.time_s == Approx(result.run.times.time_s).epsilon(0.02));
  }
}

TEST_CASE("Rows wait for links of a node, then for adapters; tokens that travel once wait less", "[unit][training]") {
  const auto waits = [](const std::string& plan) { return run(plan).run.times.collective_s; };
  const double inside = waits(R"({"expert_parallel": 8})"), across = waits(R"({"expert_parallel": 16})");
  CHECK(inside > 0);
  CHECK(across > 2 * inside);
  CHECK(waits(R"({"expert_parallel": 16, "expert_dispatch": "tokens"})") < across);
  CHECK(waits(R"({"expert_parallel": 1})") == 0);
}

TEST_CASE("Plans of experts that cannot be say why", "[unit][training]") {
  CHECK(run(R"({"expert_parallel": 3})").reason ==
        "3 ranks of expert parallelism do not divide the 16 ranks of stage 0");
  CHECK(run(R"({"expert_parallel": 16, "pipeline_parallel": 2})").reason ==
        "16 ranks of expert parallelism do not divide the 8 ranks of stage 0");
  CHECK_THAT(run(R"({"tensor_parallel": 2, "expert_parallel": 2})").reason, Contains("needs sequence_parallel"));
}

TEST_CASE("The planner shares experts out where that is sooner, and names the plan", "[unit][training]") {
  const training::TrainingConfig read = config(R"({"expert_dispatch": "tokens"})");
  training::PlannerParams params;
  params.show = params.run = 5;
  const training::PlannerResult found = training::find_plans(read, params, *test_systems().registries());
  REQUIRE(!found.best.empty());
  // By hand: every plan of one stage, no ZeRO, nothing run again, is no sooner.
  for (const std::int64_t ranks : {1, 2, 4, 8, 16}) {
    const training::TrainingResult own =
        run(R"({"expert_dispatch": "tokens", "expert_parallel": )" + std::to_string(ranks) + "}");
    CHECK(found.best.front().time_s <= own.run.times.time_s * (1 + 1e-9));
  }
  for (const training::ScoredPlan& plan : found.best) CHECK((plan.plan.tensor == 1 || plan.plan.sequence));
  const training::PlanParams named = training::parse_plan("1 1 16e8 4 no none optimizer");
  CHECK(named.data_parallel == 16);
  CHECK(named.expert_parallel == 8);
  CHECK_THROWS_WITH(training::parse_plan("1 1 16ex 4 no none optimizer"),
                    "expected ranks that share experts behind the e in the plan '1 1 16ex 4 no none optimizer'");
  std::optional<std::string> why;
  const training::Plan plan = training::make_plan(named, 16, 64, why);
  const std::vector<std::string> flags =
      training::megatron_flags(plan, {.global_batch = 64, .sequence = 2048, .layers = 4});
  CHECK(std::ranges::find(flags, "--expert-model-parallel-size 8") != flags.end());
  CHECK(std::ranges::find(flags, "--expert-tensor-parallel-size 1") != flags.end());
}

namespace {

/// A trace of 64 tokens whose choices go to these experts in turns, two a token.
std::string routed(const Scratch& scratch, const std::vector<traces::ExpertId>& experts, const std::string& more = "") {
  traces::RouterTrace trace{.experts = 16, .top_k = 2};
  traces::RouterLayer layer;
  for (std::size_t i = 0; i < 128; ++i) layer.choices.push_back(experts[i % experts.size()]);
  trace.layers.push_back(layer);
  const std::string path = (scratch / "router.bin").string();
  traces::write_router_trace(trace, path);
  return R"(, "router": {"trace": ")" + path + "\"" + more + "}";
}

const char* const kTwo = R"({"expert_parallel": 2})";

}  // namespace

TEST_CASE("All wait for the rank whose experts are chosen most", "[unit][training]") {
  const Scratch scratch;
  const auto with = [&](const std::vector<traces::ExpertId>& experts) {
    return training::train(config(kTwo, routed(scratch, experts)));
  };
  const training::TrainingResult alike = run(kTwo);
  CHECK_FALSE(alike.busiest.has_value());
  // Experts 0 to 7 are on rank 0. Half of the rows there, three quarters, all of them.
  const training::TrainingResult even = with({0, 8}), more = with({0, 8, 1, 2}), all = with({0, 1});
  CHECK(*even.busiest == Approx(1));
  CHECK(*more.busiest == Approx(1.5));
  CHECK(*all.busiest == Approx(2));
  CHECK(even.run.times.time_s == alike.run.times.time_s);
  const auto passes = [](const training::TrainingResult& r) { return r.costs.stages.front().chunks.front(); };
  for (training::PassCost training::ChunkCosts::*pass :
       {&training::ChunkCosts::forward, &training::ChunkCosts::backward_input,
        &training::ChunkCosts::backward_weight}) {
    const training::PassCost a = passes(even).*pass, b = passes(more).*pass, c = passes(all).*pass;
    // In proportion to the rows above the mean: kernels of experts, and nothing else.
    CHECK(b.kernel_s - a.kernel_s == Approx((c.kernel_s - a.kernel_s) / 2));
    CHECK(c.kernel_s > a.kernel_s);
    CHECK(c.kernel_s < 2 * a.kernel_s);
    CHECK(c.flops == a.flops);
    CHECK(c.energy_j == Approx(a.energy_j));
    CHECK(c.host_s == a.host_s);
  }
  CHECK(passes(all).forward.collective_s > passes(even).forward.collective_s);
  CHECK(passes(all).forward.collective_s < 2 * passes(even).forward.collective_s);  // a start is a start
  CHECK(passes(all).kept_bytes > passes(even).kept_bytes);
  CHECK(all.memory.front().total() > even.memory.front().total());
}

TEST_CASE("What a rank of experts has are the rows between its exchanges", "[unit][training]") {
  const training::TrainingConfig read = config(kTwo);
  training::CostTable table(read.machine, read.model);
  const models::OpGraph& graph = table.graph(1, false, 2).graph;
  const std::vector<bool> rows = training::rows_of_experts(graph);
  int products = 0;
  for (const models::OpId id : graph.ops()) {
    const models::OpNode& op = graph.op(id);
    using models::OpKind;
    const bool reads = std::ranges::any_of(op.inputs, [&](models::TensorId t) { return rows[models::index(t)]; });
    if (op.kind == OpKind::grouped_matmul || op.kind == OpKind::grouped_matmul_grad_weight) {
      CHECK(reads);
      ++products;
    }
    if (op.kind == OpKind::silu || op.kind == OpKind::silu_grad) CHECK(reads);
    for (const OpKind other : {OpKind::router, OpKind::router_grad, OpKind::combine, OpKind::combine_grad,
                               OpKind::attention, OpKind::matmul})
      if (op.kind == other) CHECK_FALSE(reads);
    if (op.phase == models::Phase::optimizer) CHECK_FALSE(reads);
  }
  CHECK(products == 9);  // gate, up and down: forward, for the input, for the weights
}

TEST_CASE("A placement is planned on a router's first tokens", "[unit][training]") {
  const Scratch scratch;
  // Experts 0 and 1 have all rows: EPLB gives them a rank each, in order they share one.
  const std::string hot = routed(scratch, {0, 1});
  CHECK(*training::train(config(kTwo, hot, "eplb")).busiest == Approx(1));
  CHECK(*training::train(config(kTwo, hot)).busiest == Approx(2));
  const std::string unseen = routed(scratch, {0, 1}, R"(, "planned": 0)");
  CHECK_THROWS_WITH(config(kTwo, unseen, "eplb"), Contains("expected tokens to plan on, got none of the 64"));
  CHECK_THROWS_WITH(config(kTwo, "", "eplb"), Contains("expected contiguous without workload.router"));
  CHECK_THROWS_WITH(config(kTwo, R"(, "router": {})"), Contains("expected either a 'trace' or a 'generator'"));
  CHECK_THROWS_WITH(config(kTwo, R"(, "router": {"generator": {"experts": 8}})"),
                    Contains("a router trace of another model: expected 2 of 16 experts a token"));
}

TEST_CASE("The planner weighs ranks of experts by what waits for the busiest", "[unit][training]") {
  const Scratch scratch;
  const auto best_s = [&](std::int64_t ranks, const std::string& workload) {
    training::PlannerParams params;
    params.tensor_parallel = params.pipeline_parallel = {1};
    params.expert_parallel = {ranks};
    const auto found = training::find_plans(config("{}", workload), params, *test_systems().registries());
    REQUIRE_FALSE(found.best.empty());
    CHECK(found.best.front().plan.experts == ranks);
    return found.best.front().closed_s;
  };
  // Two hot experts: both are on the first of eight ranks, which has eight times the mean's rows; of two ranks twice.
  const std::string hot = routed(scratch, {0, 1});
  const double two = best_s(2, hot) / best_s(2, ""), eight = best_s(8, hot) / best_s(8, "");
  CHECK(two > 1.05);
  CHECK(eight > 1.5 * two);
  CHECK(best_s(1, hot) == best_s(1, ""));  // nobody shares them
}

namespace {

/// A decoder of six layers, the first two dense, over latents; on sixteen H100 in two nodes.
training::TrainingConfig latent(const std::string& plan, const std::string& more = "", int dense = 2) {
  const sim::Node root = sim::parse_json(
      R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 16}], "node": {"devices": 8, "nic": "ib-ndr-4x", "nics": 8}},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 6, "hidden": 1024, "heads": 16,
              "kv_heads": 16, "intermediate": 4096, "vocab": 32768, "tied": false, "loss": true, "experts": 16,
              "experts_per_token": 2, "expert_intermediate": 2048, "kv_rank": 256, "q_rank": 512, "nope_dim": 64,
              "rope_dim": 32, "value_dim": 64, "dense_layers": )" +
          std::to_string(dense) + more + R"(}}}, "workload": {"sequence": 2048, "global_batch": 64}, "plan": )" + plan +
          "}",
      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

}  // namespace

TEST_CASE("First layers that are unlike the others are the first stage's, and run again with them",
          "[unit][training]") {
  const training::TrainingResult two = training::train(latent(R"({"pipeline_parallel": 2, "expert_parallel": 4})"));
  REQUIRE(two.reason.empty());
  CHECK(two.layers == std::vector<std::int64_t>{2, 2});  // of the four that are alike
  const std::int64_t attention =
      1024 * 512 + 512 * 16 * 96 + 1024 * (256 + 32) + 256 * 16 * 128 + 16 * 64 * 1024 + 512 + 256;
  const std::int64_t dense = attention + 2 * 1024 + 3 * 1024 * 4096;
  const std::int64_t layer = attention + 2 * 1024 + 1024 * 16 + 4 * kExpert;
  CHECK(two.costs.stages[0].parameters == 32768 * 1024 + 2 * dense + 2 * layer);
  CHECK(two.costs.stages[1].parameters == 2 * layer + 1024 + 32768 * 1024);
  CHECK(two.costs.stages[0].forward_s() > two.costs.stages[1].forward_s() / 2);
  // All FLOPs of the model: three passes of its products, 3.5 of attention's two (a gradient makes scores again, which
  // are not counted).
  const training::TrainingResult one = training::train(latent("{}"));
  CHECK(one.model_flops == Approx(two.model_flops).epsilon(1e-9));
  const training::ChunkCosts chunk = one.costs.stages.front().chunks.front();
  const training::TrainingResult again = training::train(latent(R"({"recompute": "full"})"));
  const training::ChunkCosts repeated = again.costs.stages.front().chunks.front();
  // Everything but the head runs twice: the embedding's products are those of its two layers.
  const double head = 2.0 * 4 * 2048 * 1024 * 32768 / 4 * static_cast<double>(one.plan.micro_batch);
  CHECK(repeated.again.flops == Approx(chunk.forward.flops - head).epsilon(1e-9));
  CHECK(repeated.kept_bytes < chunk.kept_bytes / 4);
}

TEST_CASE("Ranks of tensor parallelism divide heads and have latents whole, modules of further tokens too",
          "[unit][training]") {
  const auto trained = [](std::int64_t tensor, const std::string& more) {
    return training::train(
        latent(R"({"tensor_parallel": )" + std::to_string(tensor) + R"(, "sequence_parallel": true, "micro_batch": 4})",
               more));
  };
  for (const auto& [more, further] : {std::pair{std::string(), 0}, {std::string(R"(, "further_tokens": 1)"), 1}}) {
    const training::TrainingResult one = trained(1, more), two = trained(2, more);
    REQUIRE(two.reason.empty());
    const std::int64_t all = one.costs.stages.front().parameters, own = two.costs.stages.front().parameters;
    // Whole: of each of six layers and modules the products into latents (1,024 to 512 and 256 + 32), four norms and
    // what experts have beside (routers of 16, the experts themselves, which no plan shares out here); the last norm.
    // A module also joins two tokens of 1,024 and has three norms for that.
    const std::int64_t layers = 6 + further, sparse = 4 + further;
    const std::int64_t same = layers * (1024 * (512 + 288) + 512 + 256 + 2 * 1024) +
                              sparse * (1024 * 16 + 16 * kExpert) + 1024 + further * (2 * 1024 * 1024 + 3 * 1024);
    CHECK(own == (all - same) / 2 + same);
    // Every product is of a share of the heads or of the tokens.
    CHECK(two.costs.stages.front().chunks.front().forward.flops * 2 ==
          Approx(one.costs.stages.front().chunks.front().forward.flops).epsilon(1e-9));
  }
}

TEST_CASE("Layers that take turns, and modules of further tokens, are said to be what they are", "[unit][training]") {
  CHECK_THROWS_WITH(latent("{}", "", 4), Contains("layer 5 is not like layer 3"));
  // A module of further tokens has experts of its own, on the last stage.
  const auto parameters = [](const training::TrainingResult& r) { return r.costs.stages.back().parameters; };
  const char* const plan = R"({"pipeline_parallel": 2, "expert_parallel": 4})";
  const training::TrainingResult without = training::train(latent(plan));
  const training::TrainingResult with = training::train(latent(plan, R"(, "further_tokens": 1)"));
  REQUIRE(with.reason.empty());
  CHECK(parameters(with) - parameters(without) > 4 * kExpert + 2 * 1024 * 1024);
  CHECK(with.costs.stages.front().parameters == without.costs.stages.front().parameters);
}

TEST_CASE("Rows travel beside another micro-batch's kernels", "[unit][training]") {
  const auto chunk_of = [](const std::string& more, std::int64_t batch = 64) {
    training::TrainingConfig read = config(R"({"expert_parallel": 16)" + more + "}");
    read.params.workload.global_batch = batch;
    return training::train(read).costs.stages.front().chunks.front();
  };
  const training::ChunkCosts open = chunk_of(""), hidden = chunk_of(R"(, "overlap_experts": true)");
  for (const auto pass : {&training::ChunkCosts::forward}) {
    const training::PassCost& a = open.*pass;
    const training::PassCost& b = hidden.*pass;
    CHECK(a.exchange_s > 0);
    CHECK(a.collective_s == Approx(a.exchange_s));  // nothing else is between its kernels
    CHECK(b.length_s() == Approx(std::max(a.kernel_s, a.exchange_s)));
    CHECK(b.energy_j == a.energy_j);
  }
  CHECK(hidden.backward_s() == Approx(std::max(open.backward_input.kernel_s + open.backward_weight.kernel_s,
                                               open.backward_input.exchange_s + open.backward_weight.exchange_s)));
  // With one micro-batch there is nothing beside; without ranks of experts nothing travels.
  CHECK(chunk_of(R"(, "overlap_experts": true)", 16).forward.collective_s == Approx(open.forward.collective_s));
  CHECK_THAT(run(R"({"expert_parallel": 16, "expert_nodes": 1})").reason,
             Contains("expert_nodes limits where tokens go: it needs expert_dispatch tokens"));
  // Experts of a token on one of the two nodes in place of both: less goes between them.
  CHECK(chunk_of(R"(, "expert_dispatch": "tokens", "expert_nodes": 1)").forward.exchange_s <
        0.9 * chunk_of(R"(, "expert_dispatch": "tokens")").forward.exchange_s);
  const training::TrainingResult alone = run(R"({"overlap_experts": true})");
  CHECK(alone.run.times.time_s == run("{}").run.times.time_s);
  CHECK_FALSE(alone.plan.overlap_experts);
}

}  // namespace test_training_experts
