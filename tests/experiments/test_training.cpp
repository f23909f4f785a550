// Training steps: hand arithmetic, closed form against events, memory to the byte, plans that do not fit.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "experiments/systems/training/run.hpp"
#include "sim/base/random.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using training::Plan;

namespace {

/// A GPT of four layers on eight A100, with changes laid over it.
sim::Node config(const std::string& changes = "{}") {
  sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8}]},
    "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 4, "hidden": 1024, "heads": 16, "intermediate": 4096,
              "vocab": 51200, "positions": 1024, "attention": "eager", "loss": true, "dropout": 0.1}}},
    "workload": {"sequence": 1024, "global_batch": 32},
    "plan": {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 2}})",
                                   "training.json");
  const sim::Node over = sim::parse_json(changes, "changes.json");
  for (const auto& [section, values] : over.members())
    for (const auto& [name, value] : values.members()) {
      if (root.find(section) == nullptr) root.set(section, sim::Node::object());
      root.find(section)->set(name, value);
    }
  return root;
}

sim::Node run(const std::string& changes = "{}") {
  return read_experiment(test_systems(), config(changes))->run({}).summary;
}

std::string fault(const std::string& changes) {
  try {
    (void)run(changes);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

/// A figure of the first stage.
double of_stage(const sim::Node& summary, std::string_view path) {
  REQUIRE(summary.find("stages") != nullptr);
  return number(summary.find("stages")->items().front(), path);
}

std::string why(const std::string& changes) {
  const sim::Node summary = run(changes);
  REQUIRE(summary.at("status")->as_string() == "infeasible");
  return summary.at("reason")->as_string();
}

}  // namespace

TEST_CASE("A backward pass splits into what the stage before waits for and weights' gradients", "[unit][training]") {
  // Products with weights: as many FLOPs forward, for the input, for the weights. Attention's forward pass has F - W
  // and its backward pass twice that, all of it for the input.
  const char* const gpt = R"({"policy": "gpt2", "gpt2": {"layers": 4, "hidden": 1024, "heads": 16, "loss": true}})";
  const char* const decoder =
      R"({"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4,
      "head_dim": 64, "vocab": 32768, "loss": true, "tied": )";
  const std::string tied = std::string(decoder) + "true}}", untied = std::string(decoder) + "false}}";
  const std::string experts = std::string(decoder) + R"(false, "experts": 16, "experts_per_token": 2}})";
  for (const std::string& builder : {std::string(gpt), tied, untied, experts}) {
    CAPTURE(builder);
    sim::Faults faults;
    const auto read = training::read_training_config(
        config(R"({"model": {"builder": )" + builder + R"(}, "plan": {"tensor_parallel": 1}})"),
        *test_systems().registries(), faults);
    faults.throw_if_any();
    const training::TrainingResult result = training::train(read);
    REQUIRE(result.timed);
    for (const training::StageCosts& stage : result.costs.stages) {
      const training::ChunkCosts& chunk = stage.chunks.front();
      CHECK(chunk.backward_weight.flops > 0);
      CHECK(chunk.backward_input.flops == Approx(2 * chunk.forward.flops - chunk.backward_weight.flops).epsilon(1e-9));
      CHECK(chunk.backward_input.kernel_s > chunk.forward.kernel_s);
    }
  }
}

TEST_CASE("The host is waited for where it is the slower one, pass by pass", "[unit]") {
  training::PassCost pass{.kernel_s = 2, .collective_s = 1, .host_s = 2.5};
  CHECK(pass.length_s() == 3);
  pass.host_s = 4;
  CHECK(pass.length_s() == 4);
  // Launches dear enough are the time; with none nothing changes.
  const double free = number(run(), "iteration_s");
  const double dear = number(run(R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8}],
      "host": {"operator": "10 ms", "backward": "10 ms"}}})"),
                             "iteration_s");
  CHECK(dear > 20 * free);
  const double tp1 = number(run(R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8}],
      "host": {"operator": "10 ms", "backward": "10 ms"}}, "plan": {"tensor_parallel": 1, "pipeline_parallel": 2, "micro_batch": 2,
      "data_parallel": 2}})"),
                            "iteration_s");
  // Control: under the launch floor a second rank of tensor parallelism, which halves the kernels, gains nothing.
  CHECK(dear >= tp1);
  CHECK(free <
        number(run(R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 2, "micro_batch": 2, "data_parallel": 2}})"),
               "iteration_s"));
}

TEST_CASE("Activations of a layer are those of Korthikanti et al.", "[golden]") {
  // Table 2 of the paper: s b h (34 + 5 a s / h) bytes a layer without parallelism, all activations kept. Ours differs
  // by copies that the builder makes dense (q, k, v) and by statistics of norms: within a tenth.
  const auto kept = [](const std::string& plan) {
    const sim::Node summary = run(R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 1, )" +
                                  plan + R"("data_parallel": 8}, "workload": {"sequence": 1024, "global_batch": 8}})");
    return of_stage(summary, "memory_bytes.activations");
  };
  const double sbh = 1024.0 * 1024, logits = 2.0 * 1024 * 51200;
  const double all = kept(""), full = kept(R"("recompute": "full", )"), core = kept(R"("recompute": "selective", )");
  CHECK(all == Approx(4 * sbh * (34 + 5 * 16 * 1024 / 1024.0) + logits).epsilon(0.1));
  CHECK(core == Approx(4 * sbh * 34 + logits).epsilon(0.1));  // selective: the scores are gone
  CHECK(full == Approx(4 * 2 * sbh + logits).epsilon(0.1));   // full: two bytes of input a layer
}

TEST_CASE("ZeRO divides states by the copies, to the byte", "[unit][theory]") {
  const auto memory = [](const std::string& zero) {
    return run(
        R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 1, "data_parallel": 8, "zero": ")" +
        zero + R"("}})");
  };
  const auto bytes = [](const sim::Node& summary, const char* what) {
    return static_cast<std::int64_t>(of_stage(summary, std::string("memory_bytes.") + what));
  };
  // Parameters of the GPT: 51200 h + 1024 h, four layers of 12 h^2 + 13 h, a norm of 2 h; h = 1024.
  const std::int64_t h = 1024, p = 52224 * h + 4 * (12 * h * h + 13 * h) + 2 * h;
  const sim::Node none = memory("none"), one = memory("optimizer"), two = memory("gradients"),
                  three = memory("weights");
  CHECK(bytes(none, "weights") == 2 * p);
  CHECK(bytes(none, "gradients") == 2 * p);
  CHECK(bytes(none, "optimizer") == 12 * p);
  CHECK(bytes(one, "optimizer") == (12 * p + 7) / 8);
  CHECK(bytes(one, "gradients") == 2 * p);
  CHECK(bytes(two, "gradients") == (2 * p + 7) / 8);
  CHECK(bytes(two, "weights") == 2 * p);
  CHECK(bytes(three, "weights") == (2 * p + 7) / 8);
  // Sharing gradients and weights costs messages, never memory.
  CHECK(number(three, "iteration_s") >= number(one, "iteration_s"));
}

TEST_CASE("FLOPs are 6 N D and attention", "[golden]") {
  // Products of a layer: 12 h^2 weights; 6 FLOPs a weight and token. The head: h V. Attention, two products of s x s x
  // h each way thrice: 12 s h a token and layer (no causal skipping in eager attention).
  const double h = 1024, s = 1024, v = 51200, tokens = 32 * s;
  const double expected = tokens * (6 * (4 * 12 * h * h + h * v) + 4 * 12 * s * h);
  CHECK(number(run(), "model_flops") == Approx(expected).epsilon(1e-6));
  CHECK(
      number(run(R"({"plan": {"tensor_parallel": 8, "pipeline_parallel": 1, "micro_batch": 4, "recompute": "full"}})"),
             "model_flops") == Approx(expected).epsilon(1e-6));
}

TEST_CASE("The parts of a step add up", "[prop]") {
  for (const char* plan :
       {R"({"plan": {"tensor_parallel": 2, "pipeline_parallel": 4, "micro_batch": 1}})",
        R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 2, "micro_batch": 2, "recompute": "full"}})",
        R"({"plan": {"tensor_parallel": 4, "sequence_parallel": true, "zero": "optimizer"}})",
        R"({"plan": {"zero": "weights", "micro_batch": 4}})"}) {
    CAPTURE(plan);
    const sim::Node summary = run(plan);
    double sum = 0;
    for (const auto& [name, value] : summary.find("breakdown_s")->members()) {
      CHECK(value.as_number() >= -1e-12);
      sum += value.as_number();
    }
    CHECK(sum == Approx(number(summary, "iteration_s")));
    CHECK(number(summary, "closed_form_s") == Approx(number(summary, "iteration_s")).epsilon(0.05));
    CHECK(number(summary, "utilisation.mfu") < 0.75);
    CHECK(number(summary, "energy_j.total") > number(summary, "energy_j.idle"));
  }
}

TEST_CASE("Plans that do not fit say why", "[unit]") {
  CHECK_THAT(why(R"({"plan": {"tensor_parallel": 4, "pipeline_parallel": 4}})"),
             Contains("tensor 4 x pipeline 4 x data 1 are 16 ranks, the machine has 8 devices"));
  CHECK_THAT(why(R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 3}})"),
             Contains("tensor 1 x pipeline 3 do not divide 8 devices"));
  CHECK_THAT(why(R"({"plan": {"micro_batch": 3}})"),
             Contains("2 copies with micro-batches of 3 do not divide a batch of 32"));
  CHECK_THAT(why(R"({"plan": {"tensor_parallel": 1, "pipeline_parallel": 8}})"),
             Contains("8 stages of 1 chunks want as many layers, the model has 4"));
  CHECK_THAT(why(R"({"plan": {"pipeline_parallel": 2, "interleave": 2, "micro_batch": 8, "tensor_parallel": 4},
                     "policies": {"schedule": {"policy": "1f1b"}}})"),
             Contains("interleaved has several"));
  CHECK_THAT(why(R"({"plan": {"pipeline_parallel": 2, "interleave": 2, "micro_batch": 32, "tensor_parallel": 4},
                     "policies": {"schedule": {"policy": "interleaved"}}})"),
             Contains("which do not divide 1"));
  CHECK_THAT(why(R"({"plan": {"pipeline_parallel": 2},
                     "policies": {"partition": {"policy": "listed", "listed": {"layers": [3, 3]}}}})"),
             Contains("2 stages of 6 layers in all, the plan has 2 stages, the model 4 layers"));
  CHECK_THAT(
      why(R"({"plan": {"tensor_parallel": 8, "pipeline_parallel": 1, "sequence_parallel": true}, "workload": {"sequence": 1001, "global_batch": 32}})"),
      Contains("8 ranks of sequence parallelism do not divide 1001 tokens"));
  CHECK_THAT(why(R"({"machine": {"devices": [{"part": "epyc-9654", "count": 8}]}})"),
             Contains("has no link over which"));
  CHECK_THAT(why(R"({"plan": {"pipeline_parallel": 8, "tensor_parallel": 1, "micro_batch": 1, "data_parallel": 1},
                     "workload": {"sequence": 1024, "global_batch": 1000000}})"),
             Contains("24000000 passes of stages are more than the 4000000 that are run"));
  // 512 sequences at once keep far more than 80 GB.
  CHECK_THAT(
      why(R"({"plan": {"micro_batch": 512, "data_parallel": 1}, "workload": {"sequence": 1024, "global_batch": 512}})"),
      Contains(" needs ") && Contains("a device has 80 GiB"));
}

TEST_CASE("Faults of a training config name their place", "[unit]") {
  CHECK_THAT(fault(R"({"plan": {"tensor_paralel": 2}})"), Contains("/plan") && Contains("tensor_parallel"));
  CHECK_THAT(fault(R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}, {"part": "t4", "count": 4}]}})"),
             Contains("/machine/devices/0/count: expected whole nodes of 8 beside unlike devices, got 4"));
  CHECK_THAT(fault(R"({"machine": {"devices": [{"part": "ib-hdr-4x", "count": 4}]}})"),
             Contains("expected a part that computes"));
  CHECK_THAT(fault(R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 16}], "node": {"nic": "t4"}}})"),
             Contains("/machine/node/nic"));
  CHECK_THAT(fault(R"({"machine": {"host_link": "pcie9-x16"}})"),
             Contains("/machine/host_link: expected a part of the catalog") && Contains("pcie4-x16"));
  CHECK_THAT(fault(R"({"machine": {"host_link": "t4"}})"),
             Contains("/machine/host_link: expected a part of kind link, 't4' is of kind gpu"));
  CHECK_THAT(fault(R"({"model": {"builder": {"policy": "mlp"}}})"), Contains("/model"));
}

TEST_CASE("machine.attention says whose attention runs", "[unit]") {
  const std::string model =
      R"("model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 4, "hidden": 1024, "heads": 16,
    "intermediate": 4096, "vocab": 51200, "positions": 1024, "attention": "sdpa", "loss": true}}})";
  const auto step = [&](const std::string& part, const std::string& library) {
    const std::string machine = R"("devices": [{"part": ")" + part + R"(", "count": 8}])";
    return run("{" + model + R"(, "machine": {)" + machine +
               (library.empty() ? "" : R"(, "attention": ")" + library + '"') + "}}");
  };
  const auto time = [&](const std::string& part, const std::string& library) {
    return number(step(part, library), "iteration_s");
  };
  // FlashAttention-2 does without what Hopper's tensor cores are fastest with; it is the A100's own.
  CHECK(time("h100-sxm5-80gb", "flash2") > 1.01 * time("h100-sxm5-80gb", ""));
  CHECK(time("h100-sxm5-80gb", "flash3") == time("h100-sxm5-80gb", ""));
  CHECK(time("a100-sxm4-80gb", "flash2") == time("a100-sxm4-80gb", ""));
  CHECK_THAT(fault(R"({"machine": {"attention": "flash3"}})"),
             Contains("/machine/attention: expected flash2, of which a100-sxm4-80gb has constants, got flash3"));
  CHECK_THAT(fault(R"({"machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 8}], "attention": "flash3_sm80"}})"),
             Contains("expected flash3 or flash2, of which h100-sxm5-80gb has constants"));
  CHECK_THAT(fault(R"({"machine": {"devices": [{"part": "tpu-v4", "count": 8}], "attention": "flash2"}})"),
             Contains("/machine/attention: expected none: libraries of attention are those of GPUs"));
}

TEST_CASE("More nodes: a group across nodes is as fast as its share of the adapters", "[theory]") {
  training::TrainingMachine machine;
  machine.device.link.bandwidth = 300e9;
  machine.devices = 16;
  machine.node_devices = 8;
  hw::NicPart nic;
  nic.bandwidth = 25e9;
  machine.nics = training::NodeNics{nic, 8};
  // Two ranks, one a node: an adapter each. All-reduce of 1 GB among two sends 1 GB: 1 / 25 s and some latency.
  const auto pair = training::rank_group(machine, 2, 8);
  CHECK(pair.in_node == 1);
  CHECK(training::collective(machine, hw::LibraryCall::all_reduce, pair, 1e9).time_s == Approx(0.04).epsilon(0.02));
  // Sixteen ranks on two nodes, all adapters: a tree sends the bytes once at 200 GB/s. 32 on four: a ring, 2 x 31/32.
  const auto all = training::rank_group(machine, 16, 1);
  CHECK(all.in_node == 8);
  CHECK(training::collective(machine, hw::LibraryCall::all_reduce, all, 1e9).time_s == Approx(1.0 / 200).epsilon(0.1));
  machine.devices = 32;
  CHECK(training::collective(machine, hw::LibraryCall::all_reduce, training::rank_group(machine, 32, 1), 1e9).time_s ==
        Approx(1.9375 / 200).epsilon(0.1));
  // Ranks six apart in a node of eight: two of them share it.
  CHECK(training::rank_group(machine, 2, 6).in_node == 2);
  // A group in a node is the library's affair.
  CHECK(training::collective(machine, hw::LibraryCall::all_reduce, {8, 8}, 1e9).time_s ==
        hw::library_collective(machine.device.link, hw::LibraryCall::all_reduce, 8, 1'000'000'000).time_s);
}

TEST_CASE("Ranks of sequence parallelism keep and send a share of what lies between layers", "[unit]") {
  // fp16 [2, 1024, 1024] is 4 MiB; full recomputation keeps that of each of a stage's two layers.
  const auto model = [](bool sequence) {
    sim::Faults faults;
    const auto read = training::read_training_config(config(), *test_systems().registries(), faults);
    training::CostTable table(read.machine, read.model);
    return table.costs({.tensor = 2, .micro_batch = 2, .sequence = sequence}).boundary_bytes;
  };
  CHECK(model(false) == 4 << 20);
  CHECK(model(true) == 2 << 20);
  const auto kept = [](const std::string& sequence) {
    return of_stage(run(R"({"plan": {"recompute": "full", "sequence_parallel": )" + sequence + "}}"),
                    "memory_bytes.activations");
  };
  CHECK(kept("true") < kept("false") - 2 * 2 * (2 << 20) + 1);  // two micro-batches, two layers, 2 MiB each
}

TEST_CASE("Weights in fp32 have no second copy", "[unit]") {
  // Adam: mean and variance, 8 bytes a parameter; 12 with fp32 weights beside 16-bit ones.
  const auto share = [](const std::string& type) {
    const sim::Node summary =
        run(R"({"model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 4, "hidden": 1024, "heads": 16,
                "intermediate": 4096, "vocab": 51200, "positions": 1024, "attention": "eager", "loss": true,
                "dtype": ")" +
            type + R"("}}}})");
    return of_stage(summary, "memory_bytes.optimizer") / of_stage(summary, "parameters");
  };
  CHECK(share("fp32") == 8);
  CHECK(share("fp16") == 12);
}

TEST_CASE("Stages may differ: what runs again, what is offloaded, ranks", "[unit]") {
  // Two stages of two layers; the first runs both again, the second none.
  const sim::Node summary = run(R"({"plan": {"recompute": "full", "stage_recompute_layers": [2, 0]}})");
  const auto& stages = summary.find("stages")->items();
  const sim::Node all = run(R"({"plan": {"recompute": "full"}})"), none = run();
  CHECK(number(stages[0], "memory_bytes.activations") ==
        number(all.find("stages")->items()[0], "memory_bytes.activations"));
  CHECK(number(stages[1], "memory_bytes.activations") ==
        number(none.find("stages")->items()[1], "memory_bytes.activations"));
  // Half of the second stage's states in the host's memory: 31.508 GB/s of PCIe 4, 256 of 282 bytes of a packet, 0.95
  // of that; and the way back of the last million parameters.
  const char* link = R"("machine": {"host_link": "pcie4-x16"})";
  const sim::Node kept = run(std::string("{") + link + "}");
  const sim::Node half = run(std::string("{") + link + R"(, "plan": {"offload_optimizer": [0, 0.5]}})");
  const double states = number(kept.find("stages")->items()[1], "memory_bytes.optimizer");
  CHECK(number(half.find("stages")->items()[1], "memory_bytes.optimizer") == Approx(states / 2));
  CHECK(number(half.find("stages")->items()[1], "host_bytes.optimizer") == Approx(states / 2));
  CHECK(number(half.find("stages")->items()[0], "memory_bytes.optimizer") ==
        number(kept.find("stages")->items()[0], "memory_bytes.optimizer"));
  CHECK(number(half.find("stages")->items()[1], "optimizer_s") == Approx((states / 2 + 12e6) / 27.2e9).epsilon(0.05));
  // Four ranks and two: six devices; layers weigh twice as much on a rank of the second stage.
  const sim::Node unlike = run(R"({"plan": {"stage_tensor_parallel": [4, 2], "data_parallel": 1}})");
  CHECK(unlike.find("status")->as_string() == "ok");
  CHECK(number(unlike, "model_flops") == Approx(number(none, "model_flops")));
  const auto& two = unlike.find("stages")->items();
  CHECK(number(two[1], "forward_s") > number(two[0], "forward_s"));
  // What does not fit.
  CHECK(why(R"({"plan": {"stage_recompute_layers": [1, 1, 1]}})") ==
        "stage_recompute_layers lists 3 stages, the plan has 2");
  CHECK(why(R"({"plan": {"stage_tensor_parallel": [2, 2, 2], "data_parallel": 1}})") ==
        "stage_tensor_parallel lists 3 stages, the plan has 2");
  CHECK_THAT(why(R"({"plan": {"offload_optimizer": [0.5]}})"), Contains("needs machine.host_link"));
}

TEST_CASE("A host that updates holds states and gradients, and its backward pass waits for it", "[unit]") {
  const auto machine = [](const std::string& more) {
    return R"({"machine": {"host_link": "pcie5-x16", "host_update": {"adam": "10e9 1/s", "cast": "50e9 1/s",
      "widen": "10e9 1/s", "staging": "100 GB/s"}}, "plan": {"offload_optimizer": [1]})" +
           more + "}";
  };
  const sim::Node host = run(machine(R"(, "policies": {"offload": {"policy": "host"}})"));
  const sim::Node flushed = run(machine(R"(, "policies": {"offload": {"policy": "host", "host": {"flush": true}}})"));
  const sim::Node none = run();
  const sim::Node &stage = host.find("stages")->items()[0], &plain = none.find("stages")->items()[0];
  CHECK(number(stage, "memory_bytes.optimizer") == 0);
  CHECK(number(stage, "memory_bytes.gradients") == 0);
  CHECK(number(stage, "host_bytes.optimizer") == number(plain, "memory_bytes.optimizer"));
  // Eight ranks share the host: a parameter takes 8 / 10 ns, a fifth of it for its cast, and 2 bytes of the link.
  const double parameters = number(stage, "parameters");
  CHECK(number(stage, "optimizer_s") == Approx(parameters * (0.96e-9 + 2 / 54e9)).epsilon(0.02));
  const double waits = number(host, "breakdown_s.gradients") - number(none, "breakdown_s.gradients");
  CHECK(waits == Approx(parameters * (0.8e-9 + 2 / 54e9)).epsilon(0.02));
  CHECK(number(flushed, "breakdown_s.gradients") < number(host, "breakdown_s.gradients"));
  CHECK(number(flushed, "breakdown_s.optimizer") == number(host, "breakdown_s.optimizer"));
  CHECK(number(host, "closed_form_s") == Approx(number(host, "iteration_s")).epsilon(0.02));
  CHECK(why(R"({"machine": {"host_link": "pcie5-x16"}, "plan": {"offload_optimizer": [1]},
      "policies": {"offload": {"policy": "deep_optimizer_states"}}})") ==
        "policies.offload deep_optimizer_states needs machine.host_update: how fast the host updates");
}

TEST_CASE("The largest batch fits, and one sequence more does not", "[unit]") {
  const auto with = [](const std::string& workload, const std::string& machine, const std::string& plan) {
    return run(R"({"workload": {)" + workload + R"(}, "machine": {)" + machine + R"(}, "plan": {)" + plan +
               R"("tensor_parallel": 1, "pipeline_parallel": 2, "data_parallel": 4}})");
  };
  const sim::Node largest = with(R"("largest_batch": true)", R"("context": "1 GiB")", "");
  const double batch = number(largest, "plan.micro_batch");
  REQUIRE(batch > 1);
  CHECK(number(largest, "plan.micro_batches") == 1);
  CHECK(number(largest, "memory_bytes.peak") <= number(largest, "memory_bytes.available"));
  CHECK(number(largest, "tokens_per_s") == Approx(4 * batch * 1024 / number(largest, "iteration_s")));
  const auto fixed = [&](double sequences) {
    return with(R"("global_batch": )" + std::to_string(4 * static_cast<int>(sequences)), R"("context": "1 GiB")",
                R"("micro_batch": )" + std::to_string(static_cast<int>(sequences)) + ", ");
  };
  CHECK(number(fixed(batch), "iteration_s") == number(largest, "iteration_s"));
  CHECK(fixed(batch).find("status")->as_string() == "ok");
  CHECK(fixed(batch + 1).find("status")->as_string() == "infeasible");
  // Where not even one fits, the run is of one and says what it needs.
  const sim::Node none = with(R"("largest_batch": true)", R"("context": "79 GiB")", "");
  CHECK(none.find("status")->as_string() == "infeasible");
  CHECK_THAT(none.find("reason")->as_string(), Contains("a device has 80 GiB"));
}

TEST_CASE("Buckets are the gradients a second time, and a context is there before any tensor", "[unit]") {
  const sim::Node plain = run(), held = run(R"({"machine": {"context": "1 GiB"}, "plan": {"gradient_buckets": true}})");
  const sim::Node &a = plain.find("stages")->items()[0], &b = held.find("stages")->items()[0];
  CHECK(number(a, "memory_bytes.buffers") == 0);
  CHECK(number(b, "memory_bytes.buffers") == number(b, "memory_bytes.gradients") + (1 << 30));
  CHECK(number(b, "memory_bytes.peak") == number(a, "memory_bytes.peak") + number(b, "memory_bytes.buffers"));
  // A copy alone sums nothing.
  const sim::Node alone = run(R"({"plan": {"gradient_buckets": true, "tensor_parallel": 4}})");
  CHECK(number(alone.find("stages")->items()[0], "memory_bytes.buffers") == 0);
}

}  // namespace test_training
