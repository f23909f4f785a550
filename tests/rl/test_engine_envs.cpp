// Environments of memory mapping and placement: rewards by hand, and what rules that everybody knows reach in them.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support.hpp"

namespace orrery::experiments::rl::test_engine_envs {
namespace {

using namespace test;

TEST_CASE("buffers by hand: the order decides the peak", "[unit]") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("orrery-rl-buffers-" + std::to_string(::getpid()) + ".csv")).string();
  // a: steps 0-2, 4 bytes; b: 1-3, 2 bytes; c: 2-4, 4 bytes. Live at once at most 6 bytes (a, b; b, c).
  std::ofstream(file) << "id,lower,upper,size\na,0,2,4\nb,1,3,2\nc,2,4,4\n";
  const auto env = make_env("memory_map", R"({"file": ")" + file + "\"}");
  const auto total = [&](std::vector<double> order) {
    TimeStep now;
    env->reset(1, now);
    double sum = 0;
    for (const double next : order) {
      CHECK(now.mask[static_cast<std::size_t>(next)] == 1);
      env->step(std::vector<double>{next}, now);
      sum += now.rewards[0];
    }
    CHECK(now.terminated);
    CHECK(now.info[0] == Approx(-sum));
    return sum;
  };
  CHECK(total({0, 2, 1}) == Approx(-1));  // a and c at 0, b at 4: 6 of 6
  CHECK(total({1, 0, 2}) == Approx(-1));  // b at 0, a and c at 2: 6
  CHECK(total({0, 1, 2}) == Approx(-1));  // a at 0, b at 4, c at 0
  std::ofstream(file) << "id,lower,upper,size\na,0,2,2\nb,1,3,2\nc,2,4,4\nd,0,1,4\n";
  // Bound 6 (a, d; b, c). a at 0, b at 2, c does not fit below b (2 bytes): at 4, 8 of 6.
  const auto again = make_env("memory_map", R"({"file": ")" + file + "\"}");
  TimeStep now;
  again->reset(1, now);
  double sum = 0;
  for (const double next : {0.0, 1.0, 2.0, 3.0}) {
    again->step(std::vector<double>{next}, now);
    sum += now.rewards[0];
  }
  CHECK(sum == Approx(-8.0 / 6));
  // Largest first: c and d at 0, a above d at 4; b meets c (0 to 4) and a (4 to 6) and goes to 6: 8 of 6 again.
  again->reset(1, now);
  for (const double next : {2.0, 3.0, 0.0, 1.0}) {
    CHECK(now.advice[0] == next);
    again->step(std::vector<double>{next}, now);
  }
  CHECK(now.info[1] == Approx(1));
}

TEST_CASE("placing every task where it ends first is the baseline of placement", "[unit]") {
  const auto env = make_env("task_placement", R"({"tasks": 30, "processors": 4})");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TimeStep now;
    env->reset(seed, now);
    while (!now.ended()) {
      double best = 0;
      for (std::size_t p = 1; p < 4; ++p)
        if (now.observation[3 * p + 1] < now.observation[3 * static_cast<std::size_t>(best) + 1]) best = double(p);
      CHECK(now.advice[0] == best);
      env->step(std::vector<double>{best}, now);
    }
    CHECK(now.info[0] == Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("on one processor no order matters but that every step adds its task", "[prop]") {
  const auto env = make_env("task_placement", R"({"tasks": 12, "processors": 2})");
  TimeStep now;
  env->reset(3, now);
  double busy = 0;
  while (!now.ended()) {
    const double ends = now.observation[1];  // on processor 0, over the critical path
    CHECK(ends > busy);                      // each follows the one before: no communication within a processor
    env->step(std::vector<double>{0}, now);
    CHECK(now.rewards[0] == Approx(-(ends - busy)));
    busy = ends;
  }
}

}  // namespace
}  // namespace orrery::experiments::rl::test_engine_envs
