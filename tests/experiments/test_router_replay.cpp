// Router choices replayed beside requests in serving runs: rows of each expert, and what they do to a run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/replica/rebalancer.hpp"
#include "models/transformer/hf_config.hpp"
#include "models/transformer/lowering.hpp"
#include "tests/experiments/system_run.hpp"

namespace orrery::experiments::test {
namespace {

using Rows = std::vector<std::int64_t>;

/// One layer of four experts, one choice a token: 0 1 2 3 0 0 0 0.
std::shared_ptr<const traces::RouterTrace> small_trace() {
  traces::RouterTrace trace{.experts = 4, .top_k = 1};
  trace.layers.push_back({.layer = 0, .choices = {0, 1, 2, 3, 0, 0, 0, 0}, .scores = {}});
  return std::make_shared<const traces::RouterTrace>(std::move(trace));
}

policies::LayerPlacement in_order(std::int64_t ranks) {
  return policies::even_slots({0, 1, 2, 3}, ranks);
}

Rows rows_of(const RouterReplay& replay, const std::vector<TokenRun>& runs) {
  Rows rows;
  std::vector<RouterReplay::Stretch> stretches;
  replay.find(runs, stretches);
  replay.count({}, stretches, rows);
  return rows;
}

TEST_CASE("router replay counts the tokens of the requests' places") {
  const RouterReplay replay(small_trace(), {in_order(2)}, 2, 1);
  // Request 0 begins at token 0, 1 at floor(0.618 x 8) = 4, 2 at floor(0.236 x 8) = 1.
  CHECK(rows_of(replay, {{.request = 0, .first = 1, .count = 2}}) == Rows{0, 1, 1, 0});
  CHECK(rows_of(replay, {{.request = 1, .first = 0, .count = 3}}) == Rows{3, 0, 0, 0});
  CHECK(rows_of(replay, {{.request = 2, .first = 0, .count = 2}}) == Rows{0, 1, 1, 0});
  // Round the end of the trace: tokens 7, 0, 1.
  CHECK(rows_of(replay, {{.request = 1, .first = 3, .count = 3}}) == Rows{2, 1, 0, 0});
  // Longer than the trace: once round (five of expert 0, one of each other) and tokens 2, 3.
  CHECK(rows_of(replay, {{.request = 0, .first = 2, .count = 10}}) == Rows{5, 1, 2, 2});
  CHECK(rows_of(replay, {{.request = 0, .first = 0, .count = 1}, {.request = 1, .first = 0, .count = 1}}) ==
        Rows{2, 0, 0, 0});
}

TEST_CASE("router replay has other groups' tokens elsewhere in the trace") {
  // Two groups: the second is half the trace further on: tokens 2 and 6.
  CHECK(rows_of(RouterReplay(small_trace(), {in_order(2)}, 2, 2), {{.request = 0, .first = 2, .count = 1}}) ==
        Rows{1, 0, 1, 0});
  // Four: tokens 3, 5, 7, 1.
  CHECK(rows_of(RouterReplay(small_trace(), {in_order(2)}, 2, 4), {{.request = 0, .first = 3, .count = 1}}) ==
        Rows{2, 1, 0, 1});
}

TEST_CASE("router replay tells the busiest ranks, and what they get") {
  const RouterReplay replay(small_trace(), {in_order(2)}, 2, 1);
  const Rows rows{9, 0, 2, 3};
  // Rank 0 has 9 rows of one expert, rank 1 five of two.
  CHECK(replay.busiest({}, rows) == std::vector<std::size_t>{0, 1});
  CHECK(replay.busiest({}, Rows{9, 1, 2, 3}) == std::vector<std::size_t>{0});
  const models::RoutedRows first = replay.of_rank({}, 0, Rows{33, 17, 2, 3});
  CHECK(first.experts == 2);
  CHECK(first.rows == 50);
  CHECK(first.max_rows == 33);
  // Tiles of 16: 3 + 2; of 32: 2 + 1; of 64 and 128: 1 + 1.
  CHECK(first.row_tiles == std::array<std::int64_t, 4>{5, 3, 2, 2});
  CHECK(replay.of_rank({}, 1, Rows{5, 5, 0, 0}).experts == 0);
  RoutedTotals totals;
  replay.book({}, rows, 3, totals);
  CHECK(totals.layers == 3);
  CHECK(totals.experts == 9);     // three of four, three times
  CHECK(totals.most_rows == 27);  // 9 three times
  CHECK(totals.mean_rows == 21);  // 14 over two ranks, three times
  const RouterReplay::Sums all = replay.sums({}, rows);
  CHECK(all.rows == 14);
  CHECK(all.experts == 3);
  CHECK(all.most_rows == 9);
}

TEST_CASE("replicas of an expert share its rows") {
  // Expert 0 on both ranks; five tokens choose it: three and two rows.
  const RouterReplay replay(small_trace(), {policies::even_slots({0, 1, 0, 2, 3, 1}, 2)}, 2, 1);
  CHECK(rows_of(replay, {{.request = 0, .first = 0, .count = 8}}) == Rows{3, 1, 2, 1, 1, 0});
}

TEST_CASE("experts that move: by hand", "[unit]") {
  // Three ranks of two slots, the third on another node. Expert 0 goes to rank 1 as well (from 0), 4 to rank 0 (from
  // 2).
  const policies::LayerPlacement from = policies::even_slots({0, 1, 2, 3, 4, 5}, 3);
  const policies::LayerPlacement to = policies::even_slots({4, 1, 0, 3, 0, 5}, 3);
  // Slots: rank 0 has 4 and 1, rank 1 has 0 and 3, rank 2 has 0 and 5. Moves: 4 from 2 to 0 and 0 from 0 to 2 between
  // nodes, 0 from 0 to 1 within. Of 6 GB each at 2 GB/s within and 1 GB/s between: 3 s + 6 s, in two layers of the
  // model.
  const ExpertLinks links{
      .node_ranks = 2, .node_bandwidth = 2e9, .bandwidth = 1e9, .bytes = {6'000'000'000}, .layers = {2}};
  const ExpertMoves moves = moves_between({from}, {to}, 3, links);
  CHECK(moves.experts == 2 * 3);
  CHECK(moves.bytes == 2 * 3 * 6'000'000'000);
  CHECK(moves.ps == 2 * 9'000'000'000'000);
  CHECK(moves_between({from}, {from}, 3, links).ps == 0);
  // Two slots of an expert on one rank take one copy.
  CHECK(moves_between({from}, {policies::even_slots({0, 1, 4, 4, 4, 5}, 3)}, 3, links).experts == 2 * 1);
}

TEST_CASE("placements of a replay follow each other under numbers of their own") {
  RouterReplay replay(small_trace(), {in_order(2)}, 2, 1);
  const std::int32_t second = replay.add({policies::even_slots({3, 2, 1, 0}, 2)});
  CHECK(second == 1);
  std::vector<RouterReplay::Stretch> stretches;
  replay.find(std::vector<TokenRun>{{.request = 0, .first = 0, .count = 8}}, stretches);
  Rows rows;
  replay.count({0, 0}, stretches, rows);
  CHECK(rows == Rows{5, 1, 1, 1});
  replay.count({second, 0}, stretches, rows);
  CHECK(rows == Rows{1, 1, 1, 5});
  replay.forget();
  CHECK(replay.add({in_order(2)}) == 2);  // what was priced under number 1 is not taken for it
  replay.count({2, 0}, stretches, rows);
  CHECK(rows == Rows{5, 1, 1, 1});
}

TEST_CASE("requests that walk through the trace begin so far apart") {
  // Every third token: requests 0 to 3 begin at 0, 3, 6, 9 - 8 = 1.
  const RouterReplay replay(small_trace(), {in_order(2)}, 2, 1, 3);
  for (const auto& [request, rows] : std::vector<std::pair<std::int64_t, Rows>>{
           {0, {1, 0, 0, 0}}, {1, {0, 0, 0, 1}}, {2, {1, 0, 0, 0}}, {3, {0, 1, 0, 0}}})
    CHECK(rows_of(replay, {{.request = request, .first = 0, .count = 1}}) == rows);
}

/// Launches as text, whatever their order.
std::vector<std::string> launched(const models::Launches& launches) {
  std::vector<std::string> all;
  for (const hw::Kernel& kernel : launches.kernels) {
    std::string text(hw::to_string(kernel.op));
    if (const auto* product = std::get_if<hw::GroupedGemm>(&kernel.shape))
      text += " " + std::to_string(product->groups) + " " + std::to_string(product->rows) + " " +
              std::to_string(product->max_rows);
    all.push_back(text);
  }
  for (const models::Communication& c : launches.communications) all.push_back("bytes " + std::to_string(c.bytes));
  std::sort(all.begin(), all.end());
  return all;
}

TEST_CASE("what is beside experts and experts are the dense part", "[prop]") {
  const models::ModelConfig config = models::load_model("catalog:qwen3-30b-a3b", home_folder() / "models/catalog");
  const models::Transformer t = models::build_transformer(config, {.dtype = hw::DType::bf16}, {});
  for (const models::TokenMix mix : {models::TokenMix{7, 0, 0}, {0, 300, 2}, {20, 512, 1}}) {
    models::Launches whole, parts;
    models::lower_dense(t, 0, mix, whole);
    models::lower_beside_experts(t, 0, mix.tokens(), parts);
    const std::size_t beside = parts.kernels.size();
    models::lower_experts(t, 0, mix.tokens(), models::route(t, mix), parts);
    CHECK(parts.kernels.size() > beside);
    CHECK(launched(parts) == launched(whole));
  }
}

/// Qwen3-30B-A3B on two H100 by tensor parallelism, eight requests at a time.
const char* const kConfig = R"({"system": "serving",
  "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 2}]},
  "model": {"config": "catalog:qwen3-30b-a3b", "dtype": "bf16"},
  "workload": {"clients": 8, "router": {"generator": {"tokens": 2048, "layers": 4}},
    "generator": {"requests": 16, "arrivals": {"policy": "at_once"},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 200, "output": 40}}}},
  "replica": {"max_context": 4096},
  "policies": {"batching": {"policy": "vllm_v1"}}})";

sim::Node run(const std::vector<std::string>& assignments = {}) {
  return summary_of(kConfig, assignments);
}

const std::vector<std::string> kEightRanks{"machine.devices.0.count=8", "replica.expert_parallel=8"};

std::vector<std::string> on_eight(std::vector<std::string> more) {
  more.insert(more.begin(), kEightRanks.begin(), kEightRanks.end());
  return more;
}

TEST_CASE("alike popular experts cost what the closed form says of them", "[theory]") {
  // Every expert as popular in every text, no reuse: what skew and correlation of 0 mean.
  const std::vector<std::string> even{"workload.router.generator.previous=0", "workload.router.generator.earlier=0",
                                      "workload.router.generator.common=1", "workload.router.generator.spread=1000"};
  const sim::Node replayed = run(even);
  const sim::Node closed = run({"workload.router=null", "model.router.skew=0", "model.router.correlation=0"});
  CHECK(figure(replayed, "tbt_s.mean") == Approx(figure(closed, "tbt_s.mean")).epsilon(0.01));
  // Eight tokens of eight choices each touch 128 (1 - (1 - 1/16)^8) = 51.6 of 128 experts; prompts touch all.
  const double decodes = figure(run(even), "experts.activated");
  CHECK(decodes > 51);
  CHECK(decodes < 60);
  CHECK(closed.at("experts") == nullptr);
}

TEST_CASE("the more tokens agree on experts, the faster a step reads them", "[theory]") {
  // A popularity of few experts: a batch of decodes touches fewer, and a step is memory-bound.
  const sim::Node skewed = run({"workload.router.generator.spread=0.05", "workload.router.generator.common=1"});
  const sim::Node even = run({"workload.router.generator.spread=1000", "workload.router.generator.common=1"});
  CHECK(figure(skewed, "experts.activated") < 0.7 * figure(even, "experts.activated"));
  CHECK(figure(skewed, "tbt_s.mean") < 0.9 * figure(even, "tbt_s.mean"));
}

TEST_CASE("with expert parallelism the fullest rank counts, and a placement by load empties it") {
  const std::vector<std::string> skewed =
      on_eight({"workload.router.generator.spread=0.2", "workload.router.generator.common=1", "workload.clients=64",
                "workload.generator.requests=128"});
  const auto with = [&](const std::string& policy) {
    std::vector<std::string> all = skewed;
    all.push_back("policies.placement.policy=" + policy);
    return run(all);
  };
  const sim::Node contiguous = with("contiguous"), eplb = with("eplb");
  CHECK(figure(contiguous, "experts.imbalance") > 0.3);
  CHECK(figure(eplb, "experts.imbalance") < 0.6 * figure(contiguous, "experts.imbalance"));
  CHECK(figure(eplb, "e2e_s.mean") < figure(contiguous, "e2e_s.mean"));
  // The experts that tokens choose are those of the trace, wherever they are, and so is the work of all ranks: FLOPs
  // are peak x MFU x time.
  const auto flops = [](const sim::Node& of) { return figure(of, "utilisation.mfu") * figure(of, "simulated_s"); };
  CHECK(flops(eplb) == Approx(flops(contiguous)).epsilon(1e-3));
  CHECK(figure(eplb, "energy_j.memory") == Approx(figure(contiguous, "energy_j.memory")).epsilon(0.02));
  CHECK(figure(eplb, "experts.activated") == Approx(figure(contiguous, "experts.activated")).epsilon(0.02));

  // Control: of experts that are alike popular a placement has nothing to gain.
  const std::vector<std::string> alike =
      on_eight({"workload.router.generator.spread=1000", "workload.router.generator.common=1",
                "workload.router.generator.previous=0", "workload.router.generator.earlier=0"});
  std::vector<std::string> planned = alike;
  planned.push_back("policies.placement.policy=eplb");
  CHECK(figure(run(planned), "e2e_s.mean") == Approx(figure(run(alike), "e2e_s.mean")).epsilon(0.01));
}

TEST_CASE("redundant experts take memory and share rows") {
  const auto with = [](const char* slots) {
    return run(on_eight({std::string("policies.redundant=") + slots, "policies.placement.policy=eplb",
                         "workload.router.generator.spread=0.2", "workload.router.generator.common=1"}));
  };
  const sim::Node none = with("0"), eight = with("8");
  // One expert a rank more in each of 48 layers: 3 matrices of 2048 x 768 in bf16, whole on their rank.
  CHECK(figure(eight, "memory_bytes.weights") - figure(none, "memory_bytes.weights") == 48.0 * 3 * 2048 * 768 * 2);
  CHECK(figure(eight, "experts.imbalance") < figure(none, "experts.imbalance"));
}

TEST_CASE("runs with router choices leap as they step, and give the same again") {
  CHECK(run().dump() == run().dump());
  sim::Node leaps = run(), steps = run({"run.leap=false"});
  leaps.erase("events");
  steps.erase("events");
  CHECK(leaps.dump() == steps.dump());
}

TEST_CASE("lanes of data parallelism, pipelines and passes replay too") {
  const sim::Node lanes = run({"machine.devices.0.count=4", "replica.expert_parallel=4",
                               R"(cluster.replicas=[{"tensor_parallel": 1, "data_parallel": 4}])"});
  // Each step knows the tokens of one lane, and takes as many of three others.
  CHECK(figure(lanes, "requests.completed") == 16);
  CHECK(figure(lanes, "experts.imbalance") > 0.1);
  const sim::Node stages = run({R"(cluster.replicas=[{"tensor_parallel": 1, "pipeline_parallel": 2}])"});
  CHECK(figure(stages, "experts.activated") > 10);
  // An operator graph, on one device: it launches what the model's own kernels do.
  const sim::Node plain = run({"machine.devices.0.count=1"});
  const sim::Node passes = run({"machine.devices.0.count=1", R"(policies.passes={"order": []})"});
  CHECK(figure(passes, "experts.activated") == figure(plain, "experts.activated"));
  CHECK(figure(passes, "tbt_s.mean") == Approx(figure(plain, "tbt_s.mean")).epsilon(0.02));
}

TEST_CASE("exchanges of rows last as long as the fullest rank's", "[theory]") {
  // Over links of 0.1 GB/s exchanges are nearly all of a step, and rows of the fullest rank over the mean set them.
  const auto with = [](const std::string& policy) {
    return run({"machine.devices.0.count=4", "replica.expert_parallel=4", "workload.clients=64",
                "workload.generator.requests=128", "workload.router.generator.spread=0.1",
                "workload.router.generator.common=1", "policies.placement.policy=" + policy,
                R"(cluster.replicas=[{"tensor_parallel": 1, "data_parallel": 4}])",
                R"(replica.expert_exchange={"nic": "0.1 GB/s", "node": "0.1 GB/s"})"});
  };
  const sim::Node contiguous = with("contiguous"), eplb = with("eplb");
  const double crowds = (1 + figure(contiguous, "experts.imbalance")) / (1 + figure(eplb, "experts.imbalance"));
  CHECK(crowds > 1.1);
  CHECK(figure(contiguous, "e2e_s.mean") / figure(eplb, "e2e_s.mean") == Approx(crowds).epsilon(0.05));
}

/// Texts of two domains whose popular experts differ, walked through: the first half of the requests is of the one.
std::vector<std::string> drifting(std::vector<std::string> more) {
  more.insert(more.begin(), {"workload.router.generator.domains=2", "workload.router.generator.context=1024",
                             "workload.router.generator.spread=0.2", "workload.router.generator.common=1",
                             "workload.router.generator.previous=0", "workload.router.generator.earlier=0",
                             "workload.router.planned=0.5", "workload.router.walk=8", "workload.clients=16",
                             "workload.generator.requests=128", "policies.placement.policy=eplb"});
  return on_eight(more);
}

TEST_CASE("experts placed anew follow what tokens choose", "[theory]") {
  // 2,048 tokens: the first text (1,024 tokens of domain 0) is planned on, the second (of domain 1) is replayed.
  const sim::Node stay = run(drifting({}));
  const sim::Node move = run(drifting({R"(policies.rebalance={"interval": 40, "window": 20})"}));
  const sim::Node beside = run(drifting({R"(policies.rebalance={"interval": 40, "window": 20, "overlap": true})"}));
  CHECK(figure(stay, "experts.placements") == 0);
  CHECK(figure(move, "experts.placements") >= 3);
  CHECK(figure(move, "experts.imbalance") < 0.7 * figure(stay, "experts.imbalance"));
  CHECK(figure(move, "experts.activated") == Approx(figure(stay, "experts.activated")).epsilon(0.02));
  // An expert of this model is 3 matrices of 2048 x 768 in bf16.
  CHECK(figure(move, "experts.moved_bytes") == figure(move, "experts.moved") * 3 * 2048 * 768 * 2);
  CHECK(figure(move, "experts.move_s") > 0);
  // Iterations wait for copies, or go on beside them.
  CHECK(figure(beside, "simulated_s") < figure(move, "simulated_s"));

  // Control: experts that are all alike popular gain nothing by moving, and lose what the copies take.
  const std::vector<std::string> alike{"workload.router.generator.domains=1", "workload.router.generator.spread=1000"};
  std::vector<std::string> moved = alike;
  moved.push_back(R"(policies.rebalance={"interval": 40, "window": 20})");
  const sim::Node still = run(drifting(alike)), moving = run(drifting(moved));
  const double lost = figure(moving, "simulated_s") - figure(still, "simulated_s");
  CHECK(lost == Approx(figure(moving, "experts.move_s")).epsilon(0.15));
}

TEST_CASE("placements that change give the same again, and lanes wait for them together") {
  const std::vector<std::string> moving = drifting({R"(policies.rebalance={"interval": 40, "window": 20})"});
  std::vector<std::string> stepping = moving;
  stepping.push_back("run.leap=false");
  sim::Node leaps = run(moving), steps = run(stepping);
  CHECK(leaps.dump() == run(moving).dump());
  leaps.erase("events");
  steps.erase("events");
  CHECK(leaps.dump() == steps.dump());
  std::vector<std::string> lanes = moving;
  lanes.push_back(R"(cluster.replicas=[{"tensor_parallel": 1, "data_parallel": 8}])");
  const sim::Node together = run(lanes);
  CHECK(figure(together, "requests.completed") == 128);
  CHECK(figure(together, "experts.placements") >= 1);
  // Over links of 1 GB/s copies are most of a run, and no lane goes on before they are there, in lock step or not.
  for (const char* lock_step : {"true", "false"}) {
    CAPTURE(lock_step);
    std::vector<std::string> slow = lanes;
    slow.back() =
        std::string(R"(cluster.replicas=[{"tensor_parallel": 1, "data_parallel": 8, "lock_step": )") + lock_step + "}]";
    slow.push_back("machine.devices.0.override.link.bandwidth=1 GB/s");
    const sim::Node waits = run(slow);
    CHECK(figure(waits, "experts.placements") >= 1);
    CHECK(figure(waits, "simulated_s") > figure(waits, "experts.move_s"));
    // Placed anew before every iteration, while other lanes' iterations still find older places.
    slow.push_back(R"(policies.rebalance={"interval": 1, "window": 1, "overlap": true})");
    slow.push_back(
        R"(workload.generator.lengths={"policy": "uniform", "uniform": {"prompt_max": 4000, "output_max": 60}})");
    CHECK(figure(run(slow), "requests.completed") == 128);
  }
}

TEST_CASE("experts that several devices share move whole, and between nodes over their cards", "[theory]") {
  // Four ranks of two devices: an expert has 3 matrices of 2048 x 768 in bf16, whoever shares it.
  const auto shared = [](std::vector<std::string> more) {
    std::vector<std::string> all = drifting({R"(policies.rebalance={"interval": 40, "window": 20})"});
    all.push_back("replica.expert_parallel=4");
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const sim::Node one = shared({});
  CHECK(figure(one, "experts.moved_bytes") == figure(one, "experts.moved") * 3 * 2048 * 768 * 2);
  // Two nodes of two such ranks. A copy between nodes takes as long as cards of 1 GB/s let it.
  const auto nodes = [&](const char* nic) {
    return shared({R"(cluster.replicas=[{"tensor_parallel": 2, "data_parallel": 4}])",
                   std::string(R"(replica.expert_exchange={"node_devices": 4, "nic": ")") + nic + R"("})"});
  };
  CHECK(figure(nodes("1 GB/s"), "experts.move_s") > 5 * figure(nodes("10 GB/s"), "experts.move_s"));
}

TEST_CASE("router choices: faults") {
  const auto fault = [](const std::vector<std::string>& assignments) {
    return faults_of_run([&] { return run(assignments); });
  };
  using Catch::Contains;
  CHECK_THAT(fault({"model.config=catalog:llama-2-7b"}),
             Contains("/workload/router: expected none beside catalog:llama-2-7b, which has no experts"));
  CHECK_THAT(fault({"model.config=catalog:mixtral-8x7b", "workload.router.generator.experts=128"}),
             Contains("/workload/router: a router trace of another model: expected 2 of 8 experts a token as "
                      "mixtral-8x7b has, got 2 of 128"));
  CHECK_THAT(fault({"workload.router.trace=traces/samples/router-1024.csv"}),
             Contains("/workload/router: expected either a 'trace' or a 'generator'"));
  CHECK_THAT(fault({"workload.router.planned=0.95"}), Contains("/workload/router/planned: expected"));
  CHECK_THAT(fault({"workload.router=null", "policies.redundant=8"}),
             Contains("/policies/redundant: expected 0 without workload.router"));
  CHECK_THAT(fault({"workload.router=null", "policies.placement.policy=eplb"}),
             Contains("/policies/placement: expected contiguous without workload.router"));
  CHECK_THAT(fault({"policies.placement.policy=eplb", "workload.router.planned=0"}),
             Contains("/policies/placement: expected tokens to plan on, got none of the 2048 of workload.router"));
  CHECK_THAT(fault({"workload.router=null", "policies.rebalance={}"}),
             Contains("/policies/rebalance: expected none without workload.router, which says what changes"));
  CHECK_THAT(fault({"policies.rebalance={}"}),
             Contains("/policies/rebalance: expected none beside placement contiguous, which asks for no loads"));
  CHECK_THAT(fault({"policies.placement.policy=eplb", R"(policies.rebalance={"interval": 5, "window": 6})"}),
             Contains("/policies/rebalance/window: expected at most the interval, 5 iterations"));
  const sim::Node staged = run({"policies.placement.policy=eplb", "policies.rebalance={}",
                                R"(cluster.replicas=[{"tensor_parallel": 1, "pipeline_parallel": 2}])"});
  CHECK(staged.at("status")->as_string() == "infeasible");
  CHECK_THAT(staged.at("reason")->as_string(), Contains("policies.rebalance: expected one pipeline stage"));
  const sim::Node uneven = run(on_eight({"policies.redundant=3"}));
  CHECK(uneven.at("status")->as_string() == "infeasible");
  CHECK_THAT(uneven.at("reason")->as_string(), Contains("policies.placement: "));
}

}  // namespace
}  // namespace orrery::experiments::test
