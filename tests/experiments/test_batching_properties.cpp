// What must hold under every batching policy there is: requests, tokens and blocks are conserved, nobody starves who is
// not meant to, and leaping over iterations gives what stepping gives. A new policy is tested by being registered.
#include <fmt/format.h>

#include <algorithm>

#include "tests/experiments/bench_replica.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_batching_properties {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

struct Variant {
  std::string policy, params;
};

/// Every registered policy with its defaults, and settings that lead elsewhere.
std::vector<Variant> all_policies() {
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  std::vector<Variant> all;
  for (const std::string& name : registry.names()) all.push_back({name, "{}"});
  for (const auto& [name, params] : std::vector<std::pair<const char*, const char*>>{
           {"static", R"({"reservation": "oracle"})"},
           {"orca", R"({"reservation": "pow2"})"},
           {"vllm_v0", R"({"watermark": 0, "padded_budget": true})"},
           {"sarathi", R"({"token_budget": 64, "watermark": 0})"},
           {"sarathi", R"({"tbt_slo": "200 ms", "slo_budget": "iteration"})"},
           {"sarathi", R"({"tbt_slo": "300 ms"})"},
           {"sarathi", R"({"chunk_schedule": {"stages": 4, "high": 512, "low": 64, "max_tokens": 1500}})"},
           {"vllm_v1", R"({"max_num_batched_tokens": 64, "max_num_seqs": 80, "long_prefill_token_threshold": 33})"},
           {"vllm_v1", R"({"max_num_batched_tokens": 2048, "chunked_prefill": false})"},
           {"vllm_v1", R"({"room_for_prompt": true})"},
           {"vllm_v1", R"({"max_num_batched_tokens": 3})"},
           {"tensorrt_llm",
            R"({"max_num_tokens": 2048, "batch_wait_timeout_iters": 7, "batch_wait_max_tokens_ratio": 1})"},
           {"tensorrt_llm", R"({"batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.1})"},
           {"tensorrt_llm",
            R"({"capacity": "max_utilization", "chunked_context": true, "batch_wait_timeout_iters": 9,
                "batch_wait_max_tokens_ratio": 0.5})"},
           {"layered_prefill", R"({"wave_tokens": 1000, "stages": 12, "group_tokens": 64})"},
           {"lightllm", R"({"max_new_tokens": 50})"},
           {"priority", R"({"preemptive": true, "max_sequences": 8})"},
           {"sjf", R"({"aging": 0, "max_sequences": 8})"},
           {"urgency", R"({"max_sequences": 8})"},
           {"expression", R"({"max_sequences": 8, "score": "predicted_left - 20 * waited_s", "preempt": "kv_tokens"})"},
           {"expression", R"x({"score": "compute_tokens * (1 + kv_share)", "preempt": "-generated_tokens"})x"},
           {"expression", R"x({"score": "sqrt(-1)", "preempt": "if(running > 3, order, -order)"})x"},
           {"batchllm", R"({"oracle": true, "prefill_tokens": 100})"},
           {"batchllm", R"({"order": "reverse", "kv_limit": 0.95})"},
           {"fairness_priority", R"({"period": 5, "max_sequences": 8})"},
           {"fairness_priority", R"({"period": 3, "pattern": "markov"})"},
           {"vtc", R"({"max_sequences": 8})"}})
    all.push_back({name, params});
  return all;
}

/// An iteration lasts what its tokens and their context say; what follows is known as far as one asks.
class LinearModel final : public IterationModel {
 public:
  void cost(const BatchShape& shape, IterationCost& out) override {
    out.time_ps = kSecond / 20;
    for (const Segment& s : shape.segments) {
      const std::int64_t layers = s.last - s.first;
      out.time_ps += layers * (s.tokens * 9'000'000 + s.decode.context_tokens * 7'001 + s.prefill.pairs * 11);
      out.flops += layers * s.tokens;
    }
    out.compute_pj = out.time_ps / 3;
  }
  IterationPrice price(const BatchShape& shape) override {
    IterationPrice price = IterationModel::price(shape);
    const bool decodes = shape.segments.size() == 1 && shape.segments[0].prefill.q_tokens == 0;
    if (!decodes || shape.segments[0].tokens != shape.segments[0].decode.sequences) return price;
    BatchShape next = shape;
    advance(next, 1);
    IterationCost there, here;
    cost(next, there);
    cost(shape, here);
    price.step_ps = there.time_ps - here.time_ps;
    price.horizon = 1 + shape.segments[0].decode.context_tokens % 57;  // ends anywhere
    price.energy_pj = price.step_energy_pj = 0;
    return price;
  }
};

struct Job {
  std::int64_t arrived_ms, prompt, output, predicted;
  std::int32_t priority, tenant, branches;
  std::int64_t due_ms = 0;  // 0: no deadline
  policies::Text text = {};
};

class Bench final : public sim::EventHandler, public RequestSink {
 public:
  /// A cache of `blocks` times 16 tokens.
  Bench(const Variant& variant, std::int64_t blocks, bool leap, const std::string& cache = "paged") {
    ReplicaParts parts;
    parts.engine = &engine;
    parts.instants = &instants;
    parts.model = &model;
    parts.metrics = &metrics;
    parts.observer = &log;
    parts.sink = this;
    parts.batching = make_batching(variant.policy, variant.params);
    parts.kv = policies::test::make_cache(cache, "{}", blocks * 16);
    parts.limits = {.max_context = 2048, .layers = 30};
    parts.leap = leap;
    metrics.slo.tbt_ps = kSecond / 5;
    replica = std::make_unique<Replica>(std::move(parts));
  }
  void run(const std::vector<Job>& all) {
    jobs = all;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      engine.schedule_at(sim::Time{jobs[i].arrived_ms * (kSecond / 1000)}, *this, i);
    engine.run();
  }
  void on_event(std::uint64_t index) override {
    const Job& job = jobs[index];
    Request& request = pool.make();
    request.id = static_cast<std::int64_t>(index);
    request.arrived = engine.now();
    request.prompt_tokens = job.prompt;
    request.output_tokens = job.output;
    request.predicted_tokens = job.predicted;
    request.priority = job.priority;
    request.tenant = job.tenant;
    request.branches = job.branches;
    request.text = job.text;
    if (job.due_ms > 0) request.deadline_ticks = job.due_ms * (kSecond / 1000);
    ++metrics.arrived;
    replica->submit(request);
    replica->wake();
  }
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override {
    const RequestRecord record = record_of(request, status, finished);
    metrics.request_ended(record, request.tbts);
    log.request_ended(record);
    pool.recycle(request);
  }
  /// All that a run says, as text.
  std::string story() const {
    std::string text;
    const auto ticks = [](const std::optional<sim::Time>& time) { return time ? time->ticks : -1; };
    for (std::size_t i = 0; i < log.requests.size(); ++i) {
      const RequestRecord& r = log.requests[i];
      text += fmt::format("{} {} {} {} {} {}\n", r.id, ticks(r.admitted), ticks(r.first_token), ticks(r.finished),
                          r.preemptions, log.statuses[i]);
    }
    for (const IterationRecord& it : log.iterations)
      text += fmt::format("{} {} {} {}\n", it.start.ticks, it.end.ticks, it.running, it.waiting);
    text += fmt::format("{} {} {} {} {}", metrics.tbt.count(), static_cast<std::int64_t>(metrics.tbt.sum()),
                        metrics.tbt.max(), metrics.processed_tokens, metrics.preemptions);
    return text;
  }

  sim::Engine engine;
  Instants instants{engine};
  LinearModel model;
  ServingMetrics metrics;
  RequestPool pool;
  Log log;
  std::vector<Job> jobs;
  std::unique_ptr<Replica> replica;
};

std::int64_t draw(sim::RandomStream& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

std::vector<Job> random_jobs(std::uint64_t seed, int count, std::int64_t span_ms) {
  sim::RandomStream random(seed, "jobs");
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) {
    Job job{};
    job.arrived_ms = draw(random, 0, span_ms);
    job.prompt = draw(random, 1, random.below(4) == 0 ? 1200 : 200);
    job.output = draw(random, 1, random.below(4) == 0 ? 400 : 60);
    if (random.below(30) == 0) job.prompt = 2048;  // too long with any output
    job.predicted = random.below(3) == 0 ? 0 : draw(random, 1, 2 * job.output);
    job.priority = static_cast<std::int32_t>(draw(random, -1, 1));
    job.tenant = static_cast<std::int32_t>(draw(random, 0, 3));
    job.branches = random.below(12) == 0 ? 2 : 1;
    if (i % 3 != 0) job.due_ms = job.arrived_ms + 100 * (i * i % 101);
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace

TEST_CASE("under every policy: each request ends once, tokens add up, no block leaks", "[prop]") {
  for (const Variant& variant : all_policies()) {
    CAPTURE(variant.policy, variant.params);
    for (const std::int64_t blocks : {280, 600}) {  // a request at the context limit, twice sampled, takes 256
      const std::vector<Job> jobs = random_jobs(static_cast<std::uint64_t>(blocks), 100, 40'000);
      Bench bench(variant, blocks, true);
      bench.run(jobs);
      const ServingMetrics& m = bench.metrics;
      std::vector<int> ends(jobs.size(), 0);
      std::int64_t prompt = 0, output = 0, gaps = 0, least = 0;
      for (std::size_t i = 0; i < bench.log.requests.size(); ++i) {
        const RequestRecord& r = bench.log.requests[i];
        const Job& job = jobs[static_cast<std::size_t>(r.id)];
        ++ends[static_cast<std::size_t>(r.id)];
        const bool too_long = job.prompt + job.output > 2048;
        CHECK(bench.log.statuses[i] == (too_long ? "rejected:context_exceeded" : "completed"));
        if (too_long) continue;
        prompt += job.prompt;
        output += job.output;
        gaps += (job.output - 1) * job.branches;
        least += job.prompt + (job.output - 1) * job.branches;
        CHECK(*r.admitted >= r.arrived);
        CHECK(*r.first_token > *r.admitted);
        CHECK(*r.finished >= *r.first_token);
      }
      CHECK(std::all_of(ends.begin(), ends.end(), [](int n) { return n == 1; }));
      CHECK(m.prompt_tokens == prompt);
      CHECK(m.output_tokens == output);
      CHECK(m.tbt.count() == gaps);
      // Every prompt token once, every output token but the last once, recomputation on top.
      CHECK(m.processed_tokens >= least);
      if (m.preemptions == 0) CHECK(m.processed_tokens == least);
      CHECK(bench.replica->kv().free_blocks() == blocks);
      CHECK(bench.replica->idle());
      CHECK(bench.engine.pending() == 0);
      sim::Time last;
      __int128 busy = 0;
      for (const IterationRecord& iteration : bench.log.iterations) {
        REQUIRE(iteration.start >= last);
        last = iteration.end;
        busy += (iteration.end - iteration.start).ticks;
      }
      CHECK(m.busy_ps == busy);
    }
  }
}

TEST_CASE("under every policy: leaping gives what stepping gives", "[prop]") {
  std::uint64_t leaps = 0, steps = 0;
  for (const Variant& variant : all_policies()) {
    CAPTURE(variant.policy, variant.params);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const std::vector<Job> jobs = random_jobs(seed, 70, seed == 1 ? 30'000 : 200'000);
      std::string stories[2];
      std::uint64_t events[2];
      for (const bool leap : {true, false}) {
        Bench bench(variant, seed == 1 ? 280 : 500, leap);
        bench.run(jobs);
        stories[leap] = bench.story();
        events[leap] = bench.engine.events();
      }
      // Not compared by CHECK: it would print both.
      const bool same = stories[true] == stories[false];
      CHECK(same);
      CHECK(events[true] <= events[false]);
      leaps += events[true];
      steps += events[false];
    }
  }
  CHECK(leaps < steps / 2);  // they do leap
}

TEST_CASE("under every policy with a cache of prefixes: requests end, nothing is counted twice, leaping is stepping",
          "[prop]") {
  // Prompts of four documents with a few questions each, in a cache that holds two or three of the longest: whoever
  // comes in matches what somebody holds who is preempted, evicted, or admitted in the same decision.
  for (const Variant& variant : all_policies()) {
    for (const std::string cache : {"block_hash", "radix"}) {
      CAPTURE(variant.policy, variant.params, cache);
      std::vector<Job> jobs = random_jobs(7, 60, 15'000);
      for (std::size_t i = 0; i < jobs.size(); ++i)
        jobs[i].text = {{1 + i % 4, 300}, {10 + i % 11, 250}, {1000 + i, 3000}};
      std::string stories[2];
      for (const bool leap : {true, false}) {
        Bench bench(variant, 280, leap, cache);
        bench.run(jobs);
        stories[leap] = bench.story();
        CHECK(bench.log.requests.size() == jobs.size());
        CHECK(bench.replica->idle());
        CHECK(bench.replica->kv().available_blocks() == bench.replica->kv().total_blocks());
      }
      const bool same = stories[true] == stories[false];
      CHECK(same);
    }
  }
}

TEST_CASE("nobody starves under load, but where a policy says so", "[prop]") {
  // Short jobs come faster than they can be served, eight at a time; a long one comes among the first. How many later
  // ones are admitted before it?
  const auto overtaken = [](const Variant& variant) {
    std::vector<Job> jobs;
    for (int i = 0; i < 500; ++i)
      jobs.push_back({.arrived_ms = i * 10,
                      .prompt = 30,
                      .output = 20,
                      .predicted = 20,
                      .priority = 0,
                      .tenant = 1,
                      .branches = 1});
    jobs[40].output = jobs[40].predicted = 300;
    jobs[40].prompt = 900;
    jobs[40].priority = -1;
    jobs[40].tenant = 2;
    Bench bench(variant, 300, true);
    bench.run(jobs);
    sim::Time admitted;
    for (const RequestRecord& r : bench.log.requests)
      if (r.id == 40) admitted = r.admitted.value();
    int before = 0;
    for (const RequestRecord& r : bench.log.requests)
      if (r.id > 40 && r.admitted && *r.admitted < admitted) ++before;
    return before;
  };
  // Policies whose order is meant to starve; those of caches with prefixes may favour what is cached for ever.
  const std::vector<std::string> may_starve{"priority", "sglang"};
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  for (const std::string& name : registry.names()) {
    CAPTURE(name);
    if (std::find(may_starve.begin(), may_starve.end(), name) != may_starve.end()) continue;
    // Aging of a token an arrival: a job predicted 280 tokens longer is overtaken by 280 at most.
    CHECK(overtaken({name, "{}"}) <= (name == "sjf" ? 280 : 30));
  }
  CHECK(overtaken({"sjf", R"({"aging": 10})"}) <= 28);
  // Controls: all that had come before the end.
  CHECK(overtaken({"sjf", R"({"aging": 0, "max_sequences": 8})"}) > 400);
  CHECK(overtaken({"priority", R"({"max_sequences": 8})"}) > 400);
}

TEST_CASE("vtc: tenants that both wait are served alike, whoever came first and whatever they ask", "[prop]") {
  // 300 requests of one tenant, then 100 of another with other lengths, all at once. Up to the admission of the last
  // of the second tenant both always wait. Service: 1 a prompt token, 2 an output token.
  std::vector<Job> jobs;
  for (int i = 0; i < 400; ++i) {
    const bool second = i >= 300;
    jobs.push_back({.arrived_ms = 0,
                    .prompt = second ? 300 : 100,
                    .output = second ? 20 : 50,
                    .predicted = 0,
                    .priority = 0,
                    .tenant = second ? 2 : 1,
                    .branches = 1});
  }
  const auto difference = [&](const Variant& variant) {
    Bench bench(variant, 300, true);
    bench.run(jobs);
    sim::Time last;
    for (const RequestRecord& r : bench.log.requests)
      if (r.id >= 300) last = std::max(last, r.admitted.value());
    std::int64_t served[2] = {0, 0};
    for (const RequestRecord& r : bench.log.requests)
      if (*r.admitted <= last) served[r.id >= 300] += r.prompt_tokens + 2 * r.output_tokens;
    return std::abs(served[0] - served[1]);
  };
  // The paper bounds it by 2 x the output weight x the tokens of the cache = 2 x 2 x 4,800. Each gets 34,000 here.
  CHECK(difference({"vtc", R"({"max_sequences": 16})"}) < 3'400);
  CHECK(difference({"vllm_v1", R"({"max_num_seqs": 16})"}) > 20'000);  // control: 60,000 before 34,000
}

}  // namespace test_batching_properties
