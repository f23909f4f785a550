// Reinforcement learning from feedback: times by hand, moves of weights, plans against all plans, iterations that keep
// their order, what cannot be.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/feedback/play.hpp"
#include "tests/experiments/support.hpp"
#include "tests/experiments/system_run.hpp"
#include "tests/systems.hpp"

namespace test_feedback {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using namespace orrery::experiments::feedback;
using Catch::Contains;

namespace {

const char* const kSections = R"("machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}],
  "node": {"devices": 4, "nic": "ib-ndr-4x", "nics": 4}},
  "models": [{"name": "actor", "config": "catalog:llama-3.2-1b"}, {"name": "judge", "config": "catalog:llama-3.2-1b"}],
  "calls": [{"name": "write", "model": "actor", "kind": "generate"},
            {"name": "score", "model": "judge", "kind": "infer", "after": ["write"]},
            {"name": "learn", "model": "actor", "kind": "train", "after": ["score"]}],
  "workload": {"prompt": 64, "generated": 64, "sequences": 32, "minibatches": 2}, "plans": {"choose": "one_plan"})";

sim::Node config(const std::vector<std::string>& assignments = {}) {
  sim::Node root = sim::parse_json(std::string("{\"system\": \"rlhf\", ") + kSections + "}", "rlhf.json");
  for (const std::string& one : assignments) sim::assign(root, one);
  return root;
}

FeedbackConfig read(const std::vector<std::string>& assignments = {}) {
  sim::Faults faults;
  FeedbackConfig all = read_feedback_config(config(assignments), *test_systems().registries(), faults);
  faults.throw_if_any();
  return all;
}

sim::Node run(const std::vector<std::string>& assignments = {}) {
  return read_experiment(test_systems(), config(assignments))->run({}).summary;
}

std::string fault(const std::vector<std::string>& assignments) {
  return faults_of_run([&] { return run(assignments); });
}

/// A layout for each of three calls.
std::vector<std::string> stated(const Layout& write, const Layout& score, const Layout& learn) {
  std::vector<std::string> all{"plans.choose=stated"};
  const Layout* const layouts[] = {&write, &score, &learn};
  for (int i = 0; i < 3; ++i) {
    const Layout& l = *layouts[i];
    const auto set = [&](const char* name, std::int64_t value) {
      all.push_back("calls." + std::to_string(i) + ".layout." + name + "=" + std::to_string(value));
    };
    set("first", l.first);
    set("data", l.shape.data);
    set("pipeline", l.shape.pipeline);
    set("tensor", l.shape.tensor);
  }
  return all;
}

}  // namespace

TEST_CASE("feedback: calls on the same devices follow one another") {
  // One plan: tensor parallelism over the node, so nothing moves and an iteration is the sum of its calls.
  const sim::Node summary = run();
  CHECK(figure(summary, "calls.write.tensor") == 4);
  CHECK(figure(summary, "moves_s") == 0);
  const double sum = figure(summary, "calls.write.time_s") + figure(summary, "calls.score.time_s") +
                     figure(summary, "calls.learn.time_s");
  CHECK(figure(summary, "iteration_s") == Approx(sum).epsilon(1e-9));
  CHECK(figure(summary, "busy") == Approx(1).epsilon(1e-9));
  CHECK(figure(summary, "calls.learn.critical_s") == Approx(figure(summary, "calls.learn.time_s")).epsilon(1e-9));
  CHECK(figure(summary, "sequences_per_s") == Approx(32 / sum).epsilon(1e-9));
  // The estimate prices every token at the mean context.
  CHECK(figure(summary, "estimate_s") == Approx(sum).epsilon(0.01));
}

TEST_CASE("feedback: minibatches are steps of their own, inference is one pass") {
  const double two = figure(run(), "calls.learn.time_s");
  const double one = figure(run({"workload.minibatches=1"}), "calls.learn.time_s");
  CHECK(two > one);      // the optimizer runs twice
  CHECK(two < 2 * one);  // on half of the batch each
  // A model that runs twice as many sequences in as many micro-batches takes at most twice as long.
  const double score = figure(run(), "calls.score.time_s");
  CHECK(figure(run({"workload.sequences=64"}), "calls.score.time_s") > score);
  CHECK(figure(run({"workload.sequences=64"}), "calls.score.time_s") <= 2 * score);
}

TEST_CASE("feedback: FLOPs as ReaLHF counts them") {
  // 1B: 16 layers, 2,048 wide, 8,192 inside, 128,256 words. A forward pass of t tokens with p pairs:
  // 2 x 16 (4 t 2048^2 + 2 p 2048 + 3 t 2048 8192) + 4 t 128256 2048.
  const auto forward = [](double t, double p) {
    return 32 * (4 * t * 2048 * 2048 + 2 * p * 2048 + 3 * t * 2048 * 8192) + 4 * t * 128256 * 2048;
  };
  // 32 prompts of 64; 64 tokens each whose contexts are 64, 65 … 127; inference once, training four times.
  const double written = forward(32 * 64, 32 * 64 * 64) + forward(32 * 64, 32 * 64 * (64 + 127) / 2.0);
  CHECK(figure(run(), "flops") == Approx(written + 5 * forward(32 * 128, 32 * 128 * 128)).epsilon(1e-12));
}

TEST_CASE("feedback: weights move only where they are not") {
  const FeedbackConfig all = read({"machine.devices.0.count=8"});
  const double bytes = 8e9;
  const auto move = [&](const Layout& from, const Layout& to) { return move_s(all.machine, bytes, from, to); };
  const auto local = [&](double share) { return training::message(all.machine, 0, 1, 1, share * bytes).time_s; };
  CHECK(move({0, {4, 1, 1}}, {0, {4, 1, 1}}) == 0);
  CHECK(move({0, {4, 1, 1}}, {0, {1, 1, 4}}) == 0);  // each has all and keeps a quarter
  CHECK(move({0, {1, 1, 4}}, {0, {4, 1, 1}}) == Approx(local(0.75)));
  CHECK(move({0, {1, 2, 2}}, {0, {1, 4, 1}}) ==
        Approx(local(0.125)));  // the other half of the quarter of layers that a rank keeps
  CHECK(move({0, {1, 1, 2}}, {2, {1, 1, 2}}) == Approx(local(0.5)));
  // To another node all weights go over its four adapters, a quarter each; there every device then has all.
  CHECK(move({0, {4, 1, 1}}, {4, {4, 1, 1}}) ==
        Approx(std::max(local(1), training::message(all.machine, 0, 4, 4, bytes / 4).time_s)));
}

TEST_CASE("feedback: no device runs two calls, calls keep their order, each runs once an iteration") {
  sim::RandomStream random(7, "feedback");
  int played = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const auto draw = [&] {
      const std::int64_t shapes[][4] = {{0, 4, 1, 1}, {0, 1, 4, 1}, {0, 1, 1, 4}, {0, 2, 1, 1}, {2, 2, 1, 1},
                                        {2, 1, 2, 1}, {0, 1, 1, 2}, {2, 1, 1, 2}, {1, 1, 1, 1}, {3, 1, 1, 1}};
      const auto& s = shapes[random.below(10)];
      return Layout{s[0], {s[1], s[2], s[3]}};
    };
    const CallPlan plan{draw(), draw(), draw()};
    std::vector<std::string> with = stated(plan[0], plan[1], plan[2]);
    const std::int64_t lag = static_cast<std::int64_t>(random.below(3));
    with.push_back("workload.lag=" + std::to_string(lag));
    with.push_back("run.iterations=20");
    const FeedbackConfig all = read(with);
    CallPricer pricer(all);
    const FeedbackRun run = play(all, pricer, plan);
    std::map<std::pair<std::int64_t, std::size_t>, CallRun> calls;
    for (const CallRun& one : run.runs)
      if (!one.move) CHECK(calls.emplace(std::make_pair(one.iteration, one.call), one).second);
    REQUIRE(calls.size() == static_cast<std::size_t>(3 * (20 + 2 * lag)));
    for (const auto& [key, one] : calls) {
      if (key.second > 0) CHECK(one.begin_s >= calls.at({key.first, key.second - 1}).end_s - 1e-9);
      if (key.second == 0 && key.first > lag) CHECK(one.begin_s >= calls.at({key.first - 1 - lag, 2}).end_s - 1e-9);
    }
    for (const CallRun& a : run.runs)
      for (const CallRun& b : run.runs) {
        if (&a == &b || a.begin_s >= b.end_s - 1e-12 || b.begin_s >= a.end_s - 1e-12) continue;
        const Layout &x = plan[a.call], &y = plan[b.call];
        CHECK((x.first + x.shape.devices() <= y.first || y.first + y.shape.devices() <= x.first));
      }
    CHECK(run.most_lag <= static_cast<double>(lag));
    // No overlap is faster than its bound; without a lag the first iteration is what list scheduling says.
    const double estimate = PlanEstimator(all, pricer).time_s(plan);
    // Generation may have run ahead by `lag` when the 19 iterations begin that are measured.
    if (lag > 0) CHECK(run.iteration_s >= (1 - static_cast<double>(lag) / 19) * estimate);
    if (lag == 0) CHECK(run.first_s == Approx(estimate).epsilon(0.01));
    ++played;
  }
  CHECK(played == 60);
}

TEST_CASE("feedback: a search finds what looking at all plans finds") {
  for (const char* driver : {"mcmc", "annealing"}) {
    std::vector<std::string> small{"plans.options=12", std::string("plans.driver.policy=") + driver,
                                   "plans.budget=20000"};
    small.push_back("plans.choose=exhaustive");
    const sim::Node all = run(small);
    small.back() = "plans.choose=searched";
    const sim::Node found = run(small);
    CHECK(figure(all, "plans.looked_at") == 12 * 12 * 12);
    CHECK(figure(found, "estimate_s") == Approx(figure(all, "estimate_s")).epsilon(1e-12));
  }
  // Whoever searches is never behind one plan for all, nor that behind the one of the rule.
  const double rule = figure(run(), "estimate_s");
  const double one = figure(run({"plans.choose=fastest_one_plan"}), "estimate_s");
  const double own = figure(run({"plans.choose=searched", "plans.budget=500"}), "estimate_s");
  CHECK(one <= rule);
  CHECK(own <= one);
}

TEST_CASE("feedback: a lag lets the longer of generation and training decide") {
  std::vector<std::string> apart = stated({0, {2, 1, 1}}, {2, {2, 1, 1}}, {2, {2, 1, 1}});
  apart.push_back("run.iterations=20");
  const sim::Node turns = run(apart);
  const double write = figure(turns, "calls.write.time_s");
  const double rest = figure(turns, "calls.score.time_s") + figure(turns, "calls.learn.time_s");
  CHECK(figure(turns, "iteration_s") == Approx(write + rest + figure(turns, "moves_s")).epsilon(1e-6));
  apart.push_back("workload.lag=2");
  const sim::Node behind = run(apart);
  // Weights go to the writers between two of their batches.
  CHECK(figure(behind, "iteration_s") == Approx(std::max(write + figure(behind, "moves_s"), rest)).epsilon(0.02));
  CHECK(figure(behind, "lag.most") <= 2);
}

TEST_CASE("feedback: sequences without room in the cache wait") {
  // A tenth of the memory is 8 GB, 2.5 GB of it weights: waves of half the sequences until their cache fits.
  const std::vector<std::string> tight{"workload.sequences=1024", "workload.generated=2000",
                                       "engine.generation_memory=0.1"};
  const sim::Node little = run(tight), much = run({tight[0], tight[1]});
  CHECK(figure(little, "calls.write.time_s") > 1.3 * figure(much, "calls.write.time_s"));
}

TEST_CASE("feedback: answers of unlike lengths are waited for, and train as many tokens as there are") {
  const auto fixed = [](std::int64_t tokens) {
    return std::vector<std::string>{"workload.answers.policy=fixed",
                                    "workload.answers.fixed.output=" + std::to_string(tokens)};
  };
  // All as long as is stated: one run is the other, but for contexts in 64 stretches.
  const sim::Node stated_alike = run(), drawn_alike = run(fixed(64));
  for (const char* path : {"calls.write.time_s", "calls.write.energy_j", "calls.learn.time_s", "flops"})
    CHECK(figure(drawn_alike, path) == Approx(figure(stated_alike, path)).epsilon(1e-3));
  CHECK(stated_alike.find("answers") == nullptr);
  // No more than `generated`.
  CHECK(figure(run(fixed(1000)), "answers.longest") == 64);
  const std::vector<std::string> unlike{"workload.generated=512", "workload.answers.policy=geometric",
                                        "workload.answers.geometric.output_mean=64"};
  const sim::Node summary = run(unlike);
  const double mean = figure(summary, "answers.mean"), longest = figure(summary, "answers.longest");
  CHECK(longest > 2 * mean);
  // Training goes by the mean, rounded up; writing is between that of the mean and that of the longest for all.
  const auto alike = [&](double tokens) { return run({"workload.generated=" + std::to_string(std::int64_t(tokens))}); };
  const sim::Node short_ones = alike(std::ceil(mean)), long_ones = alike(longest);
  CHECK(figure(summary, "calls.learn.time_s") == figure(short_ones, "calls.learn.time_s"));
  CHECK(figure(summary, "calls.write.time_s") > 1.5 * figure(short_ones, "calls.write.time_s"));
  CHECK(figure(summary, "calls.write.time_s") < figure(long_ones, "calls.write.time_s"));
  CHECK(figure(summary, "estimate_s") == Approx(figure(summary, "iteration_s")).epsilon(0.05));
  // The same answers over four copies: each waits for its own, the call for the longest.
  std::vector<std::string> apart = stated({0, {4, 1, 1}}, {0, {1, 1, 4}}, {0, {1, 1, 4}});
  apart.insert(apart.end(), unlike.begin(), unlike.end());
  const sim::Node copies = run(apart);
  CHECK(figure(copies, "answers.longest") == longest);
  CHECK(figure(copies, "calls.write.time_s") > 0);
}

TEST_CASE("feedback: energy is that of the training system, and idle power beside it") {
  const std::vector<std::string> plan = stated({0, {1, 1, 4}}, {0, {1, 1, 4}}, {0, {1, 2, 2}});
  const sim::Node summary = run(plan);
  // A minibatch of 16 sequences as four micro-batches on two stages, everything run again; two of them.
  const sim::Node step =
      read_experiment(
          test_systems(),
          sim::parse_json(R"({"system": "training", "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}],
      "node": {"devices": 4, "nic": "ib-ndr-4x", "nics": 4}},
      "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-3.2-1b", "loss": true}}},
      "workload": {"sequence": 128, "global_batch": 16},
      "plan": {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 4, "recompute": "full"}})",
                          "step.json"))
          ->run({})
          .summary;
  CHECK(figure(summary, "calls.learn.time_s") == Approx(2 * figure(step, "iteration_s")));
  CHECK(figure(summary, "calls.learn.energy_j") ==
        Approx(2 * (figure(step, "energy_j.total") - figure(step, "energy_j.idle"))));
  const double calls = figure(summary, "calls.write.energy_j") + figure(summary, "calls.score.energy_j") +
                       figure(summary, "calls.learn.energy_j");
  CHECK(figure(summary, "energy_j.total") == Approx(calls + figure(summary, "energy_j.idle")));
  const FeedbackConfig all = read();
  CHECK(figure(summary, "energy_j.idle") ==
        Approx(4 * all.machine.device.power.idle_w * figure(summary, "iteration_s")));
  // Writing reads all weights for every token, scoring once for all: far more energy for as many FLOPs.
  CHECK(figure(summary, "calls.write.energy_j") > 3 * figure(summary, "calls.score.energy_j"));
}

TEST_CASE("feedback: a value head gives a number in place of a vocabulary") {
  const sim::Node logits = run(), value = run({"models.1.value_head=true"});
  CHECK(figure(value, "calls.score.time_s") < figure(logits, "calls.score.time_s"));
  CHECK(figure(value, "calls.learn.time_s") == figure(logits, "calls.learn.time_s"));  // the actor's
  // Products of the head: 32 x 128 tokens of 2,048 by 128,256 words on four devices, at no more than their peak.
  const double saved = figure(logits, "calls.score.time_s") - figure(value, "calls.score.time_s");
  CHECK(saved > 2.0 * 32 * 128 * 2048 * 128256 / 4 / 989e12);
  // Two models of one config and one head are priced once, others apart.
  CHECK(read({"models.1.value_head=true"}).kinds.size() == 2);
  CHECK(read().kinds.size() == 1);
  // The head of 7B is its own: 31,999 x 4,096 weights less to move.
  const FeedbackConfig seven = read({"models.1.config=catalog:llama-2-7b", "models.1.value_head=true"});
  CallPricer pricer(seven);
  CHECK(pricer.weight_bytes(1) == Approx(2 * (6738415616.0 - 31999.0 * 4096)));
  CHECK_THAT(fault({"models.0.value_head=true"}),
             Contains("/calls/0/model: expected a model that writes, 'actor' has"));
}

TEST_CASE("feedback: weights that lie in the host's memory come before each call, and leave room between") {
  const std::vector<std::string> host{"machine.host_link=pcie5-x16", "models.1.in_host=true"};
  const sim::Node kept = run(), away = run(host);
  const FeedbackConfig all = read(host);
  CallPricer pricer(all);
  // Tensor parallelism over four: each device brings a quarter of the judge's weights over its own link.
  const double bytes = pricer.cost(all.calls[1], {1, 1, 4}).resident_bytes;
  CHECK(bytes == Approx(pricer.weight_bytes(1) / 4).epsilon(0.01));
  const double load = hw::transfer_time(*all.machine.host_link, static_cast<std::int64_t>(bytes));
  const auto figure = [](const sim::Node& of, const std::string& path) { return of.at(path)->as_number(); };
  CHECK(figure(away, "calls.score.load_s") == Approx(load));
  CHECK(figure(away, "calls.write.load_s") == 0);
  CHECK(figure(away, "calls.score.time_s") == Approx(figure(kept, "calls.score.time_s") + load));
  CHECK(figure(away, "iteration_s") == Approx(figure(kept, "iteration_s") + load));
  CHECK(figure(away, "estimate_s") == Approx(figure(kept, "estimate_s") + load));
  // While others run they are not on the device; the fullest call is another's.
  CHECK(figure(away, "memory_bytes") <= figure(kept, "memory_bytes"));
  CHECK(figure(away, "memory_bytes") >= figure(kept, "memory_bytes") - bytes - 1);
  PlanEstimator estimator(all, pricer);
  const CallPlan one(3, Layout{0, {1, 1, 4}});
  CHECK(estimator.host_bytes(one) == Approx(4 * bytes));
  std::vector<std::string> small = host;
  small.push_back("machine.host_memory=1 GiB");
  CHECK_THAT(run(small).find("reason")->as_string(), Contains("in their host's memory, it has 1 GiB"));
  CHECK_THAT(fault({"models.1.in_host=true"}), Contains("/models/1/in_host: expected machine.host_link"));
  CHECK_THAT(fault({"machine.host_link=pcie5-x16", "models.0.in_host=true"}),
             Contains("/models/0/in_host: expected false: 'learn' trains the model"));
}

TEST_CASE("feedback: what cannot be is said") {
  CHECK_THAT(fault({"calls.1.model=juge"}),
             Contains("/calls/1/model: expected one of models, got 'juge'") && Contains("did you mean 'judge'?"));
  CHECK_THAT(fault({"calls.1.after.0=learn"}), Contains("expected a call listed before it, got 'learn'"));
  CHECK_THAT(fault({"calls.1.name=write"}), Contains("expected a name of its own, 'write' is calls.0's too"));
  CHECK_THAT(fault({"models.1.name=actor"}), Contains("expected a name of its own, 'actor' is models.0's too"));
  CHECK_THAT(fault({"calls.1.kind=train", "calls.1.model=actor"}),
             Contains("expected one call that trains 'actor', 'score' does too"));
  CHECK_THAT(fault({"workload.minibatches=5"}), Contains("expected minibatches that divide 32 sequences, got 5"));
  CHECK_THAT(fault({"plans.choose=stated"}), Contains("/calls/0/layout: expected a layout: plans.choose is stated"));
  CHECK_THAT(fault(stated({2, {4, 1, 1}}, {0, {4, 1, 1}}, {0, {4, 1, 1}})),
             Contains("/calls/0/layout: expected devices 0 to 3, got 2 to 5"));
  CHECK_THAT(fault({"machine.slow_nodes=[{\"node\": 0, \"speed\": 0.5}]"}),
             Contains("/machine/slow_nodes: expected none: calls are priced on equal nodes"));
  CHECK_THAT(fault({"machine.devices.0.count=6"}), Contains("expected whole nodes of 4, got 6 devices"));
  CHECK_THAT(fault({"machine.devices.0.count=8192"}), Contains("expected at most 4096 devices, got 8192"));
  CHECK_THAT(fault({"models.0.config=catalog:lama-3.2-1b"}), Contains("lama-3.2-1b"));
  CHECK_THAT(run(stated({0, {3, 1, 1}}, {0, {4, 1, 1}}, {0, {4, 1, 1}})).find("reason")->as_string(),
             Contains("write: 3 copies do not divide 32 sequences"));
  CHECK_THAT(run({"models.0.config=catalog:llama-3.1-405b"}).find("reason")->as_string(), Contains("a device needs"));
  CHECK_THAT(
      run({"plans.choose=exhaustive", "plans.options=1000", "machine.devices.0.count=256", "workload.sequences=4096"})
          .find("reason")
          ->as_string(),
      Contains("are more than the 5e+06 that are all looked at"));
}

}  // namespace test_feedback
