// Walks that drop tensors and make them again: what may be dropped, in which order, and what a budget leaves.
#include <catch2/catch.hpp>

#include "models/graph/graph_rewrite.hpp"
#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/remat.hpp"
#include "policies/memory/schedule.hpp"
#include "tests/models/random_graph.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_remat {

using namespace orrery;
using namespace orrery::models;
using namespace orrery::policies;
using policies::test::figure;
using policies::test::make_pass;
using Ids = std::vector<std::size_t>;

namespace {

/// 64 rows of `width` columns of two bytes; the input x is the caller's.
TensorId input(OpGraph& graph, const char* name, std::int64_t width) {
  return graph.input(name, {64, width}, ElementType::fp16);
}
/// A product to `width` columns: bytes of its result are 128 a column.
TensorId product(OpGraph& graph, TensorId x, std::int64_t width) {
  const SymExpr from = graph.tensor(x).shape.back();
  const std::string name = "w" + std::to_string(graph.tensor_count());
  return graph.emit(OpKind::matmul, {x, graph.parameter(name, {from, width}, ElementType::fp16)});
}
/// Three products of x, 256 columns wide in between and 64 at the end: at the second 2 x 32,768 bytes are live beside
/// whatever waits.
TensorId wide(OpGraph& graph, TensorId x) {
  return product(graph, product(graph, product(graph, x, 256), 256), 64);
}
constexpr std::int64_t kWide = 2 * 64 * 256 * 2;

RematResult walk(
    const OpGraph& graph, std::int64_t limit, const DropScore& score = [](const Droppable&) { return 1.0; },
    const std::vector<bool>& may_drop = {}) {
  const Storages storages(graph);
  return run_schedule(storages, {}, limit, std::vector<double>(graph.op_count(), 1), may_drop, score);
}
Ids ids(const RematResult& result) {
  Ids all;
  for (const OpId id : result.ops) all.push_back(index(id));
  return all;
}

/// Reads c (of op 0) after a wide stretch (1 to 3): op 4.
OpGraph waiting() {
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId c = graph.emit(OpKind::relu, {x});
  graph.mark_output(graph.emit(OpKind::add, {c, wide(graph, x)}));
  return graph;
}

}  // namespace

TEST_CASE("an op can be repeated that changes nothing and draws nothing anew", "[unit]") {
  const auto can = [](OpKind kind, bool updates = false) {
    OpNode op;
    op.kind = kind;
    if (updates) op.set("updates", std::vector<SymExpr>{0});
    return repeatable(op);
  };
  for (const OpKind kind :
       {OpKind::relu, OpKind::matmul, OpKind::dropout, OpKind::reshape, OpKind::softmax, OpKind::fused})
    CHECK(can(kind));
  for (const OpKind kind : {OpKind::all_reduce, OpKind::to_host, OpKind::send, OpKind::branch, OpKind::loop,
                            OpKind::sampling, OpKind::optimizer_step, OpKind::kv_write, OpKind::custom})
    CHECK_FALSE(can(kind));
  CHECK_FALSE(can(OpKind::add, true));
}

TEST_CASE("ops take what the device says, or their bytes and FLOPs on one scale", "[unit]") {
  OpGraph graph;
  graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {graph.input("x", {100}, ElementType::fp16)})}));
  // 100 read and 100 written of two bytes, 100 operations.
  const std::vector<double> nominal = op_times(graph, {}, {});
  REQUIRE(nominal.size() == 2);
  CHECK(nominal[0] == Approx(500e-12));
  CHECK(nominal[1] == nominal[0]);
}

TEST_CASE("a tensor that waits is dropped where room is short, and made again before it is read", "[unit]") {
  const OpGraph graph = waiting();
  const RematResult tight = walk(graph, kWide);
  CHECK(ids(tight) == Ids{0, 1, 2, 3, 0, 4});
  CHECK(tight.dropped == 1);
  CHECK(tight.again == 1);
  CHECK(tight.again_s == 1);
  CHECK(tight.within_limit);
  CHECK_FALSE(tight.gave_up);
  // c has 8,192 bytes: with as much more it stays.
  CHECK(walk(graph, kWide + 8192).dropped == 0);
  CHECK(walk(graph, kWide + 8192).within_limit);
  CHECK(walk(graph, kWide + 8191).dropped == 1);
  // A byte too few for the wide ones: c goes, which does not suffice.
  CHECK(walk(graph, kWide - 1).dropped == 1);
  CHECK_FALSE(walk(graph, kWide - 1).within_limit);
}

TEST_CASE("what is scored 0, is not allowed, is given or cannot be repeated stays", "[unit]") {
  const OpGraph graph = waiting();
  CHECK(walk(graph, kWide, [](const Droppable&) { return 0.0; }).dropped == 0);
  CHECK(walk(graph, kWide, [](const Droppable&) { return -1.0; }).dropped == 0);
  CHECK_FALSE(walk(graph, kWide, [](const Droppable&) { return 0.0; }).within_limit);
  const auto one = [](const Droppable&) { return 1.0; };
  const Storages storages(graph);
  std::vector<bool> none(storages.all().size(), false), only = none;
  only[storages.of(graph.op(OpId{0}).outputs.front())] = true;
  CHECK(walk(graph, kWide, one, none).dropped == 0);
  CHECK(walk(graph, kWide, one, only).dropped == 1);
  OpGraph given = graph;
  given.mark_output(given.op(OpId{0}).outputs.front());
  CHECK(walk(given, kWide).dropped == 0);
  OpGraph opaque;
  const TensorId x = input(opaque, "x", 64);
  const TensorId c = opaque.emit(OpKind::custom, {x}, {64, 64}, ElementType::fp16);
  opaque.mark_output(opaque.emit(OpKind::add, {c, wide(opaque, x)}));
  CHECK(walk(opaque, kWide).dropped == 0);
}

TEST_CASE("the highest score goes first, of equals the first made, and no more than is needed", "[unit]") {
  // a, b and c wait side by side (8,192 bytes each) for op 6.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId a = graph.emit(OpKind::relu, {x}), b = graph.emit(OpKind::exp, {x}), c = graph.emit(OpKind::tanh, {x});
  graph.mark_output(graph.emit(OpKind::add_n, {a, b, c, wide(graph, x)}));
  CHECK(ids(walk(graph, kWide + 2 * 8192)) == Ids{0, 1, 2, 3, 4, 5, 0, 6});
  CHECK(ids(walk(graph, kWide + 8192)) == Ids{0, 1, 2, 3, 4, 5, 0, 1, 6});
  CHECK(walk(graph, kWide).dropped == 3);
  const std::size_t last = Storages(graph).of(c);
  const auto prefers_c = [&](const Droppable& one) { return one.storage == last ? 2.0 : 1.0; };
  CHECK(ids(walk(graph, kWide + 2 * 8192, prefers_c)) == Ids{0, 1, 2, 3, 4, 5, 2, 6});
}

TEST_CASE("an ingredient that is gone is made again too, and goes again at once", "[unit]") {
  // relu, exp of it (which alone reads it), a wide stretch, and a sum that reads the exp: ops 0, 1, 2 to 4, 5.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId c = graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})});
  graph.mark_output(graph.emit(OpKind::add, {c, wide(graph, x)}));
  std::vector<Droppable> seen;
  const RematResult result = walk(graph, kWide, [&](const Droppable& one) {
    seen.push_back(one);
    return 1.0;
  });
  CHECK(ids(result) == Ids{0, 1, 2, 3, 4, 0, 1, 5});
  CHECK(result.dropped == 1);
  CHECK(result.again == 2);
  CHECK(result.again_s == 2);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].bytes == 8192);
  CHECK(seen[0].depth == 2);
  CHECK(seen[0].regenerate_s == 2);
  CHECK(seen[0].uses_left == 1);
  CHECK(seen[0].steps_away == 2);
  // At the end c, its ingredient, the other operand and the sum: 4 x 8,192 bytes, less than the wide stretch.
  CHECK(result.within_limit);
}

TEST_CASE("what takes more than 64 ingredients to bring back is not worth a look", "[unit]") {
  const auto dropped = [](int length) {
    OpGraph graph;
    const TensorId x = input(graph, "x", 64);
    TensorId c = x;
    for (int i = 0; i < length; ++i) c = graph.emit(OpKind::relu, {c});
    graph.mark_output(graph.emit(OpKind::add, {c, wide(graph, x)}));
    return walk(graph, kWide).dropped;
  };
  CHECK(dropped(64) == 1);
  CHECK(dropped(65) == 0);
}

TEST_CASE("an ingredient that is overwritten before the tensor is read keeps it from being dropped", "[unit]") {
  // c is made of p, which a step updates: before c is read, by the op that reads it, or afterwards.
  const auto dropped = [](int when) {
    OpGraph graph;
    const TensorId x = input(graph, "x", 64), g = input(graph, "g", 64);
    const TensorId p = graph.parameter("p", {64, 64}, ElementType::fp16);
    const TensorId c = graph.emit(OpKind::relu, {p});
    const TensorId y = wide(graph, x);
    const auto update = [&](TensorId gradient) {
      OpNode step;
      step.kind = OpKind::optimizer_step;
      step.inputs = {p, gradient};
      step.attributes = {{"updates", std::vector<SymExpr>{0}}};
      Tensor next = graph.tensor(p);
      next.name += ".next";
      next.role = TensorRole::activation;
      graph.mark_output(graph.op(graph.add(std::move(step), {next})).outputs.front());
    };
    if (when == 0) update(g);
    if (when == 1)
      update(c);
    else
      graph.mark_output(graph.emit(OpKind::add, {c, y}));
    if (when == 1) graph.mark_output(y);
    if (when == 2) update(g);
    return walk(graph, kWide).dropped;
  };
  CHECK(dropped(0) == 0);
  CHECK(dropped(1) == 1);
  CHECK(dropped(2) == 1);
}

TEST_CASE("what others read later is not an ingredient that goes", "[unit]") {
  // relu is read by exp and, at the end, by the last sum: with both dropped the relu is made again once.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId c = graph.emit(OpKind::exp, {a});
  const TensorId y = graph.emit(OpKind::add, {c, wide(graph, x)});
  graph.mark_output(graph.emit(OpKind::add, {a, y}));
  const RematResult result = walk(graph, kWide);
  CHECK(ids(result) == Ids{0, 1, 2, 3, 4, 0, 1, 5, 6});
  CHECK(result.dropped == 2);
  CHECK(result.again == 2);
}

TEST_CASE("a budget is of everything, less what exists before and a reserve of the rest", "[unit]") {
  const OpGraph graph = waiting();
  const Liveness alive = liveness(graph, {});
  REQUIRE(alive.peak == kWide + 8192);
  const auto run = [&](std::optional<std::int64_t> budget, std::int64_t device, const std::string& reserve) {
    PassContext context;
    context.memory_bytes = device;
    PassReport report;
    const std::string size = budget ? R"("budget": ")" + std::to_string(*budget) + R"( B", )" : "";
    static_cast<void>(make_pass("raf_remat", "{" + size + R"("least_bytes": "0 B", "reserve": )" + reserve + "}")
                          ->run(graph, context, report));
    CHECK(figure(report, "live_before") == static_cast<double>(alive.peak));
    CHECK((figure(report, "live_after") < static_cast<double>(alive.peak)) == (figure(report, "dropped") > 0));
    CHECK(figure(report, "ops_again") == figure(report, "dropped"));
    CHECK((figure(report, "again_s") > 0) == (figure(report, "dropped") > 0));
    return std::pair(figure(report, "dropped"), figure(report, "within_limit"));
  };
  using Told = std::pair<double, double>;
  const std::int64_t all = alive.persistent + alive.peak;
  CHECK(run(all, 0, "0") == Told{0, 1});
  CHECK(run(all - 1, 0, "0") == Told{1, 1});
  CHECK(run(alive.persistent + kWide, 0, "0") == Told{1, 1});
  CHECK(run(alive.persistent + kWide - 1, 0, "0") == Told{1, 0});
  CHECK(run({}, all, "0") == Told{0, 1});
  CHECK(run({}, all - 1, "0") == Told{1, 1});
  CHECK(run(all, all - 1, "0") == Told{0, 1});  // the budget, not the device
  CHECK(run({}, 0, "0") == Told{0, 1});         // nothing is known
  // Half of twice what is needed is free for fragmentation.
  CHECK(run(alive.persistent + 2 * alive.peak, 0, "0.5") == Told{0, 1});
  CHECK(run(alive.persistent + 2 * alive.peak - 2, 0, "0.5") == Told{1, 1});
}

TEST_CASE("RAF keeps what is small, what stands on many ops, and drops what is read least and made soonest", "[unit]") {
  const auto dropped = [](const OpGraph& graph, const std::string& more) {
    const Liveness alive = liveness(graph, {});
    PassReport report;
    static_cast<void>(make_pass("raf_remat", R"({"budget": ")" + std::to_string(alive.persistent + alive.peak - 1) +
                                                 R"( B")" + more + "}")
                          ->run(graph, {}, report));
    return figure(report, "dropped");
  };
  const OpGraph one = waiting();
  CHECK(dropped(one, "") == 0);  // below a megabyte
  CHECK(dropped(one, R"(, "least_bytes": "8192 B")") == 1);
  CHECK(dropped(one, R"(, "least_bytes": "8193 B")") == 0);
  CHECK(dropped(one, R"(, "least_bytes": "0 B", "max_depth": 1)") == 0);
  CHECK(dropped(one, R"(, "least_bytes": "0 B", "max_depth": 2)") == 1);
}

TEST_CASE("RAF's score falls with the reads that are left", "[unit]") {
  // relu (read twice later) and exp (once), as large and as soon made: exp goes.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId a = graph.emit(OpKind::relu, {x}), b = graph.emit(OpKind::exp, {x});
  const TensorId y = graph.emit(OpKind::add_n, {a, b, wide(graph, x)});
  graph.mark_output(graph.emit(OpKind::add, {a, y}));
  const Liveness alive = liveness(graph, {});
  PassReport report;
  const OpGraph next = make_pass("raf_remat", R"({"least_bytes": "0 B", "budget": ")" +
                                                  std::to_string(alive.persistent + alive.peak - 1) + R"( B"})")
                           ->run(graph, {}, report);
  CHECK(figure(report, "dropped") == 1);
  int exps = 0;
  for (const OpId id : next.ops()) exps += next.op(id).kind == OpKind::exp ? 1 : 0;
  CHECK(exps == 2);
}

TEST_CASE("a tensor is a candidate if it waits and its ingredients need no more than it frees", "[unit]") {
  const auto candidates = [](const OpGraph& graph, const std::string& params = "{}") {
    PassReport report;
    static_cast<void>(make_pass("symbolic_remat", params)->run(graph, {}, report));
    return figure(report, "candidates");
  };
  OpGraph row;  // each is read at once
  TensorId y = input(row, "x", 64);
  for (int i = 0; i < 4; ++i) y = row.emit(OpKind::relu, {y});
  row.mark_output(y);
  CHECK(candidates(row) == 0);
  OpGraph gap;  // the first is read again two ops later
  y = input(gap, "x", 64);
  const TensorId first = gap.emit(OpKind::relu, {y});
  const TensorId second = gap.emit(OpKind::exp, {first});
  gap.mark_output(gap.emit(OpKind::add, {first, second}));
  CHECK(candidates(gap) == 0);  // one op between its reads
  OpGraph near;
  y = input(near, "x", 64);
  const TensorId waits = near.emit(OpKind::relu, {y});
  near.mark_output(near.emit(OpKind::add, {waits, near.emit(OpKind::tanh, {y})}));
  CHECK(candidates(near) == 1);  // read two ops later
  OpGraph two;
  y = input(two, "x", 64);
  const TensorId kept = two.emit(OpKind::relu, {y});
  const TensorId other = two.emit(OpKind::exp, {two.emit(OpKind::tanh, {y})});
  two.mark_output(two.emit(OpKind::add, {kept, other}));
  CHECK(candidates(two) == 1);  // op 0, read by op 3
  CHECK(candidates(waiting()) == 1);
  CHECK(candidates(waiting(), R"({"proof": false})") > 1);  // whatever there is

  // An ingredient of as many bytes is allowed, a larger one is not; one that lives on anyway takes nothing.
  const auto made_of = [&](std::int64_t width, bool lives) {
    OpGraph graph;
    const TensorId x = input(graph, "x", 16);
    const TensorId from = product(graph, x, width);
    const TensorId c = product(graph, from, 64);
    TensorId sum = graph.emit(OpKind::add, {c, wide(graph, x)});
    if (lives) sum = graph.emit(OpKind::add, {sum, product(graph, from, 64)});
    graph.mark_output(sum);
    return candidates(graph);
  };
  CHECK(made_of(64, false) == 1);
  CHECK(made_of(65, false) == 0);
  CHECK(made_of(256, true) == 2);  // it waits as well, and is made of x
}

TEST_CASE("of ops with one impact the one goes first that frees what is oldest, then the first", "[unit]") {
  // relu, exp and neg of x; then a sum of exp and neg (op 3) and one of relu and neg (op 4): both give one and free
  // one.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId a = graph.emit(OpKind::relu, {x}), b = graph.emit(OpKind::exp, {x}), e = graph.emit(OpKind::neg, {x});
  graph.mark_output(graph.emit(OpKind::add, {b, e}));
  graph.mark_output(graph.emit(OpKind::add, {a, e}));
  const auto order = [](const OpGraph& of, const Bindings* sizes = nullptr) {
    Ids all;
    for (const OpId id : order_by_memory(Storages(of), sizes).ops) all.push_back(index(id));
    return all;
  };
  CHECK(order(graph) == Ids{0, 1, 2, 4, 3});
  OpGraph turned;  // the other way round the first is the oldest too
  const TensorId z = input(turned, "x", 64);
  const TensorId c = turned.emit(OpKind::relu, {z}), d = turned.emit(OpKind::exp, {z}),
                 f = turned.emit(OpKind::neg, {z});
  turned.mark_output(turned.emit(OpKind::add, {c, f}));
  turned.mark_output(turned.emit(OpKind::add, {d, f}));
  CHECK(order(turned) == Ids{0, 1, 2, 3, 4});
  // Nothing to free: in the order given.
  OpGraph beside;
  for (const char* name : {"p", "q", "r"}) beside.mark_output(beside.emit(OpKind::relu, {input(beside, name, 64)}));
  CHECK(order(beside) == Ids{0, 1, 2});
}

TEST_CASE("impacts that cannot be compared go by age, those that can by proof, and both are counted", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch")}, ElementType::fp16),
                 y = graph.input("y", {SymExpr::dim("tokens")}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::relu, {x}));
  graph.mark_output(graph.emit(OpKind::exp, {y}));
  const MemoryOrder blind = order_by_memory(Storages(graph), nullptr);
  CHECK(blind.ops == std::vector<OpId>{OpId{0}, OpId{1}});
  CHECK(blind.unknown == 1);
  CHECK(blind.proven == 0);
  const Bindings sizes{{"batch", 100}, {"tokens", 1}};
  const MemoryOrder exact = order_by_memory(Storages(graph), &sizes);
  CHECK(exact.ops == std::vector<OpId>{OpId{1}, OpId{0}});
  CHECK(exact.unknown == 0);
  CHECK(exact.proven == 1);
  // From bounds: the one is never smaller than the other, whichever stands first.
  graph.facts.in_range(Symbol("batch"), {100, 200});
  graph.facts.in_range(Symbol("tokens"), {1, 100});
  const MemoryOrder proven = order_by_memory(Storages(graph), nullptr);
  CHECK(proven.ops == std::vector<OpId>{OpId{1}, OpId{0}});
  CHECK(proven.unknown == 0);
  OpGraph other;
  other.facts.in_range(Symbol("batch"), {1, 50});
  other.facts.in_range(Symbol("tokens"), {50, 60});
  other.mark_output(other.emit(OpKind::relu, {other.input("y", {SymExpr::dim("tokens")}, ElementType::fp16)}));
  other.mark_output(other.emit(OpKind::exp, {other.input("x", {SymExpr::dim("batch")}, ElementType::fp16)}));
  CHECK(order_by_memory(Storages(other), nullptr).ops == std::vector<OpId>{OpId{1}, OpId{0}});
}

TEST_CASE("views run as soon as they can", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x", 64), y = input(graph, "y", 64);
  const TensorId a = graph.emit(OpKind::relu, {x});                                                // 0
  graph.mark_output(graph.emit(OpKind::exp, {y}));                                                 // 1
  const TensorId seen = graph.emit(OpKind::reshape, {a}, {4096}, ElementType::fp16);               // 2
  graph.mark_output(graph.emit(OpKind::reduce_sum, {seen}, {{"axes", std::vector<SymExpr>{0}}}));  // 3
  // The relu and the exp make as much; after the relu its view, and then the sum, which frees it.
  CHECK(order_by_memory(Storages(graph), nullptr).ops == std::vector<OpId>{OpId{0}, OpId{2}, OpId{3}, OpId{1}});
}

TEST_CASE("ops named again make their results anew for whoever reads them after that", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId b = graph.emit(OpKind::exp, {a});
  graph.mark_output(graph.emit(OpKind::add, {a, b}));
  const OpGraph next = reordered(graph, {OpId{0}, OpId{1}, OpId{0}, OpId{2}});
  CHECK(verify(next).empty());
  REQUIRE(next.op_count() == 4);
  CHECK(next.op(OpId{1}).inputs.front() == next.op(OpId{0}).outputs.front());
  CHECK(next.op(OpId{3}).inputs[0] == next.op(OpId{2}).outputs.front());
  CHECK(next.op(OpId{3}).inputs[1] == next.op(OpId{1}).outputs.front());
  CHECK_THROWS_WITH(reordered(graph, {OpId{1}}), Catch::EndsWith("has no counterpart in the new graph"));
}

TEST_CASE("elementwise ops write new memory out of place, updates and others as before", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  TensorId y = graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})});
  y = graph.emit(OpKind::softmax, {y});
  OpNode update;
  update.kind = OpKind::add;
  update.inputs = {y, y};
  update.set("updates", std::vector<SymExpr>{0});
  graph.mark_output(graph.op(graph.add(std::move(update))).outputs.front());
  PassReport report;
  const OpGraph marked = make_pass("out_of_place")->run(graph, {}, report);
  CHECK(figure(report, "ops") == 2);
  for (const OpId id : marked.ops()) CHECK((marked.op(id).integer("in_place", 1) == 0) == (index(id) < 2));
  CHECK(liveness(graph, {}).lifetimes.at(1).in_place_of == 0);
  CHECK_FALSE(liveness(marked, {}).lifetimes.at(1).in_place_of);
}

TEST_CASE("a graph needs no more by either of two measures", "[unit]") {
  const GraphPeak peak{10, 20};
  CHECK(peak.never_above({10, 20}));
  CHECK(peak.never_above({11, 20}));
  CHECK_FALSE(peak.never_above({9, 20}));
  CHECK_FALSE(peak.never_above({10, 19}));
  OpGraph graph;
  graph.mark_output(graph.emit(OpKind::relu, {input(graph, "x", 64)}));
  const std::vector<Buffer> buffers = buffers_of(liveness(graph, {}), 256);
  REQUIRE(buffers.size() == 1);
  CHECK(buffers[0] == Buffer{0, 1, 8192, 256});
  CHECK(graph_peak(graph, {}).live == 8192);
  CHECK(graph_peak(graph, {}).planned == 8192);
}

TEST_CASE("reads that are left are counted from the next one on", "[unit]") {
  // relu is read before a wide stretch and twice after it: two reads are left when it may be dropped.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId c = graph.emit(OpKind::relu, {x});                                                // 0
  graph.mark_output(graph.emit(OpKind::reduce_sum, {c}, {{"axes", std::vector<SymExpr>{0, 1}}}));  // 1
  const TensorId sum = graph.emit(OpKind::add, {c, wide(graph, x)});                               // 2 to 4, and 5
  graph.mark_output(graph.emit(OpKind::mul, {sum, c}));                                            // 6
  std::vector<Droppable> seen;
  const RematResult result = walk(graph, kWide, [&](const Droppable& one) {
    seen.push_back(one);
    return 1.0;
  });
  REQUIRE(!seen.empty());
  CHECK(seen[0].uses_left == 2);
  CHECK(seen[0].steps_away == 2);  // from the second product to the sum
  CHECK(result.dropped == 1);
}

TEST_CASE("a tensor's longest stretch decides, wherever it stands", "[unit]") {
  // c is made of a wider tensor, read three ops later, when that tensor still lives on, and again long after its end.
  enum class Again { no, soon, late };
  const auto candidates = [](Again again) {
    OpGraph graph;
    const TensorId x = input(graph, "x", 16);
    TensorId start = x;
    for (int i = 0; i < 6; ++i) start = graph.emit(OpKind::relu, {start});  // so that numbers of ops are large
    const TensorId from = product(graph, start, 65);
    const TensorId c = product(graph, from, 64);
    const TensorId other = graph.emit(OpKind::exp, {from});
    const TensorId first = graph.emit(OpKind::add, {c, product(graph, other, 64)});
    std::vector<TensorId> terms{first, product(graph, graph.emit(OpKind::neg, {from}), 64)};
    if (again == Again::soon) terms.push_back(c);  // as long after the first read as that is after c
    TensorId sum = graph.emit(OpKind::add_n, terms);
    for (int i = 0; i < 6; ++i) sum = graph.emit(OpKind::tanh, {sum});
    if (again == Again::late) sum = graph.emit(OpKind::mul, {sum, c});
    graph.mark_output(sum);
    PassReport report;
    static_cast<void>(make_pass("symbolic_remat")->run(graph, {}, report));
    return figure(report, "candidates");
  };
  // Read once, c may be made again of what lives on; read at the end, its wider ingredient would have to be, too.
  CHECK(candidates(Again::no) - candidates(Again::late) == 1);
  CHECK(candidates(Again::soon) == candidates(Again::no));  // of equal stretches the first
  // A long stretch, and one op later another read.
  OpGraph graph;
  const TensorId x = input(graph, "x", 64);
  const TensorId c = graph.emit(OpKind::relu, {x});
  graph.mark_output(graph.emit(OpKind::mul, {graph.emit(OpKind::add, {c, wide(graph, x)}), c}));
  PassReport report;
  static_cast<void>(make_pass("symbolic_remat")->run(graph, {}, report));
  CHECK(figure(report, "candidates") == 1);
}

TEST_CASE("an order that would need more at a size that is known is not taken, and that is told", "[prop]") {
  sim::RandomStream random(21, "orders");
  int kept = 0, left = 0;
  for (int round = 0; round < 60; ++round) {
    const OpGraph graph = models::test::random_graph(random, {.ops = 14});
    for (const char* name : {"symbolic_schedule", "exact_schedule"}) {
      PassContext context;
      context.typical = {{"batch", 16}};
      PassReport report;
      const OpGraph next = make_pass(name)->run(graph, context, report);
      const OpGraph ordered = reordered(graph, order_by_memory(Storages(graph), nullptr).ops);
      const GraphPeak before = graph_peak(graph, context.typical), after = graph_peak(ordered, context.typical);
      const bool good = after.never_above(before);
      REQUIRE(figure(report, "reordered") == (good ? 1 : 0));
      REQUIRE(to_string(next) == to_string(good ? ordered : graph));
      CHECK(figure(report, "live_before") == static_cast<double>(before.live));
      CHECK(figure(report, "live_after") == static_cast<double>(after.live));
      (good ? kept : left) += 1;
    }
  }
  CHECK(kept > 0);
  CHECK(left > 0);
}

}  // namespace test_remat
