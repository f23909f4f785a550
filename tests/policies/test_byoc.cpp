#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "policies/placement/byoc_partition.hpp"
#include "tests/models/random_graph.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_byoc {

using namespace orrery;
using namespace orrery::models;
using policies::test::figure;
using policies::test::make_pass;
using policies::test::sorted_lines;
namespace byoc = policies::byoc;

namespace {

policies::PassContext context_of(std::int64_t batch = 16, std::uint64_t seed = 1) {
  policies::PassContext context;
  context.typical = {{"batch", batch}};
  context.seed = seed;
  return context;
}

/// Rates, links and a host; `target` is laid into the target's object.
std::string config(const std::string& target, const std::string& rest = "") {
  return R"({"host": {"matrix": "1 TFLOP/s", "vector": "0.1 TFLOP/s", "bandwidth": "50 GB/s", "call": "2 us"},
    "targets": [{"name": "npu", "rates": {"matrix": "20 TFLOP/s", "vector": "2 TFLOP/s", "bandwidth": "200 GB/s", "call": "5 us"},
                 "link": {"latency": "5 us", "bandwidth": "10 GB/s"}, )" +
         target + "}]" + (rest.empty() ? "" : ", " + rest) + "}";
}

std::size_t count(const OpGraph& graph, OpKind kind) {
  std::size_t n = 0;
  for (const OpId op : graph.ops()) n += graph.op(op).kind == kind ? 1 : 0;
  return n;
}

/// The graph without copies, regions dissolved and targets forgotten: what it was before.
OpGraph recovered(const OpGraph& placed) {
  const OpGraph flat = unfuse(placed);
  GraphCopy copy(flat);
  for (const OpId op : flat.ops()) {
    const OpNode& node = flat.op(op);
    if (node.kind == OpKind::to_host || node.kind == OpKind::to_device) {
      copy.put(node.outputs.front(), copy.at(node.inputs.front()));
      continue;
    }
    copy.to().annotate(copy.copy(op)).target.clear();
  }
  return copy.finish();
}

double flops_of(const OpGraph& graph) {
  return static_cast<double>(*total_work(graph, {{"batch", 16}}).flops().constant());
}

/// A random problem of `n` units in one line of execution, with uses among neighbours.
byoc::Problem random_problem(sim::RandomStream& random, int n) {
  byoc::Problem problem;
  const int targets = random.bernoulli(0.3) ? 2 : 1;
  for (int t = 0; t < targets; ++t)
    problem.targets.push_back({random.uniform(0, 3), random.uniform(0.1, 2), random.uniform(1, 10)});
  for (int i = 0; i < n; ++i) {
    byoc::Unit unit;
    unit.host_s = random.uniform(0, 4);
    unit.target_s = unit.host_s * random.uniform(0.02, 0.6);
    if (random.uniform() < 0.65)
      unit.target = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(targets)));
    problem.units.push_back(unit);
  }
  problem.values.push_back({-1, {0}, false, random.integer(1, 20)});
  for (int i = 0; i < n; ++i) {
    byoc::Value value{i, {}, i + 1 == n, random.integer(1, 20)};
    for (int j = i + 1; j < n && j < i + 5; ++j)
      if (random.uniform() < (j == i + 1 ? 0.7 : 0.25)) value.readers.push_back(j);
    if (value.readers.empty()) value.result = true;
    problem.values.push_back(value);
  }
  return problem;
}

/// The best of all sound partitions, by trying every one: a unit is on the host, in a region that there is, or in a new
/// one.
double best_by_brute_force(const byoc::Problem& problem) {
  byoc::Regions regions(problem.units.size(), -1);
  double best = std::numeric_limits<double>::infinity();
  const auto place = [&](const auto& self, std::size_t unit) -> void {
    if (unit == regions.size()) {
      if (byoc::is_sound(problem, regions)) best = std::min(best, byoc::price(problem, regions).latency_s);
      return;
    }
    regions[unit] = -1;
    self(self, unit + 1);
    if (problem.units[unit].target < 0) return;
    for (std::size_t first = 0; first < unit; ++first) {
      if (regions[first] != static_cast<std::int32_t>(first)) continue;  // a region is named after its first unit
      if (problem.units[first].target != problem.units[unit].target) continue;
      regions[unit] = static_cast<std::int32_t>(first);
      self(self, unit + 1);
    }
    regions[unit] = static_cast<std::int32_t>(unit);
    self(self, unit + 1);
    regions[unit] = -1;
  };
  place(place, 0);
  return best;
}

}  // namespace

TEST_CASE("A region costs its call, its units and its copies", "[unit]") {
  // Units 0 -> 1 -> 2, all on one target: host 4 s each, target 1 s each; call 2 s, copies 1 s + bytes / 10.
  byoc::Problem problem;
  problem.targets.push_back({2, 1, 10});
  problem.units.assign(3, {0, 4, 1});
  problem.values = {{-1, {0}, false, 10}, {0, {1}, false, 20}, {1, {2}, false, 20}, {2, {}, true, 10}};
  CHECK(byoc::price(problem, {-1, -1, -1}).latency_s == 12);
  // Each alone: 3 (2 + 1) + copies 2 + 3 + 3 + 3 + 3 + 2 = 25.
  const byoc::Price each = byoc::price(problem, byoc::offload_each(problem));
  CHECK(each.latency_s == 25);
  CHECK(each.transfers == 6);
  CHECK(each.bytes == 100);
  // Together: 2 + 3 + copies 2 + 2 = 9.
  const byoc::Regions merged = byoc::merge_adjacent(problem, byoc::offload_each(problem));
  CHECK(merged == byoc::Regions{0, 0, 0});
  CHECK(byoc::price(problem, merged).latency_s == 9);
  CHECK(byoc::price(problem, merged).transfers == 2);
  // Faster than 12 s on the host: accepted. With a call of 6 s it would be 13: refused.
  CHECK(byoc::accept_by_cost(problem, merged, true) == merged);
  problem.targets[0].call_s = 6;
  CHECK(byoc::accept_by_cost(problem, merged, true) == byoc::Regions{-1, -1, -1});
}

TEST_CASE("Regions do not merge where a path leaves and comes back", "[unit]") {
  // 0 -> 1 -> 2 and 0 -> 2; unit 1 is the host's.
  byoc::Problem problem;
  problem.targets.push_back({0, 1, 10});
  problem.units = {{0, 1, 1}, {-1, 1, 0}, {0, 1, 1}};
  problem.values = {{0, {1, 2}, false, 1}, {1, {2}, false, 1}, {2, {}, true, 1}};
  CHECK_FALSE(byoc::is_sound(problem, {0, -1, 0}));
  CHECK(byoc::merge_adjacent(problem, byoc::offload_each(problem)) == byoc::Regions{0, -1, 2});
  // The same through another target.
  problem.targets.push_back({0, 1, 10});
  problem.units[1].target = 1;
  CHECK(byoc::merge_adjacent(problem, byoc::offload_each(problem)) == byoc::Regions{0, 1, 2});
}

TEST_CASE("Regions by cost against the best of all partitions", "[prop]") {
  sim::RandomStream random(7, "byoc");
  int exact = 0;
  double worst = 1;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    const byoc::Problem problem = random_problem(random, 4 + static_cast<int>(random.below(9)));
    const byoc::Regions merged = byoc::merge_adjacent(problem, byoc::offload_each(problem));
    const byoc::Regions accepted = byoc::accept_by_cost(problem, merged, true);
    REQUIRE(byoc::is_sound(problem, merged));
    REQUIRE(byoc::is_sound(problem, accepted));
    const double host = byoc::price(problem, byoc::Regions(problem.units.size(), -1)).latency_s;
    const double ours = byoc::price(problem, accepted).latency_s, best = best_by_brute_force(problem);
    CHECK(ours <= host + 1e-9);
    CHECK(ours >= best - 1e-9);
    CHECK(byoc::price(problem, merged).latency_s <= byoc::price(problem, byoc::offload_each(problem)).latency_s + 1e-9);
    CHECK(byoc::price(problem, merged).transfers <= byoc::price(problem, byoc::offload_each(problem)).transfers);
    exact += ours <= best * (1 + 1e-9) ? 1 : 0;
    worst = std::max(worst, ours / best);
  }
  // Not proven to be optimal: giving back ops one by one can end short of giving back two. Measured: 197 of 200 exact.
  CHECK(exact >= kRuns * 9 / 10);
  CHECK(worst < 1.2);
}

TEST_CASE("A placed graph computes what it did and has the copies that were priced", "[prop]") {
  sim::RandomStream random(11, "byoc/graphs");
  for (int run = 0; run < 25; ++run) {
    const OpGraph graph = test::random_graph(random, {.ops = 24});
    for (const char* rest : {R"("merge": "none")", R"("merge": "adjacent")", R"("accept": "cost")"}) {
      const auto pass = make_pass("byoc", config(R"("ops": ["matmul", "relu", "gelu", "add", "softmax"],
          "patterns": ["matmul+relu", "matmul+add+gelu"], "share": 0.8)",
                                                 rest));
      policies::PassReport report;
      const OpGraph placed = pass->run(graph, context_of(), report);
      REQUIRE(verify(placed).empty());
      CHECK(flops_of(placed) == flops_of(graph));
      CHECK(static_cast<double>(count(placed, OpKind::to_host) + count(placed, OpKind::to_device)) ==
            figure(report, "transfers"));
      CHECK(sorted_lines(to_string(recovered(placed))) == sorted_lines(to_string(graph)));
      policies::PassReport again;
      CHECK(to_string(pass->run(graph, context_of(), again)) == to_string(placed));
      CHECK(again.figures == report.figures);
      if (std::string(rest).find("cost") != std::string::npos)
        CHECK(figure(report, "latency_s") <= figure(report, "host_latency_s") * (1 + 1e-12));
    }
  }
}

TEST_CASE("Patterns, priorities, views and shares of a target", "[unit]") {
  OpGraph graph;
  graph.name = "chain";
  const SymExpr batch = SymExpr::dim("batch");
  TensorId x = graph.input("x", {batch, 64}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {64, 64}, ElementType::fp16);
  x = graph.emit(OpKind::matmul, {x, w});
  x = graph.emit(OpKind::relu, {x});
  x = graph.emit(OpKind::reshape, {x}, {batch * 64}, ElementType::fp16);
  x = graph.emit(OpKind::exp, {x});
  graph.mark_output(x);
  policies::PassReport report;
  OpGraph placed = make_pass("byoc", config(R"("patterns": ["matmul + relu"])"))->run(graph, context_of(), report);
  // One region of matmul, relu and the reshape; its input and its output are copied, the weights are bound.
  CHECK(figure(report, "composites") == 1);
  CHECK(figure(report, "regions") == 1);
  CHECK(figure(report, "transfers") == 2);
  CHECK(figure(report, "transfer_bytes") == 2 * 16 * 64 * 2);
  CHECK(figure(report, "offloaded_ops") == 2);
  CHECK(figure(report, "supported_share") == Approx(2.0 / 3));
  CHECK(placed.op_count() == 4);
  CHECK(placed.op(static_cast<OpId>(1)).target == "npu");
  // A second target of higher priority takes the relu, so the first one's pattern does not fit any more.
  report = {};
  const std::string two = config(R"("ops": ["matmul"], "patterns": ["matmul+relu"])");
  std::string both = two;
  both.insert(both.find("}]"), R"(}, {"name": "dsp", "priority": 20, "ops": ["relu"])");
  placed = make_pass("byoc", both)->run(graph, context_of(), report);
  CHECK(figure(report, "regions") == 2);
  CHECK(figure(report, "composites") == 0);
  // No share, no region: the graph as it was.
  report = {};
  placed =
      make_pass("byoc", config(R"("ops": ["matmul", "relu", "exp"], "share": 0)"))->run(graph, context_of(), report);
  CHECK(to_string(placed) == to_string(graph));
  CHECK(figure(report, "latency_s") == figure(report, "host_latency_s"));
}

TEST_CASE("More is taken at a larger share", "[prop]") {
  sim::RandomStream random(3, "byoc/share");
  const OpGraph graph = test::random_graph(random, {.ops = 60});
  double last = -1;
  for (const char* share : {"0", "0.25", "0.5", "0.75", "1"}) {
    policies::PassReport report;
    static_cast<void>(
        make_pass("byoc", config(std::string(R"("ops": ["matmul", "add", "relu", "gelu"], "share": )") + share))
            ->run(graph, context_of(), report));
    CHECK(figure(report, "supported_share") >= last);
    last = figure(report, "supported_share");
  }
}

TEST_CASE("Faults of BYOC's tables say where and what is near", "[unit]") {
  const auto fault = [](const std::string& params) -> std::string {
    try {
      static_cast<void>(make_pass("byoc", params));
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(fault(config(R"("ops": ["matmull"])")) ==
        "/byoc/targets/0/ops: expected a kind of op that is one kernel, got 'matmull' (did you mean 'matmul'?)");
  CHECK(fault(config(R"("patterns": ["conv2d+rely"])")) ==
        "/byoc/targets/0/patterns: expected a kind of op that is one kernel, got 'rely' (did you mean 'relu'?)");
  CHECK(fault(R"({"targets": [{"ops": ["relu"]}]})").find("test.json:/targets/0/name") != std::string::npos);
  policies::PassReport report;
  OpGraph graph;
  graph.mark_output(graph.emit(OpKind::relu, {graph.input("x", {SymExpr::dim("batch")}, ElementType::fp16)}));
  CHECK_THROWS_WITH(make_pass("byoc", config(R"("ops": ["relu"])"))->run(graph, {}, report),
                    "no value for dimension 'batch'");
}

TEST_CASE("A unit that costs more there than it saves is given back, at either end", "[unit]") {
  // Copies take 1 s + bytes / 10. One unit takes 20 s on the host and 1 s on the target, the other 1 s and 9 s.
  byoc::Problem problem;
  problem.targets.push_back({0, 1, 10});
  problem.values = {{-1, {0}, false, 10}, {0, {1}, false, 10}, {1, {}, true, 10}};
  for (const std::size_t light : {0U, 1U}) {
    problem.units.assign(2, {0, 20, 1});
    problem.units[light] = {0, 1, 9};
    const byoc::Regions both{0, 0};
    // Together: 10 + 2 copies of 2 s = 14 s, for 21 s on the host. The heavy one alone: 1 + 4 s, and 1 s for the other.
    CHECK(byoc::price(problem, both).latency_s == 14);
    CHECK(byoc::accept_by_cost(problem, both, false) == both);
    const byoc::Regions trimmed = byoc::accept_by_cost(problem, both, true);
    CHECK(trimmed == (light == 0 ? byoc::Regions{-1, 0} : byoc::Regions{0, -1}));
    CHECK(byoc::price(problem, trimmed).latency_s == 6);
  }
}

TEST_CASE("Neighbours become one region if so wanted; times are of matrix and vector work, or of bytes", "[unit]") {
  OpGraph graph;
  graph.name = "pair";
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {64, 64}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, w})}));
  // The product has 2 x 16 x 64 x 64 = 131,072 FLOPs, the pass 16 x 64 = 1,024. On the host 2 + 4 s and a call of half
  // a second each; on the target 1 + 2 s. What moves is nothing beside that, or, at 1,024 B/s, 2,048 B of x, 8,192 of
  // weights and 2,048 of the result: 12 s where both are one, and 4 s more for what the product hands to the pass.
  const auto run = [&](const std::string& bandwidth, const std::string& target, const std::string& rest) {
    const std::string params =
        R"({"host": {"matrix": "65536 FLOP/s", "vector": "256 FLOP/s", "bandwidth": "1 TB/s", "call": "0.5 s"},
            "targets": [{"name": "npu", "link": {"latency": "0 s", "bandwidth": "1e6 TB/s"},
                         "rates": {"matrix": "131072 FLOP/s", "vector": "512 FLOP/s", "call": "0 s",
                                   "bandwidth": ")" +
        bandwidth + R"("}, )" + target + "}]" + rest + "}";
    policies::PassReport report;
    static_cast<void>(make_pass("byoc", params)->run(graph, context_of(), report));
    return report;
  };
  const std::string pattern = R"("patterns": ["matmul+relu"])", ops = R"("ops": ["matmul", "relu"])";
  for (const std::string& how : {pattern, ops}) {
    const policies::PassReport quick = run("1 TB/s", how, "");
    CHECK(figure(quick, "host_latency_s") == Approx(2 + 4 + 2 * 0.5));
    CHECK(figure(quick, "latency_s") == Approx(1 + 2));
    CHECK(figure(quick, "regions") == 1);
    CHECK(figure(quick, "transfers") == 2);
  }
  CHECK(figure(run("1024 B/s", pattern, ""), "latency_s") == Approx(12));
  CHECK(figure(run("1024 B/s", ops, ""), "latency_s") == Approx(12 + 4));
  const policies::PassReport apart = run("1 TB/s", ops, R"(, "merge": "none")");
  CHECK(figure(apart, "regions") == 2);
  CHECK(figure(apart, "transfers") == 4);  // x, the product's result back and there again, the result
}

TEST_CASE("Units are given back until no more pays, and what the host keeps is merged with nothing", "[unit]") {
  // Copies take 1 s + bytes / 10. Units 0 and 1 take 1 s on the host and 3 s on the target, unit 2 20 s and 1 s. From x
  // (1 s to copy) comes 0, from it (4 s) 1, from it (11 s) a result. Unit 0 does not pay first: 2 s less, x's copy
  // less, 4 s more for its result. Unit 1 does: 2 s less and 11 s less for 4 s more. Then unit 0 does, too.
  byoc::Problem problem;
  problem.targets.push_back({0, 1, 10});
  problem.units = {{0, 1, 3}, {0, 1, 3}, {0, 20, 1}};
  problem.values = {
      {-1, {0}, false, 0}, {0, {1}, false, 30}, {1, {}, true, 100}, {-1, {2}, false, 0}, {2, {}, true, 0}};
  CHECK(byoc::accept_by_cost(problem, {0, 0, 0}, true) == byoc::Regions{-1, -1, 0});
  // Both could run on the target, but one is the host's by now.
  problem.values = {{0, {1}, false, 30}, {1, {}, true, 100}};
  problem.units.resize(2);
  CHECK(byoc::merge_adjacent(problem, {0, -1}) == byoc::Regions{0, -1});
  CHECK(byoc::merge_adjacent(problem, {-1, 1}) == byoc::Regions{-1, 1});
}

namespace {

/// Regions of a problem at random: units of one target that are drawn together, named after the first of them.
byoc::Regions random_regions(sim::RandomStream& random, const byoc::Problem& problem) {
  byoc::Regions regions(problem.units.size(), -1);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (problem.units[i].target < 0 || random.bernoulli(0.3)) continue;
    regions[i] = static_cast<std::int32_t>(i);
    for (std::size_t j = 0; j < i; ++j)
      if (regions[j] == static_cast<std::int32_t>(j) && problem.units[j].target == problem.units[i].target &&
          random.bernoulli(0.4))
        regions[i] = regions[j];
  }
  return regions;
}

/// What a region's units read from outside or give to it, counted value by value.
std::vector<std::int64_t> copies_of(const byoc::Problem& problem, const byoc::Regions& regions, std::int32_t region) {
  std::vector<std::int64_t> bytes;
  for (const byoc::Value& value : problem.values) {
    const auto at = [&](std::int32_t unit) { return regions[static_cast<std::size_t>(unit)]; };
    const bool made = value.maker >= 0 && at(value.maker) == region;
    bool inside = false, outside = value.result;
    for (const std::int32_t reader : value.readers) (at(reader) == region ? inside : outside) = true;
    if (made ? outside : inside) bytes.push_back(value.bytes);
  }
  return bytes;
}

/// Whether a path leads from a unit of a region out of it and back.
bool sound_slowly(const byoc::Problem& problem, const byoc::Regions& regions) {
  // Reachability among regions and units of the host, closed by as many rounds as there are units.
  const std::size_t n = regions.size();
  const auto node = [&](std::size_t unit) {
    return regions[unit] >= 0 ? static_cast<std::size_t>(regions[unit]) : n + unit;
  };
  std::vector<std::vector<bool>> reaches(2 * n, std::vector<bool>(2 * n, false));
  for (const byoc::Value& value : problem.values)
    for (const std::int32_t reader : value.readers) {
      if (value.maker < 0) continue;
      const std::size_t from = node(static_cast<std::size_t>(value.maker)), to = node(static_cast<std::size_t>(reader));
      if (from != to) reaches[from][to] = true;
    }
  for (std::size_t by = 0; by < 2 * n; ++by)
    for (std::size_t from = 0; from < 2 * n; ++from)
      for (std::size_t to = 0; to < 2 * n; ++to)
        if (reaches[from][by] && reaches[by][to]) reaches[from][to] = true;
  for (std::size_t i = 0; i < 2 * n; ++i)
    if (reaches[i][i]) return false;
  return true;
}

}  // namespace

TEST_CASE("Prices of any partition are those of its copies, calls and units; soundness is that of all paths",
          "[prop]") {
  sim::RandomStream random(17, "byoc/prices");
  int sound = 0;
  for (int run = 0; run < 200; ++run) {
    const byoc::Problem problem = random_problem(random, 3 + static_cast<int>(random.below(8)));
    const byoc::Regions regions = random_regions(random, problem);
    byoc::Price slow;
    for (std::int32_t region = 0; region < std::ssize(regions); ++region) {
      byoc::RegionPrice own;
      std::int32_t target = -1;
      for (std::size_t i = 0; i < regions.size(); ++i)
        if (regions[i] == region) {
          target = problem.units[i].target;
          own.host_s += problem.units[i].host_s;
          own.target_s += problem.units[i].target_s;
        }
      const byoc::RegionPrice told = byoc::region_price(problem, regions, region);
      if (target >= 0) {
        ++slow.regions;
        const byoc::Target& there = problem.targets[static_cast<std::size_t>(target)];
        own.target_s += there.call_s;
        for (const std::int64_t bytes : copies_of(problem, regions, region)) {
          ++slow.transfers;
          slow.bytes += bytes;
          own.target_s += there.copy_latency_s + static_cast<double>(bytes) / there.copy_bandwidth;
        }
      }
      CHECK(told.host_s == Approx(own.host_s));
      CHECK(told.target_s == Approx(own.target_s));
      slow.latency_s += own.target_s;
    }
    for (std::size_t i = 0; i < regions.size(); ++i)
      if (regions[i] < 0) slow.latency_s += problem.units[i].host_s;
    const byoc::Price told = byoc::price(problem, regions);
    CHECK(told.latency_s == Approx(slow.latency_s));
    CHECK(told.transfers == slow.transfers);
    CHECK(told.bytes == slow.bytes);
    CHECK(told.regions == slow.regions);
    CHECK(byoc::is_sound(problem, regions) == sound_slowly(problem, regions));
    sound += byoc::is_sound(problem, regions) ? 1 : 0;
  }
  CHECK(sound > 20);
  CHECK(sound < 180);
}

TEST_CASE("A region that costs as much as the host stays there, and a unit that changes nothing in its region",
          "[unit]") {
  byoc::Problem problem;
  problem.targets.push_back({2, 1, 10});
  problem.units = {{0, 5, 1}};
  problem.values = {{-1, {0}, false, 0}, {0, {}, true, 0}};  // 2 + 1 + 1 + 1 s
  CHECK(byoc::accept_by_cost(problem, {0}, true) == byoc::Regions{-1});
  problem.units[0].host_s = 5.5;
  CHECK(byoc::accept_by_cost(problem, {0}, true) == byoc::Regions{0});
  // A second unit, apart from the first, that takes as long with its copy as on the host.
  problem.units.push_back({0, 3, 2});
  problem.values.push_back({-1, {1}, false, 0});
  CHECK(byoc::accept_by_cost(problem, {0, 0}, true) == byoc::Regions{0, 0});
  problem.units[1].target_s = 2.25;
  CHECK(byoc::accept_by_cost(problem, {0, 0}, true) == byoc::Regions{0, -1});
  CHECK(byoc::accept_by_cost(problem, {0, 0}, false) == byoc::Regions{0, 0});
  CHECK(byoc::accept_by_cost(problem, {-1, -1}, true) == byoc::Regions{-1, -1});
}

TEST_CASE("Neighbours merge by the order of the tensors between them, whichever target has the lower number",
          "[unit]") {
  // 0 and 1 of the second target, 2 of the first: 0 -> 1 -> 2, 0 -> 2.
  byoc::Problem problem;
  problem.targets.assign(2, {0, 1, 10});
  problem.units = {{1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  problem.values = {{-1, {0, 2}, false, 1}, {0, {1, 2}, false, 1}, {1, {2}, false, 1}, {2, {}, true, 1}};
  CHECK(byoc::offload_each(problem) == byoc::Regions{0, 1, 2});
  CHECK(byoc::merge_adjacent(problem, byoc::offload_each(problem)) == byoc::Regions{0, 0, 2});
  problem.units[1].target = -1;
  CHECK(byoc::offload_each(problem) == byoc::Regions{0, -1, 2});
  // A region is named after the one that makes the tensor.
  problem.units = {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}};
  problem.values = {{1, {2}, false, 1}, {0, {1}, false, 1}};
  CHECK(byoc::merge_adjacent(problem, {0, 1, 2}) == byoc::Regions{0, 0, 0});
  CHECK(byoc::merge_adjacent(problem, {-1, 1, 2}) == byoc::Regions{-1, 1, 1});
}

TEST_CASE("Targets of one priority take in the order of the list, each at its own share", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  for (int i = 0; i < 3; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  const auto targets_of = [&](const std::string& targets) {
    policies::PassReport report;
    const OpGraph placed = make_pass("byoc", R"({"merge": "none", "host": {}, "targets": [)" + targets + "]}")
                               ->run(graph, context_of(), report);
    std::vector<std::string> all;
    for (const OpId op : placed.ops())
      if (placed.op(op).kind == OpKind::relu) all.push_back(placed.op(op).target);
    CHECK(figure(report, "supported_share") ==
          static_cast<double>(std::count_if(all.begin(), all.end(), [](auto& one) { return !one.empty(); })) / 3);
    return all;
  };
  using Names = std::vector<std::string>;
  const std::string a = R"({"name": "a", "ops": ["relu"]})", b = R"({"name": "b", "ops": ["relu"]})";
  CHECK(targets_of(a + "," + b) == Names{"a", "a", "a"});
  CHECK(targets_of(b + "," + a) == Names{"b", "b", "b"});
  CHECK(targets_of(a + R"(, {"name": "b", "ops": ["relu"], "priority": 11})") == Names{"b", "b", "b"});
  CHECK(targets_of(a + R"(, {"name": "b", "ops": ["relu"], "priority": 9})") == Names{"a", "a", "a"});
  CHECK(targets_of(R"({"name": "a", "ops": ["relu"], "share": 0}, )" + b) == Names{"b", "b", "b"});
  CHECK(targets_of(R"({"name": "a", "ops": ["exp"]})") == Names{"", "", ""});
}

TEST_CASE("A view follows what makes its operand, unless its target leaves views to the host", "[unit]") {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  const TensorId x = graph.input("x", {batch, 64}, ElementType::fp16);
  const TensorId first = graph.emit(OpKind::reshape, {x}, {batch * 64}, ElementType::fp16);  // of an input: the host's
  const TensorId y = graph.emit(OpKind::relu, {first});
  graph.mark_output(graph.emit(OpKind::reshape, {y}, {batch, 64}, ElementType::fp16));
  const auto count_regions = [&](const std::string& more) {
    policies::PassReport report;
    const OpGraph placed =
        make_pass("byoc", R"({"host": {}, "targets": [{"name": "npu", "ops": ["relu"])" + more + "}]}")
            ->run(graph, context_of(), report);
    REQUIRE(verify(placed).empty());
    CHECK(figure(report, "regions") == 1);
    CHECK(figure(report, "offloaded_ops") == 1);
    CHECK(figure(report, "supported_share") == 1);
    return count(placed, OpKind::fused);
  };
  CHECK(count_regions("") == 1);  // relu and the view after it
  CHECK(count_regions(R"(, "views": false)") == 0);
  policies::PassReport report;
  CHECK(to_string(make_pass("byoc", R"({"targets": []})")->run(graph, context_of(), report)) == to_string(graph));
  CHECK(report.figures.empty());
}

TEST_CASE("A tensor that a region reads twice is copied once, and copies carry the region's place", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {64}, ElementType::fp16);
  graph.set_scope("layer.1");
  graph.set_phase(Phase::backward);
  const TensorId y = graph.emit(OpKind::mul, {x, x});
  graph.mark_output(graph.emit(OpKind::add, {y, w}));
  policies::PassReport report;
  const OpGraph placed = make_pass("byoc", R"({"host": {}, "targets": [{"name": "npu", "ops": ["mul", "add"]}]})")
                             ->run(graph, context_of(), report);
  REQUIRE(placed.op_count() == 3);  // there, the region, back
  const OpNode &there = placed.op(OpId{0}), &region = placed.op(OpId{1}), &back = placed.op(OpId{2});
  CHECK(there.kind == OpKind::to_device);
  CHECK(there.name == "x.to_npu." + region.name);
  CHECK(back.kind == OpKind::to_host);
  CHECK(back.name.ends_with(".to_host"));
  CHECK(region.kind == OpKind::fused);
  for (const OpNode* op : {&there, &region, &back}) {
    CHECK(op->target == "npu");
    CHECK(op->scope == "layer.1");
    CHECK(op->phase == Phase::backward);
  }
  CHECK(there.op_class == hw::OpClass::copy);
  CHECK(region.inputs.size() == 2);  // x and w, which is bound
  CHECK(figure(report, "transfers") == 2);
  CHECK(figure(report, "transfer_bytes") == 2 * 16 * 64 * 2);
  CHECK(placed.outputs().front() == back.outputs.front());
}

}  // namespace test_byoc
