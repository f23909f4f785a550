// Clocks chosen batch by batch: leaping is stepping, what policies of power do to time and energy, faults.
#include <catch2/catch.hpp>

#include "experiments/systems/serving/pricing/clocked.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/experiments/bench_replica.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_clocks {
namespace {

sim::Node config_of(const std::string& power, const std::string& clocks, bool leap = true) {
  sim::Node root = sim::read_config(std::string(ORRERY_SOURCE_DIR) + "/experiments/studies/first_light.json");
  sim::assign(root, R"(machine.devices.0={"part": "catalog:a100-sxm4-80gb", "count": 1, "clocks": )" + clocks + "}");
  sim::assign(root, "policies.power.policy=" + power);
  sim::assign(root, "workload.limit=300");
  sim::assign(root, leap ? "run.leap=true" : "run.leap=false");
  return root;
}

ServingConfig read(const sim::Node& root) {
  sim::Faults faults;
  ServingConfig config = read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

sim::Node summary_of(const sim::Node& root) {
  const ServingConfig config = read(root);
  const ServingResult result = ServingSetup(config).run(nullptr);
  sim::Node summary = summarise(result, tick_scale(config.run.tick_s));
  summary.erase("events");
  return summary;
}

double figure(const sim::Node& summary, const char* path) {
  return summary.at(path)->as_number();
}

const char* const kTwo = R"(["1.41 GHz", "0.81 GHz"])";

TEST_CASE("leaping is stepping for every policy of power", "[prop]") {
  for (const char* power : {"highest", "prefill_high", "tbt_target"})
    CHECK(summary_of(config_of(power, kTwo)).dump() == summary_of(config_of(power, kTwo, false)).dump());
}

TEST_CASE("the highest clock of a list is that clock alone; one clock leaves no choice", "[unit]") {
  sim::Node plain = config_of("highest", "[]");
  sim::assign(plain, "machine.devices.0.clock=1.41 GHz");
  sim::Node low = config_of("highest", "[]");
  sim::assign(low, "machine.devices.0.clock=0.81 GHz");
  CHECK(summary_of(config_of("highest", kTwo)).dump() == summary_of(plain).dump());
  CHECK(summary_of(config_of("prefill_high", R"(["0.81 GHz"])")).dump() == summary_of(low).dump());
}

TEST_CASE("slow decodes save energy and cost little time; slow prompts cost time", "[unit]") {
  const sim::Node high = summary_of(config_of("highest", kTwo)), mixed = summary_of(config_of("prefill_high", kTwo));
  const sim::Node low = summary_of(config_of("highest", R"(["0.81 GHz"])"));
  CHECK(figure(mixed, "energy_j.compute") < figure(high, "energy_j.compute"));
  const double tbt_high = figure(high, "tbt_s.p50");
  CHECK(figure(mixed, "tbt_s.p50") < 1.2 * tbt_high);  // bound by memory: bound by compute it would be 1.74 times
  CHECK(figure(low, "ttft_s.p50") > 1.2 * figure(high, "ttft_s.p50"));
  CHECK(figure(mixed, "ttft_s.p50") < figure(low, "ttft_s.p50"));
}

TEST_CASE("a target that every clock meets is served at the lowest, one that none meets at the highest", "[unit]") {
  // Latencies and energy to the last digit; how often the clock changed is no part of it.
  const auto figures = [](const sim::Node& summary) {
    std::string text;
    for (const char* name : {"simulated_s", "ttft_s", "tbt_s", "e2e_s", "energy_j"}) text += summary.at(name)->dump();
    return text;
  };
  const auto with_target = [&](const char* tbt) {
    sim::Node root = config_of("tbt_target", kTwo);
    sim::assign(root, std::string("slo.tbt=") + tbt);
    return figures(summary_of(root));
  };
  CHECK(with_target("1000 s") == figures(summary_of(config_of("highest", R"(["0.81 GHz"])"))));
  CHECK(with_target("1 us") == figures(summary_of(config_of("highest", kTwo))));
}

TEST_CASE("a policy of power is told the price of a batch at any clock", "[unit]") {
  struct Asks final : policies::ClockPolicy {
    policies::BatchSketch next;
    std::int64_t told = 0;
    std::int32_t choose(const policies::ClockView& view) override {
      next = view.next;
      told =
          view.pricer->price({.decodes = 2, .decode_context = 300, .chunk_tokens = 64, .chunk_past = 128}, 1).time_ps;
      view.pricer->price({.decodes = 2, .decode_context = 300}, 0);
      view.pricer->price({.chunk_tokens = 1, .chunk_past = 5}, 0);
      return 1;
    }
  };
  test::FakeModel model;
  model.cost_ps = [](const BatchShape& shape) { return shape.segments[0].tokens * test::kSecond; };
  auto asks = std::make_unique<Asks>();
  const Asks& heard = *asks;
  const auto batching =
      with_clocks(policies::test::make_batching("sarathi"),
                  {.policy = std::move(asks), .clocks_hz = {2e9, 1e9}, .tbt_ps = {}, .model = &model, .layers = 32});
  policies::test::PaperReplica replica(100);
  replica.decode(20);
  replica.wait(30);
  CHECK(replica.decide(*batching).mode == 1);
  CHECK(heard.next.decodes == 1);
  CHECK(heard.next.decode_context == 21);
  CHECK(heard.next.chunk_tokens == 30);
  CHECK(heard.told == 66 * test::kSecond);
  REQUIRE(model.shapes.size() == 3);
  Segment both{.first = 0, .last = 32, .tokens = 66, .decode = {2, 300}};
  both.prefill.add(64, 128);
  CHECK(model.shapes[0].segments == std::vector<Segment>{both});
  CHECK(model.shapes[0].mode == 1);
  CHECK(model.shapes[0].sequences == 3);
  CHECK(model.shapes[1].segments == std::vector<Segment>{{.first = 0, .last = 32, .tokens = 2, .decode = {2, 300}}});
  CHECK(model.shapes[1].sequences == 2);
  Segment chunk{.first = 0, .last = 32, .tokens = 1};  // the last token of a prompt
  chunk.prefill.add(1, 5);
  CHECK(model.shapes[2].segments == std::vector<Segment>{chunk});
  CHECK(model.shapes[2].sequences == 1);
}

/// What a power policy is told of the batch that `batching` decides on.
policies::BatchSketch told(std::unique_ptr<policies::Batching> batching, policies::test::PaperReplica& replica) {
  struct Hears final : policies::ClockPolicy {
    explicit Hears(policies::BatchSketch& into) : heard(into) {}
    policies::BatchSketch& heard;
    std::int32_t choose(const policies::ClockView& view) override {
      heard = view.next;
      return 0;
    }
  };
  policies::BatchSketch heard;
  test::FakeModel model;
  const auto governed = with_clocks(
      std::move(batching),
      {.policy = std::make_unique<Hears>(heard), .clocks_hz = {2e9, 1e9}, .tbt_ps = {}, .model = &model, .layers = 32});
  CHECK(replica.decide(*governed).mode == 0);
  return heard;
}

TEST_CASE("a policy of power is told of decodes that have an item of their own", "[unit]") {
  struct Explicit final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      out.decode_rest = false;
      for (const policies::SeqId id : view.running)
        out.items.push_back({.seq = id,
                             .new_tokens = view[id].phase == policies::Phase::decode ? 1 : 12,
                             .draft_tokens = id.index == 0 ? 2 : 0});
    }
  };
  // Decodes on 20 and 44 tokens, the first with two drafts: 3 + 1 tokens, behind 20 + 1 and 44 + 1. Chunks of 12 tokens
  // behind 10 and 30 of their prompts are one of 24, behind the longer.
  policies::test::PaperReplica replica(100);
  replica.decode(20);
  replica.decode(40, 5);
  replica.prefill(60, 30);
  replica.prefill(50, 10);
  const policies::BatchSketch next = told(std::make_unique<Explicit>(), replica);
  CHECK(next.decodes == 4);
  CHECK(next.decode_context == 21 + 45);
  CHECK(next.chunk_tokens == 24);
  CHECK(next.chunk_past == 30);
}

TEST_CASE("a decode with an item of its own counts once, also where the others go on by themselves", "[unit]") {
  struct First final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      out.items.push_back({.seq = view.running.front(), .new_tokens = 1});
    }
  };
  // Decodes on 20 and 40 tokens: two new tokens, behind 21 and 41.
  policies::test::PaperReplica replica(100);
  replica.decode(20);
  replica.decode(40);
  const policies::BatchSketch next = told(std::make_unique<First>(), replica);
  CHECK(next.decodes == 2);
  CHECK(next.decode_context == 21 + 41);
}

TEST_CASE("faults of clocks", "[unit]") {
  const auto fault = [](const sim::Node& root) {
    try {
      (void)read(root);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().where.pointer + ": " + error.faults().front().message;
    }
    return std::string();
  };
  CHECK(fault(config_of("prefill_high", "[]")) ==
        "/policies/power: expected 'clocks' of a group of machine.devices to choose from");
  CHECK(fault(config_of("highest", R"(["0.81 GHz", "1.41 GHz"])")) ==
        "/machine/devices/0/clocks: expected clocks from the highest down, each once");
  CHECK(fault(config_of("highest", R"(["5 GHz"])")).starts_with("/machine/devices/0/clocks: expected a clock from"));
}

}  // namespace
}  // namespace orrery::experiments::test_clocks
