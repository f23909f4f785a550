#include <algorithm>
#include <limits>

#include "policies/admission/request_rule.hpp"
#include "policies/batching/sequence_score.hpp"
#include "policies/expression_subjects.hpp"
#include "policies/routing/replica_score.hpp"
#include "sim/base/random.hpp"
#include "tests/policies/view.hpp"

namespace test_expression {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using Catch::Contains;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A batching policy whose queue has that order.
std::unique_ptr<Batching> ordered(const std::string& score, const std::string& more = "") {
  return make_batching("expression", R"({"score": ")" + score + "\"" + more + "}");
}

SeqId job(PaperReplica& replica, std::int64_t prompt, std::int64_t predicted) {
  const SeqId id = replica.wait(prompt);
  replica.sequences[id.index].predicted_tokens = predicted;
  return id;
}

std::unique_ptr<Router> router(const std::string& params) {
  RouterRegistry registry("routing");
  register_routers(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare("expression", &node, {}, faults);
  faults.throw_if_any();
  return choice.make(sim::RandomStream(1, "router"));
}

std::string fault_of(const std::string& score) {
  try {
    ordered(score);
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("keys of scores order as the scores do; what has no value is last", "[unit][prop]") {
  const std::vector<double> rising{-kInfinity, -1e300, -2, -1, -1e-300, 0, 1e-300, 1, 2, 1e300, kInfinity, kNan};
  for (std::size_t i = 1; i < rising.size(); ++i) CHECK(score_key(rising[i - 1]) < score_key(rising[i]));
  CHECK(score_key(-0.0) == score_key(0.0));
  CHECK(score_key(-kNan) == score_key(kNan));
  sim::RandomStream random(1, "keys");
  for (int i = 0; i < 10'000; ++i) {
    const double a = random.uniform(-10, 10), b = random.bernoulli(0.1) ? a : random.uniform(-10, 10);
    REQUIRE((score_key(a) < score_key(b)) == (a < b));
  }
}

TEST_CASE("expression: the least score goes first, equal ones by arrival", "[unit]") {
  PaperReplica replica(1000);
  const SeqId a = job(replica, 30, 50);
  const SeqId b = job(replica, 10, 70);
  const SeqId c = job(replica, 20, 50);
  CHECK(admitted(replica.decide(*ordered("order"))) == std::vector{a, b, c});
  CHECK(admitted(replica.decide(*ordered("0"))) == std::vector{a, b, c});
  CHECK(admitted(replica.decide(*ordered("-order"))) == std::vector{c, b, a});
  CHECK(admitted(replica.decide(*ordered("prompt_tokens"))) == std::vector{b, c, a});
  CHECK(admitted(replica.decide(*ordered("predicted_left"))) == std::vector{a, c, b});
  CHECK(admitted(replica.decide(*ordered("if(prompt_tokens < 25, -1, 1)"))) == std::vector{b, c, a});
  // Without a value: 10 - 20 < 0 has no root, so that b comes last.
  CHECK(admitted(replica.decide(*ordered("sqrt(prompt_tokens - 20)"))) == std::vector{c, a, b});
}

TEST_CASE("expression: scores may change while a sequence waits", "[unit]") {
  PaperReplica replica(1000);
  replica.now = sim::Time{0};
  const SeqId a = replica.wait(10);
  const SeqId b = replica.wait(60);
  replica.sequences[b.index].arrived = sim::Time{-2'000'000'000'000};  // 2 s ago
  const auto policy = ordered("prompt_tokens - 100 * waited_s", R"(, "max_sequences": 1)");
  CHECK(admitted(replica.decide(*policy)) == std::vector{b});  // 60 - 200 < 10
  const auto other = ordered("prompt_tokens - 10 * waited_s", R"(, "max_sequences": 1)");
  CHECK(admitted(replica.decide(*other)) == std::vector{a});  // 10 < 60 - 20
}

TEST_CASE("expression: a queue whose order may change does not hold while slots are free", "[unit]") {
  PaperReplica replica(10);
  replica.decode(100);  // 7 blocks of 10
  replica.wait(80);     // 5 blocks: does not fit
  CHECK(replica.decide(*ordered("order")).stable_iterations > 1);
  CHECK(replica.decide(*ordered("order - waited_s")).stable_iterations == 1);
  CHECK(replica.decide(*ordered("order - waited_s", R"(, "max_sequences": 1)")).stable_iterations > 1);
}

TEST_CASE("expression: whoever was preempted comes back to its place in the queue", "[unit]") {
  // Three decodes at a block's end of 3 x 2 blocks: the last goes, and waits; once the others are gone it is admitted.
  PaperReplica replica(6);
  const auto policy = ordered("order");
  const SeqId a = replica.decode(31, 2), b = replica.decode(31, 2), c = replica.decode(31, 2);
  const SeqId late = replica.wait(10);
  REQUIRE(preempted(replica.decide(*policy)) == std::vector{c});
  for (const SeqId id : {a, b, c}) replica.kv->release(id, replica.sequences[id.index], 32, Leave::drop);
  replica.running.clear();
  replica.decoding = 0;
  replica.sequences[a.index].order = replica.sequences[b.index].order = -1;  // they have ended
  Sequence& back = replica.sequences[c.index];
  back.phase = Phase::waiting;
  back.prefilled = back.kv_then = 0;
  back.prefill_tokens = 33;
  replica.waiting.push_front(c);
  CHECK(admitted(replica.decide(*policy)) == std::vector{c, late});
}

TEST_CASE("expression: nobody is admitted in place of who is stopped, though scores may change", "[unit]") {
  // 2 + 2 + 4 blocks of 8, all full: the last goes and leaves 2 beside what the others take, for a prompt of one.
  PaperReplica replica(8);
  replica.decode(31, 2);
  replica.decode(31, 2);
  const SeqId last = replica.decode(63, 2);
  replica.wait(10);
  for (const char* score : {"order", "order - waited_s"}) {
    const BatchDecision decision = replica.decide(*ordered(score));
    CHECK(preempted(decision) == std::vector{last});
    CHECK(decision.admit.empty());
  }
}

TEST_CASE("expression: the greatest of the other score is stopped, the earliest admitted never", "[unit]") {
  // Three decodes at a block's end, 3 x 2 blocks and 2 free: one has to go. Without a score it is the latest.
  PaperReplica replica(8);
  const SeqId a = replica.decode(31, 2);  // 32 tokens in the cache: the next takes a block
  const SeqId b = replica.decode(31, 2);
  const SeqId c = replica.decode(31, 2);
  replica.sequences[a.index].priority = 9;
  replica.sequences[b.index].priority = 5;
  CHECK(preempted(replica.decide(*ordered("order"))) == std::vector{c});
  CHECK(preempted(replica.decide(*ordered("order", R"(, "preempt": "priority")"))) == std::vector{b});
  CHECK(preempted(replica.decide(*ordered("order", R"(, "preempt": "0")"))) == std::vector{c});
  CHECK(preempted(replica.decide(*ordered("order", R"(, "preempt": "-order")"))) == std::vector{b});
  replica.admit_last(a);  // the line is b, c, a: b is spared now, and of equals a goes
  CHECK(preempted(replica.decide(*ordered("order"))) == std::vector{a});
  CHECK(preempted(replica.decide(*ordered("order", R"(, "preempt": "0")"))) == std::vector{a});
  CHECK(preempted(replica.decide(*ordered("order", R"x(, "preempt": "if(priority == 5, 9, order)")x"))) ==
        std::vector{c});
}

TEST_CASE("expression: faults say where and what was meant", "[unit]") {
  CHECK_THAT(fault_of("predicted_lft + 1"),
             Contains("column 1") && Contains("unknown name 'predicted_lft'") && Contains("predicted_left"));
  CHECK_THAT(fault_of("1 + max(order)"), Contains("column 5") && Contains("max2(a, b)"));
  CHECK_THAT(fault_of("order +"), Contains("column 8"));
  CHECK_THAT(fault_of("system(1)"), Contains("unknown function 'system'"));
  CHECK_THAT(fault_of(""), Contains("expected a number, a name"));
  CHECK_THAT(fault_of(std::string(5000, '1')), Contains("at most 4000 characters"));
  CHECK_THAT(fault_of(std::string(1000, '(')), Contains("fewer than 200 levels"));
  CHECK(fault_of("order").empty());
}

TEST_CASE("a router by an expression: the least, the first of equals, nobody without a value", "[unit]") {
  std::vector<ReplicaFacts> facts(3);
  facts[0].requests = 3;
  facts[1].requests = 2;
  facts[2].requests = 2;
  for (ReplicaFacts& one : facts) one.kv_total = 10;
  facts[1].kv_blocks = 5;
  RouteView view;
  view.replicas = facts;
  CHECK(router(R"({})")->route(view) == 1);
  CHECK(router(R"({"score": "-requests"})")->route(view) == 0);
  CHECK(router(R"({"score": "requests + kv_share"})")->route(view) == 2);
  CHECK(router(R"x({"score": "sqrt(2 - requests)"})x")->route(view) == 1);
  CHECK_FALSE(router(R"({"score": "requests"})")->reads_live());
  CHECK(router(R"({"score": "requests + kv_share"})")->reads_live());
  facts[0].weight = 3;  // 3/3 < 2/1
  CHECK(router(R"({})")->route(view) == 0);
}

TEST_CASE("admission by an expression: turned away where it is not 0", "[unit]") {
  AdmissionRegistry registry("admission");
  register_admission_controls(registry);
  const auto rule = [&](const std::string& text) {
    sim::Faults faults;
    const sim::Node node = sim::parse_json(R"({"reject": ")" + text + "\"}", "test");
    return registry.prepare("expression", &node, {}, faults).make();
  };
  std::vector<ReplicaFacts> facts(2);
  facts[0].requests = 3;
  facts[1].requests = 4;
  AdmissionView view;
  view.replicas = facts;
  view.parked = 1;
  CHECK(rule("requests + parked + 1 > 4 * replicas")->reject(view) == "expression");  // 9 > 8
  CHECK_FALSE(rule("requests + 1 > 4 * replicas")->reject(view));                     // 8 > 8
  CHECK_FALSE(rule("least_requests > 3")->reject(view));
  CHECK_FALSE(rule("sqrt(-1)")->reject(view));
  CHECK(rule("least_requests > ttft_target_s || 1")->reject(view));
}

TEST_CASE("names of expressions: sorted, once, described with a unit or without", "[unit]") {
  REQUIRE(expression_subjects().size() == 6);
  for (const ExpressionSubject& subject : expression_subjects()) {
    CAPTURE(subject.name);
    CHECK_FALSE(subject.paths.empty());
    for (std::size_t i = 0; i < subject.names.size(); ++i) {
      CAPTURE(subject.names[i].name);
      CHECK(sim::is_formula_name(subject.names[i].name));
      CHECK(std::string(subject.names[i].doc).ends_with("."));
      if (i > 0) CHECK(std::string(subject.names[i - 1].name) < subject.names[i].name);
    }
  }
}

TEST_CASE("expression: what changes while it waits is kept by the policy's own line: passed over, held up, settled",
          "[unit]") {
  for (const char* score : {"order", "order - waited_s"}) {
    CAPTURE(score);
    PaperReplica replica(10);
    replica.wait(161);  // never fits
    const SeqId a = replica.wait(96), b = replica.wait(65);
    replica.wait(10);
    CHECK(admitted(replica.decide(*ordered(score))) == std::vector{a});  // 6 of 10 blocks; then 5 do not fit
    replica.sequences[b.index].prefill_tokens = 64;
    CHECK(admitted(replica.decide(*ordered(score))) == std::vector{a, b});
    CHECK(items(replica.decide(*ordered(score, R"(, "token_budget": 100)"))) == Items{{a.index, 96}, {b.index, 4}});
    CHECK(admitted(replica.decide(*ordered(score, R"(, "max_sequences": 1)"))) == std::vector{a});
    PaperReplica alone(10);
    alone.decode(20);
    CHECK(alone.decide(*ordered(score)).stable_iterations == kStable);  // nobody waits
  }
}

TEST_CASE("expression: equal scores that change stand by arrival too", "[unit]") {
  PaperReplica replica(100);
  std::vector<SeqId> line;
  for (int i = 0; i < 4; ++i) line.push_back(replica.wait(10));
  std::reverse(replica.waiting.begin(), replica.waiting.end());
  CHECK(admitted(replica.decide(*ordered("0 * waited_s"))) == line);
}

TEST_CASE("expression: a policy with a fixed queue hears of who came back", "[unit]") {
  PaperReplica replica(100);
  const auto policy = ordered("order");
  const SeqId one = replica.wait(10);
  REQUIRE(admitted(replica.decide(*policy)) == std::vector{one});
  CHECK(replica.decide(*policy).admit.empty());
  policy->returned(one);
  CHECK(admitted(replica.decide(*policy)) == std::vector{one});
}

TEST_CASE("expression: each name of a sequence is what it says", "[unit]") {
  // A sequence and its replica on paper, and what every name has to give.
  PaperReplica replica(10);
  replica.now = sim::Time{3'000};
  replica.decode(20);  // 2 blocks of 10
  const SeqId id = replica.wait(40);
  replica.wait(5);
  Sequence& seq = replica.sequences[id.index];
  seq.arrived = sim::Time{1'000};
  seq.branches = 2;
  seq.ready_tokens = 30;
  seq.generated_then = 7;
  seq.kv_then = 3;
  seq.predicted_tokens = 9;
  seq.preemptions = 4;
  seq.prefill_tokens = 46;
  seq.priority = -5;
  seq.tenant = 6;
  seq.deadline_ticks = 5'000;
  BatchView view = replica.view();
  view.ps_per_tick = 1'000'000'000;  // milliseconds
  const auto value = [&](const std::string& name) { return SequenceScore(name)({view, id}); };
  for (const auto& [name, expected] : std::vector<std::pair<std::string, double>>{
           {"arrived_s", 1},      {"branches", 2},        {"compute_tokens", 16},
           {"deadline_s", 5},     {"decoding", 1},        {"generated_tokens", 7},
           {"kv_share", 0.2},     {"kv_tokens", 3},       {"now_s", 3},
           {"order", 1},          {"predicted_left", 2},  {"predicted_tokens", 9},
           {"preemptions", 4},    {"prefill_tokens", 46}, {"priority", -5},
           {"prompt_tokens", 40}, {"running", 1},         {"tenant", 6},
           {"waited_s", 2},       {"waiting", 2}}) {
    CAPTURE(name);
    CHECK(value(name) == Approx(expected));
  }
  CHECK(expression_subjects().front().names.size() == 20);
  seq.predicted_tokens = 5;
  CHECK(value("predicted_left") == 0);  // 7 are there
  seq.predicted_tokens = 0;
  CHECK(value("predicted_left") == 4096);
  seq.deadline_ticks = std::numeric_limits<std::int64_t>::max();
  CHECK(value("deadline_s") == kInfinity);
  seq.phase = Phase::prefill;
  seq.prefilled = 20;
  CHECK(value("compute_tokens") == 26);
}

TEST_CASE("names of expressions are components of their own, for those who list and describe", "[unit]") {
  const std::vector<sim::ComponentInfo> components = expression_components();
  REQUIRE(components.size() == expression_subjects().size());
  for (std::size_t i = 0; i < components.size(); ++i) {
    const ExpressionSubject& subject = expression_subjects()[i];
    CHECK(components[i].kind == subject.name + " expression");
    CHECK(components[i].name == "expression");
    CHECK(components[i].doc == subject.doc);
    REQUIRE(components[i].fields.size() == subject.names.size());
    for (std::size_t n = 0; n < subject.names.size(); ++n) {
      CHECK(components[i].fields[n].name == subject.names[n].name);
      CHECK(components[i].fields[n].type == "number");
      CHECK(components[i].fields[n].unit == subject.names[n].unit);
      CHECK(components[i].fields[n].doc == subject.names[n].doc);
    }
  }
}

}  // namespace test_expression
