// When a rank is fullest: in its passes, when its last gradients are made, in the optimizer's update; by hand.
#include <catch2/catch.hpp>

#include "experiments/systems/training/run.hpp"
#include "hw/parts/catalog.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_memory {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// The one stage of a decoder of four layers on one H100.
sim::Node stage(const std::string& plan, int sequence = 512, int global_batch = 1, const std::string& model = "") {
  const sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb"}]},
    "model": {"builder": {"policy": "decoder", "decoder": {)" +
                                             model +
                                             R"("layers": 4, "hidden": 1024, "intermediate": 4096,
              "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
    "workload": {"sequence": )" + std::to_string(sequence) +
                                             R"(, "global_batch": )" + std::to_string(global_batch) +
                                             R"(}, "plan": {)" + plan + "}}",
                                         "training.json");
  return read_experiment(test_systems(), root)->run({}).summary.find("stages")->items().front();
}

double bytes(const sim::Node& stage, const std::string& what) {
  return stage.at("memory_bytes." + what)->as_number();
}
std::string moment(const sim::Node& stage) {
  return stage.find("memory_moment")->as_string();
}

// Four layers of 4 x 1024^2 + 3 x 1024 x 4096 and two norms, a norm, two tables of 32,000 x 1,024.
constexpr double kTable = 32000.0 * 1024;
constexpr double kParameters = 4 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 4096 + 2 * 1024) + 1024 + 2 * kTable;

}  // namespace

TEST_CASE("An update with casts of its own holds gradients in fp32 and one more in 16 bits", "[unit][training]") {
  const sim::Node plain = stage(""), apart = stage(R"("update_apart": true)");
  CHECK(plain.find("parameters")->as_number() == kParameters);
  CHECK(moment(plain) == "passes");
  // Weights 2, states 12, gradients 4 bytes a parameter; the last one cast is a table.
  CHECK(moment(apart) == "update");
  CHECK(bytes(apart, "gradients") == 4 * kParameters);
  CHECK(bytes(apart, "working") == 2 * kTable);
  CHECK(bytes(apart, "activations") == 0);
  CHECK(bytes(apart, "peak") == 18 * kParameters + 2 * kTable);
  // Gradients that are kept in fp32 need no cast: the passes are the fullest again.
  const sim::Node wide = stage(R"("update_apart": true, "gradients_fp32": true)");
  CHECK(moment(wide) == "passes");
  CHECK(bytes(wide, "gradients") == 4 * kParameters);
  // Nor do weights that are in fp32.
  const sim::Node single = stage(R"("update_apart": true)", 512, 1, R"("dtype": "fp32", )");
  CHECK(bytes(single, "gradients") == 4 * kParameters);
  CHECK(moment(single) == "passes");
  // The casts take time: 30 bytes a parameter in one kernel, 40 in three.
  CHECK(apart.find("optimizer_s")->as_number() > 1.25 * plain.find("optimizer_s")->as_number());
  CHECK(apart.find("optimizer_s")->as_number() > wide.find("optimizer_s")->as_number());
}

TEST_CASE("Gradients made anew are not there when the one backward pass begins", "[unit][training]") {
  const sim::Node kept = stage("", 16384), anew = stage(R"("gradients_anew": true)", 16384);
  CHECK(bytes(kept, "gradients") == 2 * kParameters);
  CHECK(bytes(anew, "gradients") == 0);
  CHECK(bytes(anew, "peak") == bytes(kept, "peak") - 2 * kParameters);
  // With few activations the end of the backward pass is fuller, when all gradients are made.
  const sim::Node few = stage(R"("gradients_anew": true)", 16);
  CHECK(moment(few) == "last_gradients");
  CHECK(bytes(few, "gradients") == 2 * kParameters);
  CHECK(bytes(few, "activations") == 0);
  // From the second micro-batch on they are there.
  const sim::Node two = stage(R"("gradients_anew": true)", 16384, 2);
  CHECK(bytes(two, "peak") == bytes(kept, "peak"));
}

TEST_CASE("States in the host's memory are updated there: no gradients in fp32 on the device", "[unit][training]") {
  const auto with = [](const std::string& plan) {
    const sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb"}], "host_link": "pcie5-x16"},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
                "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
      "workload": {"sequence": 64, "global_batch": 1}, "plan": {)" +
                                               plan + "}}",
                                           "training.json");
    return read_experiment(test_systems(), root)->run({}).summary.find("stages")->items().front();
  };
  CHECK(moment(with(R"("update_apart": true)")) == "update");
  CHECK(bytes(with(R"("update_apart": true, "offload_optimizer": [0.5])"), "gradients") == 2 * kParameters);
}

namespace {

/// The same model on so many H100 behind PCIe, its summary.
sim::Node hosted(const std::string& plan, const std::string& more = "", int devices = 1, int global_batch = 1,
                 int sequence = 16384) {
  const sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": )" +
                                             std::to_string(devices) +
                                             R"(}], "host_link": "pcie5-x16"},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
              "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
    "workload": {"sequence": )" + std::to_string(sequence) +
                                             R"(, "global_batch": )" + std::to_string(global_batch) +
                                             R"(}, "plan": {)" + plan + "}" + more + "}",
                                         "training.json");
  return read_experiment(test_systems(), root)->run({}).summary;
}

double of_stage(const sim::Node& summary, std::size_t stage, const std::string& path) {
  const sim::Node* value = summary.find("stages")->items()[stage].at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

}  // namespace

TEST_CASE("Activations go to the host and come back beside the passes", "[unit][training]") {
  // Recomputed layers keep their input: 16,384 x 1,024 in 16 bits, 32 MiB each, 128 MiB in all.
  constexpr double kInput = 16384.0 * 1024 * 2;
  const std::string full = R"("recompute": "full")";
  const sim::Node kept = hosted(full), away = hosted(full + R"(, "offload_activations": [1])");
  CHECK(of_stage(away, 0, "host_bytes.activations") == 4 * kInput);
  CHECK(of_stage(away, 0, "memory_bytes.activations") == of_stage(kept, 0, "memory_bytes.activations") - 4 * kInput);
  CHECK(of_stage(away, 0, "memory_bytes.buffers") == 2 * kInput);  // one on its way, one at hand
  // A layer takes longer than its input's way: all is hidden but the first layer's way back.
  const hw::LinkPart link = hw::read_part<hw::LinkPart>((home_folder() / "hw/catalog/pcie5-x16.json").string()).part;
  const double one_s = hw::transfer_time(link, static_cast<std::int64_t>(kInput));
  CHECK(of_stage(away, 0, "host_waits_s") == Approx(one_s));
  CHECK(away.find("iteration_s")->as_number() == Approx(kept.find("iteration_s")->as_number() + one_s));
  CHECK(away.at("energy_j.total")->as_number() > kept.at("energy_j.total")->as_number());
  // With nothing run again the link is the slower one: the forward pass is as long as the way.
  const sim::Node all = hosted(R"("offload_activations": [1])");
  const double bytes = of_stage(all, 0, "host_bytes.activations");
  CHECK(of_stage(all, 0, "forward_s") ==
        Approx(hw::transfer_time(link, static_cast<std::int64_t>(bytes), 4, hw::LinkDirection::reverse)));
  CHECK(all.find("iteration_s")->as_number() > away.find("iteration_s")->as_number());
  CHECK(of_stage(hosted(R"("offload_activations": [0.25])"), 0, "host_bytes.activations") == Approx(bytes / 4));
}

TEST_CASE("Weights and sums of gradients come for each pass, and leave two layers on the device", "[unit][training]") {
  // A layer: 4 x 1024^2 of attention, 3 x 1024 x 4096, two norms of 1024; the table 32,000 x 1024, the head the same
  // and a norm.
  constexpr std::int64_t kLayer = 2 * (4 * 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024), kTable = 2 * 32000 * 1024;
  constexpr std::int64_t kHead = kTable + 2 * 1024, kAll = 4 * kLayer + kTable + kHead;
  const hw::LinkPart link = hw::read_part<hw::LinkPart>((home_folder() / "hw/catalog/pcie5-x16.json").string()).part;
  const auto down = [&](std::int64_t bytes) { return hw::transfer_time(link, bytes, 1, hw::LinkDirection::reverse); };
  const sim::Node kept = hosted(""), away = hosted(R"("offload_weights": [1])");
  CHECK(of_stage(kept, 0, "memory_bytes.weights") == kAll);
  CHECK(of_stage(away, 0, "memory_bytes.weights") == 0);
  CHECK(of_stage(away, 0, "host_bytes.weights") == kAll);
  CHECK(away.at("host_bytes.used")->as_number() == kAll);
  CHECK(of_stage(away, 0, "memory_bytes.buffers") == kHead + kLayer);
  CHECK(of_stage(hosted(R"("offload_weights": [0.5])"), 0, "memory_bytes.weights") == kAll / 2);
  // The forward pass waits for the table, the backward pass for the head; all else comes beside kernels.
  CHECK(of_stage(away, 0, "host_waits_s") == Approx(hw::transfer_time(link, kTable) + hw::transfer_time(link, kHead)));
  CHECK(of_stage(away, 0, "forward_s") ==
        Approx(of_stage(kept, 0, "forward_s") + hw::transfer_time(link, kTable)).epsilon(1e-9));
  // New weights go to the host in pieces of a million, as the update makes them; the link is the slower one.
  CHECK(of_stage(away, 0, "optimizer_s") > down(kAll));
  CHECK(of_stage(away, 0, "optimizer_s") < 1.05 * down(kAll));
  // Gradients of one micro-batch only leave, the table's last; the update brings them back.
  const sim::Node sums = hosted(R"("offload_gradients": [1])");
  CHECK(of_stage(sums, 0, "memory_bytes.gradients") == 0);
  CHECK(of_stage(sums, 0, "host_bytes.gradients") == kAll);
  CHECK(of_stage(sums, 0, "host_waits_s") == Approx(down(kTable)));
  CHECK(of_stage(sums, 0, "optimizer_s") > hw::transfer_time(link, kAll));
  // Of two micro-batches the backward pass brings sums too, the other way: no longer while kernels are.
  const sim::Node two = hosted(R"("offload_gradients": [1])", "", 1, 2);
  CHECK(of_stage(two, 0, "host_waits_s") == Approx(2 * down(kTable)));
  // With a thousandth of the tokens the link decides: sums come and go at the same time, weights beside sums.
  const auto slow = [&](const std::string& plan, int micro_batches) {
    return of_stage(hosted(plan, "", 1, micro_batches, 16), 0, "backward_s");
  };
  const double in = hw::transfer_time(link, kAll, 6);
  CHECK(slow(R"("offload_gradients": [1])", 1) ==
        Approx(hw::transfer_time(link, kAll, 6, hw::LinkDirection::reverse)).epsilon(1e-6));
  CHECK(slow(R"("offload_gradients": [1])", 2) == Approx(in + down(kTable)).epsilon(1e-6));
  CHECK(slow(R"("offload_gradients": [1], "offload_weights": [1])", 2) == Approx(2 * in + down(kTable)).epsilon(1e-6));
}

TEST_CASE("Copies that share out weights bring their shares alone; the others all of them", "[unit][training]") {
  const auto used = [](const std::string& zero) {
    return hosted(R"("offload_weights": [1], "zero": ")" + zero + "\"", "", 2, 2);
  };
  const sim::Node shared = used("weights"), whole = used("optimizer");
  CHECK(of_stage(whole, 0, "host_bytes.weights") == 2 * of_stage(shared, 0, "host_bytes.weights"));
  CHECK(of_stage(whole, 0, "host_waits_s") > 1.9 * of_stage(shared, 0, "host_waits_s"));
  // One node has both ranks.
  CHECK(whole.at("host_bytes.used")->as_number() == 2 * of_stage(whole, 0, "host_bytes.weights"));
}

TEST_CASE("A host with too little memory is a plan that does not fit", "[unit][training]") {
  const auto with = [](const std::string& memory) {
    sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}], "host_link": "pcie5-x16",
                  "node": {"devices": 2}, "host_memory": ")" +
                                         memory + R"("},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
                "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
      "workload": {"sequence": 64, "global_batch": 4},
      "plan": {"pipeline_parallel": 2, "offload_optimizer": [1, 0]}})",
                                     "training.json");
    return read_experiment(test_systems(), root)->run({}).summary;
  };
  // Both ranks of the first stage are in the first node: 12 bytes for each parameter of two layers and the table.
  const double states = 2 * 12 * (2 * 16'779'264.0 + 32'768'000);
  CHECK(with("64 GiB").at("host_bytes.used")->as_number() == states);
  CHECK(with("64 GiB").at("host_bytes.available")->as_number() == 64.0 * 1024 * 1024 * 1024);
  CHECK(with("64 GiB").at("status")->as_string() == "ok");
  const sim::Node full = with("1 GiB");
  CHECK(full.at("status")->as_string() == "infeasible");
  CHECK_THAT(full.at("reason")->as_string(),
             Catch::Matchers::Contains("the fullest node's ranks need 1.483 GiB in their host's memory, it has 1 GiB"));
}

TEST_CASE("Of several micro-batches and stages, host and device hold what the device held", "[prop][training]") {
  for (const std::string schedule : {"1f1b", "gpipe"})
    for (const double share : {0.3, 1.0}) {
      CAPTURE(schedule, share);
      const std::string plan = R"("pipeline_parallel": 2, "offload_activations": [)";
      const std::string more = R"(, "policies": {"schedule": {"policy": ")" + schedule + R"("}})";
      const sim::Node kept = hosted(plan + "0]", more, 2, 5),
                      away = hosted(plan + std::to_string(share) + "]", more, 2, 5);
      for (std::size_t s = 0; s < 2; ++s) {
        const double held = of_stage(away, s, "memory_bytes.activations");
        CHECK(held + of_stage(away, s, "host_bytes.activations") ==
              Approx(of_stage(kept, s, "memory_bytes.activations")));
        CHECK(held < of_stage(kept, s, "memory_bytes.activations"));
      }
      CHECK(away.find("iteration_s")->as_number() >= kept.find("iteration_s")->as_number());
    }
}

TEST_CASE("Activations that cannot go to the host say why", "[unit][training]") {
  const sim::Node halves = hosted(R"("pipeline_parallel": 2, "offload_activations": [1])",
                                  R"(, "policies": {"schedule": {"policy": "zb_h1"}})", 2, 4);
  CHECK(halves.find("reason")->as_string() ==
        "offload_activations with a schedule that halves backward passes is not modelled");
  const sim::Node root = sim::parse_json(R"({"system": "training", "machine": {"devices": [{"part": "a40"}]},
    "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-3.2-1b", "loss": true}}},
    "plan": {"offload_activations": [0.5]}})",
                                         "training.json");
  CHECK(read_experiment(test_systems(), root)->run({}).summary.find("reason")->as_string() ==
        "offload_activations needs machine.host_link: the machine has no way to its host's memory");
}

namespace {

sim::Node reserving(const std::string& plan, int devices = 1, int global_batch = 1, const std::string& machine = "") {
  sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": )" +
                                       std::to_string(devices) + R"(}], "allocator": "caching")" + machine + R"(},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 8, "hidden": 2048, "intermediate": 8192,
              "heads": 16, "kv_heads": 16, "head_dim": 128, "vocab": 32000, "tied": false, "loss": true,
              "passes": "eager", "wide_loss": true, "eager_loss": true}}},
    "workload": {"sequence": 4096, "global_batch": )" +
                                       std::to_string(global_batch) + R"(}, "plan": {)" + plan + "}}",
                                   "training.json");
  return read_experiment(test_systems(), root)->run({}).summary;
}

}  // namespace

TEST_CASE("What the allocator has in use is what the stage was said to need; it reserves more", "[prop][training]") {
  // Two ways to one figure: sums of what is live, and every tensor allocated and freed. Blocks round up.
  for (const std::string plan :
       {R"("gradients_anew": true)", R"("update_apart": true, "gradients_anew": true)", R"("recompute": "full")",
        R"("recompute": "full", "gradients_anew": true, "update_apart": true)", R"("recompute": "by_op")"})
    for (const int batch : {1, 3}) {
      CAPTURE(plan, batch);
      const sim::Node summary = reserving(plan, 1, batch);
      const double reserved = of_stage(summary, 0, "memory_bytes.reserved");
      const double needed = of_stage(summary, 0, "memory_bytes.peak");
      CHECK(reserved > needed);
      CHECK(reserved < 1.3 * needed);
      CHECK(summary.at("memory_bytes.reserved")->as_number() == reserved);
    }
}

TEST_CASE("Stages of a pipeline reserve for the micro-batches that are under way", "[unit][training]") {
  const sim::Node two = reserving(R"("pipeline_parallel": 2, "recompute": "full")", 2, 8);
  CHECK(of_stage(two, 0, "memory_bytes.reserved") > of_stage(two, 0, "memory_bytes.peak"));
  CHECK(of_stage(two, 1, "memory_bytes.reserved") > of_stage(two, 1, "memory_bytes.peak"));
  // The hundredth micro-batch finds what the tenth left.
  CHECK(of_stage(reserving(R"("pipeline_parallel": 2, "recompute": "full")", 2, 100), 0, "memory_bytes.reserved") ==
        of_stage(two, 0, "memory_bytes.reserved"));
}

TEST_CASE("Tensors that fit may not find room in the allocator's blocks", "[unit][training]") {
  const std::string plan = R"("recompute": "full", "micro_batch": 8)";
  const sim::Node roomy = reserving(plan, 1, 8);
  REQUIRE(roomy.at("status")->as_string() == "ok");
  const auto with_room = [&](double bytes) {
    const auto taken = static_cast<std::int64_t>((80.0 * (1 << 30) - bytes) / (1 << 20));
    return reserving(plan, 1, 8, R"(, "context": ")" + std::to_string(taken) + " MiB\"");
  };
  // As much as the tensors need and 2 % more: segments that are free as a whole go back, and it is not enough.
  const sim::Node full = with_room(1.02 * of_stage(roomy, 0, "memory_bytes.peak"));
  CHECK(full.at("status")->as_string() == "infeasible");
  CHECK_THAT(full.at("reason")->as_string(), Catch::Matchers::Contains("but the allocator's blocks take"));
  CHECK(with_room(1.01 * of_stage(roomy, 0, "memory_bytes.reserved")).at("status")->as_string() == "ok");
}

TEST_CASE("Where blocks of other streams count, nothing is said of reserved memory", "[unit][training]") {
  for (const std::string plan : {R"("zero": "weights")", R"("zero": "gradients")"})
    CHECK(reserving(plan, 2, 2).at("memory_bytes.reserved") == nullptr);
  CHECK(reserving(R"("zero": "optimizer")", 2, 2).at("memory_bytes.reserved") != nullptr);
  CHECK(reserving(R"("offload_activations": [1])", 1, 1, R"(, "host_link": "pcie5-x16")").at("memory_bytes.reserved") ==
        nullptr);
  CHECK(hosted("").at("memory_bytes.reserved") == nullptr);  // no allocator
}

TEST_CASE("A table that embedding and head share is allocated once, buckets beside gradients", "[unit][training]") {
  const auto reserved = [](const std::string& tied, const std::string& plan, int devices) {
    sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": )" +
                                         std::to_string(devices) + R"(}], "allocator": "caching"},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 2, "hidden": 1024, "intermediate": 4096,
                "heads": 8, "kv_heads": 8, "head_dim": 128, "vocab": 128000, "tied": )" +
                                         tied + R"(, "loss": true}}},
      "workload": {"sequence": 16, "global_batch": 2}, "plan": {)" +
                                         plan + "}}",
                                     "training.json");
    const sim::Node summary = read_experiment(test_systems(), root)->run({}).summary;
    const double own = of_stage(summary, 0, "memory_bytes.reserved"),
                 needed = of_stage(summary, 0, "memory_bytes.peak");
    CHECK(own > needed);
    CHECK(own < 1.1 * needed);
    return own;
  };
  // 128,000 x 1,024 parameters once more: weights, gradients, fp32 copies and moments, 16 bytes each; the shared
  // table's gradient is the sum of two, which are there for a moment.
  const double more = reserved("false", "", 1) - reserved("true", "", 1), table = 128000.0 * 1024;
  CHECK(more >= 11.9 * table);
  CHECK(more <= 16.1 * table);
  const std::string buckets = R"("gradient_buckets": true)";
  const double parameters = 2 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 4096) + 2.0 * 128000 * 1024;
  CHECK(reserved("false", buckets, 2) - reserved("false", "", 2) == Approx(2 * parameters).epsilon(0.05));
}

TEST_CASE("A schedule that keeps all micro-batches reserves for all", "[unit][training]") {
  const auto with = [](int batch) {
    sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 2}], "allocator": "caching"},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
                "heads": 8, "kv_heads": 8, "head_dim": 128, "vocab": 32000, "tied": false, "loss": true}}},
      "policies": {"schedule": {"policy": "gpipe"}}, "plan": {"pipeline_parallel": 2, "recompute": "full"},
      "workload": {"sequence": 4096, "global_batch": )" +
                                         std::to_string(batch) + "}}",
                                     "training.json");
    return read_experiment(test_systems(), root)->run({}).summary;
  };
  for (const int batch : {4, 60}) {
    const sim::Node summary = with(batch);
    CHECK(of_stage(summary, 0, "memory_bytes.reserved") > of_stage(summary, 0, "memory_bytes.peak"));
  }
}

TEST_CASE("What an allocator's blocks come to is not searched over", "[unit][training]") {
  const std::string head = R"({"system": ")", machine = R"(", "machine": {"devices": [{"part": "h100-sxm5-80gb"}],
      "allocator": "caching"}, "model": {"builder": {"policy": "decoder", "decoder": {"layers": 2, "hidden": 256,
      "intermediate": 1024, "heads": 4, "kv_heads": 4, "head_dim": 64, "vocab": 1000, "loss": true}}})";
  const auto fault = [&](const std::string& system, const std::string& rest) {
    try {
      return read_experiment(test_systems(), sim::parse_json(head + system + machine + rest + "}", "t.json"))
          ->run({})
          .summary.find("reason")
          ->as_string();
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(fault("training_plans", ""), Contains("/machine/allocator: expected none: plans are compared by"));
  CHECK_THAT(fault("training", R"(, "plan": {"best_by": "time"})"), Contains("/plan/best_by: expected no machine.all"));
  CHECK_THAT(fault("training", R"(, "workload": {"sequence": 64, "largest_batch": true})"),
             Contains("the largest batch by what an allocator reserves is not modelled"));
}

TEST_CASE("Gradients of states that the host updates lie in its memory; buckets and fp32 stay what they are",
          "[unit][training]") {
  const std::string host = R"(, "policies": {"offload": {"policy": "host"}})";
  const auto with = [&](const std::string& plan) {
    sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 2}], "host_link": "pcie5-x16",
                  "host_update": {"adam": "7.2e9 1/s", "cast": "36e9 1/s", "widen": "3.8e9 1/s", "staging": "95 GB/s"}},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
                "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
      "workload": {"sequence": 64, "global_batch": 2}, "plan": {)" +
                                         plan + "}" + host + "}",
                                     "training.json");
    return read_experiment(test_systems(), root)->run({}).summary;
  };
  const sim::Node away = with(R"("offload_optimizer": [1])"), kept = with("");
  CHECK(of_stage(away, 0, "memory_bytes.gradients") == 0);
  CHECK(of_stage(away, 0, "host_bytes.gradients") == of_stage(kept, 0, "memory_bytes.gradients"));
  // In fp32 already: nothing is widened for the update, however little is in the host's memory.
  const std::string wide = R"("gradients_fp32": true, "update_apart": true, "zero": "optimizer")";
  CHECK(of_stage(with(wide + R"(, "offload_gradients": [0.01])"), 0, "memory_bytes.peak") <=
        of_stage(with(wide), 0, "memory_bytes.peak") * 1.02);
  // A second copy of the gradients in buckets is whole.
  const auto buckets = [&](const std::string& more) {
    return of_stage(with(R"("gradient_buckets": true)" + more), 0, "memory_bytes.buffers");
  };
  CHECK(buckets(R"(, "offload_gradients": [1])") > buckets(""));
}

TEST_CASE("More layers run again where activations wait for the link", "[unit][training]") {
  // A link of 1 GB/s: with nothing run again its way decides; running again sends the layers' inputs alone.
  sim::Node root = sim::parse_json(R"({"system": "training_plans",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 2}], "host_link": "pcie3-x16"},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 8, "hidden": 1024, "intermediate": 4096,
              "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
    "workload": {"sequence": 4096, "global_batch": 8},
    "plans": {"stages": "apart", "pipeline_parallel": [2], "tensor_parallel": [1], "micro_batch": [1],
              "interleave": [1], "recompute": ["none", "full"], "offload_activations": [1]}})",
                                   "plans.json");
  const sim::Node found = read_experiment(test_systems(), root)->run({}).summary;
  const sim::Node& best = found.find("training_plans")->items().front();
  CHECK(best.find("stage_recompute_layers")->as_string() != "0|0");
  for (const sim::Node& other : found.find("training_plans")->items())
    if (other.find("stages_alike")->as_boolean())
      CHECK(best.find("closed_form_s")->as_number() <= other.find("closed_form_s")->as_number() * (1 + 1e-9));
}

TEST_CASE("First layers that run again with the embedding have no answer of the allocator", "[unit][training]") {
  const auto with = [](int dense) {
    sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "b300"}], "allocator": "caching"},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 512, "intermediate": 2048,
                "heads": 4, "kv_heads": 4, "head_dim": 128, "vocab": 1000, "tied": false, "loss": true, "experts": 8,
                "experts_per_token": 2, "expert_intermediate": 512, "dense_layers": )" +
                                         std::to_string(dense) + R"(}}},
      "workload": {"sequence": 128, "global_batch": 1}, "plan": {"recompute": "full"}})",
                                     "training.json");
    return read_experiment(test_systems(), root)->run({}).summary.at("memory_bytes.reserved") != nullptr;
  };
  CHECK(with(0));
  CHECK_FALSE(with(1));
}

}  // namespace test_training_memory
