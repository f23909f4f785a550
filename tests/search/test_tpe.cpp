// The tree-structured Parzen estimator, and the ranks that it divides points by.
#include <catch2/catch.hpp>

#include "experiments/search/ranking.hpp"
#include "quality.hpp"

namespace orrery::experiments::search::test_tpe {
namespace {

using namespace test;

TEST_CASE("ranks by domination, and an order by rank and crowding", "[search][ranking]") {
  const std::vector<Evaluation> all{
      {.objectives = {0, 4}},                  // 0: front
      {.objectives = {4, 0}},                  // 1: front
      {.objectives = {1, 3}},                  // 2: front, crowded
      {.objectives = {2, 1}},                  // 3: front
      {.objectives = {2, 3}},                  // 4: behind 2 and 3
      {.objectives = {0, 0}, .margins = {2}},  // 5: over a limit
      {.objectives = {9, 9}, .margins = {1}},  // 6: less over
      {.status = TrialStatus::failed},         // 7
  };
  std::vector<const Evaluation*> pointers;
  for (const Evaluation& e : all) pointers.push_back(&e);
  CHECK(domination_ranks(pointers) == std::vector<std::size_t>{0, 0, 0, 0, 1, 3, 2, 4});
  // Distances on the front: ends infinite; 2: (2 - 0) / 4 + (4 - 1) / 4 = 1.25; 3: (4 - 1) / 4 + (3 - 0) / 4 = 1.5.
  CHECK(best_first(pointers) == std::vector<std::size_t>{0, 1, 3, 2, 4, 6, 5, 7});
  const std::vector<Evaluation> one{
      {.objectives = {3}}, {.status = TrialStatus::failed}, {.objectives = {1}}, {.objectives = {3}}};
  pointers.clear();
  for (const Evaluation& e : one) pointers.push_back(&e);
  CHECK(domination_ranks(pointers) == std::vector<std::size_t>{1, 2, 0, 1});
  CHECK(best_first(pointers) == std::vector<std::size_t>{2, 0, 3, 1});
}

TEST_CASE("TPE reaches its quality", "[search][quality]") {
  struct Row {
    const char* problem;
    std::size_t dimensions;
    std::int64_t budget;
    double threshold;
  };
  for (const Row& row : {Row{"sphere", 4, 300, 0.3}, Row{"mixed", 0, 300, 0.6}, Row{"conditional", 0, 300, 0.1}}) {
    const Quality tpe =
        quality(row.problem, "tpe", "{}", {.budget = row.budget, .batch = 4, .seeds = 5}, row.dimensions);
    const Quality chance =
        quality(row.problem, "random", "{}", {.budget = row.budget, .batch = 4, .seeds = 5}, row.dimensions);
    INFO(row.problem << ": " << text_of(tpe) << ", random " << text_of(chance));
    CHECK(tpe.median < row.threshold);
    CHECK(tpe.median < chance.median);
  }
  const Quality front = quality("zdt1", "tpe", "{}", {.budget = 300, .batch = 4, .seeds = 5}, 5);
  const Quality chance = quality("zdt1", "random", "{}", {.budget = 300, .batch = 4, .seeds = 5}, 5);
  INFO(text_of(front) << ", random " << text_of(chance));
  CHECK(front.median > chance.median);
  CHECK(front.median > 0.6);
}

}  // namespace
}  // namespace orrery::experiments::search::test_tpe
