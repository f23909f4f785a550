// Serving runs whose devices hold a share of the experts (replica.expert_memory).
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "experiments/capacity/reason.hpp"
#include "tests/experiments/system_run.hpp"

namespace orrery::experiments::test {
namespace {

/// Qwen3-30B-A3B in 4 bits on an RTX 4090; one client, requests that walk through a drawn trace of four layers.
const char* const kServed = R"({"system": "serving",
  "machine": {"devices": [{"part": "rtx-4090"}]},
  "model": {"config": "catalog:qwen3-30b-a3b", "dtype": "bf16", "weight_dtype": "int4"},
  "workload": {"router": {"generator": {"tokens": 256, "layers": 4, "scores": "informed"}, "planned": 0.25, "walk": 1},
    "clients": 1,
    "generator": {"requests": 1, "arrivals": {"policy": "at_once"},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 16, "output": 40}}}},
  "replica": {"max_context": 4096, "expert_memory": {"share": 0.25, "schedule": {"policy": "fetch"}}},
  "policies": {"batching": {"policy": "vllm_v1"}}})";
const char* const kBatch = "workload.generator.requests=12";
const char* const kClients = "workload.clients=4";
const std::string kMemory = "replica.expert_memory.";

std::string fault(const std::vector<std::string>& assignments) {
  return faults_of_run([&] { return summary_of(kServed, assignments); });
}

double fetched(const sim::Node& summary) {
  return figure(summary, "expert_memory.fetched");
}

TEST_CASE("expert memory: with all experts on the devices nothing changes") {
  sim::Node with = summary_of(kServed, {kMemory + "share=1", kBatch, kClients});
  const sim::Node without = summary_of(kServed, {"replica.expert_memory=null", kBatch, kClients});
  CHECK(figure(with, "expert_memory.hit_rate") == 1);
  CHECK(fetched(with) == 0);
  CHECK(figure(with, "expert_memory.waited_s") == 0);
  with.erase("expert_memory");
  CHECK(with.dump() == without.dump());
}

TEST_CASE("expert memory: nothing changes with all experts there in any run, and a leap is its steps") {
  const std::string two = R"(machine.devices=[{"part": "rtx-4090", "count": 2}])";
  const std::string latent = "model.config=catalog:deepseek-v2-lite";
  const std::vector<std::vector<std::string>> runs = {
      {two, "replica.tensor_parallel=2"},
      {latent},
      {latent, kMemory + "spread=pooled"},
      {"policies.batching.policy=layered_prefill", "workload.generator.lengths.fixed.prompt=1500"},
      {"policies.batching.policy=read_me", "policies.batching.read_me.max_tokens=8"},
      {two, R"(cluster.replicas=[{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}])"},
      {"host.policy=vllm_v1"},
      {two, "cluster.replicas=[{\"count\": 2}]", "cluster.failures.mtbf=2 s", "cluster.failures.mttr=100 ms"}};
  for (std::vector<std::string> run : runs) {
    CAPTURE(run);
    run.insert(run.end(), {kBatch, kClients});
    const auto with = [&](const std::vector<std::string>& more) {
      std::vector<std::string> sets = run;
      sets.insert(sets.end(), more.begin(), more.end());
      sim::Node summary = summary_of(kServed, sets);
      REQUIRE(summary.find("requests") != nullptr);
      summary.erase("events");
      return summary;
    };
    sim::Node all = with({kMemory + "share=1"});
    all.erase("expert_memory");
    std::erase_if(run, [](const std::string& set) { return set.starts_with(kMemory); });
    CHECK(all.dump() == with({"replica.expert_memory=null"}).dump());
    CHECK(with({kMemory + "share=0.3"}).dump() == with({kMemory + "share=0.3", "run.leap=false"}).dump());
  }
}

TEST_CASE("expert memory: what the host computes the devices do not") {
  const std::vector<std::string> host = {kMemory + "share=0", kMemory + "schedule.policy=host",
                                         kMemory + "host.part=xeon-6454s", kBatch, kClients};
  const sim::Node got = summary_of(kServed, host);
  const sim::Node all = summary_of(kServed, {kMemory + "share=1", kBatch, kClients});
  CHECK(figure(got, "expert_memory.host_energy_j") > 0);
  CHECK(figure(all, "expert_memory.host_energy_j") == 0);
  CHECK(figure(got, "energy_j.memory") < 0.9 * figure(all, "energy_j.memory"));
  CHECK(figure(got, "energy_j.compute") < figure(all, "energy_j.compute"));
  // FLOPs a second of the devices: 12 requests of 55 tokens, six FLOPs a weight of the 8 experts' less in 48 layers.
  const auto flops = [](const sim::Node& run) { return figure(run, "utilisation.mfu") * figure(run, "simulated_s"); };
  const double peak = flops(all) - flops(got);
  const double less = 12.0 * 55 * 48 * 8 * 3 * 2 * 2048 * 768;
  CHECK(less / peak == Approx(165.2e12).epsilon(0.02));  // bf16 of an RTX 4090
}

TEST_CASE("expert memory: idle for years between requests") {
  const std::vector<std::string> sets = {
      "run.tick=1 ns", "workload.clients=null", "workload.generator.requests=20",
      R"(workload.generator.arrivals={"policy": "poisson", "poisson": {"rate": "1e-6 1/s"}})"};
  const sim::Node got = summary_of(kServed, sets);
  CHECK(figure(got, "simulated_s") > 1e7);  // 20 in 1e6 s each: more picoseconds than 64 bits hold
  CHECK(figure(got, "expert_memory.waited_s") > 0);
  CHECK(figure(got, "expert_memory.waited_s") < 100);
}

TEST_CASE("expert memory: a request alone takes what the experts system says of its tokens") {
  // Request 0 begins at token 0 of the trace: 16 tokens of prompt, then decodes of tokens 16 to 54.
  const std::vector<std::string> sets = {"cache.policy=static", "cache.static.rule=uniform"};
  const std::string experts = R"({"system": "experts",
    "machine": {"part": "rtx-4090", "host": {"part": "xeon-6454s", "sockets": 2}, "link": "pcie4-x16"},
    "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
    "workload": {"router": {"generator": {"tokens": 256, "layers": 4, "scores": "informed"}}, "context": 36, "skip": 16,
                 "steps": 39},
    "policies": {"share": 0.25}})";
  for (const char* schedule : {"fetch", "host", "hybrimoe", "fiddler"}) {
    CAPTURE(schedule);
    std::vector<std::string> served = {"workload.router.planned=0", kMemory + "host.part=xeon-6454s",
                                       kMemory + "host.sockets=2", kMemory + "schedule.policy=" + schedule};
    std::vector<std::string> played = {std::string("policies.schedule.policy=") + schedule};
    for (const std::string& set : sets) {
      served.push_back(kMemory + set);
      played.push_back("policies." + set);
    }
    const sim::Node a = summary_of(kServed, served), b = summary_of(experts, played);
    CHECK(figure(a, "tpot_s.mean") == Approx(figure(b, "step_s.total")).epsilon(0.01));
    // Beside the 39 decodes the prompt looks its experts up too, so uses are compared by the link's time a decode.
    if (std::string(schedule) == "fetch") CHECK(figure(a, "expert_memory.link_s") > 39 * figure(b, "step_s.link_busy"));
  }
}

TEST_CASE("expert memory: fewer slots fetch more and take longer; slots are the KV cache's memory") {
  double before = -1, slower = 0, weights = 1e12;
  for (const char* share : {"0.9", "0.6", "0.3", "0"}) {
    const sim::Node got = summary_of(kServed, {kMemory + "share=" + share, kBatch, kClients});
    CHECK(fetched(got) > before);
    CHECK(figure(got, "tpot_s.mean") > slower);
    CHECK(figure(got, "memory_bytes.weights") < weights);
    before = fetched(got);
    slower = figure(got, "tpot_s.mean");
    weights = figure(got, "memory_bytes.weights");
  }
  // Without a slot every use is a copy: nothing is hit, and time waited is near that of the link.
  const sim::Node none = summary_of(kServed, {kMemory + "share=0"});
  CHECK(figure(none, "expert_memory.hit_rate") == 0);
  CHECK(figure(none, "expert_memory.waited_s") <= figure(none, "expert_memory.link_s"));
  CHECK(figure(none, "expert_memory.waited_s") > 0.9 * figure(none, "expert_memory.link_s"));
  // 48 layers of 128 experts of 4 bits and scales: three matrices of 2,048 x 768, 2.65 MB or so each expert.
  const double a_share =
      figure(summary_of(kServed, {kMemory + "share=1"}), "memory_bytes.weights") - figure(none, "memory_bytes.weights");
  CHECK(a_share == Approx(48 * 128 * 3.0 * 2048 * 768 * 17 / 32).epsilon(0.05));
}

TEST_CASE("expert memory: what is foretold is copied ahead, and counts where it is used") {
  const sim::Node got =
      summary_of(kServed, {kMemory + "prefetch.accuracy=1", kMemory + "prefetch.layers=2", kMemory + "share=0.5"});
  const sim::Node plain = summary_of(kServed, {kMemory + "share=0.5"});
  CHECK(figure(got, "expert_memory.prefetched") > 0);
  CHECK(figure(got, "expert_memory.prefetched_used") <= figure(got, "expert_memory.prefetched"));
  CHECK(figure(got, "expert_memory.waited_s") < figure(plain, "expert_memory.waited_s"));
}

TEST_CASE("expert memory: caches begin with what was popular, and may go by scores") {
  // The fixed set of the planned tokens' favourites hits more than a uniform one.
  const auto hits = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {kBatch, kClients, "workload.router.generator.spread=0.1"});
    return figure(summary_of(kServed, sets), "expert_memory.hit_rate");
  };
  const double uniform = hits({kMemory + "cache.policy=static", kMemory + "cache.static.rule=uniform"});
  CHECK(hits({kMemory + "cache.policy=static"}) > 1.5 * uniform);
  CHECK(hits({kMemory + "cache.policy=mrs"}) > uniform);
  CHECK(hits({kMemory + "cache.policy=lru", kMemory + "spread=pooled"}) > 0);
}

TEST_CASE("expert memory: a drive behind the host is read where the host has no room") {
  const std::vector<std::string> drive = {kMemory + "storage=nvme-gen4", kMemory + "host_share=0.5"};
  const sim::Node got = summary_of(kServed, drive), all = summary_of(kServed, {});
  CHECK(figure(got, "expert_memory.read") > 0);
  CHECK(figure(got, "expert_memory.drive_s") > 0);
  CHECK(figure(got, "tpot_s.mean") > figure(all, "tpot_s.mean"));
  // A host whose memory keeps all of them reads none.
  const sim::Node kept = summary_of(kServed, {kMemory + "storage=nvme-gen4", kMemory + "host_share=1"});
  CHECK(figure(kept, "expert_memory.read") == 0);
}

TEST_CASE("expert memory: steps and leaps are the same, and so are two runs") {
  const std::vector<std::string> sets = {kBatch, kClients};
  std::vector<std::string> stepped = sets;
  stepped.emplace_back("run.leap=false");
  sim::Node a = summary_of(kServed, sets), b = summary_of(kServed, stepped);
  CHECK(a.dump() == summary_of(kServed, sets).dump());
  a.erase("events");
  b.erase("events");
  CHECK(a.dump() == b.dump());
}

TEST_CASE("expert memory: waiting for experts is the reason that a run gives") {
  const sim::Node got = summary_of(kServed, {kBatch, kClients, "slo.tbt=5 ms", kMemory + "share=0.1"});
  CHECK(got.at("binds.cause")->as_string() == "host_memory");
  CHECK_THAT(got.at("binds.text")->as_string(), Catch::Contains("weights that are not in their memory"));
  const sim::Node prompts = summary_of(kServed, {kBatch, kClients, "slo.ttft=5 ms", kMemory + "share=0.1"});
  CHECK(prompts.at("binds.cause")->as_string() == "host_memory");
  // What may help: more slots, up to all experts.
  sim::Node resolved = sim::parse_json(kServed, "config.json");
  const auto changes = capacity::changes_for(Cause::host_memory, resolved);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].assignments == std::vector<std::string>{kMemory + "share=0.38"});
  CHECK(changes[2].assignments == std::vector<std::string>{kMemory + "share=0.75"});
  sim::assign(resolved, kMemory + "share=0");
  CHECK(capacity::changes_for(Cause::host_memory, resolved)[0].assignments.front() == kMemory + "share=0.08");
  sim::assign(resolved, kMemory + "share=0.8");
  REQUIRE(capacity::changes_for(Cause::host_memory, resolved).size() == 1);
}

TEST_CASE("expert memory: what does not fit is a result") {
  const auto reason = [](const std::vector<std::string>& sets) {
    return summary_of(kServed, sets).at("reason")->as_string();
  };
  CHECK_THAT(reason({kMemory + "host.part=xeon-6454s", kMemory + "host.override.memory=1 GiB"}),
             Catch::Contains("the experts need") && Catch::Contains("the host has 1 GiB"));
  CHECK_THAT(reason({R"(machine.devices=[{"part": "rtx-4090", "count": 2}])", "replica.tensor_parallel=1",
                     R"(cluster.replicas=[{"tensor_parallel": 1, "data_parallel": 2, "expert_parallel": 2}])"}),
             Catch::Contains("expected replicas of one layout and of tensor parallelism alone"));
}

TEST_CASE("expert memory: batches by expert copy less than batches in order of admission") {
  const std::vector<std::string> sets = {"workload.generator.requests=48",        "workload.clients=32",
                                         "workload.router.generator.tokens=2048", "workload.router.generator.layers=1",
                                         "workload.router.generator.spread=1",    kMemory + "share=0.5"};
  const auto with = [&](const char* policy, const char* tokens, std::vector<std::string> more = {}) {
    more.insert(more.end(), sets.begin(), sets.end());
    more.push_back(std::string("policies.batching.policy=") + policy);
    more.push_back(std::string("policies.batching.") + policy + "." + tokens + "=16");
    return summary_of(kServed, more);
  };
  const sim::Node queues = with("read_me", "max_tokens"), order = with("vllm_v1", "max_num_batched_tokens");
  CHECK(figure(queues, "requests.completed") == 48);
  CHECK(figure(queues, "tokens.output") == figure(order, "tokens.output"));
  CHECK(fetched(queues) < fetched(order));
  // Where nobody knows what tokens will choose, a run goes by admission and says so.
  sim::Node root = sim::parse_json(kServed, "config.json");
  for (const char* set : {"workload.router=null", "replica.expert_memory=null", "policies.batching.policy=read_me"})
    sim::assign(root, set);
  const Outcome outcome = read_experiment(test_systems(), root)->run({});
  REQUIRE(outcome.notes.size() == 1);
  CHECK_THAT(outcome.notes.front(), Catch::Contains("read_me goes by admission: without workload.router"));
}

TEST_CASE("expert memory: faults") {
  CHECK_THAT(fault({"replica.expert_memory={}"}), Catch::Contains("share"));
  CHECK_THAT(fault({"workload.router=null"}),
             Catch::Contains("expected workload.router, which says what experts tokens choose"));
  CHECK_THAT(fault({kMemory + "cache.policy=belady"}), Catch::Contains("nobody knows what the requests"));
  CHECK_THAT(fault({kMemory + "cache.policy=static", "workload.router.planned=0"}),
             Catch::Contains("workload.router.planned above 0"));
  CHECK_THAT(fault({kMemory + "cache.policy=mrs", kMemory + "spread=pooled"}), Catch::Contains("spread even or front"));
  CHECK_THAT(fault({kMemory + "schedule.policy=host"}), Catch::Contains("expected a host that computes experts"));
  CHECK_THAT(fault({kMemory + "prefetch.across=true"}), Catch::Contains("decided after this one"));
  CHECK_THAT(fault({kMemory + "host_share=0.5"}), Catch::Contains("expected a storage"));
  CHECK_THAT(fault({kMemory + "storage=nvme-gen4"}), Catch::Contains("no host is named"));
  CHECK_THAT(fault({"replica.host_weights.share=0.5"}), Catch::Contains("expected none beside replica.host_weights"));
  CHECK_THAT(fault({"policies.redundant=1"}), Catch::Contains("expected none beside policies.redundant"));
  CHECK_THAT(fault({R"(machine.devices=[{"part": "rtx-4090", "clocks": ["1.5 GHz", "1 GHz"]}])"}),
             Catch::Contains("not priced"));
  CHECK_THAT(fault({kMemory + "link=pcie4-x15"}), Catch::Contains("pcie4-x16"));
  CHECK_THAT(fault({kMemory + "host.part=rtx-4090"}), Catch::Contains("expected a CPU, got a part of kind gpu"));
}

}  // namespace
}  // namespace orrery::experiments::test
