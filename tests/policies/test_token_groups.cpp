// Token groups: whole groups without a token twice, and what each rule groups by.
#include <catch2/catch.hpp>
#include <set>

#include "policies/token_groups/token_groups.hpp"
#include "sim/base/random.hpp"

namespace test_token_groups {

using namespace orrery;
using namespace orrery::policies;

namespace {

using Groups = std::vector<std::vector<std::size_t>>;

std::unique_ptr<TokenGroups> rule(const std::string& name, const std::string& params = "{}") {
  TokenGroupsRegistry registry("token_groups");
  register_token_groups(registry);
  const sim::Node node = sim::parse_json(params, "p.json");
  sim::Faults faults;
  const auto made = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return made.make();
}

/// Tokens with one expert each, of 64 that there are.
struct Waiting {
  explicit Waiting(const std::vector<std::uint16_t>& experts) : first(experts) {
    for (const std::uint16_t e : experts) paths.push_back({std::uint64_t{1} << e});
  }
  TokenGroupView view(std::size_t size) const { return {.paths = paths, .first = first, .size = size}; }
  std::vector<ExpertPath> paths;
  std::vector<std::uint16_t> first;
};

std::size_t experts_of(const Waiting& waiting, const std::vector<std::size_t>& group) {
  std::set<std::uint16_t> seen;
  for (const std::size_t t : group) seen.insert(waiting.first[t]);
  return seen.size();
}

TEST_CASE("token groups: in the order of arrival", "[unit]") {
  const Waiting waiting({1, 2, 1, 2, 1});
  CHECK(rule("arrival")->groups(waiting.view(2)) == Groups{{0, 1}, {2, 3}});
}

TEST_CASE("token groups: read_me fills from the longest queue, then the next", "[unit]") {
  // Queues: expert 7 has tokens 1, 3, 4; expert 2 has 0, 5; expert 9 has 2.
  const Waiting waiting({2, 7, 9, 7, 7, 2});
  CHECK(rule("read_me")->groups(waiting.view(2)) == Groups{{1, 3}});
  CHECK(rule("read_me")->groups(waiting.view(4)) == Groups{{1, 3, 4, 0}});
  // Of queues of equal length the lower expert's.
  CHECK(rule("read_me")->groups(Waiting({5, 4, 5, 4}).view(2)) == Groups{{1, 3}});
}

TEST_CASE("token groups: expertflow parts tokens by the experts they use", "[unit]") {
  const Waiting waiting({1, 2, 1, 2, 2, 1, 2, 1});
  CHECK(rule("expertflow")->groups(waiting.view(4)) == Groups{{0, 2, 5, 7}, {1, 3, 4, 6}});
  // Three of one and five of the other: one group has both.
  const Groups uneven = rule("expertflow")->groups(Waiting({1, 1, 2, 2, 2, 1, 2, 2}).view(4));
  CHECK(experts_of(Waiting({1, 1, 2, 2, 2, 1, 2, 2}), uneven[0]) +
            experts_of(Waiting({1, 1, 2, 2, 2, 1, 2, 2}), uneven[1]) ==
        3);
}

TEST_CASE("token groups: no token twice, groups whole; alike tokens need no more experts than arrivals", "[prop]") {
  sim::RandomStream random(1, "groups");
  std::size_t by_arrival = 0, alike = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = 1 + random.below(6), pool = 1 + random.below(4);
    std::vector<std::uint16_t> experts;
    for (std::size_t i = 0; i < size * pool; ++i) experts.push_back(static_cast<std::uint16_t>(random.below(8)));
    const Waiting waiting(experts);
    for (const char* name : {"arrival", "expertflow", "read_me"}) {
      const Groups got = rule(name)->groups(waiting.view(size));
      REQUIRE(!got.empty());
      std::set<std::size_t> seen;
      for (const auto& group : got) {
        CHECK(group.size() == size);
        for (const std::size_t t : group) CHECK((t < experts.size() && seen.insert(t).second));
        if (name == std::string("arrival")) by_arrival += experts_of(waiting, group);
        if (name == std::string("expertflow")) alike += experts_of(waiting, group);
      }
      if (name != std::string("read_me")) CHECK(seen.size() == experts.size());
    }
  }
  CHECK(static_cast<double>(alike) < 0.85 * static_cast<double>(by_arrival));
}

TEST_CASE("token groups: a predictor that is never right groups by chance", "[unit]") {
  const Waiting waiting({1, 2, 1, 2, 2, 1, 2, 1});
  std::size_t experts = 0;
  for (std::uint64_t asked = 0; asked < 50; ++asked) {
    TokenGroupView view = waiting.view(4);
    view.asked = asked;
    for (const auto& group : rule("expertflow", R"({"accuracy": 0})")->groups(view))
      experts += experts_of(waiting, group);
  }
  // Of 70 ways to choose four of eight, two part them: nearly all groups have both experts.
  CHECK(experts > 180);
}

}  // namespace
}  // namespace test_token_groups
