// Expert schedules: where missing experts go, by hand; HybriMoE's pointers against all ways to share out.
#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/expert_schedule/expert_schedule.hpp"
#include "sim/base/random.hpp"

namespace test_expert_schedules {

using namespace orrery;
using namespace orrery::policies;

namespace {

using enum ExpertPlace;
using Places = std::vector<ExpertPlace>;

/// An expert takes 2 on the GPU, 3 a token on the host, 10 over the link.
struct Prices final : ExpertPrices {
  explicit Prices(std::int64_t gpu_ps = 2, std::int64_t host_ps = 3, std::int64_t copy_ps = 10)
      : gpu(gpu_ps), host(host_ps), copy(copy_ps) {}
  std::int64_t gpu, host, copy;
  std::int64_t gpu_ps(std::int64_t) const override { return gpu; }
  std::int64_t host_ps(std::int64_t tokens) const override { return host * tokens; }
  std::int64_t copy_ps() const override { return copy; }
};

Places place(const std::string& policy, const std::vector<ExpertWork>& work, const Prices& prices = Prices(),
             bool host = true, std::int64_t link_busy = 0) {
  ExpertScheduleRegistry registry("expert_schedule");
  register_expert_schedules(registry);
  sim::Faults faults;
  const auto choice = registry.prepare(policy, nullptr, {}, faults);
  faults.throw_if_any();
  return choice.make()->place({.work = work, .prices = prices, .link_busy_ps = link_busy, .host_computes = host});
}

ExpertWork expert(std::int64_t tokens, bool here) {
  return {.tokens = tokens, .here = here};
}

/// When GPU and host are both done: the GPU takes what is there first, then copies in the order of the list.
std::int64_t span(const std::vector<ExpertWork>& work, const Places& places, const Prices& prices) {
  std::int64_t gpu = 0, host = 0, link = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (places[i] == ExpertPlace::gpu) gpu += prices.gpu;
    if (places[i] == ExpertPlace::host) host += prices.host_ps(work[i].tokens);
  }
  for (std::size_t i = 0; i < work.size(); ++i)
    if (places[i] == fetched) {
      link += prices.copy;
      gpu = std::max(gpu, link) + prices.gpu;
    }
  return std::max(gpu, host);
}

}  // namespace

TEST_CASE("expert schedules: fetch and host move what is missing one way", "[unit]") {
  const std::vector<ExpertWork> work{expert(1, true), expert(4, false), expert(1, false)};
  CHECK(place("fetch", work) == Places{gpu, fetched, fetched});
  CHECK(place("host", work) == Places{gpu, host, host});
  CHECK(place("host", work, Prices(), false) == Places{gpu, fetched, fetched});  // a host that only keeps experts
}

TEST_CASE("expert schedules: fiddler takes the quicker way for each", "[unit]") {
  // Host 3 a token against 10 + 2: the host up to 3 tokens, the link from 4 (12 is not below 12).
  CHECK(place("fiddler", {expert(9, true), expert(3, false), expert(4, false), expert(5, false)}) ==
        Places{gpu, host, fetched, fetched});
  CHECK(place("fiddler", {expert(1, false)}, Prices(), false) == Places{fetched});
}

TEST_CASE("expert schedules: hybrimoe's pointers by hand", "[unit]") {
  // Row: here 2, missing 5, missing 1. GPU 2 against host 3: head to the GPU. Missing 5: 10 + 2 = 12 against the host's
  // 3 for the tail: tail to the host. Missing 5 again: 12 against 3 + 15 = 18: over the link.
  CHECK(place("hybrimoe", {expert(1, false), expert(2, true), expert(5, false)}) == Places{host, gpu, fetched});
  // The link is busy for 7: 19 against 18, the host takes it too.
  CHECK(place("hybrimoe", {expert(1, false), expert(2, true), expert(5, false)}, Prices(), true, 7) ==
        Places{host, gpu, host});
  // A host slower than the link: everything goes to the GPU.
  CHECK(place("hybrimoe", {expert(1, false), expert(1, false)}, Prices(2, 1000)) == Places{fetched, fetched});
  // The host may take experts that are there: ten of one token, GPU 2 each, host 3 each.
  const Places ten = place("hybrimoe", std::vector<ExpertWork>(10, expert(1, true)));
  CHECK(std::ranges::count(ten, host) == 4);  // 6 * 2 = 12 and 4 * 3 = 12
  CHECK(place("hybrimoe", {expert(1, false)}, Prices(), false) == Places{fetched});
  CHECK(place("hybrimoe", {}).empty());
}

TEST_CASE("expert schedules: hybrimoe is at least as quick as either way, and near the best", "[prop]") {
  sim::RandomStream random(3, "test");
  double ours = 0, best = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ExpertWork> work;
    const std::int64_t count = random.integer(1, 7);
    for (std::int64_t i = 0; i < count; ++i) work.push_back(expert(random.integer(1, 6), random.bernoulli(0.4)));
    const Prices prices(random.integer(1, 4), random.integer(1, 6), random.integer(1, 15));
    const std::int64_t got = span(work, place("hybrimoe", work, prices), prices);
    CHECK(got <= span(work, place("host", work, prices), prices) + prices.gpu + 6 * prices.host);
    std::int64_t least = 1 << 30;
    for (unsigned bits = 0; bits < (1U << work.size()); ++bits) {
      Places places;
      for (std::size_t i = 0; i < work.size(); ++i)
        places.push_back((bits >> i & 1U) != 0 ? host : work[i].here ? gpu : fetched);
      least = std::min(least, span(work, places, prices));
    }
    CHECK(got >= least);
    ours += static_cast<double>(got);
    best += static_cast<double>(least);
  }
  CHECK(ours < 1.25 * best);
}

}  // namespace test_expert_schedules
