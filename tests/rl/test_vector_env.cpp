#include <catch2/catch.hpp>

#include "experiments/rl/core/vector_env.hpp"
#include "tests/rl/support.hpp"

namespace test_vector_env {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

VectorEnv vector_env(const std::string& name, std::size_t n, Autoreset mode, std::size_t threads = 1,
                     const std::string& params = "{}") {
  std::vector<std::unique_ptr<Env>> envs;
  for (std::size_t i = 0; i < n; ++i) envs.push_back(test::make_env(name, params));
  return VectorEnv(std::move(envs), mode, threads);
}

/// Random allowed actions for all environments.
std::vector<double> actions_for(const VectorEnv& envs, sim::RandomStream& random) {
  std::vector<double> actions;
  const std::size_t width = envs.spec().masked ? envs.spec().mask_size() : 0;
  for (std::size_t i = 0; i < envs.size(); ++i) {
    TimeStep step;
    const auto* mask = envs.now().masks.data() + i * width;
    step.mask.assign(mask, mask + width);
    if (envs.now().terminated[i] != 0) step.mask.clear();  // next_step: any action is ignored
    for (const double number : test::random_action(envs.spec(), step, random)) actions.push_back(number);
  }
  return actions;
}

bool same(const VectorStep& a, const VectorStep& b) {
  return a.observations == b.observations && a.rewards == b.rewards && a.masks == b.masks &&
         a.terminated == b.terminated && a.truncated == b.truncated && a.ended == b.ended;
}

}  // namespace

TEST_CASE("vector environments give the same for any number of threads", "[prop]") {
  for (const std::string name : {"cart_pole", "job_shop", "rendezvous"}) {
    for (const Autoreset mode : {Autoreset::next_step, Autoreset::same_step}) {
      VectorEnv one = vector_env(name, 7, mode, 1), three = vector_env(name, 7, mode, 3);
      one.reset(5);
      three.reset(5);
      sim::RandomStream random(1, "actions");
      for (int step = 0; step < 200; ++step) {
        REQUIRE(same(one.now(), three.now()));
        const auto actions = actions_for(one, random);
        one.step(actions);
        three.step(actions);
      }
    }
  }
}

TEST_CASE("autoreset happens in the same step or in the next one", "[unit]") {
  // Episodes of 2 steps: e0 s1 s2(end) | e0 …
  const std::string brief = R"({"max_steps": 2})";
  VectorEnv next = vector_env("cart_pole", 1, Autoreset::next_step, 1, brief);
  VectorEnv same_step = vector_env("cart_pole", 1, Autoreset::same_step, 1, brief);
  const auto env = test::make_env("cart_pole", brief);
  const std::vector<std::uint64_t> seeds{11};
  const std::vector<double> right{1};
  TimeStep first, last, second;
  env->reset(episode_seed(11, 1), second);
  env->reset(11, first);
  CHECK(next.reset(seeds).observations == first.observation);
  CHECK(same_step.reset(seeds).observations == first.observation);
  env->step(right, last);
  env->step(right, last);
  next.step(right);
  same_step.step(right);
  CHECK(next.now().truncated[0] == 0);

  next.step(right);
  CHECK(next.now().observations == last.observation);
  CHECK(next.now().truncated[0] == 1);
  CHECK(next.now().rewards[0] == 1);
  CHECK(next.now().ended[0] == 0);
  next.step(right);
  CHECK(next.now().observations == second.observation);
  CHECK(next.now().truncated[0] == 0);
  CHECK(next.now().rewards[0] == 0);

  same_step.step(right);
  CHECK(same_step.now().observations == second.observation);
  CHECK(same_step.now().final_observations == last.observation);
  CHECK(same_step.now().ended[0] == 1);
  CHECK(same_step.now().truncated[0] == 1);
  CHECK(same_step.now().rewards[0] == 1);
  same_step.step(right);
  CHECK(same_step.now().ended[0] == 0);
}

TEST_CASE("a vector environment goes on from where an archive holds it", "[prop]") {
  for (const Autoreset mode : {Autoreset::next_step, Autoreset::same_step}) {
    VectorEnv original = vector_env("job_shop", 3, mode);
    original.reset(9);
    sim::RandomStream random(2, "actions");
    for (int i = 0; i < 60; ++i) {
      Archive out;
      original.state(out);
      VectorEnv copy = vector_env("job_shop", 3, mode, 2);
      Archive in(out.bytes());
      copy.state(in);
      in.finish();
      const auto actions = actions_for(original, random);
      original.step(actions);
      CHECK(same(copy.step(actions), original.now()));
    }
  }
}

TEST_CASE("episodes that are begun by hand have the draws that they are told", "[unit]") {
  // Episodes of one step. Who ended waits; both then begin with seeds of the caller's, asked for in order.
  const std::string brief = R"({"max_steps": 1})";
  VectorEnv envs = vector_env("cart_pole", 2, Autoreset::same_step, 2, brief);
  envs.begin_by_hand();
  envs.reset(std::vector<std::uint64_t>{7, 7});
  const auto env = test::make_env("cart_pole", brief);
  const std::vector<double> actions{1, 0};
  CHECK_NOTHROW(envs.begin_ended([](std::size_t) -> std::uint64_t { throw std::logic_error("nobody has ended"); }));
  for (std::uint64_t episode = 0; episode < 6; ++episode) {
    envs.step(actions);
    CHECK(envs.now().ended == std::vector<std::uint8_t>{1, 1});
    const std::vector<double> last = envs.now().observations;
    CHECK(envs.now().final_observations == last);
    const std::vector<double> rewards = envs.now().rewards;
    CHECK(rewards == std::vector<double>{1, 1});
    std::vector<std::size_t> asked;
    envs.begin_ended([&](std::size_t i) {
      asked.push_back(i);
      return 100 + episode + i;
    });
    CHECK(asked == std::vector<std::size_t>{0, 1});
    std::vector<double> both;
    for (const std::uint64_t i : {0, 1}) {
      TimeStep expected;
      env->reset(100 + episode + i, expected);
      both.insert(both.end(), expected.observation.begin(), expected.observation.end());
    }
    CHECK(envs.now().observations == both);
    CHECK(envs.now().final_observations == last);
    CHECK(envs.now().rewards == rewards);
    Archive out;
    envs.state(out);
    VectorEnv copy = vector_env("cart_pole", 2, Autoreset::by_hand, 1, brief);
    Archive in(out.bytes());
    copy.state(in);
    CHECK(copy.now().observations == both);
  }
  envs.step(actions);
  CHECK_THROWS_WITH(envs.step(actions), Catch::Contains("before the next was begun"));
}

TEST_CASE("faults of actions come out of threads; then only a reset helps", "[unit]") {
  VectorEnv envs = vector_env("cart_pole", 4, Autoreset::same_step, 2);
  CHECK_THROWS_AS(envs.step(std::vector<double>(4, 0.0)), std::logic_error);
  envs.reset(1);
  CHECK_THROWS_AS(envs.step(std::vector<double>(3, 0.0)), std::invalid_argument);
  CHECK_THROWS_WITH(envs.step(std::vector<double>{0, 0, 2, 3}), Catch::Contains("got 2"));
  CHECK_THROWS_AS(envs.step(std::vector<double>(4, 0.0)), std::logic_error);
  envs.reset(1);
  CHECK_NOTHROW(envs.step(std::vector<double>(4, 0.0)));
}

TEST_CASE("archives refuse what is too short, too long, or of another shape", "[unit]") {
  std::vector<double> values{1, 2, 3};
  Archive out;
  out(values);
  std::vector<double> read;
  Archive whole(out.bytes());
  whole(read);
  CHECK(read == values);
  CHECK_NOTHROW(whole.finish());
  Archive half(out.bytes().substr(0, 20));
  CHECK_THROWS_WITH(half(read), Catch::Contains("too soon"));
  Archive more(out.bytes() + "x");
  more(read);
  CHECK_THROWS(more.finish());
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(2, 2);
  Archive other(out.bytes());
  CHECK_THROWS_WITH(other(matrix), Catch::Contains("another shape"));
}

}  // namespace test_vector_env
