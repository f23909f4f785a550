// Training steps in which kernels, collectives and copies that run at once slow each other.
#include <catch2/catch.hpp>

#include <sstream>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/training/layer_exchange.hpp"
#include "experiments/systems/training/run.hpp"
#include "hw/interference/shares.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_interference {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using hw::CollectiveReach;

namespace {

/// A decoder of four layers on A100 in nodes of eight; `machine` and `plan` go on after a comma.
training::TrainingConfig config(const std::string& plan, const std::string& machine = "", int devices = 8,
                                const std::string& model = "") {
  const std::string count = std::to_string(devices);
  const sim::Node root = sim::parse_json(
      R"({"system": "training", "machine": {"devices": [{"part": "a100-sxm4-40gb", "count": )" + count +
          R"(}], "node": {"devices": 8, "nic": "ib-hdr-4x"}, "host_link": "pcie4-x16")" + machine +
          R"(}, "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 2048, "heads": 16,
              "kv_heads": 16, "head_dim": 128, "intermediate": 8192, "vocab": 32000, "tied": false, "loss": true)" +
          model + R"(}}}, "workload": {"sequence": 1024, "global_batch": 32}, "plan": {)" + plan + "}}",
      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

double step_s(const std::string& plan, const std::string& machine = "", int devices = 8,
              const std::string& model = "") {
  const training::TrainingResult result = training::train(config(plan, machine, devices, model));
  REQUIRE(result.reason.empty());
  return result.run.times.time_s;
}

constexpr const char* kShares = R"(, "interference": {"policy": "shares"})";

/// Kernels for 9 s, gathers for 10 s beside them, in a stage of so many layers.
training::StageCosts stage(bool slowed, CollectiveReach reach = CollectiveReach::node, std::int64_t layers = 4) {
  training::ChunkCosts chunk;
  chunk.layers = layers;
  chunk.forward.kernel_s = chunk.backward_input.kernel_s = 9;
  chunk.gathers_beside_s = 10;
  if (slowed) chunk.overlap = {hw::make_shares({}), reach};
  training::StageCosts stage;
  stage.chunks.push_back(chunk);
  return stage;
}

}  // namespace

TEST_CASE("A pass and the gathers beside it share the device", "[unit][training]") {
  // Together at 1 / 1.44 until the kernels are done: 12.96 s, and 1 s of gathers.
  CHECK(stage(false).forward_s() == 10);
  CHECK(stage(true).forward_s() == Approx(1.44 * 9 + 1));
  CHECK(stage(true, CollectiveReach::network).forward_s() == Approx(1.15 * 9 + 1));
  training::ChunkCosts chunk = stage(true).chunks.front();
  chunk.scatters_beside_s = 2;
  CHECK(chunk.backward_s() == Approx(1.44 * 9 + 3));
  CHECK(chunk.backward_input_s() == Approx(1.44 * 9 + 1));
  CHECK(chunk.backward_weight_s() == Approx(12));  // no kernels: nothing to share with
  CHECK(chunk.interference_s() == Approx(1.44 * 9 + 1 - 10 + 1.44 * 9 + 3 - 12));
  CHECK(stage(false).chunks.front().interference_s() == 0);
}

TEST_CASE("What goes to the host and back shares the host", "[unit][training]") {
  training::ChunkCosts chunk = stage(true).chunks.front();
  chunk.gathers_beside_s = 0;
  chunk.forward_host = {.in_s = 8, .out_s = 7, .first_s = 2, .last_s = 1};
  // 2 s before anything, 1 s after all; between them 6 s in and 6 s out, both at 1 / 1.72, kernels meanwhile.
  CHECK(chunk.forward_s() == Approx(2 + 1.72 * 6 + 1));
  chunk.overlap = {};
  CHECK(chunk.forward_s() == Approx(2 + 9 + 1));
}

TEST_CASE("Gradients summed layer by layer slow the pass that makes them", "[unit][training]") {
  // A layer takes 2 s of the pass and 1 s of sums; three layers, 6 and 3 s, run at once.
  CHECK(training::beside_pass_s(stage(false), {0, 4, 0, 0}, 8) == Approx(3 + 6));
  CHECK(training::beside_pass_s(stage(true), {0, 4, 0, 0}, 8) == Approx(3 + 1.44 * 3 + 3));
  CHECK(training::beside_pass_s(stage(true), {0, 0, 0, 0}, 8) == 8);
  CHECK(training::beside_pass_s(stage(true, CollectiveReach::node, 1), {0, 4, 0, 0}, 8) == Approx(12));
  // Sums across the network and gradients to the host take turns on the link, in the last layer too: 1 + 1 s there;
  // before it 3 + 3 s at half speed, beside which kernels run at 1 - 0.15 / 2 and have 6 - 0.925 x 6 s left.
  CHECK(training::beside_pass_s(stage(true, CollectiveReach::network), {0, 4, 0, 4}, 8) ==
        Approx(2 + 2 + 6 + (6 - 0.925 * 6)));
  // Longer sums than passes: what is left of them runs alone.
  CHECK(training::beside_pass_s(stage(false), {0, 16, 0, 0}, 8) == Approx(6 + 12));
  CHECK(training::beside_pass_s(stage(true), {0, 16, 0, 0}, 8) == Approx(6 + 1.44 * 6 + 6));
}

TEST_CASE("Pieces of a collective beside pieces of a product", "[unit][training]") {
  // Of four pieces three are beside: 6 and 6 s at 1 / 1.44, where the product alone takes 6.
  const training::Overlap shared{hw::make_shares({}), CollectiveReach::node};
  CHECK(training::exposed_beside({}, 8, 8, 4) == Approx(2));
  CHECK(training::exposed_beside(shared, 8, 8, 4) == Approx(2 + 1.44 * 6 - 6));
  const training::Overlap nothing{hw::make_shares({.node_collective = 0, .host_copy = 0}), CollectiveReach::node};
  CHECK(training::exposed_beside(nothing, 8, 6, 4) == Approx(training::exposed_beside({}, 8, 6, 4)));
}

TEST_CASE("Steps of every plan that overlaps take longer, in events as in closed form", "[unit][training]") {
  struct Case {
    const char* plan;
    int devices;
    const char* model;
  };
  const Case cases[] = {
      {R"("data_parallel": 8, "zero": "weights")", 8, ""},
      {R"("data_parallel": 8)", 8, ""},
      {R"("data_parallel": 8, "zero": "optimizer", "overlap_gathers": true)", 8, ""},
      {R"("data_parallel": 16, "zero": "weights")", 16, ""},
      {R"("tensor_parallel": 8, "sequence_parallel": true, "async_tensor_parallel": true)", 8, ""},
      {R"("context_parallel": 8)", 8, ""},
      {R"("data_parallel": 8, "expert_parallel": 8, "overlap_experts": true)", 8,
       R"(, "experts": 8, "experts_per_token": 2)"},
  };
  for (const Case& of : cases) {
    INFO(of.plan);
    const double alone = step_s(of.plan, "", of.devices, of.model);
    const training::TrainingResult shared = training::train(config(of.plan, kShares, of.devices, of.model));
    CHECK(shared.run.times.time_s > alone * (1 + 1e-9));
    CHECK(shared.run.times.time_s < 1.5 * alone);
    CHECK(shared.closed.time_s == Approx(shared.run.times.time_s).epsilon(1e-6));
    // Shares of nothing are the model `none`.
    CHECK(step_s(of.plan, R"(, "interference": {"policy": "shares", "shares": {"node_collective": 0,
        "network_collective": 0, "network_link": 0, "host_copy": 0}})",
                 of.devices, of.model) == alone);
  }
}

TEST_CASE("A plan with nothing at once is slowed by nothing", "[unit][training]") {
  for (const char* plan : {R"("tensor_parallel": 8)", R"("data_parallel": 8, "overlap_gradients": false)"}) {
    INFO(plan);
    CHECK(step_s(plan, kShares) == step_s(plan));
  }
}

TEST_CASE("Copies to the host slow kernels only where these need the host", "[unit][training]") {
  const char* plan = R"("data_parallel": 1, "offload_activations": [1])";
  CHECK(step_s(plan, kShares, 1) == Approx(step_s(plan, "", 1)).epsilon(1e-12));
  CHECK(step_s(plan, R"(, "interference": {"policy": "shares", "shares": {"host_copy": 1, "host_kernels": 0.36}})", 1) >
        1.001 * step_s(plan, "", 1));
}

TEST_CASE("Copies of the model in one node or in several", "[unit][training]") {
  const auto reach = [](const char* plan, int devices) {
    return training::train(config(plan, kShares, devices)).costs.stages.front().chunks.front().overlap.reach;
  };
  CHECK(reach(R"("data_parallel": 8, "zero": "weights")", 8) == CollectiveReach::node);
  CHECK(reach(R"("data_parallel": 16, "zero": "weights")", 16) == CollectiveReach::network);
  CHECK(reach(R"("data_parallel": 2, "tensor_parallel": 8, "zero": "weights")", 16) == CollectiveReach::network);
  CHECK(reach(R"("data_parallel": 4, "tensor_parallel": 2, "pipeline_parallel": 2, "zero": "weights")", 16) ==
        CollectiveReach::node);
}

TEST_CASE("Collectives inside a layer take from kernels by where their own ranks are", "[unit][training]") {
  struct Case {
    const char* plan;
    const char* model;
  };
  // Eight ranks of one node each: what a collective across the network takes does not matter to them.
  const Case cases[] = {{R"("tensor_parallel": 8, "sequence_parallel": true, "async_tensor_parallel": true)", ""},
                        {R"("context_parallel": 8)", ""},
                        {R"("data_parallel": 8, "expert_parallel": 8, "overlap_experts": true)",
                         R"(, "experts": 8, "experts_per_token": 2)"}};
  const auto taking = [](double node, double network) {
    return R"(, "interference": {"policy": "shares", "shares": {"node_collective": )" + std::to_string(node) +
           R"(, "network_collective": )" + std::to_string(network) + "}}";
  };
  for (const Case& of : cases) {
    INFO(of.plan);
    const double alone = step_s(of.plan, "", 8, of.model);
    CHECK(step_s(of.plan, taking(0, 1), 8, of.model) == Approx(alone).epsilon(1e-9));
    CHECK(step_s(of.plan, taking(1, 0), 8, of.model) > alone * (1 + 1e-6));
  }
}

TEST_CASE("Kernels that are slowed do not wait for the host's gradients", "[unit][training]") {
  // What the pass takes longer hides nothing of what the host does with gradients meanwhile.
  const auto run = [](const char* machine) {
    training::TrainingConfig read = config(R"("data_parallel": 8, "zero": "weights", "offload_optimizer": [1])",
                                           std::string(R"(, "host_update": {"adam": "10e9 1/s", "cast": "50e9 1/s",
            "widen": "20e9 1/s", "staging": "50 GB/s"})") +
                                               machine);
    sim::Faults faults;
    const auto& registry = test_systems().registry<policies::OffloadRegistry>();
    const auto choice = registry.prepare("host", nullptr, {}, faults);
    faults.throw_if_any();
    read.machine.offload = choice.make();
    return training::train(read);
  };
  const training::TrainingResult alone = run(""), shared = run(kShares);
  REQUIRE(alone.costs.stages.front().host_gradients_wait);
  const double longer = shared.costs.stages.front().backward_s() - alone.costs.stages.front().backward_s();
  CHECK(longer > 1e-3);
  CHECK(shared.costs.stages.front().backward_waits_s() == Approx(alone.costs.stages.front().backward_waits_s()));
  CHECK(shared.run.times.gradients_s == Approx(alone.run.times.gradients_s).epsilon(1e-9));
  CHECK(shared.run.times.time_s - alone.run.times.time_s >= longer);
}

TEST_CASE("What waits for the host and what is slowed are told apart", "[unit][training]") {
  training::ChunkCosts chunk = stage(true).chunks.front();
  chunk.gathers_beside_s = 0;
  chunk.forward_host = {.in_s = 14, .out_s = 12};
  // 14 s in beside 9 s of kernels: 5 s of waiting. Both ways share the host until 12 s are out: 1.72 x 12 + 2 s.
  CHECK(chunk.host_waits_s() == Approx(14 - 9));
  CHECK(chunk.interference_s() == Approx(1.72 * 12 + 2 - 14));
}

TEST_CASE("A run says how much longer its passes are for it", "[unit][training]") {
  const auto figure = [](const std::string& machine) {
    const sim::Node root = config(R"("data_parallel": 8, "zero": "weights")", machine).resolved;
    return read_experiment(test_systems(), root)
        ->run({})
        .summary.find("stages")
        ->items()
        .front()
        .at("interference_s")
        ->as_number();
  };
  const double alone = step_s(R"("data_parallel": 8, "zero": "weights")"),
               shared = step_s(R"("data_parallel": 8, "zero": "weights")", kShares);
  CHECK(figure("") == 0);
  CHECK(figure(kShares) == Approx(shared - alone).epsilon(1e-6));
}

TEST_CASE("Interference that does not go with the rest of a config", "[unit][training]") {
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "shares"}, "in_situ": {"overlapped": 0.7})"),
                    Contains("/machine/interference: expected `none` beside in_situ.overlapped"));
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "factors", "factors": {"factors": [1.2, 1.1]}})"),
                    Contains("/machine/interference: expected 28 factors, got 2"));
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "share"})"), Contains("'shares'"));
}

TEST_CASE("The published factors are those of the repository's configs", "[golden][training]") {
  const std::filesystem::path data = std::filesystem::path(ORRERY_SHARED_DIR) / "data";
  if (!std::filesystem::exists(data / "systems/mist_hw_params.csv")) return;
  const auto table = sim::CsvTable::read(data, "systems/mist_hw_params.csv");
  constexpr std::array<hw::ActivitySet, 11> kSets{0b1111, 0b0111, 0b1011, 0b1101, 0b1110, 0b0011,
                                                  0b0101, 0b1001, 0b0110, 0b1010, 0b1100};
  const char* names[] = {"l4", "a100-sxm4-40gb", "v100-sxm2-32gb"};
  const auto& registry = test_systems().registry<hw::InterferenceRegistry>();
  for (std::size_t row = 0; row < 3; ++row) {
    CHECK(table.text(row, "hw").starts_with(names[row]));
    const sim::Node params = sim::parse_json(R"({"platform": ")" + std::string(names[row]) + "\"}", "factors");
    sim::Faults faults;
    const auto model = registry.prepare("factors", &params, {}, faults).make();
    faults.throw_if_any();
    std::istringstream numbers(table.text(row, "interference_28"));
    for (const hw::ActivitySet set : kSets)
      for (std::size_t i = 0; i < hw::kActivities; ++i) {
        if ((set >> i & 1U) == 0) continue;
        double factor = 0;
        REQUIRE(numbers >> factor);
        CHECK(model->slower(set, CollectiveReach::node)[i] == factor);
      }
  }
}

TEST_CASE("Measured work at once: lines of what it takes alone, then together", "[unit][fidelity]") {
  const std::string head =
      "gpu,nodes,gpus_per_node,compute_n,compute_m,compute_k,gpu_to_gpu_mbytes,cpu_to_gpu_mbytes,gpu_to_cpu_mbytes,"
      "latency_ms,intra_group_size,inter_group_size\n";
  const auto row = [](const char* sizes, const char* ms, const char* gpu = "a100-sxm4-40gb") {
    return std::string(gpu) + ",1,8," + sizes + "," + ms + ",8,1\n";
  };
  // Products of one size take 10 ms; copies in take 1 ms and 1 ms for 10 MB; copies out, whose sizes are near each
  // other, 1 ms for 5 MB and nothing to start.
  const std::string alone = row("4096,4096,4096,0,0,0", "10") + row("0,4096,4096,0,10,0", "2") +
                            row("0,4096,4096,0,90,0", "10") + row("0,4096,4096,0,0,20", "4") +
                            row("0,4096,4096,0,0,40", "8");
  const std::string name = "training/mist_interference.csv";
  const auto predict = [&](const std::string& text) {
    static const PartShelf parts(home_folder() / "hw/catalog");
    Predictions out;
    for (const auto& kind : table_kinds())
      if (kind->reads(name)) kind->predict(MeasuredTable::parse(head + text, name), parts, out);
    return out;
  };
  const Predictions out = predict(alone + row("4096,4096,4096,0,20,0", "10") + row("0,4096,4096,0,50,30", "11") +
                                  row("0,4096,4096,80,50,0", "11") + row("0,4096,4096,0,50,30", "11", "t4"));
  REQUIRE(out.columns().size() == 3);
  const Predictions::Column& shared = out.columns()[0];
  CHECK(shared.metric == "together");
  REQUIRE(shared.rows.size() == 2);
  CHECK(shared.rows[0].predicted == Approx(10));        // copies do not slow kernels
  CHECK(shared.rows[1].predicted == Approx(1.72 * 6));  // 6 ms each way
  CHECK(out.columns()[1].rows[1].predicted == Approx(6 * 1.2665 + 6 - 6 * 1.2665 / 1.5186));
  CHECK(out.columns()[2].rows[1].predicted == Approx(6));
  CHECK(shared.uncovered == 7);
  REQUIRE(shared.reasons.size() == 3);
  CHECK(shared.reasons[0] == "one kind of work: it says what that takes alone");
  CHECK(shared.reasons[1] == "no row of its cluster has this work alone");
  CHECK(shared.reasons[2] == "no constants of t4");
  CHECK_THROWS_WITH(predict(alone + row("0,4096,4096,0,0,60", "0")), Contains("latency_ms") && Contains("above 0"));
}

}  // namespace test_training_interference
