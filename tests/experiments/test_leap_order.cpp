// Leaping writes the bytes of stepping whatever falls together at one instant: clusters at coarse ticks, where
// arrivals, ends of iterations, transfers, failures, looks of scalers and migrations meet all the time.
#include <fmt/format.h>

#include <utility>

#include "sim/base/random.hpp"
#include "tests/experiments/leaps.hpp"

namespace test_leap_order {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Draws parts of configs.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, "leap_order") {}
  bool once_in(std::uint64_t times) { return random_.below(times) == 0; }
  int number(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  std::string one_of(const std::vector<std::string>& choices) { return choices[random_.below(choices.size())]; }
  std::string policy(const std::string& name, const std::vector<std::string>& choices) {
    return fmt::format(R"(, "{}": {{"policy": "{}"}})", name, one_of(choices));
  }

 private:
  sim::RandomStream random_;
};

struct Case {
  std::string config, run;
};

std::string workload(Draw& draw, int replicas) {
  // Round numbers, so that much falls together.
  const std::string arrivals = draw.one_of({"fixed", "fixed", "poisson", "gamma", "at_once"});
  const int rate = replicas * draw.number(2, 20);
  const std::string parameters =
      arrivals == "at_once" ? "" : fmt::format(R"(, "{}": {{"rate": "{} req/s"}})", arrivals, rate);
  const std::string lengths =
      draw.one_of({R"("policy": "uniform")", R"("policy": "fixed", "fixed": {"prompt": 700, "output": 50})",
                   R"("policy": "fixed", "fixed": {"prompt": 1500, "output": 2})"});
  std::string text =
      fmt::format(R"({{"generator": {{"requests": 30, "arrivals": {{"policy": "{}"{}}}, "lengths": {{{}}}}})", arrivals,
                  parameters, lengths);
  if (draw.once_in(6)) text += R"(, "clients": 8, "think_time": ")" + draw.one_of({"0 s", "10 ms"}) + "\"";
  return text + "}";
}

/// A network for that many devices, and maybe what else goes over it.
std::pair<std::string, std::string> fabric(Draw& draw, int devices) {
  const std::string star = fmt::format(
      R"(, "network": {{"topology": {{"policy": "star", "star": {{"hosts": {}, "bandwidth": "{}", "latency": "{}"}}}}}})",
      devices + 2, draw.one_of({"2 GB/s", "20 GB/s"}), draw.one_of({"0 s", "5 us"}));
  std::string beside;
  if (draw.once_in(2))
    beside = fmt::format(
        R"(, "network_workload": {{"jobs": [{{"collective": "all_reduce", "bytes": "20 MB", "ranks": "0,{}",
           "repeat": 1000000, "gap": "3 ms"}}], "events": [{{"at": "0.3 s", "link": "h0->switch", "share": {}}},
           {{"at": "0.6 s", "link": "h0->switch", "share": 1}}]}})",
        devices, draw.one_of({"0", "0.3"}));
  return {star, beside};
}

/// `networked`: the devices are the hosts of a network.
Case random_case(std::uint64_t seed, bool networked = false) {
  Draw draw(seed);
  const bool roles = draw.once_in(2);
  const int first = draw.number(1, 3), second = draw.number(1, 3);
  const int lanes = draw.once_in(5) ? 2 : 1;
  const bool experts = lanes > 1 && draw.once_in(2);  // without any, lanes are the stages of a pipeline
  const std::string kind =
      lanes == 1 ? ""
      : experts  ? R"(, "data_parallel": 2, "lock_step": )" + draw.one_of({"true", networked ? "true" : "false"})
                 : R"(, "pipeline_parallel": 2)";
  std::vector<std::string> batching{"orca",   "vllm_v0",  "vllm_v1", "sarathi", "static",
                                    "sglang", "priority", "sjf",     "urgency"};
  if (lanes == 1 || experts) batching.insert(batching.end(), {"lightllm", "vtc", "layered_prefill"});
  std::string policies = R"("batching": {"policy": ")" + draw.one_of(batching) + "\"}";
  policies += draw.policy("routing", {"jsq", "least_loaded", "power_of_two", "random", "round_robin", "prefix_aware",
                                      "session_affinity", "slo_aware", "hexgen", "llumnix"});
  policies += draw.policy("decode_routing", {"least_loaded", "jsq", "power_of_two", "random", "llumnix"});
  std::string cluster =
      roles ? fmt::format(R"("replicas": [{{"name": "p", "count": {}, "role": "prefill"{}}},
                                              {{"name": "d", "count": {}, "role": "decode"}}])",
                          first, kind, second)
            : fmt::format(R"("replicas": [{{"name": "a", "count": {}{}}}, {{"name": "b", "count": {}}}])", first, kind,
                          second);
  std::string more;
  if (draw.once_in(3)) {
    policies += R"(, "migration": {"policy": "llumnix"})";
    more += R"(, "migration": {"interval": ")" + draw.one_of({"10 ms", "0.5 s"}) + "\"}";
  }
  if (draw.once_in(3)) {
    policies += draw.policy("scaling", {"target", "keep_alive", "llumnix"});
    cluster += R"(, "scaling": {"least": 1, "interval": "0.1 s"})";
  }
  std::string blocks;
  if (draw.once_in(4)) {
    policies += draw.policy("kvcache", {"block_hash", "radix", "contiguous"});
  } else if (draw.once_in(3)) {
    blocks = R"(, "kv_blocks": 300)";  // one request at the limit of the context takes 256
  }
  if (draw.once_in(5)) policies += draw.policy("admission", {"queue_limit", "slo"});
  if (draw.once_in(2))
    cluster += R"(, "failures": {"mtbf": ")" + draw.one_of({"2 s", "5 s"}) + R"(", "mttr": ")" +
               draw.one_of({"0.1 s", "1 s"}) + "\"}";
  if (draw.once_in(3)) more += R"(, "slo": {"ttft": "1 s", "tbt": "0.1 s"})";
  Case drawn;
  std::string network;
  if (networked) {
    const auto [star, beside] = fabric(draw, first * lanes + second);
    network = star;
    more += beside;
  }
  drawn.config = fmt::format(R"({{"kind": "experiment", "version": 1, "system": "serving",
    "machine": {{"devices": [{{"part": "h100-sxm5-80gb", "count": {}}}]{}}}, "model": {{"config": "catalog:{}"}},
    "workload": {}, "policies": {{{}}}, "cluster": {{{}}}, "replica": {{"max_context": 4096{}}}{}}})",
                             first * lanes + second, network, experts ? "qwen3-30b-a3b" : "llama-2-7b",
                             workload(draw, first + second), policies, cluster, blocks, more);
  drawn.run = fmt::format(R"(, "seed": {}, "tick": "{}")", seed, draw.one_of({"1 ps", "1 us", "1 ms", "1 ms"}));
  if (!networked && draw.once_in(8)) drawn.run += R"(, "until": "3 s")";
  if (draw.once_in(8)) drawn.run += R"(, "until_requests": 9)";
  return drawn;
}

}  // namespace

TEST_CASE("leaping gives what stepping gives, whatever meets at one instant", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case drawn = random_case(seed);
    CAPTURE(seed, drawn.config, drawn.run);
    (void)same_with_leaps(drawn.config, drawn.run);
  }
}

TEST_CASE("leaping gives what stepping gives where devices share a network, whatever their plan", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case drawn = random_case(seed, true);
    CAPTURE(seed, drawn.config, drawn.run);
    (void)same_with_leaps(drawn.config, drawn.run);
  }
}

TEST_CASE("hand-overs that meet ends of iterations at a tick of 1 ms", "[prop]") {
  (void)same_with_leaps(R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 8}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 40, "arrivals": {"policy": "fixed", "fixed": {"rate": "20 req/s"}},
                               "lengths": {"policy": "uniform"}}},
    "policies": {"batching": {"policy": "orca"}, "routing": {"policy": "jsq"}},
    "cluster": {"replicas": [{"name": "p", "count": 4, "role": "prefill"}, {"name": "d", "count": 4, "role": "decode"}]}})",
                        R"(, "seed": 81, "tick": "1 ms")");
}

TEST_CASE("failures that meet ends of iterations at a tick of 1 ms", "[prop]") {
  (void)same_with_leaps(R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 40, "arrivals": {"policy": "gamma", "gamma": {"rate": "30 req/s"}},
                               "lengths": {"policy": "uniform"}}},
    "policies": {"batching": {"policy": "vllm_v1"}, "routing": {"policy": "jsq"}},
    "cluster": {"replicas": [{"name": "p", "count": 2, "role": "prefill"}, {"name": "d", "count": 2, "role": "decode"}],
                "failures": {"mtbf": "5 s"}}})",
                        R"(, "seed": 265, "tick": "1 ms")");
}

TEST_CASE("requests that end at one picosecond stand in one order, leaps interrupted or not", "[prop]") {
  // Equal replicas with equal requests go on alike to the picosecond; one that fails sends its requests to another.
  (void)same_with_leaps(R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a10g", "count": 16}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 40, "arrivals": {"policy": "at_once"},
                               "lengths": {"policy": "fixed", "fixed": {"prompt": 1500, "output": 50}}}},
    "policies": {"batching": {"policy": "orca"}},
    "cluster": {"replicas": [{"count": 16}], "failures": {"mtbf": "30 s", "mttr": "10 s"}},
    "replica": {"max_context": 12288}})");
}

}  // namespace test_leap_order
