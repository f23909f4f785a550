// Ranks that share a sequence's tokens: what they exchange, what is hidden, what each keeps.
#include <catch2/catch.hpp>

#include "experiments/systems/training/layer_exchange.hpp"
#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_context {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using training::ContextExchange;
using training::LayerShare;
using training::ModelCosts;
using training::PartName;

namespace {

/// A decoder of two layers on eight H100; `plan` and `decoder` are further members.
training::TrainingConfig config(const std::string& plan = "{}", const std::string& attention = "sdpa") {
  const sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 8}]},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 2, "hidden": 2048, "heads": 16, "kv_heads": 8,
              "head_dim": 128, "intermediate": 8192, "vocab": 32768, "tied": false, "loss": true, "attention": ")" +
                                             attention + R"("}}},
    "workload": {"sequence": 8192, "global_batch": 8}, "plan": )" +
                                             plan + "}",
                                         "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

ModelCosts costs(const LayerShare& share) {
  const training::TrainingConfig read = config();
  training::CostTable table(read.machine, read.model);
  return table.costs(share);
}

std::string reason(const std::string& plan, const std::string& attention = "sdpa") {
  return training::train(config(plan, attention)).reason;
}

/// A machine whose link moves 100 bytes/s and whose messages take nothing else.
training::TrainingMachine slow_links() {
  training::TrainingMachine machine;
  machine.devices = machine.node_devices = 8;
  machine.device.link.bandwidth = 100;
  return machine;
}

}  // namespace

TEST_CASE("A ring hides keys and values behind the block before, and shows what is left", "[unit]") {
  const training::TrainingMachine machine = slow_links();
  const LayerShare share{.context = 4};
  const double step = training::message(machine, 0, 1, 1, 1000).time_s;
  REQUIRE(step > 0);
  // Three steps; a block of attention takes a fourth of the rank's.
  CHECK(training::attention_exchange(machine, share, 500, 1000, 4 * step, false).time_s == 0);
  CHECK(training::attention_exchange(machine, share, 500, 1000, 2 * step, false).time_s == Approx(3 * step / 2));
  CHECK(training::attention_exchange(machine, share, 500, 1000, 0, false).time_s == Approx(3 * step));
  // Backward their gradients come along.
  const double both = training::message(machine, 0, 1, 1, 2000).time_s;
  CHECK(training::attention_exchange(machine, share, 500, 1000, 0, true).time_s == Approx(3 * both));
}

TEST_CASE("Gathered and exchanged keys and values are waited for", "[unit]") {
  const training::TrainingMachine machine = slow_links();
  const auto time = [&](ContextExchange exchange, bool backward) {
    return training::attention_exchange(machine, {.context = 4, .exchange = exchange}, 500, 1000, 1e9, backward).time_s;
  };
  const auto collective = [&](hw::LibraryCall call, double bytes) {
    return training::collective(machine, call, {4, 4}, bytes).time_s;
  };
  const double gather = collective(hw::LibraryCall::all_gather, 4000);
  CHECK(time(ContextExchange::all_gather, false) == Approx(gather));
  CHECK(time(ContextExchange::all_gather, true) == Approx(gather + collective(hw::LibraryCall::reduce_scatter, 4000)));
  CHECK(time(ContextExchange::all_to_all, false) ==
        Approx(collective(hw::LibraryCall::all_to_all, 1500) + collective(hw::LibraryCall::all_to_all, 500)));
}

TEST_CASE("Of a collective all pieces but the first hide behind the product", "[unit]") {
  CHECK(training::exposed_beside({}, 8, 100, 4) == 2);  // a fourth of it
  CHECK(training::exposed_beside({}, 8, 4, 4) == 5);    // 8 - 3/4 of 4
  CHECK(training::exposed_beside({}, 8, 0, 4) == 8);
}

TEST_CASE("A rank of context parallelism has its share of everything", "[prop]") {
  const ModelCosts one = costs({});
  for (const std::int64_t ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    const ModelCosts shared = costs({.context = ranks});
    const auto share = static_cast<double>(ranks);
    const auto& layer = one.part(PartName::layer);
    const auto& own = shared.part(PartName::layer);
    CHECK(own.saved_bytes * ranks == layer.saved_bytes);
    CHECK(own.dense.parameters == layer.dense.parameters);
    CHECK(shared.boundary_bytes * ranks == one.boundary_bytes);
    CHECK(own.forward.flops * share == Approx(layer.forward.flops).epsilon(1e-9));
    CHECK(own.backward_input.flops * share == Approx(layer.backward_input.flops).epsilon(1e-9));
  }
}

TEST_CASE("Pieces in a row make the last rank the one that all wait for", "[unit]") {
  // Of a causal sequence the last of four ranks has 1 - (3/4)^2 = 7/16 of the attention, where an even share is 4/16.
  const auto attention = [](bool balanced) {
    const ModelCosts with = costs({.context = 4, .balanced = balanced, .exchange = ContextExchange::all_gather});
    return with.part(PartName::layer).forward.flops;
  };
  // Scores and values of 8192 x 8192 / 2 pairs: 4 FLOPs a pair, head and dimension; 16 heads of 128.
  const double all = 4.0 * (8192.0 * 8193 / 2) * 16 * 128;
  CHECK(attention(false) - attention(true) == Approx(all * 3 / 16));
}

TEST_CASE("Asynchronous gathers and scatters take less, never more, and only with sequence parallelism", "[prop]") {
  const ModelCosts plain = costs({.tensor = 4, .sequence = true});
  const ModelCosts beside = costs({.tensor = 4, .sequence = true, .async_tensor = true});
  const auto& a = plain.part(PartName::layer).forward;
  const auto& b = beside.part(PartName::layer).forward;
  CHECK(b.collective_s < a.collective_s);
  CHECK(b.collective_s >= a.collective_s / 4 * (1 - 1e-12));  // the first of four pieces travels alone
  CHECK(a.kernel_s == b.kernel_s);
  CHECK_THAT(reason(R"({"tensor_parallel": 4, "async_tensor_parallel": true})"),
             Contains("sequence parallelism") && Contains("the plan has none"));
}

TEST_CASE("Recomputation by op keeps attention and every other product", "[golden]") {
  // A token, bf16: input 2048 x 2; q 2048 and v 1024 of the first four products (k and out run again), gate 8192 and
  // down 2048 of the last three (up runs again), attention 2048 and its row sums, 16 in fp32.
  const ModelCosts one = costs({});
  const auto& layer = one.part(PartName::layer);
  CHECK(layer.by_op_kept_bytes == 8192 * (2 * (2048 + 1024 + 8192 + 2048 + 2048) + 4 * 16));
  CHECK(layer.by_op.flops < layer.forward.flops / 2);
  const auto kept = [](const std::string& recompute) {
    return training::train(config(R"({"recompute": ")" + recompute + R"("})")).memory.front().activations;
  };
  CHECK(kept("full") < kept("by_op"));
  CHECK(kept("by_op") < kept("none"));
}

TEST_CASE("A forward pass that runs again has gathered what gradients of weights read", "[unit]") {
  const ModelCosts shared = costs({.tensor = 4, .sequence = true});
  const auto& layer = shared.part(PartName::layer);
  // Two of the backward pass's gathers are of forward activations.
  CHECK(layer.gathered_again.collective_s > 0);
  CHECK(layer.gathered_again.collective_s < layer.backward_weight.collective_s * (1 + 1e-12));
}

TEST_CASE("Plans that cannot share a sequence say why", "[unit]") {
  CHECK(reason(R"({"context_parallel": 3, "data_parallel": 2})") ==
        "3 ranks of context parallelism do not divide 8192 tokens in pairs of pieces");
  CHECK_THAT(reason(R"({"context_parallel": 2})", "eager"), Contains("needs attention in one kernel"));
  CHECK(reason(R"({"context_parallel": 8, "tensor_parallel": 1, "context_exchange": "all_to_all"})").empty());
  CHECK(reason(R"({"context_parallel": 4, "tensor_parallel": 2, "sequence_parallel": true})").empty());
  CHECK_THAT(reason(R"({"context_parallel": 16})"),
             Contains("tensor 1 x context 16 x pipeline 1 x data 1 are 16 ranks"));
}

}  // namespace test_training_context
