// Tables of iterations and what stands beside them: knots, what is in the table and what is not, shares, the host.
#include <fmt/format.h>

#include <bit>

#include "experiments/systems/serving/pricing/clocked.hpp"
#include "experiments/systems/serving/pricing/host_store.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/iteration_stack.hpp"
#include "experiments/systems/serving/pricing/kernel_cost.hpp"
#include "experiments/systems/serving/pricing/lane_share.hpp"
#include "experiments/systems/serving/pricing/modal_iteration.hpp"
#include "experiments/systems/serving/pricing/op_profile.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "tests/experiments/support.hpp"
#include "tests/policies/view.hpp"
#include "tests/serving/replica_parts.hpp"

namespace test_pricing_tables {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

constexpr std::int32_t kLayers = 4;
constexpr std::int64_t kUs = 1'000'000;  // ps

/// `square` in every figure, each times a number of its own.
IterationCost figures(std::int64_t square) {
  IterationCost cost;
  cost.time_ps = square;
  cost.flops = 2 * square;
  cost.dram_bytes = 3 * square;
  cost.compute_pj = 4 * square;
  cost.memory_pj = 5 * square;
  cost.network_pj = 6 * square;
  for (std::size_t i = 0; i < cost.class_ps.size(); ++i) {
    cost.class_ps[i] = (7 + static_cast<std::int64_t>(i)) * square;
    cost.class_pj[i] = (50 + static_cast<std::int64_t>(i)) * square;
  }
  return cost;
}

/// The square of the context of decodes, and 1000 a token and 100'000 a mode beside it. It may keep entries.
class Squares final : public IterationModel {
 public:
  bool adds = false, keeps = false;
  std::int64_t asked = 0;
  void cost(const BatchShape& shape, IterationCost& out) override {
    ++asked;
    out.add(figures(amount(shape)));
  }
  void parts(const BatchShape& shape, CostParts& out) override {
    if (!keeps) return IterationModel::parts(shape, out);
    // Thousands as uses of the entry 70, what is left as the rest.
    out.uses.push_back({70, amount(shape) / 1000});
    out.add_rest(figures(amount(shape) % 1000), 1);
  }
  const IterationCost& entry(std::size_t index) const override {
    if (!keeps) return IterationModel::entry(index);
    CHECK(index == 70);
    return entry_;
  }
  bool additive() const override { return adds; }
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return 10 * from + to; }

 private:
  static std::int64_t amount(const BatchShape& shape) {
    std::int64_t sum = 100'000 * shape.mode;
    for (const Segment& segment : shape.segments)
      sum += segment.decode.context_tokens * segment.decode.context_tokens + 1000 * segment.tokens;
    return sum;
  }
  IterationCost entry_ = figures(1000);
};

BatchShape decodes(std::int64_t sequences, std::int64_t context, std::int64_t prompt = 0) {
  BatchShape shape;
  shape.sequences = shape.logit_rows = sequences + (prompt > 0 ? 1 : 0);
  Segment segment{.first = 0, .last = kLayers, .tokens = sequences + prompt, .decode = {sequences, context}};
  if (prompt > 0) segment.prefill.add(prompt, 0);
  shape.segments = {segment};
  return shape;
}

/// Knots, the largest not above a context and the next: all up to 8, then four an octave.
std::pair<std::int64_t, std::int64_t> knots_of(std::int64_t context) {
  std::int64_t at = 0, next = 1;
  while (next <= context) {
    at = next;
    next += at < 8 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(at))) / 4;
  }
  return {at, next};
}

/// The square on the straight line between the knots.
std::int64_t on_the_line(std::int64_t context) {
  const auto [a, b] = knots_of(context);
  return a * a + (a + b) * (context - a);
}

std::int64_t time_of(IterationModel& model, const BatchShape& shape) {
  IterationCost cost;
  model.cost(shape, cost);
  const IterationCost same = figures(cost.time_ps);
  CHECK(cost.flops == same.flops);
  CHECK(cost.dram_bytes == same.dram_bytes);
  CHECK(cost.compute_pj == same.compute_pj);
  CHECK(cost.memory_pj == same.memory_pj);
  CHECK(cost.network_pj == same.network_pj);
  CHECK(cost.class_ps == same.class_ps);
  CHECK(cost.class_pj == same.class_pj);
  const IterationPrice price = model.price(shape);
  CHECK(price.time_ps == cost.time_ps);
  CHECK(price.energy_pj == 15 * cost.time_ps);
  return cost.time_ps;
}

}  // namespace

TEST_CASE("a table of decodes is exact at its knots, and straight between them", "[unit]") {
  Squares exact;
  TabulatedIteration table(exact, kLayers);
  for (std::int64_t context = 1; context <= 300; ++context) {
    CAPTURE(context);
    CHECK(time_of(table, decodes(1, context)) == 1000 + on_the_line(context));
    const IterationPrice price = table.price(decodes(1, context));
    const auto [a, b] = knots_of(context);
    CHECK(price.step_ps == a + b);
    CHECK(price.step_energy_pj == 15 * (a + b));
    CHECK(price.horizon == b - context);
  }
  // Knots up to 320 at which a row was asked: 1 to 7, four an octave from 8 to 224, and 256, each with the one after
  // it.
  CHECK(exact.asked == 2 * (7 + 4 * 5 + 1));
  // Three sequences: their context grows by three a step, and passes a knot by one or two.
  for (const std::int64_t context : {40, 41, 42, 45, 46, 47}) {
    CAPTURE(context);
    const IterationPrice price = table.price(decodes(3, context));
    CHECK(price.time_ps == 3000 + on_the_line(context));
    CHECK(price.step_ps == 3 * (40 + 48));
    CHECK(price.horizon == (48 - context + 2) / 3);
  }
  CHECK(table.switch_ps(2, 3) == 23);
  CHECK_FALSE(table.additive());
}

TEST_CASE("what is no batch of decodes through all layers is not in the table", "[unit]") {
  Squares exact;
  TabulatedIteration table(exact, kLayers);
  // 81 lies between the knots 80 and 96.
  const auto difference = [&](const std::function<void(BatchShape&)>& change, std::int64_t sequences = 9) {
    BatchShape shape = decodes(sequences, 81);
    change(shape);
    IterationCost straight;
    exact.cost(shape, straight);
    const std::int64_t time = time_of(table, shape);
    const bool in_table = time != straight.time_ps;
    if (!in_table) CHECK(table.price(shape).horizon == 1);
    return in_table;
  };
  CHECK(difference([](BatchShape&) {}));
  CHECK(difference([](BatchShape& shape) { shape.mode = 1; }));
  CHECK(difference([](BatchShape& shape) { shape.sequences = 2; }));  // it has no say
  CHECK_FALSE(difference([](BatchShape& shape) { ++shape.segments[0].tokens; }));
  CHECK_FALSE(difference([](BatchShape& shape) { ++shape.logit_rows; }));
  CHECK_FALSE(difference([](BatchShape& shape) { shape.segments[0].variant = 1; }));
  CHECK_FALSE(difference([](BatchShape& shape) { shape.segments[0].first = 1; }));
  CHECK_FALSE(difference([](BatchShape& shape) { --shape.segments[0].last; }));
  CHECK_FALSE(difference([](BatchShape& shape) { shape.segments.push_back(shape.segments[0]); }));
  CHECK_FALSE(difference([](BatchShape& shape) { shape.segments.clear(); }));
  CHECK_FALSE(difference([](BatchShape& shape) { shape.segments[0].decode.sequences = 0; }, 0));
  CHECK(difference([](BatchShape&) {}, 81));
  CHECK_FALSE(difference([](BatchShape&) {}, 82));  // fewer tokens than there are sequences
}

TEST_CASE("rows of a table end at 8191 sequences", "[unit]") {
  Squares exact;
  TabulatedIteration table(exact, kLayers);
  // 81,920 and 98,304 are knots.
  const auto straight = [](std::int64_t n) { return 1000 * n + 81'921LL * 81'921; };
  CHECK(table.price(decodes(8191, 81'921)).time_ps == 1000 * 8191 + on_the_line(81'921));
  CHECK(on_the_line(81'921) != 81'921LL * 81'921);
  CHECK(table.price(decodes(8192, 81'921)).time_ps == straight(8192));
  // Attention beside prompts likewise.
  Squares adding;
  adding.adds = true;
  TabulatedIteration beside(adding, kLayers);
  const auto mixed = [&](std::int64_t n) { return beside.price(decodes(n, 81'921, 5)).time_ps - 5000; };
  CHECK(mixed(8191) == 1000 * 8191 + on_the_line(81'921));
  CHECK(mixed(8192) == straight(8192));
}

TEST_CASE("decodes alone and decodes beside a prompt share entries where attention adds", "[unit]") {
  // A row is its tokens once (without contexts), an entry two samples with contexts, at 80 and 96.
  Squares exact;
  exact.adds = true;
  TabulatedIteration table(exact, kLayers);
  CHECK(table.price(decodes(9, 83)).time_ps == 9'000 + on_the_line(83));
  CHECK(exact.asked == 3);
  CHECK(table.price(decodes(9, 84, 7)).time_ps == 16'000 + on_the_line(84));
  CHECK(exact.asked == 4);  // the prompt alone
  CHECK(table.price(decodes(9, 85)).time_ps == 9'000 + on_the_line(85));
  CHECK(exact.asked == 4);

  const auto ledger = table.ledger();
  ledger->book(decodes(9, 83), 1);
  ledger->book(decodes(9, 84, 7), 1);
  ledger->book(decodes(9, 82), 2);  // at 82 and 91
  const RunCost total = ledger->total();
  const std::int64_t time = 9'000 * 3 + 16'000 + on_the_line(83) + on_the_line(84) + on_the_line(82) + on_the_line(91);
  CHECK((total.time_ps == time));
  CHECK((total.flops == 2 * time));
  CHECK((total.class_pj.back() == (50 + hw::kOpClasses - 1) * static_cast<__int128>(time)));
}

TEST_CASE("the attention of decodes beside a prompt stands in the table where it adds", "[unit]") {
  for (const bool keeps : {false, true}) {
    CAPTURE(keeps);
    Squares exact;
    exact.keeps = keeps;
    TabulatedIteration table(exact, kLayers);
    CHECK(time_of(table, decodes(9, 81, 7)) == 16'000 + 81 * 81);
    exact.adds = true;
    TabulatedIteration added(exact, kLayers);
    CHECK(time_of(added, decodes(9, 81, 7)) == 16'000 + on_the_line(81));
    CHECK(time_of(added, decodes(9, 95, 3)) == 12'000 + on_the_line(95));
    // The same question again, another, and the first.
    CHECK(time_of(added, decodes(9, 95, 3)) == 12'000 + on_the_line(95));
    CHECK(time_of(added, decodes(9, 96, 3)) == 12'000 + 96 * 96);
    CHECK(time_of(added, decodes(9, 95, 3)) == 12'000 + on_the_line(95));
    const auto changed = [&](const std::function<void(BatchShape&)>& change) {
      BatchShape shape = decodes(9, 81, 7);
      change(shape);
      return time_of(added, shape);
    };
    constexpr std::int64_t kStraight = 16'000 + 81 * 81;
    CHECK(changed([](BatchShape& shape) { ++shape.logit_rows; }) == 16'000 + on_the_line(81));
    CHECK(changed([](BatchShape& shape) { shape.mode = 2; }) == 216'000 + on_the_line(81));
    CHECK(changed([](BatchShape& shape) { shape.segments[0].variant = 1; }) == kStraight);
    CHECK(changed([](BatchShape& shape) { shape.segments[0].first = 1; }) == kStraight);
    CHECK(changed([](BatchShape& shape) { --shape.segments[0].last; }) == kStraight);
    CHECK(changed([](BatchShape& shape) { shape.segments[0].decode.sequences = 0; }) == kStraight);
    CHECK(changed([](BatchShape& shape) { shape.segments[0].decode.sequences = 82; }) == kStraight);
    CHECK(changed([](BatchShape& shape) { shape.segments.push_back(shape.segments[0]); }) == 2 * kStraight);
    CHECK(time_of(added, decodes(0, 0, 7)) == 7000);
    CHECK(added.price(decodes(9, 81, 7)).horizon == 1);
    CHECK(added.price(decodes(9, 81, 7)).step_ps == 0);
  }
}

TEST_CASE("a ledger of a table sums what its iterations cost, and leaps only along it", "[unit]") {
  for (const bool keeps : {false, true}) {
    CAPTURE(keeps);
    Squares exact;
    exact.adds = true;
    exact.keeps = keeps;
    TabulatedIteration table(exact, kLayers);
    const auto ledger = table.ledger();
    RunCost sum;
    const auto add = [&](BatchShape shape, std::int64_t iterations) {
      for (std::int64_t i = 0; i < iterations; ++i) {
        IterationCost cost;
        table.cost(shape, cost);
        sum.add(cost);
        advance(shape, 1);
      }
    };
    const auto book = [&](const BatchShape& shape, std::int64_t iterations) {
      ledger->book(shape, iterations);
      add(shape, iterations);
    };
    CHECK(ledger->total().time_ps == 0);
    book(decodes(3, 40), 3);
    book(decodes(3, 41), 1);
    book(decodes(200, 4200), 2);
    book(decodes(2, 5, 7), 1);
    book(decodes(9, 81, 7), 1);
    book(decodes(9, 81, 7), 1);
    ledger->book_cost(figures(77));
    sum.add(figures(77));
    const RunCost total = ledger->total();
    CHECK(total.time_ps == sum.time_ps);
    CHECK(total.flops == sum.flops);
    CHECK(total.network_pj == sum.network_pj);
    CHECK(total.class_ps == sum.class_ps);
    CHECK(total.class_pj == sum.class_pj);
    CHECK_THROWS_WITH(ledger->book(decodes(9, 81, 7), 2), "a leap over iterations that are not in the table");
  }
}

TEST_CASE("a model that keeps no costs cannot be asked for one", "[unit]") {
  Squares exact;
  CHECK_THROWS_WITH(exact.entry(0), "an iteration model that keeps no costs was asked for one");
  CostParts parts;
  static_cast<IterationModel&>(exact).parts(decodes(1, 3), parts);
  CHECK(parts.has_rest);
  CHECK(parts.uses.empty());
  CHECK(parts.rest.time_ps == 1009);
  const IterationPrice price = exact.price(decodes(1, 3));
  CHECK(price.time_ps == 1009);
  CHECK(price.energy_pj == 15 * 1009);
  CHECK(price.horizon == 1);
}

TEST_CASE("shares of a cost are rounded down, figure by figure", "[unit]") {
  const IterationCost part = share(figures(10), 2, 3);
  CHECK(part.time_ps == 6);
  CHECK(part.flops == 13);
  CHECK(part.dram_bytes == 20);
  CHECK(part.compute_pj == 26);
  CHECK(part.memory_pj == 33);
  CHECK(part.network_pj == 40);
  CHECK(part.class_ps[0] == 46);
  CHECK(part.class_pj[1] == 340);
  // A lane has its share of work and energy, and all of the time.
  Squares all;
  LaneShare lane(all, 3);
  IterationCost of_lane;
  lane.cost(decodes(1, 3), of_lane);
  lane.cost(decodes(1, 3), of_lane);
  CHECK(of_lane.time_ps == 2 * 1009);
  CHECK(of_lane.class_ps[2] == 2 * 9 * 1009);
  CHECK(of_lane.flops == 2 * (2 * 1009 / 3));
  CHECK(of_lane.class_pj[0] == 2 * (50 * 1009 / 3));
  CHECK(lane.switch_ps(1, 2) == 12);
}

TEST_CASE("a replica of modes takes the price of each, and the time to get there", "[unit]") {
  const auto made = [](std::vector<std::int64_t> switches) {
    std::vector<std::unique_ptr<IterationModel>> modes;
    auto first = std::make_unique<Squares>();
    first->adds = true;
    modes.push_back(std::move(first));
    modes.push_back(std::make_unique<Squares>());
    return ModalIteration(std::move(modes), std::move(switches));
  };
  ModalIteration modal = made({7, 9});
  BatchShape shape = decodes(1, 3);
  shape.mode = 1;
  CHECK(time_of(modal, shape) == 101'009);
  CHECK(modal.additive());
  CHECK(modal.switch_ps(0, 1) == 9);
  CHECK(modal.switch_ps(1, 0) == 7);
  CHECK(modal.switch_ps(1, 1) == 0);
  CHECK(made({}).switch_ps(0, 1) == 0);
}

TEST_CASE("a store in host memory holds what it has room for, and the first copy of an instant waits", "[unit]") {
  sim::Engine engine(1, sim::TickScale{1000});
  HostStore store(engine, 2, 50, 1e12);  // two bytes a token, a byte a ps
  CHECK_FALSE(store.swap_out(1, 51, 0, 0));
  CHECK(store.swap_out(1, 20, 0, 0) == 0);
  CHECK(store.swap_out(1, 30, 0, 0) == 0);  // of the same request
  CHECK_FALSE(store.swap_out(2, 1, 0, 0));
  store.drop(7);
  CHECK_FALSE(store.swap_out(2, 1, 0, 0));
  // 100 ps are over within this tick; at the next one nothing is left. Copies back give their room back.
  struct Nothing final : sim::EventHandler {
    void on_event(std::uint64_t) override {}
  } nothing;
  engine.schedule_at(sim::Time{1}, nothing);
  engine.run();
  CHECK(store.swap_in(1, 50, 0, 0) == 0);
  CHECK(store.swap_out(2, 50, 0, 0) == 0);
  store.drop(2);
  CHECK(store.swap_out(3, 50, 0, 0) == 0);
  CHECK(copy_picoseconds(1.5e-12) == 2);
  CHECK(copy_picoseconds(8.9e6) == 8'900'000'000'000'000'000);
  CHECK_THROWS_WITH(copy_picoseconds(9e6), "a copy of 9e+06 s: check the host bandwidth");
}

TEST_CASE("a copy that lasts past the next decision stalls that by what is left, in ps of any tick", "[unit]") {
  sim::Engine engine(1, sim::TickScale{10});
  HostStore store(engine, 1, 1000, 1e12);
  CHECK(store.swap_out(1, 95, 0, 0) == 0);
  struct Asks final : sim::EventHandler {
    HostStore* store = nullptr;
    std::vector<std::int64_t> stalls;
    void on_event(std::uint64_t) override {
      stalls.push_back(*store->swap_out(2, 10, 0, 0));
      stalls.push_back(*store->swap_out(2, 10, 0, 0));
    }
  } asks;
  asks.store = &store;
  engine.schedule_at(sim::Time{3}, asks);   // until 95, 65 after 30
  engine.schedule_at(sim::Time{11}, asks);  // until 115, 5 after 110
  engine.schedule_at(sim::Time{20}, asks);
  engine.run();
  CHECK(asks.stalls == std::vector<std::int64_t>{65, 0, 5, 0, 0, 0});
}

TEST_CASE("engines by name: what their hosts add to an iteration", "[unit]") {
  // Two layers, three sequences.
  const auto host = [](const std::string& name, const std::string& params = "{}") {
    HostRegistry registry("host");
    register_host_times(registry);
    sim::Faults faults;
    const sim::Node node = sim::parse_json(params, "test");
    const auto choice = registry.prepare(name, &node, {}, faults);
    faults.throw_if_any();
    return choice.make(std::nullopt);
  };
  const auto time = [](const HostTime& of, std::int64_t devices_us, std::int64_t tokens, bool prompt = false) {
    BatchShape shape;
    shape.sequences = 3;
    shape.segments = {{.first = 0, .last = 2, .tokens = tokens}};
    if (prompt) shape.segments[0].prefill.add(tokens, 0);
    IterationPrice price{.time_ps = devices_us * kUs, .horizon = 5};
    of.apply(shape, price);
    return static_cast<double>(price.time_ps) / kUs;
  };
  CHECK(time(*host("serial"), 1000, 3) == 1000);
  CHECK_FALSE(host("serial")->decides_ahead());
  // Layers take 2 x 780 us to launch; 47 + 3 x 4.9 of scheduling and 3 x 20 of text are waited for.
  CHECK(time(*host("vllm_v0"), 1000, 3) == Approx(1560 + 47 + 14.7 + 60));
  CHECK(time(*host("vllm_v0"), 2000, 3) == Approx(2000 + 47 + 14.7 + 60));
  CHECK_FALSE(host("vllm_v0")->decides_ahead());
  // Schedule 200 + 3 x 5, prepare 500 + 3 x 2, sample 100, and a graph of 200 + 2 x 20 us, or layers of 60.
  const auto v1 = host("vllm_v1");
  CHECK(time(*v1, 0, 512, true) == Approx(215 + 506 + 100 + 240));
  CHECK(time(*v1, 0, 513) == Approx(215 + 506 + 100 + 120));
  CHECK(time(*v1, 1100, 512) == 1100);
  CHECK(v1->decides_ahead());
  CHECK_FALSE(host("vllm_v1", R"({"ahead": false})")->decides_ahead());
  // Schedule 215, prepare 300, sample 100, a graph of 300 us for decodes alone.
  const auto sglang = host("sglang");
  CHECK(time(*sglang, 0, 160) == Approx(215 + 300 + 100 + 300));
  CHECK(time(*sglang, 0, 161) == Approx(215 + 300 + 100 + 200));
  CHECK(time(*sglang, 0, 160, true) == Approx(215 + 300 + 100 + 200));
  CHECK(sglang->decides_ahead());
  CHECK_FALSE(host("sglang", R"({"ahead": false})")->decides_ahead());
  CHECK(host("overlapped")->decides_ahead());
  CHECK_FALSE(host("overlapped", R"({"ahead": false})")->decides_ahead());
  CHECK_FALSE(host("staged")->decides_ahead());
  CHECK(host("staged", R"({"ahead": true})")->decides_ahead());
  // Stages by themselves: beside 1000 us of devices what is hidden does not show; text is hidden unless it is said.
  const std::string stages = R"("schedule": "10 us", "prepare": "20 us", "sample": "40 us", "detokenise_sequence":
      "50 us", "prepare_token": "1 us", "schedule_sequence": "2 us", "prepare_sequence": "3 us",
      "sample_sequence": "4 us")";
  const auto staged = [&](const std::string& hidden) {
    return time(*host("staged", "{" + stages + hidden + "}"), 1000, 7);
  };
  const double schedule = 10 + 6, prepare = 20 + 9 + 7, sample = 40 + 12, text = 150;
  CHECK(staged("") == Approx(1000 + schedule + prepare + sample));
  CHECK(staged(R"(, "hide_schedule": true)") == Approx(1000 + prepare + sample));
  CHECK(staged(R"(, "hide_prepare": true)") == Approx(1000 + schedule + sample));
  CHECK(staged(R"(, "hide_sample": true)") == Approx(1000 + schedule + prepare));
  CHECK(staged(R"(, "hide_detokenise": false)") == Approx(1000 + schedule + prepare + sample + text));
  CHECK(time(*host("serial", "{" + stages + "}"), 1000, 7) == Approx(1000 + schedule + prepare + sample + text));
  CHECK(time(*host("overlapped", "{" + stages + "}"), 1000, 7) == 1000);
  CHECK(time(*host("overlapped", "{" + stages + "}"), 7, 7) == Approx(schedule + prepare + sample + text));
  // Another's time, and 6 us with 3 x 2 more that nothing hides.
  const AddedHostTime added(host("overlapped"), 6 * kUs, 2 * kUs);
  CHECK(time(added, 1000, 7) == 1012);
  CHECK(added.decides_ahead());
}

TEST_CASE("a captured graph is for so many tokens, of the segment with most of them", "[unit]") {
  HostStages stages;
  stages.launch_s = 90e-6;
  stages.graph_launch_s = 30e-6;
  stages.graph_launch_layer_s = 1e-6;
  stages.graph_tokens = 8;
  const auto time = [&](std::vector<Segment> segments) {
    BatchShape shape;
    shape.segments = std::move(segments);
    IterationPrice price;
    StagedHostTime(stages, {}).apply(shape, price);
    return price.time_ps / kUs;
  };
  CHECK(time({{.first = 0, .last = 5, .tokens = 8}}) == 35);
  CHECK(time({{.first = 0, .last = 5, .tokens = 9}}) == 90);
  CHECK(time({{.first = 0, .last = 2, .tokens = 8}, {.first = 2, .last = 5, .tokens = 7}}) == 35);
  CHECK(time({{.first = 0, .last = 2, .tokens = 3}, {.first = 2, .last = 5, .tokens = 9}}) == 90);
  Segment prompt{.first = 0, .last = 5, .tokens = 8};
  prompt.prefill.add(8, 0);
  CHECK(time({prompt}) == 35);
  stages.graph_prompts = false;
  CHECK(time({prompt}) == 90);
  CHECK(time({prompt, {.first = 0, .last = 0, .tokens = 1}}) == 90);
  CHECK(time({{.first = 0, .last = 5, .tokens = 8}}) == 35);
}

TEST_CASE("a horizon ends where the pace changes hands", "[unit]") {
  HostStages stages;
  stages.graph_launch_s = 100e-12;
  const auto applied = [&](std::int64_t time, std::int64_t step, std::int64_t horizon) {
    IterationPrice price{.time_ps = time, .step_ps = step, .horizon = horizon};
    StagedHostTime(stages, {}).apply({}, price);
    return std::vector<std::int64_t>{price.time_ps, price.step_ps, price.horizon};
  };
  using Price = std::vector<std::int64_t>;
  // 90, 95, 100: the third takes the devices as long. 90, 94, 98, 102: the fourth does.
  CHECK(applied(90, 5, 50) == Price{100, 0, 2});
  CHECK(applied(90, 4, 50) == Price{100, 0, 3});
  CHECK(applied(90, 4, 2) == Price{100, 0, 2});
  CHECK(applied(90, 0, 50) == Price{100, 0, 50});
  CHECK(applied(90, -3, 50) == Price{100, 0, 50});
  CHECK(applied(100, 5, 50) == Price{100, 5, 50});
  // Falling: 110, 105, 100 are the devices'; 99 is not.
  CHECK(applied(110, -5, 50) == Price{110, -5, 3});
  CHECK(applied(109, -5, 50) == Price{109, -5, 2});
  CHECK(applied(110, -5, 2) == Price{110, -5, 2});
  CHECK(applied(110, 5, 50) == Price{110, 5, 50});
}

TEST_CASE("whole picoseconds of kernels are rounded up, picojoules to the nearest, and neither is endless", "[unit]") {
  CHECK(kernel_ps(1.2e-12) == 2);
  CHECK(kernel_ps(2e-12) == 2);
  CHECK(kernel_pj(2.4e-12) == 2);
  CHECK(kernel_pj(2.6e-12) == 3);
  CHECK(kernel_ps(999) == 999'000'000'000'000);
  CHECK_THROWS_WITH(kernel_ps(1000), "a kernel of 1e+03 s: check the figures of the part");
  CHECK_THROWS_WITH(kernel_pj(2350), "a kernel of 2.35e+03 J: check the figures of the part");
}

TEST_CASE("a power policy can choose the clocks that there are, whose decisions hold as long as both say", "[unit]") {
  struct Chooses final : policies::ClockPolicy {
    std::int32_t clock = 0;
    bool holding = true;
    std::vector<policies::BatchSketch> seen;
    std::int32_t choose(const policies::ClockView& view) override {
      seen.push_back(view.next);
      return clock;
    }
    bool holds() const override { return holding; }
  };
  struct Decides final : policies::Batching {
    policies::BatchDecision says;
    void decide(const policies::BatchView&, policies::BatchDecision& out) override { out = says; }
    std::optional<std::string_view> reject(const policies::Sequence&, const policies::KvView&,
                                           const policies::ReplicaLimits&) const override {
      return "no";
    }
  };
  auto chooses = std::make_unique<Chooses>();
  auto decides = std::make_unique<Decides>();
  Chooses& policy = *chooses;
  Decides& batching = *decides;
  Squares model;
  ClockChoice choice;
  choice.policy = std::move(chooses);
  choice.clocks_hz = {2e9, 1e9};
  choice.model = &model;
  choice.layers = kLayers;
  const auto governed = with_clocks(std::move(decides), std::move(choice));
  policies::test::PaperReplica paper(100);
  CHECK(governed->reject({}, *paper.kv, {}) == "no");
  batching.says.stable_iterations = 9;
  policies::BatchDecision out = paper.decide(*governed);
  CHECK_FALSE(out.mode);  // nothing runs: nobody is asked
  CHECK(policy.seen.empty());
  CHECK(out.stable_iterations == 9);
  paper.decode(20);
  policy.clock = 1;
  out = paper.decide(*governed);
  CHECK(out.mode == 1);
  CHECK(out.stable_iterations == 9);
  policy.holding = false;
  CHECK(paper.decide(*governed).stable_iterations == 1);
  for (const std::int32_t wrong : {-1, 2}) {
    policy.clock = wrong;
    CHECK_THROWS_WITH(paper.decide(*governed), "a power policy chose a clock that there is not");
  }
  // A chunk of 30 behind 40 of a prompt and one of 5 of another, beside the decode: as one chunk, behind the longer.
  policy.clock = 0;
  const policies::SeqId a = paper.prefill(100, 40), b = paper.prefill(50, 10);
  batching.says.items = {{.seq = a, .new_tokens = 30}, {.seq = b, .new_tokens = 5}};
  paper.decide(*governed);
  CHECK(policy.seen.back().decodes == 1);
  CHECK(policy.seen.back().decode_context == 21);
  CHECK(policy.seen.back().chunk_tokens == 35);
  CHECK(policy.seen.back().chunk_past == 40);
  batching.says.decode_rest = false;
  CHECK(paper.decide(*governed).mode == 0);
  CHECK(policy.seen.back().decodes == 0);
}

TEST_CASE("measured curves: level before the first knot, straight between knots, going on past the last", "[unit]") {
  const OpProfile::Curve curve{{1, 4, 10, 20}, {10, 40, 70, 50}};
  std::vector<double> at;
  for (const double size : {0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0, 30.0, 45.0, 50.0}) at.push_back(curve(size));
  CHECK(at == std::vector<double>{10, 10, 20, 40, 55, 70, 60, 50, 30, 0, 0});
  const OpProfile::Curve one{{8}, {3}};
  CHECK(one(1) == 3);
  CHECK(one(100) == 3);
}

TEST_CASE("operator tables: each module that a layer needs is there, and none that nobody knows", "[unit]") {
  const Scratch scratch;
  const auto read = [&](const std::string& left_out, const std::string& dense_more = "", bool experts = false,
                        const std::string& rows = "lm_head,1,10\n") {
    std::string dense = "layer,tokens,time_us\n" + dense_more;
    for (const char* name : {"layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"})
      if (name != left_out) dense += std::string(name) + ",1,2\n";
    scratch.write("dense.csv", dense);
    scratch.write("per_sequence.csv", "layer,sequences,time_us\n" + rows);
    scratch.write("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,100,10\n10,0,0,0,8\n");
    fs::remove(scratch / "moe.csv");
    if (experts) scratch.write("moe.csv", "tokens,activated_experts,time_us\n4,6,1\n4,2,3\n8,2,5\n");
    try {
      const OpProfile profile = OpProfile::read(scratch / "");
      return fmt::format("{} {} {} experts {} of {}", profile.layer().size(), profile.once().size(),
                         profile.head().size(), profile.experts_per_token(), profile.experts());
    } catch (const sim::ConfigError& error) {
      return error.faults().front().message;
    }
  };
  CHECK(read("") == "7 0 1 experts 0 of 0");
  CHECK(read("", "embedding,1,2\nfinal_layernorm,1,2\nqk_norm,1,2\n", false, "lm_head,1,10\nsampler,1,1\n") ==
        "8 2 2 experts 0 of 0");
  for (const char* name : {"layernorm", "qkv_proj", "rotary_emb", "o_proj"})
    for (const bool experts : {false, true})
      CHECK(read(name, "", experts) == fmt::format("expected rows of '{}', found none", name));
  for (const char* name : {"gate_up_proj", "act_fn", "down_proj"}) {
    CHECK(read(name) == fmt::format("expected rows of '{}', found none", name));
    CHECK(read(name, "", true) == "6 0 1 experts 2 of 6");
  }
  CHECK(read("", "gate,1,2\n") == "module 'gate' is not known");
  CHECK(read("", "", false, "lm_head,1,10\nbeam,1,1\n") == "module 'beam' is not known");
  CHECK(read("", "", false, "sampler,1,1\n") == "expected rows of 'lm_head', found none");
  try {
    (void)OpProfile::read(scratch / "nowhere");
    FAIL();
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults().front().message == "expected a folder with dense.csv, per_sequence.csv and attention.csv");
  }
}

TEST_CASE("measured experts and attention stand between their tables' rows", "[unit]") {
  const Scratch scratch;
  std::string dense = "layer,tokens,time_us\n";
  for (const char* name : {"layernorm", "qkv_proj", "rotary_emb", "o_proj"}) dense += std::string(name) + ",1,2\n";
  scratch.write("dense.csv", dense);
  scratch.write("per_sequence.csv", "layer,sequences,time_us\nlm_head,1,10\n");
  scratch.write("moe.csv", "tokens,activated_experts,time_us\n4,6,10\n4,2,2\n8,2,6\n8,6,14\n");
  scratch.write("attention.csv",
                "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,100,10\n0,0,3,100,40\n"
                "10,0,0,0,8\n30,0,0,0,48\n10,20,0,0,18\n30,20,0,0,78\n");
  const OpProfile profile = OpProfile::read(scratch / "");
  CHECK(profile.has_experts());
  CHECK(profile.experts_us(4, 2) == Approx(2));
  CHECK(profile.experts_us(4, 4) == Approx(6));
  CHECK(profile.experts_us(6, 4) == Approx(8));  // 6 and 10
  CHECK(profile.experts_us(12, 2) == Approx(10));
  CHECK(profile.experts_us(1, 6) == Approx(10));
  CHECK(profile.attention_us(0, 0, 2, 100) == Approx(25));
  CHECK(profile.attention_us(-1, 0, 2, 100) == Approx(25));
  CHECK(profile.attention_us(20, 0, 0, 0) == Approx(28));
  CHECK(profile.attention_us(20, 10, 0, 0) == Approx((28 + 48) / 2.0));
  models::PrefillSums none;
  CHECK(profile.attention_us(none, 2, 100) == Approx(25));
  CHECK(profile.attention_us(none, 0, 100) == 0);
  // Several chunks with fewer pairs than one of their tokens: what a chunk of one token takes, and a share of the rest.
  models::PrefillSums three;
  for (int i = 0; i < 3; ++i) three.add(10, 0);
  const double least = 8, whole = 48;
  CHECK(profile.attention_us(three, 0, 0) == Approx(whole - (whole - least) * (1 - 165.0 / 465)));
}

}  // namespace test_pricing_tables
