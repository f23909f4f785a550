#include <catch2/catch.hpp>
#include <numeric>

#include "policies/partition/partition.hpp"
#include "sim/base/random.hpp"

namespace test_partition {

using namespace orrery;
using namespace orrery::policies;

namespace {

using Counts = std::vector<std::int64_t>;

std::unique_ptr<Partition> make(const char* name, const std::string& params = "{}") {
  PartitionRegistry registry("partition");
  register_partitions(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// What the stages weigh.
Counts weights(const PartitionView& view, const Counts& counts, std::int64_t embedding) {
  Counts all;
  std::size_t first = 0;
  for (const std::int64_t count : counts) {
    const auto from = view.layers.begin() + static_cast<std::ptrdiff_t>(first);
    all.push_back(std::accumulate(from, from + count, std::int64_t{0}));
    first += static_cast<std::size_t>(count);
  }
  all.front() += embedding;
  all.back() += view.head;
  return all;
}

/// The least weight of the heaviest stage, by trying every partition.
std::int64_t least(const PartitionView& view, std::int64_t embedding) {
  const std::int64_t layers = std::ssize(view.layers);
  Counts counts(static_cast<std::size_t>(view.stages), 1);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  const auto place = [&](const auto& self, std::size_t stage, std::int64_t left) -> void {
    if (stage + 1 == counts.size()) {
      counts[stage] = left;
      best = std::min(best, std::ranges::max(weights(view, counts, embedding)));
      return;
    }
    for (std::int64_t count = 1; count <= left - (std::ssize(counts) - static_cast<std::int64_t>(stage) - 1); ++count) {
      counts[stage] = count;
      self(self, stage + 1, left - count);
    }
  };
  place(place, 0, layers);
  return best;
}

}  // namespace

TEST_CASE("even: layers divide as evenly as they go", "[unit]") {
  // Ends at floor(10 s / 4) = 2, 5, 7, 10.
  const Counts layers(10, 7);
  CHECK(make("even")->divide({.stages = 4, .layers = layers, .head = 1000}) == Counts{2, 3, 2, 3});
}

TEST_CASE("listed: the stages are those of the list", "[unit]") {
  const Counts layers(10, 1);
  CHECK(make("listed", R"({"layers": [1, 8, 1]})")->divide({.stages = 3, .layers = layers}) == Counts{1, 8, 1});
}

TEST_CASE("balanced: the head takes layers from the last stage, by hand", "[unit]") {
  // 8 layers of 10 and a head of 20: 100 in all, 4 stages of 25 each. Stages of whole layers weigh 20 or 30, so the
  // least bound is 30. Nearest to an equal share: 2 layers (20 is as far from 25 as 30: the smaller); of the 80 left a
  // third is 26.7: 3 layers; of the 50 left half is 25: 2 layers, and 1 with the head, 30. By count alone the last
  // would weigh 40.
  const Counts layers(8, 10);
  const PartitionView view{.stages = 4, .layers = layers, .embedding = 20, .head = 20};
  CHECK(make("balanced")->divide(view) == Counts{2, 3, 2, 1});
  // By memory the embedding weighs too: 120 in all, 30 a stage: 1 + 20, 3, 3, 1 + 20.
  CHECK(make("balanced", R"({"by": "memory"})")->divide(view) == Counts{1, 3, 3, 1});
}

TEST_CASE("balanced: a light stage takes no more than leaves a layer for each that follows", "[unit]") {
  // The last layer weighs most: the bound is 100, within which all others would fit the first stage.
  const Counts layers{1, 1, 1, 100};
  CHECK(make("balanced")->divide({.stages = 4, .layers = layers}) == Counts{1, 1, 1, 1});
}

TEST_CASE("balanced: no partition has a lighter heaviest stage", "[property]") {
  sim::RandomStream random(5, "partition");
  for (int round = 0; round < 300; ++round) {
    Counts layers(static_cast<std::size_t>(2 + random.below(9)));
    for (std::int64_t& layer : layers) layer = static_cast<std::int64_t>(1 + random.below(20));
    const PartitionView view{.stages = static_cast<std::int64_t>(2 + random.below(layers.size() - 1)),
                             .layers = layers,
                             .embedding = static_cast<std::int64_t>(random.below(30)),
                             .head = static_cast<std::int64_t>(random.below(30))};
    for (const bool memory : {false, true}) {
      const Counts counts = make("balanced", memory ? R"({"by": "memory"})" : "{}")->divide(view);
      const std::int64_t embedding = memory ? view.embedding : 0;
      REQUIRE(std::ssize(counts) == view.stages);
      REQUIRE(std::ranges::min(counts) >= 1);
      REQUIRE(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == std::ssize(layers));
      REQUIRE(std::ranges::max(weights(view, counts, embedding)) == least(view, embedding));
    }
  }
}

TEST_CASE("even and balanced agree where layers are all there is", "[property]") {
  for (std::int64_t stages = 2; stages <= 16; stages *= 2) {
    const Counts layers(32, 218'112'000);
    const PartitionView view{.stages = stages, .layers = layers};
    CHECK(make("balanced")->divide(view) == make("even")->divide(view));
  }
}

TEST_CASE("listed: faults", "[errors]") {
  CHECK_THROWS_WITH(make("listed", R"({"layers": [4, 0]})"), Catch::Contains("/layers/1"));
  CHECK_THROWS_WITH(make("balanced", R"({"by": "speed"})"), Catch::Contains("time"));
}

TEST_CASE("even: every stage ends at the floor of its share", "[property]") {
  for (std::int64_t stages = 2; stages <= 7; ++stages)
    for (std::int64_t count = stages; count <= 20; ++count) {
      const Counts layers(static_cast<std::size_t>(count), 3);
      const Counts counts = make("even")->divide({.stages = stages, .layers = layers});
      REQUIRE(std::ssize(counts) == stages);
      std::int64_t end = 0;
      for (std::int64_t s = 0; s < stages; ++s) {
        end += counts[static_cast<std::size_t>(s)];
        CHECK(end == count * (s + 1) / stages);
      }
    }
}

TEST_CASE("balanced: of those that keep the bound each stage is nearest to an equal share, of two the smaller",
          "[property]") {
  sim::RandomStream random(6, "shares");
  for (int round = 0; round < 300; ++round) {
    Counts layers(static_cast<std::size_t>(2 + random.below(9)));
    for (std::int64_t& layer : layers) layer = static_cast<std::int64_t>(1 + random.below(6));
    const PartitionView view{.stages = static_cast<std::int64_t>(2 + random.below(layers.size() - 1)),
                             .layers = layers,
                             .embedding = static_cast<std::int64_t>(random.below(9)),
                             .head = static_cast<std::int64_t>(random.below(9))};
    for (const bool memory : {false, true}) {
      const Counts counts = make("balanced", memory ? R"({"by": "memory"})" : "{}")->divide(view);
      Counts row = layers;
      if (memory) row.front() += view.embedding;
      row.back() += view.head;
      const std::int64_t bound = least(view, memory ? view.embedding : 0);
      std::size_t first = 0;
      for (std::int64_t left = view.stages; left > 1; --left) {
        const std::span<const std::int64_t> rest(row.begin() + static_cast<std::ptrdiff_t>(first), row.end());
        const std::int64_t total = std::accumulate(rest.begin(), rest.end(), std::int64_t{0});
        std::int64_t nearest = 0, off = 0;
        for (std::int64_t count = 1; count <= std::ssize(rest) - (left - 1); ++count) {
          const std::int64_t own = std::accumulate(rest.begin(), rest.begin() + count, std::int64_t{0});
          const PartitionView after{.stages = left - 1, .layers = rest.subspan(static_cast<std::size_t>(count))};
          if (own > bound || least(after, 0) > bound) continue;
          if (nearest == 0 || std::abs(own * left - total) < off) {
            nearest = count;
            off = std::abs(own * left - total);
          }
        }
        REQUIRE(counts[static_cast<std::size_t>(view.stages - left)] == nearest);
        first += static_cast<std::size_t>(nearest);
      }
    }
  }
}

TEST_CASE("by_speed: layers in proportion to speed, the last stage takes what is left") {
  const auto divide = [](std::int64_t count, const std::string& params, std::vector<double> speeds = {}) {
    const std::vector<std::int64_t> layers(static_cast<std::size_t>(count), 1);
    return make("by_speed", params)->divide({.stages = 2, .layers = layers, .speeds = speeds});
  };
  // Holmes' layouts: 48 * 197 / 357 = 26.5 and 30 * 197 / 357 = 16.6.
  CHECK(divide(48, R"({"speeds": [197, 160]})") == Counts{26, 22});
  CHECK(divide(30, R"({"speeds": [197, 160]})") == Counts{16, 14});
  CHECK(divide(48, "{}", {197, 160}) == Counts{26, 22});
  CHECK(divide(30, R"({"speeds": [160, 197]})") == Counts{13, 17});
  CHECK(divide(30, "{}") == Counts{15, 15});
  CHECK(divide(10, R"({"speeds": [1000, 1]})") == Counts{9, 1});  // nobody is left without
  CHECK(divide(10, R"({"speeds": [1, 1000]})") == Counts{1, 9});
  CHECK(divide(10, R"({"speeds": [1, 1, 1]})").empty());  // the caller says so
  CHECK(make("by_speed")->wants_speeds());
  CHECK(!make("by_speed", R"({"speeds": [1, 2]})")->wants_speeds());
  CHECK(!make("even")->wants_speeds());
}

}  // namespace test_partition
