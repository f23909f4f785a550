// Training jobs over weeks: failures, checkpoints, recovery; what is left of the time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/job/closed_form.hpp"
#include "experiments/job/failures.hpp"
#include "experiments/job/outcome.hpp"
#include "sim/base/random.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_job {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

job::JobConfig read(const std::string& text) {
  sim::Faults faults;
  job::JobConfig config =
      job::read_job_config(sim::parse_json(text, "job.json"), "training_job", *test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "job.json"))->run({}).summary;
}

/// What a config that is wrong is told.
std::string told(const std::string& text) {
  try {
    (void)read_experiment(test_systems(), sim::parse_json(text, "job.json"));
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "nothing";
}

/// A file with these failures.
std::string trace(const std::string& rows) {
  static const Scratch scratch;
  static int count = 0;
  return scratch.write("failures" + std::to_string(count++) + ".csv", rows).string();
}

/// Ten nodes, steps of 10 s, a checkpoint every 100 s, which takes 5 s; a restart takes 30 s.
std::string ten(const std::string& failures, const std::string& job = "", const std::string& rest = "") {
  return R"({"system": "training_job", "job": {"nodes": 10, "copies": 5, "stages": 2, "micro_batches": 4, "step": "10 s",
      "duration": "1000 s")" +
         job + R"(}, "failures": )" + failures +
         R"(, "checkpoint": {"interval": "100 s", "write": "5 s"}, "recovery": {"restart": "30 s"})" + rest + "}";
}

}  // namespace

TEST_CASE("job: closed forms of the best interval and of effective training time") {
  // sqrt(2 * 50 * 10,000) = 1,000; Daly: 1,000 (1 + sqrt(0.0025)/3 + 0.0025/9) - 50 = 966.94
  CHECK(job::young_interval_s(50, 10'000) == Approx(1000));
  CHECK(job::daly_interval_s(50, 10'000) == Approx(1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50));
  CHECK(job::daly_interval_s(300, 100) == 100);
  // 0.683 and 0.932: 2,000 nodes at 6.5 per 1,000 node-days fail every 6,646 s.
  const double mttf = 86400 / 13.0;
  CHECK(job::published_ettr({3600, 0, 300}, mttf) == Approx(1 - (300 + 1800) / mttf));
  CHECK(job::published_ettr({300, 0, 300}, mttf) == Approx(0.9323).margin(1e-4));
  CHECK(job::published_ettr({1e6, 0, 300}, mttf) == 0);
  // Few failures: what is lost is the pause, half an interval and the recovery.
  CHECK(job::exact_ettr({1000, 10, 100}, 1e7) == Approx(1 - 10.0 / 1010 - (505 + 100) / 1e7).margin(1e-6));
  CHECK(job::exact_ettr({1e6, 0, 0}, 1) == 0);
}

TEST_CASE("job: without failures only checkpoints take time") {
  // 100 s of steps and 5 s: 9 whole rounds are 945 s, then 5 steps; 5 s of the last step are cut off.
  const sim::Node summary = run(ten(R"({"trace": ")" + trace("time_s\n") + "\"}"));
  CHECK(summary.at("job.steps")->as_number() == 95);
  CHECK(summary.at("time_share.checkpoints")->as_number() == Approx(0.045));
  CHECK(summary.at("time_share.lost")->as_number() == Approx(0.005));
  CHECK(summary.at("ettr.mean")->as_number() == Approx(0.95));
  CHECK(summary.at("failures.mttr_s") == nullptr);
}

TEST_CASE("job: a failure costs the steps since the checkpoint, and the restart") {
  // At 152 s: 10 steps to 100 s, the checkpoint to 105 s, 4 steps to 145 s and 7 s of a fifth are lost; on at 182 s.
  const std::string traced = R"({"trace": ")" + trace("time_s,node\n152,3\n") + "\"}";
  const sim::Node summary = run(ten(traced));
  CHECK(summary.at("time_share.recovery")->as_number() == Approx(0.030));
  CHECK(summary.at("failures.mttr_s")->as_number() == Approx(30));
  CHECK(summary.at("failures.rollbacks")->as_number() == 1);
  // From 182 s: 818 s are 7 rounds of 105 s, then 8 steps and 3 s: 10 + 70 + 8 steps; 47 + 3 s lost.
  CHECK(summary.at("job.steps")->as_number() == 88);
  CHECK(summary.at("time_share.lost")->as_number() == Approx(0.050));
  // A failure while it restarts begins the restart anew: 152 -> 172 -> 202 s.
  const sim::Node twice = run(ten(R"({"trace": ")" + trace("time_s,node\n152,3\n172,4\n") + "\"}"));
  CHECK(twice.at("time_share.recovery")->as_number() == Approx(0.050));
  CHECK(twice.at("failures.all")->as_number() == 2);
}

TEST_CASE("job: asynchronous checkpoints count when they are written") {
  const auto outcome = [&](const std::string& time) {
    return run(R"({"system": "training_job", "job": {"nodes": 10, "step": "10 s", "duration": "1000 s"},
      "failures": {"trace": ")" +
               trace("time_s,node\n" + time + ",3\n") +
               R"("}, "checkpoint": {"kind": "asynchronous", "interval": "100 s", "pause": "1 s", "write": "60 s"},
      "recovery": {"restart": "30 s"}})");
  };
  // The copy ends at 101 s, the file at 161 s. A failure at 155 s finds no checkpoint: 155 - 1 s are lost; one at 165 s
  // loses what came after the copy.
  CHECK(outcome("155").at("time_share.lost")->as_number() * 1000 == Approx(154).margin(10));
  CHECK(outcome("165").at("time_share.lost")->as_number() * 1000 == Approx(64).margin(10));
  CHECK(outcome("155").at("time_share.checkpoints")->as_number() * 1000 <= 10);
}

TEST_CASE("job: copies in memory outlive one of two neighbours") {
  const auto lost = [&](const std::string& rows) {
    return run(R"({"system": "training_job", "job": {"nodes": 10, "step": "10 s", "duration": "500 s"},
      "failures": {"trace": ")" +
               trace("time_s,node\n" + rows) +
               R"("}, "checkpoint": {"interval": "1 h", "in_memory_steps": 1}, "recovery": {"restart": "30 s"}})")
               .at("time_share.lost")
               ->as_number() *
           500;
  };
  CHECK(lost("155,2\n") <= 15.01);         // the step at hand, and the one that the end cuts
  CHECK(lost("155,2\n156,5\n") <= 15.01);  // not neighbours
  CHECK(lost("155,2\n156,3\n") >= 150);    // both: back to the begin
}

TEST_CASE("job: a spare saves the wait for a repair") {
  const std::string traced = R"({"repair": "200 s", "trace": ")" + trace("time_s,node\n152,3\n") + "\"}";
  CHECK(run(ten(traced)).at("time_share.waiting")->as_number() == Approx(0.2));
  CHECK(run(ten(traced, R"(, "spares": 1)")).at("time_share.waiting")->as_number() == 0);
  // Two failures, one spare: the second one waits for the first node's return at 352 s, or the job for its own.
  const std::string twice = R"({"repair": "200 s", "trace": ")" + trace("time_s,node\n152,3\n300,4\n") + "\"}";
  CHECK(run(ten(twice, R"(, "spares": 1)")).at("time_share.waiting")->as_number() * 1000 == Approx(52));
}

TEST_CASE("job: nodes that are away slow a job down by policy, and it is whole again when they are back") {
  const std::string traced = R"({"repair": "300 s", "trace": ")" + trace("time_s,node\n105,0\n") + "\"}";
  const auto with = [&](const std::string& policy) {
    return run(ten(traced, "", R"(, "policies": {"recovery": {"policy": ")" + policy + "\"}}"));
  };
  // Of 5 copies one is gone for 300 s: a fifth of the sequences of those steps are left out.
  const sim::Node dropped = with("drop_replica");
  CHECK(dropped.at("time_share.slower")->as_number() * 1000 == Approx(300 * 0.2).margin(3));
  CHECK(dropped.at("failures.rollbacks")->as_number() == 0);
  // Two stages, 4 micro-batches: passes of 2 s. Peers run ceil(20 / 4) = 5 each: 10 s, no longer than the step was.
  CHECK(with("recycle").at("time_share.slower")->as_number() == Approx(0).margin(1e-9));
  // Stage 0 takes 5/4 as long: 2.5 + 2 + 3 * 2.5 = 12 s a step in place of 10.
  const sim::Node elastic = with("elastic");
  CHECK(elastic.at("time_share.slower")->as_number() * 1000 == Approx(300 * 2 / 12.0).margin(3));
  CHECK(with("restart").at("time_share.waiting")->as_number() == Approx(0.3));
}

TEST_CASE("job: every second of a history has one account, and steps are kept once") {
  sim::RandomStream random(11, "histories");
  int reached = 0;
  const std::vector<std::string> policies{"restart", "migrate", "drop_replica", "recycle", "elastic"};
  for (int round = 0; round < 120; ++round) {
    const std::string& policy = policies[static_cast<std::size_t>(random.integer(0, 4))];
    const bool ends = random.bernoulli(0.5);
    const job::JobConfig config = read(
        R"({"system": "training_job", "job": {"nodes": 12, "copies": 6, "stages": 2, "micro_batches": 6, "step": ")" +
        std::to_string(random.integer(1, 30)) + R"( s", "duration": ")" + (ends ? "4000 d" : "20 d") +
        R"(", "spares": )" + std::to_string(random.integer(0, 2)) + R"(, "steps": )" + (ends ? "20000" : "0") +
        R"(}, "failures": {"per_1000_node_days": )" + std::to_string(random.integer(100, 2000)) +
        R"(, "per_job_day": 0.5, "repair": ")" + std::to_string(random.integer(0, 4)) +
        R"( h"}, "checkpoint": {"kind": ")" + (random.bernoulli(0.5) ? "synchronous" : "asynchronous") +
        R"(", "interval": ")" + std::to_string(random.integer(1, 20)) +
        R"( min", "write": "40 s", "pause": "3 s", "in_memory_steps": )" + std::to_string(random.integer(0, 3)) +
        R"(}, "recovery": {"detect": "20 s", "communicator": "2 s"}, "policies": {"recovery": {"policy": ")" + policy +
        R"("}}, "run": {"seed": )" + std::to_string(round) + "}}");
    CAPTURE(policy, round);
    const job::JobShape shape = job::job_shape(config);
    double steps_before = 0, last = 0;
    bool in_order = true;
    const std::function<void(const job::JobEvent&)> tell = [&](const job::JobEvent& event) {
      in_order = in_order && event.end_s >= event.begin_s && event.end_s >= last - 1e-6;
      last = event.end_s;
      if (event.kind != job::EventKind::checkpoint) return;
      in_order = in_order && event.steps > steps_before - 1e-9;  // what a checkpoint has is never done again
      steps_before = event.steps;
    };
    const job::History history = job::play(config, shape, 0, tell);
    CHECK(in_order);
    const double wall = ends ? last : 20 * 86400.0;
    CHECK(history.seconds.whole() == Approx(wall).epsilon(1e-9));
    CHECK(history.seconds.productive == Approx(history.steps * shape.step_s).epsilon(1e-9));
    CHECK(history.steps >= steps_before - 1e-9);
    CHECK(static_cast<double>(history.runs) >= history.steps - 1e-6);
    for (const double account : {history.seconds.slower, history.seconds.lost, history.seconds.recovery,
                                 history.seconds.waiting, history.seconds.checkpoints})
      CHECK(account >= -1e-6);
    if (!ends) continue;
    if (!history.done) CHECK(wall == 4000 * 86400.0);
    if (history.done) CHECK(history.steps >= 20000 - 1e-6);
    CHECK(history.steps <= 20001);
    reached += history.done ? 1 : 0;
  }
  CHECK(reached >= 50);
}

TEST_CASE("job: events agree with the closed form of restarts") {
  for (const auto& [interval, nodes] :
       {std::pair{"60 min", 2000}, {"5 min", 2000}, {"60 min", 1000}, {"20 min", 8000}}) {
    const sim::Node summary = run(R"({"system": "training_job", "job": {"nodes": )" + std::to_string(nodes) +
                                  R"(, "step": "10 s", "duration": "30 d", "histories": 30},
        "failures": {"per_1000_node_days": 6.5}, "checkpoint": {"interval": ")" +
                                  interval + R"(", "write": "20 s"}})");
    CAPTURE(interval, nodes);
    CHECK(summary.at("ettr.mean")->as_number() == Approx(summary.at("ettr.closed_form")->as_number()).epsilon(0.015));
  }
}

TEST_CASE("job: rates of components give their counts, and policies meet the same failures") {
  const std::string text = R"({"system": "training_job", "job": {"nodes": 2048, "step": "6 s", "duration": "54 d"},
    "failures": {"repair": "1 d", "per_job_day": 0.1, "components": [{"name": "GPU", "per_1000_node_days": 1.34},
      {"name": "HBM", "per_1000_node_days": 0.65, "repair": "0 s"}]}, "policies": {"recovery": {"policy": "POLICY"}}})";
  const auto with = [&](std::string policy) {
    std::string own = text;
    own.replace(own.find("POLICY"), 6, policy);
    return run(own);
  };
  const sim::Node restart = with("drop_replica");
  // 2,048 nodes, 54 days: 148 and 72 are expected; 3 standard deviations are 36 and 25.
  CHECK(restart.at("failures.by_component.GPU")->as_number() == Approx(148).margin(36));
  CHECK(restart.at("failures.by_component.HBM")->as_number() == Approx(72).margin(25));
  // The same draws for any policy and interval.
  const job::JobConfig config = read(text.substr(0, text.find(R"(, "policies")")) + "}");
  job::FailureStream one(config.failures, 2048, 1, 0), same(config.failures, 2048, 1, 0),
      other(config.failures, 2048, 1, 1);
  const job::Failure first = one.next();
  CHECK(first.time_s == same.next().time_s);
  CHECK(first.time_s != other.next().time_s);
}

TEST_CASE("job: a training config gives the step, the grid and the state") {
  const std::string training =
      R"("machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 32}], "node": {"devices": 8}},
         "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-2-7b", "loss": true}}},
         "workload": {"sequence": 2048, "global_batch": 64, "tokens": 1e12, "price": 2},
         "plan": {"tensor_parallel": 8, "pipeline_parallel": 2, "sequence_parallel": true})";
  const sim::Node step = run(R"({"system": "training", )" + training + "}");
  const sim::Node job = run(R"({"system": "training_job", )" + training + "}");
  CHECK(job.at("job.step_s")->as_number() == step.at("iteration_s")->as_number());
  CHECK(job.at("job.nodes")->as_integer() == 4);
  // 6.74e9 parameters, 2 bytes each and 12 of the optimizer's.
  CHECK(job.at("job.state_bytes")->as_number() == Approx(14 * 6.74e9).epsilon(0.01));
  const double ettr = job.at("ettr.mean")->as_number();
  CHECK(job.at("tokens_per_s")->as_number() == Approx(ettr * step.at("tokens_per_s")->as_number()).epsilon(1e-6));
  CHECK(job.at("whole.cost")->as_number() == Approx(2 * job.at("whole.device_hours")->as_number()));
  // Node 0 has the first stage of copy 0 (8 ranks of tensor parallelism).
  const job::JobConfig config = read(R"({"system": "training_job", )" + training + "}");
  const job::JobShape shape = job::job_shape(config);
  CHECK(shape.copies == 2);
  CHECK(shape.cells[0] == std::vector<job::Cell>{{0, 0}});
  CHECK(shape.cells[3] == std::vector<job::Cell>{{1, 1}});
  // A step in which nothing is slower is the step.
  const std::vector<double> as_fast(2, 1);
  const std::vector<std::int64_t> layers{16, 16};
  CHECK(shape.step_with(as_fast, layers) == Approx(shape.step_s).epsilon(1e-9));
  // A measured step in place of the priced one.
  CHECK(run(R"({"system": "training_job", "job": {"step": "3 s"}, )" + training + "}").at("job.step_s")->as_number() ==
        3);
  // What does not fit is a result.
  std::string big = training;
  big.replace(big.find("2048"), 4, "131072");
  CHECK(run(R"({"system": "training_job", )" + big + "}").find("status")->as_string() == "infeasible");
}

TEST_CASE("job: goodput finds the interval that Daly's formula names") {
  const sim::Node answer = run(R"({"system": "goodput", "job": {"nodes": 2000, "step": "10 s", "duration": "30 d"},
    "failures": {"per_1000_node_days": 6.5}, "checkpoint": {"write": "60 s"}, "goodput": {"points": 5}})");
  // sqrt(2 * 60 * 6,646) = 893 s.
  CHECK(answer.at("checkpoint.young_s")->as_number() == Approx(std::sqrt(2 * 60 * 86400 / 13.0)));
  CHECK(answer.at("best.interval_s")->as_number() == Approx(answer.at("checkpoint.daly_s")->as_number()).epsilon(0.02));
  CHECK(answer.find("tried")->items().size() == 5);
  CHECK(answer.at("as_good.from_s")->as_number() <= answer.at("best.interval_s")->as_number());
  const sim::Node listed = run(R"({"system": "goodput", "job": {"nodes": 20, "step": "10 s"},
    "goodput": {"intervals": ["1 h", "30 min", "3601 s"]}})");
  CHECK(listed.find("tried")->items().size() == 2);  // 1 h and 3,601 s are as many whole steps
}

TEST_CASE("job: faults are told in a line each") {
  try {  // a fault of a section that training reads too is told once
    (void)read_experiment(test_systems(),
                          sim::parse_json(R"({"system": "training_job", "machine": {"devcies": []}})", "j"));
  } catch (const sim::ConfigError& error) {
    CHECK(std::ranges::count_if(error.faults(), [](const sim::Fault& fault) {
            return fault.text().find("devcies") != std::string::npos;
          }) == 1);
  }
  CHECK_THAT(told(R"({"system": "training_job"})"), Contains("/job/step: expected a time above 0"));
  CHECK_THAT(told(R"({"system": "training_job", "job": {"step": "1 s"}})"),
             Contains("/job/nodes: expected at least 1"));
  CHECK_THAT(told(ten(R"({"per_1000_node_days": 0})")), Contains("/failures/per_1000_node_days"));
  CHECK_THAT(told(R"({"system": "training_job", "job": {"nodes": 2, "step": "1 s", "copies": 9, "stages": 2}})"),
             Contains("expected copies and stages that fit 16 devices, 9 copies of 2 stages are 18"));
  CHECK_THAT(told(ten(R"({"trace": ")" + trace("time_s,node\n20,1\n10,1\n") + "\"}")),
             Contains("row 2: expected failures in order, 10 s after 20 s"));
  CHECK_THAT(told(ten(R"({"trace": ")" + trace("time_s,node\n20,10\n") + "\"}")),
             Contains("row 1: expected a node from 0 to 9, got 10"));
  CHECK_THAT(told(ten(R"({"trace": ")" + trace("time_s,node,repair_s\n20,1,-5\n") + "\"}")),
             Contains("expected a repair of 0 s or more, got -5"));
  CHECK_THAT(told(ten(R"({"per_1000_node_days": 1e9})", R"(, "histories": 1000)")),
             Contains("expected at most 20000000 failures"));
  CHECK_THAT(told(R"({"system": "training_job", "job": {"nodes": 2, "step": "1 s", "duration": "1e9 s"},
    "checkpoint": {"interval": "1 ms"}})"),
             Contains("expected at most 200000000 checkpoints"));
  CHECK_THAT(told(ten("{}", "", R"(, "policies": {"recovery": {"policy": "elastik"}})")), Contains("elastic"));
}

}  // namespace test_job
