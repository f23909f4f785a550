// Pipelines, ranks of data and expert parallelism, layouts and migrating requests on one network and one clock.
#include <fmt/format.h>

#include "experiments/systems/serving/replica/wired_stages.hpp"
#include "hw/network/transfer_path.hpp"
#include "tests/experiments/fabric_configs.hpp"
#include "tests/experiments/leaps.hpp"

namespace test_fabric_plans {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string star(int hosts, const std::string& bandwidth, const std::string& latency = "0 s") {
  return fmt::format(R"("topology": {{"policy": "star", "star": {{"hosts": {}, "bandwidth": "{}", "latency": "{}"}}}})",
                     hosts, bandwidth, latency);
}
std::string group(const std::string& fields) {
  return R"(, "cluster": {"replicas": [{)" + fields + "}]}";
}
std::string model(std::string config, const std::string& name) {
  return config.replace(config.find("llama-2-13b"), 11, name);
}
std::string policies(std::string config, const std::string& fields) {
  return config.insert(config.find(R"("batching")"), fields + ", ");
}
/// Nobody else sends, but the network is told that a link may change: transfers are flows.
std::string as_flows(const std::string& link = "h0->switch") {
  return fmt::format(R"(, "network_workload": {{"events": [{{"at": "1000 s", "link": "{}", "share": 1}}]}})", link);
}
const std::string kPipeline = R"("tensor_parallel": 1, "pipeline_parallel": 4, "micro_batches": 4)";
const std::string kBoth = R"("tensor_parallel": 2, "pipeline_parallel": 2)";
const std::string kRanks = R"("tensor_parallel": 1, "data_parallel": 4)";
const std::string kExperts = R"("tensor_parallel": 1, "data_parallel": 4, "expert_parallel": 4)";
const std::string kWide = R"("tensor_parallel": 2, "data_parallel": 2, "expert_parallel": 4)";

}  // namespace

TEST_CASE("messages of a transfer share links", "[unit]") {
  const hw::RoutingRegistry::Choice routing = [] {
    sim::Faults faults;
    return test_systems().registries()->get<hw::RoutingRegistry>().prepare("shortest", nullptr, {}, faults);
  }();
  sim::Faults faults;
  const auto topology =
      hw::make_topology(*sim::parse_json("{" + star(4, "30 GB/s", "1 us") + "}", "test").find("topology"), faults);
  faults.throw_if_any();
  const std::vector<hw::NodeIndex> hosts{0, 1, 2, 3};
  hw::Transfer pairs, hop, none;
  hw::add_all_pairs(hosts, pairs);
  CHECK(pairs.messages.size() == 12);
  hw::add_pairs(std::span(hosts).first(2), std::span(hosts).last(2), hop);
  CHECK(hop.messages == std::vector<std::pair<hw::NodeIndex, hw::NodeIndex>>{{0, 2}, {1, 3}});
  const auto paths = hw::transfer_paths(*topology, routing, {}, std::vector{pairs, hop, none});
  CHECK(paths[0].bandwidth == Approx(10e9).epsilon(1e-6));  // three messages leave each host
  CHECK(paths[0].latency_s == Approx(2e-6));
  CHECK(paths[0].mean_latency_s == Approx(2e-6));
  CHECK(paths[0].links.size() == 8);
  CHECK(paths[1].bandwidth == Approx(30e9).epsilon(1e-6));
  CHECK(paths[1].links.size() == 4);
  CHECK(paths[2].bandwidth == 0);
  CHECK_THROWS_AS(hw::add_pairs(hosts, std::span(hosts).first(1), hop), std::invalid_argument);
}

TEST_CASE("a star of the part's own links is what the part has by itself, whatever the plan", "[unit]") {
  // A100: 300 GB/s each way. Ranks that exchange tokens have their links to themselves on a star.
  for (const auto& [plan, of] : {std::pair(kPipeline, "llama-2-13b"), std::pair(kRanks, "mixtral-8x7b"),
                                 std::pair(kExperts, "mixtral-8x7b"), std::pair(kWide, "mixtral-8x7b")}) {
    CAPTURE(plan);
    const sim::Node own = summary_of(model(config(4, "", group(plan)), of));
    const sim::Node on_star = summary_of(model(config(4, star(4, "300 GB/s"), group(plan)), of));
    for (const char* figure : {"tbt_s.mean", "ttft_s.mean", "e2e_s.max"})
      CHECK(number(on_star, figure) == Approx(number(own, figure)).epsilon(1e-6));
    CHECK(number(on_star, "events") == number(own, "events"));
    CHECK(number(on_star, "network.waited_s") == 0);
  }
}

TEST_CASE("flows that meet nobody take what the closed form says, whatever the plan", "[unit]") {
  // At a tick of a picosecond transfers begin where they are due. Narrow links, so that they show.
  for (const auto& [plan, of] : {std::pair(kPipeline, "llama-2-13b"), std::pair(kRanks, "mixtral-8x7b"),
                                 std::pair(kExperts, "mixtral-8x7b"), std::pair(kWide, "mixtral-8x7b")}) {
    CAPTURE(plan);
    const std::string network = star(4, "3 GB/s", "10 us");
    const sim::Node closed = summary_of(model(config(4, network, group(plan)), of));
    const sim::Node flows = summary_of(model(config(4, network, group(plan) + as_flows()), of));
    const sim::Node wide = summary_of(model(config(4, star(4, "300 GB/s"), group(plan)), of));
    CHECK(number(flows, "events") > number(closed, "events"));
    CHECK(number(wide, "tbt_s.mean") < 0.999 * number(closed, "tbt_s.mean"));
    for (const char* figure : {"tbt_s.mean", "ttft_s.mean", "e2e_s.max"})
      CHECK(number(flows, figure) == Approx(number(closed, figure)).epsilon(1e-6));
    CHECK(number(flows, "network.waited_s") == Approx(0).margin(1e-6));
  }
}

TEST_CASE("stages that hold tensor-parallel ranks send over the links of these: flows", "[unit]") {
  // A host's link carries both the all-reduces of its stage and what goes to the next, so nothing is a closed form. One
  // request at a time meets nobody, itself included: narrower links add what they add to ranks alone and to stages
  // alone.
  const auto longer = [&](const std::string& plan, int hosts) {
    const auto tbt = [&](const std::string& bandwidth) {
      return number(summary_of(config(hosts, star(hosts, bandwidth), group(plan), 1)), "tbt_s.mean");
    };
    return tbt("1 GB/s") - tbt("2 GB/s");
  };
  const double ranks = longer(R"("tensor_parallel": 2)", 2);
  const double stages = longer(R"("tensor_parallel": 1, "pipeline_parallel": 2)", 2);
  CHECK(stages > 10e3 / 2e9);
  CHECK(longer(kBoth, 4) == Approx(ranks + stages).epsilon(1e-4));
  CHECK(summary_of(config(4, star(4, "2 GB/s"), group(kBoth), 1)).at("network.links")->is_object());
}

TEST_CASE("two pipelines that share a cable have half of it each", "[unit]") {
  // gpu0 sends to gpu1 over the trunk, gpu2 to gpu3 at the same time: a prompt of 64 tokens, 64 x 5,120 x 2 bytes,
  // takes twice as long. Its first token comes that much later.
  const auto ttft = [&](int count) {
    const std::string plan =
        fmt::format(R"("count": {}, "tensor_parallel": 1, "pipeline_parallel": 2, "micro_batches": 2)", count);
    const sim::Node summary = summary_of(config(4, two_switches(4, "0.1 GB/s", "0 s"), group(plan), count));
    CHECK(number(summary, "requests.completed") == count);
    return number(summary, "ttft_s.mean");
  };
  const double bytes = 64.0 * 5120 * 2;
  CHECK(ttft(2) - ttft(1) == Approx(bytes / 0.1e9).epsilon(1e-4));
}

TEST_CASE("two replicas of experts that share a cable have half of it each", "[unit]") {
  // Qwen3-30B-A3B, a request to each replica, and each rank is priced as the fullest: in 48 layers a token's row of
  // 2,048 values of 2 bytes goes to both ranks, one of them another, there and back.
  const double bytes = 48 * 2 * 2048 * 2;
  const auto tpot = [&](int count) {
    const std::string plan =
        fmt::format(R"("count": {}, "tensor_parallel": 1, "data_parallel": 2, "expert_parallel": 2)", count);
    return number(summary_of(model(config(4, two_switches(4, "1 GB/s", "0 s"), group(plan), count), "qwen3-30b-a3b")),
                  "tpot_s.mean");
  };
  CHECK(tpot(2) - tpot(1) == Approx(bytes / 0.5e9 - bytes / 1e9).epsilon(1e-3));
}

TEST_CASE("a degraded cable between two stages is seen while it lasts", "[unit]") {
  const std::string plan = R"("tensor_parallel": 1, "pipeline_parallel": 2, "micro_batches": 2)";
  const auto run = [&](const std::string& events) {
    return summary_of(with(config(2, two_switches(2, "0.1 GB/s", "0 s"), group(plan), 1),
                           R"("network_workload": {"events": [)" + events + "]}"));
  };
  const sim::Node before = run(R"({"at": "1000 s", "link": "left->right", "share": 1})");
  const double usual = number(before, "tbt_s.p50");
  // Down for 0.3 s: one token waits for it. The way back does not carry activations.
  const sim::Node down = run(R"({"at": "0.3 s", "link": "left->right", "share": 0},
                                {"at": "0.6 s", "link": "left->right", "share": 1})");
  CHECK(number(down, "tbt_s.max") > 0.27);
  CHECK(number(down, "tbt_s.max") < 0.3 + 2 * usual);
  CHECK(number(down, "tbt_s.p50") == Approx(usual).epsilon(1e-2));
  CHECK(number(down, "network.waited_s") ==
        Approx(number(down, "e2e_s.max") - number(before, "e2e_s.max")).epsilon(1e-3));
  const sim::Node back = run(R"({"at": "0.3 s", "link": "right->left", "share": 0})");
  CHECK(number(back, "e2e_s.max") == Approx(number(before, "e2e_s.max")).epsilon(1e-6));
}

TEST_CASE("stages on wires: one send after another between two stages, and all that is in flight is lost with them",
          "[unit]") {
  // A byte takes a picosecond, whoever else sends.
  struct Carrier final : hw::MessageCarrier {
    explicit Carrier(sim::Engine& on) : engine(on) {}
    void send(hw::NodeIndex, hw::NodeIndex, std::int64_t bytes, std::uint64_t, sim::EventHandler& to,
              std::uint64_t payload) override {
      engine.schedule_at(engine.now() + sim::Duration{bytes}, to, payload);
    }
    sim::Engine& engine;
  };
  struct Left final : WiredStages::Books, Wire::Listener {
    void left(const Passage& passage) override { passages.push_back(passage); }
    void sent(ExactTime end) override { ends.push_back(end.ticks); }
    std::vector<Passage> passages;
    std::vector<std::int64_t> ends;
  } all;
  sim::Engine engine;
  Carrier carrier(engine);
  const auto path = [] {
    WirePath one{.transfer = {.messages = {{0, 1}}, .label = 0}, .each = 1, .bandwidth = 1e12, .latency_ps = 0};
    return one;
  };
  std::vector<std::vector<StageWires>> modes(1);
  for (int s = 0; s < 2; ++s) {
    StageWires& wires = modes[0].emplace_back();
    wires.own = std::make_unique<Wire>(engine, carrier, path());
    if (s == 0) wires.next = std::make_unique<Wire>(engine, carrier, path());
  }
  WiredStages stages(std::move(modes), all, 1);
  // Stage 0 takes 10, of which 4 go over its wire; then 2 before 30 bytes; stage 1 takes 5.
  const std::vector<StageWork> work{{.time_ps = 10, .sent = {4, 0}, .send_ps = 32, .send_bytes = 30}, {.time_ps = 5}};
  for (int i = 0; i < 3; ++i) stages.enter({0, 0}, 0, work, all);
  engine.run();
  // Stage 0 ends at 10, 20, 30; sends last from 10 to 42, 42 to 74, 74 to 106.
  CHECK(all.ends == std::vector<std::int64_t>{47, 79, 111});
  REQUIRE(all.passages.size() == 3);
  CHECK(all.passages[1].begin == std::vector<ExactTime>{{10, 0}, {74, 0}});
  CHECK(all.passages[1].end == std::vector<ExactTime>{{20, 0}, {79, 0}});
  CHECK(all.passages[1].waited_ps == 0);  // it met nobody else's messages
  // One is under way to stage 1, the other in stage 0 when all fails.
  stages.enter({111, 0}, 0, work, all);
  stages.enter({112, 0}, 0, work, all);
  engine.run(sim::Time{125});
  CHECK(stages.clear({125, 0}) == ExactTime{111, 0});
  engine.run();
  CHECK(all.ends.size() == 3);
  // Nothing is left of it: the next finds all stages free.
  const std::int64_t now = engine.now().ticks;
  stages.enter({now, 0}, 0, work, all);
  engine.run();
  CHECK(all.ends.back() == now + 10 + 32 + 5);
}

TEST_CASE("each layout of a replica has the links of its own groups", "[unit]") {
  // Seesaw switches from four stages for prompts to four ranks for decodes.
  const auto run = [&](const std::string& network) {
    std::string text =
        config(4, network, R"(, "layouts": {"modes": [{"pipeline_parallel": 4}, {"tensor_parallel": 4}]})");
    text.replace(text.find("vllm_v0"), 7, "seesaw");
    return summary_of(text);
  };
  const sim::Node own = run(""), fast = run(star(4, "300 GB/s")), slow = run(star(4, "2 GB/s"));
  // On a star stages and ranks share a host's link, but never at once, and no stage has ranks.
  CHECK(number(fast, "network.waited_s") == 0);
  CHECK(fast.find("network")->find("links")->is_null());
  CHECK(number(fast, "e2e_s.max") == Approx(number(own, "e2e_s.max")).epsilon(1e-2));  // a mesh of pairs is no star
  CHECK(number(slow, "e2e_s.max") > 1.5 * number(fast, "e2e_s.max"));
}

TEST_CASE("running requests migrate over the machine's network", "[unit]") {
  const auto run = [&](const std::string& trunk, const std::string& more = "") {
    std::string text = config(2, two_switches(2, trunk, "0 s"),
                              R"(, "cluster": {"replicas": [{"count": 2, "tensor_parallel": 1}]},
      "replica": {"kv_blocks": 300, "max_context": 4096})" +
                                  more,
                              40, "40 1/s");
    text = policies(text, R"("migration": {"policy": "llumnix"}, "routing": {"policy": "random"})");
    text.replace(text.find(R"("output": 64)"), 12, R"("output": 600)");
    return summary_of(text);
  };
  const sim::Node fast = run("50 GB/s"), slow = run("0.2 GB/s");
  REQUIRE(number(fast, "cluster.migrations.completed") > 0);
  REQUIRE(number(slow, "cluster.migrations.completed") > 0);
  CHECK(number(slow, "requests.completed") == 40);
  // Downtime: a handshake of 9 ms, and the last block or two, 16 tokens of 40 layers x 2 x 5,120 x 2 bytes each, over
  // the trunk.
  const double block = 16.0 * 40 * 2 * 5120 * 2;
  CHECK(number(fast, "cluster.migrations.downtime_s") == Approx(9e-3).epsilon(0.1));
  const double mean = number(slow, "cluster.migrations.downtime_s");
  CHECK(mean > 9e-3 + block / 0.2e9);
  CHECK(mean < 9e-3 + 12 * block / 0.2e9);
}

TEST_CASE("layouts and migrations on a network leap as they step", "[prop]") {
  std::string layouts =
      config(4, two_switches(4, "3 GB/s"),
             R"(, "layouts": {"modes": [{"pipeline_parallel": 4}, {"tensor_parallel": 4}]})", 12, "30 1/s");
  layouts.replace(layouts.find("vllm_v0"), 7, "seesaw");
  CHECK(number(same_with_leaps(layouts), "requests.completed") == 12);
  const std::string moving =
      policies(config(4, two_switches(4, "3 GB/s"), R"(, "cluster": {"replicas": [{"count": 4, "tensor_parallel": 1}]},
        "replica": {"kv_blocks": 300, "max_context": 4096})",
                      24, "60 1/s"),
               R"("migration": {"policy": "llumnix"}, "routing": {"policy": "random"})");
  CHECK(number(same_with_leaps(moving), "requests.completed") == 24);
}

}  // namespace test_fabric_plans
