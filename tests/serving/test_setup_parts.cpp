// A config made ready to run: who has which layers and how much memory, what does not fit and why, drafting, operators
// one by one; and a config in words.
#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "experiments/systems/serving/load/workload.hpp"
#include "experiments/systems/serving/pricing/operator_times.hpp"
#include "experiments/systems/serving/setup_state.hpp"
#include "experiments/systems/serving/speculation.hpp"
#include "tests/experiments/support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_setup_parts {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

using Changes = std::vector<std::string>;  ///< PATH=VALUE

ServingConfig read(const Changes& changes) {
  sim::Node root = sim::parse_json(R"({"system": "serving",
      "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}]},
      "model": {"config": "catalog:llama-2-7b"},
      "workload": {"generator": {"requests": 40, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
                                 "lengths": {"policy": "log_normal"}}}})",
                                   "c");
  for (const std::string& change : changes) sim::assign(root, change);
  sim::Faults faults;
  ServingConfig config = read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

struct Built : ServingSetup::State {
  explicit Built(const Changes& changes) {
    config = read(changes);
    model = models::load_model(config.model_file.string(), home_folder() / "models/catalog");
    build();
  }
  const ReplicaKind& first() const { return *kinds.front(); }
};

std::string reason(const Changes& changes) {
  const Built built(changes);
  if (!built.infeasible) return "fits";
  std::string text = built.infeasible->reason;
  if (built.infeasible->needed_bytes > 0)
    text += fmt::format(": {} of {}", built.infeasible->needed_bytes, built.infeasible->available_bytes);
  return text;
}

/// Stages as first-last, marked where one is like that before it.
std::string stages(const Changes& changes) {
  const Built built(changes);
  std::string text;
  for (const StageLayers& stage : built.first().layouts.front().layers_of)
    text += fmt::format("{}-{}{} ", stage.first, stage.last, stage.as_before ? "=" : "");
  return text;
}

std::string replicas(const std::string& text) {
  return "cluster.replicas=[" + text + "]";
}

/// A token of a segment takes 10 ps in each layer, of which attention has 7 and the rest 3; a token of context 1 ps; a
/// row of logits 100; drafting 1000 a step.
class Counted final : public IterationModel {
 public:
  std::vector<BatchShape> asked;
  void cost(const BatchShape& shape, IterationCost& out) override {
    asked.push_back(shape);
    std::int64_t attention = 0, rest = 0;
    for (const Segment& segment : shape.segments) {
      const std::int64_t layers = segment.last - segment.first;
      attention += layers * (7 * segment.tokens + segment.decode.context_tokens + segment.prefill.pairs);
      rest += 3 * layers * segment.tokens;
    }
    add(hw::OpClass::attention_decode, attention, out);
    add(hw::OpClass::ffn_up, rest, out);
    add(hw::OpClass::sampling, 100 * shape.logit_rows, out);
    add(hw::OpClass::norm, 1000 * shape.drafting.steps, out);
    out.compute_pj += out.time_ps;
    out.memory_pj += 2 * out.time_ps;
    out.network_pj += 4 * out.time_ps;
  }
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return 10 * from + to; }

 private:
  static void add(hw::OpClass op, std::int64_t ps, IterationCost& out) {
    out.class_ps[static_cast<std::size_t>(op)] += ps;
    out.time_ps += ps;
  }
};

}  // namespace

TEST_CASE("stages have the layers that the policy gives them, or there are none", "[unit]") {
  const auto listed = [](const std::string& counts, int of) {
    return Changes{replicas(fmt::format(R"({{"pipeline_parallel": {}}})", of)),
                   R"(policies.partition={"policy": "listed", "listed": {"layers": [)" + counts + "]}}"};
  };
  CHECK(stages({}) == "0-32 ");
  CHECK(stages({replicas(R"({"pipeline_parallel": 2})")}) == "0-16 16-32 ");
  // Stages without an edge are alike where their layers are.
  CHECK(stages({replicas(R"({"pipeline_parallel": 4})")}) == "0-8 8-16 16-24= 24-32 ");
  CHECK(stages(listed("2, 10, 10, 10", 4)) == "0-2 2-12 12-22= 22-32 ");
  CHECK(stages(listed("10, 10, 10, 2", 4)) == "0-10 10-20 20-30= 30-32 ");
  CHECK(stages(listed("2, 10, 9, 11", 4)) == "0-2 2-12 12-21 21-32 ");
  CHECK(reason(listed("2, 10, 10, 9", 4)) ==
        "policies.partition gives stages of [2, 10, 10, 9] layers, the model has 32 layers and the replica 4 stages");
  CHECK(reason(listed("2, 10, 10, 11", 4)) ==
        "policies.partition gives stages of [2, 10, 10, 11] layers, the model has 32 layers and the replica 4 stages");
  CHECK(reason(listed("16, 16", 4)) ==
        "policies.partition gives stages of [16, 16] layers, the model has 32 layers and the replica 4 stages");
}

TEST_CASE("a stage's device holds the most that a stage has of weights and of cache", "[unit]") {
  // Llama-2-7B: 202,383,360 parameters a layer, 131,072,000 of the embedding and as many of the head, with a norm of
  // 4,096; keys and values of 2 x 4,096 a token and layer. All of two bytes.
  const auto of = [](const std::string& counts) {
    const Built built({replicas(R"({"pipeline_parallel": 3})"),
                       R"(policies.partition={"policy": "listed", "listed": {"layers": [)" + counts + "]}}"});
    return std::pair(built.first().layouts.front().weight_bytes, built.first().layouts.front().cache_per_token);
  };
  constexpr std::int64_t kLayer = 2 * 202'383'360, kEdge = 2 * 131'072'000, kCache = 2 * 2 * 4096;
  using Bytes = std::pair<std::int64_t, std::int64_t>;
  CHECK(of("12, 10, 10") == Bytes{12 * kLayer + kEdge, 12 * kCache});
  CHECK(of("10, 11, 11") == Bytes{11 * kLayer + kEdge + 2 * 4096, 11 * kCache});
  CHECK(of("10, 12, 10") == Bytes{12 * kLayer, 12 * kCache});
  const Built whole({"replica.tensor_parallel=1"});
  CHECK(whole.first().weight_bytes == 32 * kLayer + 2 * kEdge + 2 * 4096);
  CHECK(whole.first().geometry.bytes_per_token == 32 * kCache);
  CHECK(whole.first().geometry.bytes_available == whole.first().usable_bytes - whole.first().weight_bytes);
  CHECK(whole.machine.groups[0].weight_bytes == whole.first().weight_bytes);
  CHECK(whole.machine.groups[0].kv_capacity_bytes == whole.first().geometry.bytes_available);
  CHECK(whole.first().cache_per_token == 32 * kCache);
  const Built half({"replica.tensor_parallel=2"});
  CHECK(half.first().geometry.bytes_per_token == 16 * kCache);
  CHECK(half.first().cache_per_token == 32 * kCache);  // over both devices
}

TEST_CASE("memory: a margin, lanes that share it, and a number of blocks in its place", "[unit]") {
  const Built margin({"replica.memory_margin=0.25", "replica.tensor_parallel=1"});
  const auto bytes = static_cast<double>(margin.config.parts[0].device.memory_bytes);
  CHECK(margin.first().usable_bytes == static_cast<std::int64_t>(bytes * 0.75));
  const std::string two = R"("pipeline_parallel": 2)";
  const Built shared({replicas("{" + two + "}")}), apart({replicas("{" + two + R"(, "queue": "per_lane"})")});
  CHECK(shared.first().pools() == 1);
  CHECK(apart.first().pools() == 2);
  CHECK(apart.first().geometry.bytes_available == shared.first().geometry.bytes_available / 2);
  CHECK(apart.machine.groups[0].kv_capacity_bytes == shared.first().geometry.bytes_available / 2 * 2);
  CHECK(shared.first().limits.batches == 2);
  CHECK(apart.first().limits.batches == 1);
  const Built blocks({"replica.kv_blocks=600", "replica.tensor_parallel=1"});
  CHECK(blocks.first().geometry.bytes_available == 600 * blocks.first().block_bytes);
  CHECK(blocks.first().block_bytes == 16 * blocks.first().geometry.bytes_per_token);
  // A request of 4,096 tokens takes 256 blocks of 16.
  CHECK(reason({"replica.kv_blocks=256", "replica.tensor_parallel=1"}) == "fits");
  CHECK(reason({"replica.kv_blocks=255", "replica.tensor_parallel=1"}) ==
        "a KV cache of 255 blocks (replica.kv_blocks) does not hold one request of 4096 tokens, which takes 256");
  CHECK(reason({"replica.kv_blocks=255", "replica.tensor_parallel=1", "replica.max_context=4080"}) == "fits");
  CHECK(reason({"model.config=catalog:llama-2-70b", "replica.tensor_parallel=1"}) ==
        "weights and the KV cache of one request of 4096 tokens do not fit the memory of a100-sxm4-80gb (of 80 GiB, a "
        "share of 0.1 is kept free): 139295473664 of 77309411328");
  CHECK(reason({"model.config=catalog:llama-2-70b", "replica.tensor_parallel=4"}) == "fits");
}

TEST_CASE("equal groups share their kind, others have one of their own", "[unit]") {
  const auto kinds = [](const std::string& groups) { return Built({replicas(groups)}).kinds.size(); };
  CHECK(kinds("{}, {}") == 1);
  CHECK(kinds(R"({}, {"name": "x", "role": "both", "weight": 2})") == 1);
  CHECK(kinds(R"({}, {"tensor_parallel": 2})") == 2);
  CHECK(kinds(R"({"pipeline_parallel": 2}, {"tensor_parallel": 2})") == 2);
  CHECK(kinds(R"({"pipeline_parallel": 2}, {"pipeline_parallel": 2})") == 1);
  CHECK(kinds(R"({"pipeline_parallel": 2}, {"pipeline_parallel": 2, "micro_batches": 3})") == 2);
  CHECK(kinds(R"({"pipeline_parallel": 2}, {"pipeline_parallel": 2, "queue": "per_lane"})") == 2);
  CHECK(kinds(R"({}, {"kvcache": {"policy": "buddy"}})") == 1);
  const Built two(
      {"machine.devices=[{\"part\": \"a100-sxm4-80gb\", \"count\": 2}, {\"part\": \"h100-sxm5-80gb\", "
       "\"count\": 3}]",
       replicas(R"({"count": 2}, {"device_group": 1, "count": 2})")});
  CHECK(two.kinds.size() == 2);
  CHECK(two.machine.devices[0].used == 2);
  CHECK(two.machine.devices[1].used == 2);
  CHECK(two.machine.devices[1].devices == 3);
  CHECK(two.machine.devices[0].part == "a100-sxm4-80gb");
  CHECK(two.machine.groups[1].part == "h100-sxm5-80gb");
  CHECK(two.machine.groups[1].device_group == 1);
  CHECK(two.machine.groups[1].replicas == 2);
  CHECK(two.machine.groups[1].peak_flops > two.machine.groups[0].peak_flops);
}

TEST_CASE("what cannot be built says why", "[unit]") {
  const std::string layouts = "layouts.modes=", seesaw = "policies.batching.policy=seesaw";
  CHECK(reason({"replica.tensor_parallel=8"}) == "tensor parallelism of 8 needs as many devices, the machine has 4");
  CHECK(reason({replicas(R"({"count": 5})")}) ==
        "the replicas need 5 devices of part a100-sxm4-80gb, the machine has 4");
  CHECK(reason({replicas(R"({"count": 4})")}) == "fits");
  CHECK(reason({replicas(R"({"count": 2}, {"tensor_parallel": 3})")}) ==
        "the replicas need 5 devices of part a100-sxm4-80gb, the machine has 4");
  CHECK(reason({replicas(R"({"pipeline_parallel": 8})")}) ==
        "the replicas need 8 devices of part a100-sxm4-80gb, the machine has 4");
  CHECK(reason({"machine.devices.0.count=40", replicas(R"({"pipeline_parallel": 33})")}) ==
        "33 pipeline stages for 32 layers");
  CHECK(reason({"machine.devices.0.count=32", replicas(R"({"pipeline_parallel": 32})")}) == "fits");
  CHECK(reason({"replica.tensor_parallel=3"}) ==
        "expected ranks of tensor parallelism that divide the 32 attention heads, got 3");
  CHECK(reason({layouts + R"([{"tensor_parallel": 4}, {"tensor_parallel": 2}])", seesaw}) ==
        "a layout of 2 x 1 is for 2 devices, a replica has 4");
  const std::string clocks = R"(machine.devices.0.clocks=["1.41 GHz", "0.9 GHz"])";
  const std::string two = replicas(R"({"pipeline_parallel": 2})");
  CHECK(reason({clocks, "policies.power.policy=prefill_high", two}) ==
        "clocks are chosen for replicas without pipeline stages only");
  CHECK(reason({clocks, "policies.power.policy=prefill_high", seesaw,
                layouts + R"([{"pipeline_parallel": 4}, {"tensor_parallel": 4}])"}) ==
        "clocks are chosen for replicas of one layout only");
  CHECK(reason({clocks, "policies.power.policy=prefill_high"}) == "fits");
  CHECK(reason({"policies.speculation.policy=n_gram", two}) ==
        "speculation is modelled on replicas without pipeline stages only");
  CHECK(reason({"policies.speculation.policy=n_gram"}) == "fits");
  CHECK(reason({R"(policies.speculation={"policy": "mtp", "mtp": {"layers": 33}})"}) ==
        "mtp drafts with 33 layers of the model, which has 32");
  CHECK(reason({"policies.batching.policy=vtc", two}) ==
        "vtc counts what all that run were served, so it cannot schedule a pipeline with several batches in flight "
        "(queue per_lane of cluster.replicas gives each lane a policy of its own)");
  const std::string passes = R"(policies.passes={"order": []})";
  CHECK(reason({passes, "model.config=catalog:qwen3-30b-a3b", replicas(R"({"data_parallel": 2})")}) ==
        "an operator graph is served by replicas of tensor and pipeline parallelism alone");
  CHECK(reason({passes, "replica.tensor_parallel=1"}) == "fits");
}

TEST_CASE("a model that drafts takes memory beside the target's", "[unit]") {
  const Built plain({"replica.tensor_parallel=1"});
  const Built model(
      {"replica.tensor_parallel=1",
       R"(policies.speculation={"policy": "draft_model", "draft_model": {"model": "catalog:llama-2-7b"}})"});
  CHECK(model.first().weight_bytes == 2 * plain.first().weight_bytes);
  CHECK(model.first().geometry.bytes_per_token == 2 * plain.first().geometry.bytes_per_token);
  CHECK(model.first().cache_per_token == plain.first().cache_per_token);  // drafts are not handed over
  // Layers of the model's own: 2 of its 32, of 202,383,360 parameters.
  const Built layers({"replica.tensor_parallel=1", R"(policies.speculation={"policy": "mtp", "mtp": {"layers": 2}})"});
  CHECK(layers.first().weight_bytes == plain.first().weight_bytes + 2 * 2 * 202'383'360);
  CHECK(layers.first().geometry.bytes_per_token == plain.first().geometry.bytes_per_token / 32 * 34);
  const Built words({"replica.tensor_parallel=1", "policies.speculation.policy=n_gram"});
  CHECK(words.first().weight_bytes == plain.first().weight_bytes);
}

TEST_CASE("an iteration with proposals costs the target's, the prompts of the draft model and its steps", "[unit]") {
  Counted target, draft;
  SpeculativeIteration model(target, draft, 2, 5);
  BatchShape shape;
  shape.mode = 1;
  shape.segments = {{.first = 0, .last = 4, .tokens = 6, .decode = {2, 50}}};
  shape.logit_rows = 6;
  IterationCost plain;
  model.cost(shape, plain);
  CHECK(plain.time_ps == 4 * (60 + 50) + 600);
  CHECK(draft.asked.empty());
  CHECK(model.price(shape).time_ps == plain.time_ps);
  // Two sequences on 50 tokens draft three times: a row of logits each, contexts of 50, 52, 54 in two layers, and 5 ps
  // of the host. Prompts of 10 and 20 tokens: 55 + 210 pairs.
  shape.drafting = {.sequences = 2, .context_tokens = 50, .steps = 3};
  shape.drafting.prompts.add(10, 0);
  shape.drafting.prompts.add(20, 0);
  draft.asked.clear();
  IterationCost cost;
  model.draft_cost(shape, cost);
  CHECK(cost.time_ps == 2 * (300 + 265) + 3 * (2 * 20 + 200 + 5) + 2 * (50 + 52 + 54));
  REQUIRE(draft.asked.size() == 4);
  CHECK(draft.asked[0].sequences == 2);
  CHECK(draft.asked[0].logit_rows == 0);
  CHECK(draft.asked[0].mode == 1);
  CHECK(draft.asked[1].sequences == 2);
  CHECK(draft.asked[3].mode == 1);
  CHECK(draft.asked[3].segments == std::vector<Segment>{{.first = 0, .last = 2, .tokens = 2, .decode = {2, 54}}});
  IterationCost whole;
  model.cost(shape, whole);
  CHECK(whole.time_ps == plain.time_ps + 3000 + cost.time_ps);  // the target says 1000 a step
  const IterationPrice price = model.price(shape);
  CHECK(price.time_ps == whole.time_ps);
  CHECK(price.energy_pj == whole.compute_pj + whole.memory_pj + whole.network_pj);
  CHECK(price.horizon == 1);
  const auto ledger = model.ledger();
  ledger->book(shape, 1);
  CHECK(static_cast<std::int64_t>(ledger->total().time_ps) == whole.time_ps);
  ledger->book_cost(plain);
  CHECK(static_cast<std::int64_t>(ledger->total().time_ps) == whole.time_ps + plain.time_ps);
  shape.drafting = {};
  ledger->book(shape, 1);
  CHECK(static_cast<std::int64_t>(ledger->total().time_ps) == whole.time_ps + 2 * plain.time_ps);
  CHECK(model.switch_ps(1, 2) == 12);
}

TEST_CASE("prices of verifying and drafting are those of the models", "[unit]") {
  Counted target, draft;
  SpeculativeIteration model(target, draft, 2, 5);
  const IterationStepPrices prices(target, &model, 4);
  // Three decodes on 20 tokens: a token each, or 2 of a chunk behind 19: 2 x 19 + 3 pairs.
  CHECK(prices.verify_ps(3, 1, 20) == 4 * (30 + 60) + 300);
  CHECK(target.asked.back().sequences == 3);
  CHECK(prices.verify_ps(3, 2, 20) == 4 * (60 + 3 * 41) + 600);
  CHECK(target.asked.back().segments.front().prefill.sequences == 3);
  CHECK(prices.draft_ps(3, 2, 20) == 2 * (2 * 30 + 300 + 5) + 2 * (60 + 63));
  CHECK(IterationStepPrices(target, nullptr, 4).draft_ps(3, 2, 20) == 0);
}

TEST_CASE("operators of an iteration: drafting, layer by layer, the head; stretched to what it takes", "[unit]") {
  Counted model;
  const auto times = [&](const BatchShape& shape) {
    std::string text;
    for (const OperatorTime& time : operator_times(model, shape))
      text += fmt::format("{} {} {}-{} ", time.layer, hw::to_string(time.op), time.begin_ps, time.end_ps);
    return text;
  };
  BatchShape shape;
  CHECK(times(shape) == "");
  shape.sequences = 2;
  shape.mode = 1;
  shape.segments = {{.first = 0, .last = 2, .tokens = 2, .decode = {2, 30}}, {.first = 1, .last = 3, .tokens = 1}};
  CHECK(times(shape) ==
        "0 attention_decode 0-44 0 ffn_up 44-50 1 attention_decode 50-101 1 ffn_up 101-110 2 attention_decode 110-117 "
        "2 ffn_up 117-120 ");
  for (const BatchShape& part : model.asked) {
    CHECK(part.mode <= 1);
    CHECK((part.segments.empty() || part.sequences == 2));
  }
  shape.logit_rows = 2;
  CHECK(times(shape) ==
        "0 attention_decode 0-44 0 ffn_up 44-50 1 attention_decode 50-101 1 ffn_up 101-110 2 attention_decode 110-117 "
        "2 ffn_up 117-120 -2 sampling 120-320 ");
  CHECK(model.asked.back().logit_rows == 2);
  CHECK(model.asked.back().sequences == 2);
  CHECK(model.asked.back().mode == 1);
  shape.drafting.steps = 1;
  CHECK(times(shape) ==
        "-1 norm 0-1000 0 attention_decode 1000-1044 0 ffn_up 1044-1050 1 attention_decode 1050-1101 1 ffn_up "
        "1101-1110 2 attention_decode 1110-1117 2 ffn_up 1117-1120 -2 sampling 1120-1320 ");
  // A model that smooths says another whole: each operator has its share of it.
  struct Doubled final : IterationModel {
    Counted inner;
    void cost(const BatchShape& asked, IterationCost& out) override {
      inner.cost(asked, out);
      if (asked.segments.size() == 2) out.time_ps *= 2;
    }
  } doubled;
  shape.drafting = {};
  const std::vector<OperatorTime> stretched = operator_times(doubled, shape), plain = operator_times(model, shape);
  REQUIRE(stretched.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(stretched[i].end_ps == 2 * plain[i].end_ps);
}

TEST_CASE("a run at another rate, of other length, with other targets, of another seed", "[unit]") {
  const ServingSetup setup(read({"slo.ttft=1 ns", "slo.tbt=1 ns"}));
  const auto run = [&](const RunChange& change) { return setup.run(nullptr, {}, change); };
  const auto s_of_last = [](const ServingResult& result) {
    return sim::TickScale{1}.seconds(result.metrics.arrivals.last);
  };
  const ServingResult plain = run({});
  CHECK(plain.metrics.arrived == 40);
  CHECK(plain.metrics.verdicts.attained == 0);
  CHECK(run({.requests = 7}).metrics.arrived == 7);
  CHECK(run({.requests = 90}).metrics.arrived == 90);
  CHECK(run({.slo_scale = 1e11}).metrics.verdicts.attained == 40);
  CHECK(s_of_last(run({.rate_scale = 2})) == Approx(s_of_last(plain) / 2));
  CHECK(run({.replication = 1}).end != plain.end);
  CHECK(run({.replication = 1}).end == ServingSetup(read({"run.seed=2"})).run(nullptr).end);
}

TEST_CASE("progress is told every 256 requests, and some thousand runs of iterations", "[unit]") {
  const ServingSetup setup(read({"workload.generator.requests=600"}));
  std::vector<Progress> told;
  const ServingResult result = setup.run(nullptr, [&](const Progress& progress) { told.push_back(progress); });
  std::vector<std::int64_t> done;
  for (const Progress& progress : told) {
    if (progress.done % 256 == 0 && (done.empty() || done.back() != progress.done)) done.push_back(progress.done);
    CHECK(progress.total == 600);
    CHECK(progress.simulated_s <= result.simulated_s);
  }
  CHECK(done == std::vector<std::int64_t>{256, 512});
}

TEST_CASE("a run that fits nowhere cannot be run", "[unit]") {
  const ServingSetup setup(read({"replica.tensor_parallel=8"}));
  REQUIRE(setup.infeasible());
  CHECK_THROWS_WITH(setup.run(nullptr), "run() of a design that does not fit");
  CHECK(setup.model_positions() == 4096);
}

TEST_CASE("how many requests a run will have at most, as far as its config says", "[unit]") {
  const Scratch scratch;
  const std::string none = "workload.generator=null";
  const auto trace = [&](const char* name) {
    return R"(workload.trace={"format": "orrery_csv", "path": ")" + scratch.write(name, small_trace()).string() + "\"}";
  };
  const auto expected = [](const Changes& changes) { return expected_requests(read(changes).workload); };
  CHECK(expected({}) == 40);
  CHECK(expected({"workload.limit=7"}) == 7);
  CHECK(expected({"workload.limit=41"}) == 40);
  CHECK(expected({none, trace("t.csv")}) == 11);  // lines, the head included
  CHECK(expected({none, trace("t.csv"), "workload.limit=10"}) == 10);
  CHECK(expected({none, trace("t.csv.gz")}) == std::nullopt);
  CHECK(expected({none, trace("t.csv.zst"), "workload.limit=99"}) == 99);
  const std::string chats = R"(workload.program={"does": {"policy": "conversation"}})";
  CHECK(expected({none, chats}) == std::nullopt);
  CHECK_THROWS_WITH(open_workload(read({none, chats}), 1),
                    "c:/workload/program: expected a trace or a generator, which this needs");
}

TEST_CASE("a limit on a load of programs is one on their instances", "[unit]") {
  const auto started = [](const std::string& instances, const Changes& more) {
    Changes changes{"workload.generator=null",
                    "workload.program={" + instances + R"("does": {"policy": "conversation", "conversation": {
                        "one_turn": 1, "message": {"mean": 5, "cv": 0}, "output": {"mean": 2, "cv": 0}}}})"};
    changes.insert(changes.end(), more.begin(), more.end());
    return ServingSetup(read(changes)).run(nullptr).programs->started;
  };
  CHECK(started("", {}) == 100);
  CHECK(started(R"("instances": 6, )", {}) == 6);
  CHECK(started(R"("instances": 6, )", {"workload.limit=4"}) == 4);
  CHECK(started(R"("instances": 6, )", {"workload.limit=8"}) == 6);
  CHECK(started("", {"workload.limit=8"}) == 8);
}

TEST_CASE("the files that decide a result: the models', the parts', and those that the config names", "[unit]") {
  const Scratch scratch;
  scratch.write("dense.csv", "x");
  scratch.write("moe.csv", "x");
  const std::string trace = scratch.write("t.csv", small_trace()).string();
  const auto names = [](const Changes& changes) {
    std::string text;
    for (const fs::path& file : serving_inputs(read(changes))) text += file.filename().string() + " ";
    return text;
  };
  CHECK(names({}) == "llama-2-7b.json a100-sxm4-80gb.json ");
  CHECK(names({R"(policies.speculation={"policy": "draft_model", "draft_model": {"model": "catalog:llama-2-13b"}})"}) ==
        "llama-2-7b.json llama-2-13b.json a100-sxm4-80gb.json ");
  CHECK(names({"workload.generator=null", R"(workload.trace={"format": "orrery_csv", "path": ")" + trace + "\"}"}) ==
        "llama-2-7b.json a100-sxm4-80gb.json t.csv ");
  CHECK(names({"machine.profile.path=" + (scratch / "").string()}) ==
        "llama-2-7b.json a100-sxm4-80gb.json dense.csv moe.csv ");
  // What decides the result is not where they lie.
  CHECK(serving_identity(read({"machine.profile.path=" + (scratch / "").string()}))
            .at("machine.profile.path")
            ->as_string() == "an input");
  CHECK(serving_identity(read({})).find("parts")->items().size() == 1);
}

}  // namespace test_setup_parts
