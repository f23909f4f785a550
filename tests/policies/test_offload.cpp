// Optimizer states of the host: orders of policies, and how long they take.
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/offload/update_run.hpp"
#include "sim/base/random.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "sim/task/graph.hpp"

namespace test_offload {

using namespace orrery;
using namespace orrery::policies;

namespace {

UpdateOrder order_of(const std::string& policy, const std::string& params, const OffloadView& view) {
  OffloadRegistry registry("offload");
  register_offloads(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(policy, &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->order(view);
}

/// A link of 1 GB/s each way, without headers.
const hw::LinkPart& link() {
  static const hw::LinkPart all{.bandwidth = 1e9, .payload_bytes = 256, .reverse_efficiency = 1};
  return all;
}

/// A million parameters: 1 ms on the device, 8 ms on the host, 3 ms of casts; 12 MB of states 12 ms on the link, 6 ms
/// into or out of a buffer; 2 MB of weights 2 ms.
UpdateRates rates() {
  return {.device_s = 1e-9, .host_s = 8e-9, .cast_s = 3e-9, .widen_s = 5e-9, .stage_s = 0.5e-9, .link = &link()};
}

std::int64_t count(const UpdateOrder& order, UpdatePlace place) {
  return std::ranges::count(order.subgroups, place);
}

/// The same order as tasks on resources that serve in the order of the program.
double as_tasks(const UpdateOrder& order, std::int64_t parameters, const UpdateRates& r) {
  using sim::TaskId;
  sim::TaskGraph graph;
  const sim::TickScale scale(1000);
  const auto resource = [&] { return graph.add_resource({.order = sim::TaskOrder::program}); };
  const auto host = resource(), caster = resource(), up = resource(), down = resource(), device = resource();
  const auto add = [&](sim::ResourceId on, double seconds, std::initializer_list<std::optional<TaskId>> after) {
    std::vector<TaskId> waits;
    for (const auto& task : after)
      if (task) waits.push_back(*task);
    return graph.add({.duration = scale.duration(seconds), .on = {on}, .after = waits});
  };
  std::optional<TaskId> barrier;
  for (const UpdatePlace place : order.subgroups) {
    const auto n = static_cast<double>(std::min(order.subgroup, parameters));
    parameters -= order.subgroup;
    const auto sent = [&](double bytes) { return hw::transfer_time(*r.link, std::llround(n * bytes)); };
    if (place == UpdatePlace::device) {
      (void)add(device, n * r.device_s, {});
    } else if (place == UpdatePlace::host) {
      const TaskId update = add(host, n * r.host_s, {barrier});
      const TaskId cast = add(caster, n * r.cast_s, {update});
      const TaskId send = add(up, sent(r.weight_bytes), {cast});
      if (order.casts_wait) barrier = send;
    } else {
      const TaskId there = add(up, sent(r.state_bytes), {});
      (void)add(down, sent(r.state_bytes), {add(device, n * r.device_s, {there})});
    }
  }
  sim::Engine engine;
  sim::TaskExecutor executor(engine, graph);
  executor.run();
  sim::Time end;
  for (std::uint32_t i = 0; i < graph.tasks(); ++i) end = std::max(end, executor[TaskId{i}].finish);
  return scale.seconds(end);
}

}  // namespace

TEST_CASE("A host updates its share of subgroups one after the other", "[golden][offload]") {
  const OffloadView view{10'000'000, 0.4};
  const UpdateOrder order = order_of("host", R"({"subgroup": 1000000})", view);
  CHECK(count(order, UpdatePlace::host) == 4);
  CHECK(count(order, UpdatePlace::device) == 6);
  const UpdateRun run = update_run(order, view, rates());
  CHECK(run.update_s == Approx(4 * (8e-3 + 3e-3 + 2e-3)));  // the device's 6 ms lie within
  // Gradients of 4 million parameters: 8 MB over the link, and widened.
  CHECK(run.gradients_wait);
  CHECK(run.gradients_s == Approx(8e-3 + 20e-3));
  CHECK(run.up_bytes == 8'000'000);
  CHECK(run.down_bytes == 8'000'000);
  const UpdateRun flushed =
      update_run(order_of("host", R"({"subgroup": 1000000, "flush": true})", view), view, rates());
  CHECK_FALSE(flushed.gradients_wait);
  CHECK(flushed.gradients_s == Approx(16e-3));  // widened by the device
}

TEST_CASE("Every stride-th subgroup of the host is fetched, and costs the host its buffers alone",
          "[golden][offload]") {
  const OffloadView view{8'000'000, 1};
  const auto deep = [&](int stride) {
    return order_of("deep_optimizer_states", R"({"subgroup": 1000000, "stride": )" + std::to_string(stride) + "}",
                    view);
  };
  const UpdateOrder two = deep(2), four = deep(4);
  using enum UpdatePlace;
  CHECK(two.subgroups == std::vector<UpdatePlace>{fetched, host, fetched, host, fetched, host, fetched, host});
  CHECK(four.subgroups == std::vector<UpdatePlace>{fetched, host, host, host, fetched, host, host, host});
  // A stride beyond the subgroups fetches none.
  CHECK(count(deep(9), fetched) == 0);
  // A link that is no bound: the host's 8 ms, and 12 ms of buffers a fetched subgroup; the last cast and its sending
  // show.
  UpdateRates fast = rates();
  hw::LinkPart wide = link();
  wide.bandwidth = 1e15;
  fast.link = &wide;
  CHECK(update_run(two, view, fast).update_s == Approx(4 * 8e-3 + 4 * 12e-3 + 3e-3).epsilon(1e-4));
  CHECK(update_run(four, view, fast).update_s == Approx(6 * 8e-3 + 2 * 12e-3 + 3e-3).epsilon(1e-4));
  CHECK(update_run(two, view, fast).fetched_parameters == 4'000'000);
  // A link that is one: 4 x 12 MB of states and 4 x 2 MB of weights to the device, after the first buffer is filled.
  CHECK(update_run(two, view, rates()).update_s >= 6e-3 + 4 * 12e-3 + 4 * 2e-3);
}

TEST_CASE("Streamed states hide behind the device's step, or are what it takes", "[unit][offload]") {
  const OffloadView view{100'000'000, 0.5};
  const UpdateOrder order = order_of("streamed", "{}", view);
  CHECK(count(order, UpdatePlace::fetched) == 50);
  UpdateRates r = rates();
  // 600 MB there and back, 0.6 s each way at once; the last piece's update and return are alone.
  CHECK(update_run(order, view, r).update_s == Approx(0.6 + 0.001 + 0.012).epsilon(1e-3));
  r.device_s = 1e-6;  // 1 s a piece
  CHECK(update_run(order, view, r).update_s == Approx(100 + 0.012));
  CHECK(update_run(order, view, r).gradients_s == 0);
}

TEST_CASE("Weights and gradients of the host: those of its own updates stay, the device's travel",
          "[golden][offload]") {
  UpdateRates r = rates();
  const OffloadView own{10'000'000, 0.4}, all{10'000'000, 0.4, 1, 1}, half{10'000'000, 0.4, 0.3, 0.3};
  const UpdateOrder order = order_of("host", R"({"subgroup": 1000000})", own);
  // All are there: the host updates and casts 4 x 11 ms and sends nothing; 12 MB of gradients come to the device for
  // its six subgroups, 2 ms each, and 12 MB of weights return.
  const UpdateRun run = update_run(order, all, r);
  CHECK(run.update_s == Approx(4 * (8e-3 + 3e-3)));
  CHECK(run.up_bytes == 12'000'000);
  CHECK(run.down_bytes == 12'000'000);
  CHECK(run.sent_gradients == 0);
  CHECK(run.gradients_s == Approx(20e-3));  // widened still
  r.gradient_bytes = 4;
  CHECK(update_run(order, all, r).gradients_s == 0);  // kept in fp32
  CHECK(update_run(order, all, r).up_bytes == 24'000'000);
  r.gradient_bytes = 2;
  // Three of the host's four million parameters: the fourth's gradient comes and its weights go, 2 MB each.
  const UpdateRun some = update_run(order, half, r);
  CHECK(some.sent_gradients == 1'000'000);
  CHECK(some.up_bytes == 2'000'000);
  CHECK(some.down_bytes == 2'000'000);
  CHECK(some.update_s == Approx(4 * 11e-3 + 2e-3));
  // Streamed: weights and gradients of fetched states travel with them, 14 MB a piece each way.
  const UpdateOrder fetched = order_of("streamed", "{}", {10'000'000, 1});
  const UpdateRun streamed = update_run(fetched, {10'000'000, 1, 1, 1}, r);
  CHECK(streamed.up_bytes == 140'000'000);
  CHECK(streamed.down_bytes == 140'000'000);
  CHECK(streamed.update_s == Approx(10 * 14e-3 + 1e-3 + 14e-3));
  CHECK(update_run(fetched, {10'000'000, 1}, r).up_bytes == 120'000'000);
}

TEST_CASE("An order takes what its tasks take on the engine", "[prop][offload]") {
  sim::RandomStream random(3, "offload");
  for (int i = 0; i < 200; ++i) {
    UpdateOrder order{.subgroup = 1'000'000, .casts_wait = random.below(2) == 1};
    const auto count = static_cast<std::int64_t>(1 + random.below(20));
    for (std::int64_t k = 0; k < count; ++k)
      order.subgroups.push_back(static_cast<UpdatePlace>(random.below(order.casts_wait ? 2 : 3)));
    UpdateRates r = rates();
    r.host_s *= 0.1 + static_cast<double>(random.below(30)) / 10;
    r.device_s *= static_cast<double>(1 + random.below(20));
    const std::int64_t parameters = count * 1'000'000 - static_cast<std::int64_t>(random.below(1'000'000));
    CHECK(update_run(order, {parameters, 1}, r).update_s == Approx(as_tasks(order, parameters, r)).epsilon(1e-6));
  }
}

}  // namespace test_offload
