// Pipeline schedules: sound orders, bubbles and memory against the published closed forms.
#include <catch2/catch.hpp>
#include <numeric>

#include "policies/schedule/order_run.hpp"
#include "policies/schedule/schedule.hpp"

namespace test_schedule {

using namespace orrery;
using namespace orrery::policies;
using Catch::Contains;

namespace {

std::unique_ptr<PipelineSchedule> made(const std::string& name, const std::string& params = "{}") {
  static const ScheduleRegistry registry = [] {
    ScheduleRegistry all("schedule");
    register_schedules(all);
    return all;
  }();
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "schedule.json");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

struct Judged {
  double span = 0, bubble_s = 0;
  std::vector<std::int64_t> kept;
};

/// The order checked and run with the lengths of the view.
Judged judged(const PipelineSchedule& schedule, const ScheduleView& view) {
  REQUIRE_FALSE(schedule.obstacle(view));
  const ScheduleOrder order = schedule.order(view);
  const auto fault = check_order(schedule, view, order);
  CAPTURE(fault.value_or("sound"), view.devices, view.micro_batches, view.chunks);
  REQUIRE_FALSE(fault);
  const OrderTimes times = run_order(schedule, view, order, view_lengths(view));
  double busy = 0;
  for (const double own : times.busy) busy = std::max(busy, own);
  return {times.span, times.span - busy, most_kept(order)};
}

std::int64_t most(const std::vector<std::int64_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

const std::vector<std::pair<std::string, std::string>> kAll{{"gpipe", "{}"},
                                                            {"1f1b", "{}"},
                                                            {"interleaved", "{}"},
                                                            {"zb_h1", "{}"},
                                                            {"zb_h2", "{}"},
                                                            {"zb_auto", R"({"kept": 1})"},
                                                            {"zb_auto", R"({"kept": 2})"},
                                                            {"zb_v", "{}"},
                                                            {"v_half", "{}"},
                                                            {"v_min", "{}"}};

}  // namespace

TEST_CASE("Every schedule passes every micro-batch through every chunk once each way", "[prop]") {
  for (const auto& [name, params] : kAll)
    for (const std::int64_t devices : {1, 2, 3, 4, 8})
      for (const std::int64_t micro : {1, 2, 4, 8, 16, 24}) {
        const auto schedule = made(name, params);
        ScheduleView view{.devices = devices, .micro_batches = micro, .chunks = schedule->own_chunks().value_or(1)};
        view.transfer = 0.1;
        CAPTURE(name, params);
        const Judged all = judged(*schedule, view);
        // Nobody is faster than its own passes: m (F + B_in + W) for each chunk.
        CHECK(all.span >= Approx(3.0 * static_cast<double>(micro * view.chunks)));
      }
  for (const std::int64_t chunks : {2, 3, 5})
    judged(*made("interleaved"), {.devices = 4, .micro_batches = 12, .chunks = chunks});
}

TEST_CASE("Bubbles of uniform passes are the published ones", "[theory]") {
  // F = B_in = W = 1, messages free, many micro-batches. 1F1B (P - 1)(F + B); ZB-H1 a third of it, (P - 1)(F + B_in -
  // W); ZB-H2 none (Qi et al. 2024, table 1).
  for (const std::int64_t p : {2, 4, 8}) {
    const ScheduleView view{.devices = p, .micro_batches = 4 * p};
    const auto late = static_cast<double>(p - 1);
    CHECK(judged(*made("gpipe"), view).bubble_s == Approx(3 * late));
    CHECK(judged(*made("1f1b"), view).bubble_s == Approx(3 * late));
    CHECK(judged(*made("zb_h1"), view).bubble_s == Approx(late));
    CHECK(judged(*made("zb_h2"), view).bubble_s == Approx(0).margin(1e-9));
    CHECK(judged(*made("zb_v"), {.devices = p, .micro_batches = 4 * p, .chunks = 2}).bubble_s ==
          Approx(0).margin(1e-9));
    ScheduleView chunked = view;
    for (const std::int64_t chunks : {2, 4}) {  // (P - 1)(F + B) / C, passes of a C-th
      chunked.chunks = chunks;
      chunked.forward = chunked.backward_input = chunked.backward_weight = 1.0 / static_cast<double>(chunks);
      CHECK(judged(*made("interleaved"), chunked).bubble_s == Approx(3 * late / static_cast<double>(chunks)));
    }
  }
  // Unequal passes: (P - 1)(F + B_in - W) with F 2, B_in 3, W 1 and P 4: 12.
  CHECK(judged(*made("zb_h1"), {.devices = 4, .micro_batches = 16, .forward = 2, .backward_input = 3}).bubble_s ==
        Approx(12));
}

TEST_CASE("Automatic schedules are no worse than the hand-made ones of their memory", "[theory]") {
  for (const std::int64_t p : {2, 4, 8})
    for (const double forward : {1.0, 1.4}) {
      const ScheduleView view{.devices = p, .micro_batches = 4 * p, .forward = forward};
      CAPTURE(p, forward);
      CHECK(judged(*made("zb_auto", R"({"kept": 1})"), view).bubble_s <= judged(*made("zb_h1"), view).bubble_s + 1e-9);
      CHECK(judged(*made("zb_auto", R"({"kept": 2})"), view).bubble_s <=
            judged(*made("zb_auto", R"({"kept": 1})"), view).bubble_s + 1e-9);
    }
}

TEST_CASE("Schedules keep what they say", "[theory]") {
  const ScheduleView view{.devices = 4, .micro_batches = 16};
  CHECK(judged(*made("gpipe"), view).kept == std::vector<std::int64_t>{16, 16, 16, 16});
  CHECK(judged(*made("1f1b"), view).kept == std::vector<std::int64_t>{4, 3, 2, 1});
  CHECK(judged(*made("zb_h1"), view).kept == std::vector<std::int64_t>{4, 4, 4, 4});
  CHECK(judged(*made("zb_h2"), view).kept == std::vector<std::int64_t>{7, 7, 7, 7});
  CHECK(most(judged(*made("zb_auto", R"({"kept": 1})"), view).kept) == 4);
  CHECK(most(judged(*made("zb_auto", R"({"kept": 2})"), view).kept) <= 8);
  // 2 P chunks of half the size: what 1F1B keeps on its first device.
  CHECK(judged(*made("zb_v"), {.devices = 4, .micro_batches = 16, .chunks = 2}).kept ==
        std::vector<std::int64_t>{8, 8, 8, 8});
  // Interleaved, two chunks: 2 (P - 1) + (C - 1) P + 1 chunks on the first device.
  CHECK(judged(*made("interleaved"), {.devices = 4, .micro_batches = 16, .chunks = 2}).kept.front() == 11);
}

TEST_CASE("An order that is not sound is told", "[unit]") {
  const auto schedule = made("zb_h1");
  const ScheduleView view{.devices = 2, .micro_batches = 3};
  ScheduleOrder order = schedule->order(view);
  const auto fault = [&](const ScheduleOrder& wrong) { return check_order(*schedule, view, wrong).value_or("sound"); };
  CHECK(fault(order) == "sound");
  ScheduleOrder twice = order;
  twice[0].push_back(twice[0].front());
  CHECK_THAT(fault(twice), Contains("forward of micro-batch 0 through chunk 0 of device 0 is there twice"));
  ScheduleOrder missing = order;
  missing[1].pop_back();
  CHECK_THAT(fault(missing), Contains("is missing"));
  ScheduleOrder turned = order;
  std::reverse(turned[1].begin(), turned[1].end());
  CHECK_THAT(fault(turned), Contains("never starts"));
  ScheduleOrder more = order;
  more[0].push_back({PassKind::forward, 9, 0});
  CHECK_THAT(fault(more), Contains("belong to no micro-batch"));
  CHECK_THAT(*made("1f1b")->obstacle({.devices = 2, .micro_batches = 2, .chunks = 2}),
             Contains("interleaved has several"));
  CHECK_THAT(*made("interleaved")->obstacle({.devices = 4, .micro_batches = 6, .chunks = 2}),
             Contains("groups of 4 micro-batches, which do not divide 6"));
}

TEST_CASE("V-Half and V-Min trade bubbles for activations as published", "[theory]") {
  // In uniform passes of a chunk the bubble of 1F1B is 6 (P - 1) and it keeps 2 P chunks. Published: V-Half about a
  // half of both, V-Min two thirds of the bubble at a third of the activations. Hops that would make passes clash add a
  // few slots, and so a few chunks: the rest of six slots at each of two chunks.
  for (const std::int64_t p : {4, 6, 8, 9, 16, 32})
    for (const std::int64_t turns : {2, 4, 8}) {
      const ScheduleView view{.devices = p, .micro_batches = turns * p, .chunks = 2};
      const double whole = 6 * static_cast<double>(p - 1);
      const Judged half = judged(*made("v_half"), view), least = judged(*made("v_min"), view);
      CAPTURE(p, turns);
      CHECK(half.bubble_s >= 0.5 * whole);
      CHECK(half.bubble_s <= 0.62 * whole);
      CHECK(most(half.kept) <= p + 3);
      CHECK(least.bubble_s >= 0.6 * whole);
      CHECK(least.bubble_s <= 0.7 * whole + 1);
      CHECK(3 * most(least.kept) <= 2 * p + 12);
    }
}

TEST_CASE("DualPipeV keeps as much as published and waits no longer", "[theory]") {
  struct Lengths {
    double forward, input, weight;
  };
  for (const std::int64_t p : {1, 2, 3, 4, 8, 16})
    for (const std::int64_t micro : {2 * p, 2 * p + 1, 5 * p})
      for (const Lengths& l : {Lengths{1, 1, 1}, {2, 3, 1}, {1, 2, 1}, {2, 1, 1}}) {
        const ScheduleView view{.devices = p,
                                .micro_batches = micro,
                                .chunks = 2,
                                .forward = l.forward,
                                .backward_input = l.input,
                                .backward_weight = l.weight};
        CAPTURE(p, micro, l.forward, l.input);
        const Judged all = judged(*made("dualpipe_v"), view);
        // Published, with a forward and a backward pass side by side as long as both: (P - 1)(F&B + B - 3 W).
        const double backward = l.input + l.weight;
        CHECK(all.bubble_s <= static_cast<double>(p - 1) * (l.forward + 2 * backward - 3 * l.weight) + 1e-9);
        CHECK(most(all.kept) == 2 * p + 1);
      }
  CHECK_THAT(*made("dualpipe_v")->obstacle({.devices = 4, .micro_batches = 7, .chunks = 2}),
             Contains("needs 8 micro-batches on 4 devices, there are 7"));
}

TEST_CASE("A listed order runs as given, and one that is not sound is refused", "[unit]") {
  const auto listed = made("listed", R"({"orders": ["F0 F1 I0 W0 B1", "F0 B0 F1 B1"]})");
  const ScheduleView view{.devices = 2, .micro_batches = 2};
  REQUIRE_FALSE(listed->obstacle(view));
  CHECK(listed->order(view)[0][2] == StagePass{PassKind::backward_input, 0, 0});
  CHECK(listed->order(view)[1][1] == StagePass{PassKind::backward, 0, 0});
  // By hand: device 1 runs F0 from 1 to 2, B0 to 4; device 0 F0, F1 to 2, then waits for B0: I0 from 4, W0, B1. On
  // device 1 F1 ends at 5 and B1 at 7, so B1 runs on device 0 from 7 to 9.
  CHECK(judged(*listed, view).span == Approx(9));
  // Folded: down 0.0, 1.0 and up 1.1, 0.1.
  const ScheduleView two{.devices = 2, .micro_batches = 1, .chunks = 2};
  const auto folded = made("listed", R"({"orders": ["F0 F0.1 B0.1 B0", "F0 F0.1 B0.1 B0"], "route": "folded"})");
  CHECK(judged(*folded, two).span == Approx(12));  // four forward passes, four backward passes of 2, one after another
  const auto refusal = [&](const char* params) { return made("listed", params)->obstacle(view).value_or("none"); };
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1", "B0 F0 F1 B1"]})"), Contains("never starts"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1", "F0 B0 F1"]})"), Contains("is missing"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F0 F1 B0 B1", "F0 B0 F1 B1"]})"), Contains("is there twice"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1", "F0 B0 F1 B1 F2"]})"), Contains("belong to no"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1", "F0 X0"]})"), Contains("'X0' is no pass"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1", "F0."]})"), Contains("'F0.' is no pass"));
  CHECK_THAT(refusal(R"({"orders": ["F0 F1 B0 B1"]})"), Contains("1 orders are listed"));
  CHECK_THAT(*folded->obstacle(view), Contains("a folded route has two chunks"));
}

}  // namespace test_schedule
