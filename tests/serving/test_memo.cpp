#include <catch2/catch.hpp>
#include <cstdint>
#include <stdexcept>

#include "experiments/systems/serving/pricing/memo.hpp"
#include "sim/base/mix.hpp"

namespace test_memo {

using orrery::experiments::Memo;

struct Number {
  std::uint64_t value = 0;
  std::uint64_t hash() const { return orrery::sim::mix64(value); }
  friend bool operator==(const Number&, const Number&) = default;
};

/// All keys have the same two places.
struct Alike {
  std::uint64_t value = 0;
  std::uint64_t hash() const { return 1; }
  friend bool operator==(const Alike&, const Alike&) = default;
};

/// Ten times the key; counts how often that was worked out.
template <class Key>
struct Tenfold {
  Memo<Key, std::uint64_t> memo;
  int made = 0;
  std::uint64_t operator()(std::uint64_t value) {
    return memo.get({value}, [&](std::uint64_t& answer) {
      ++made;
      answer = 10 * value;
    });
  }
};

TEST_CASE("an answer is made once as long as there is room", "[unit]") {
  Tenfold<Number> of{Memo<Number, std::uint64_t>(4096)};
  for (std::uint64_t i = 0; i < 1000; ++i) CHECK(of(i) == 10 * i);
  CHECK(of.made == 1000);
  for (std::uint64_t i = 0; i < 1000; ++i) CHECK(of(i) == 10 * i);
  CHECK(of.made < 1200);  // the table has 4096 places by then; a few of the 1000 share both of theirs with two others
}

TEST_CASE("more questions than answers are kept: all are right, and the last ones are known", "[prop]") {
  Tenfold<Number> of{Memo<Number, std::uint64_t>(256)};
  for (int round = 0; round < 3; ++round)
    for (std::uint64_t i = 0; i < 5000; ++i) CHECK(of(i) == 10 * i);
  CHECK(of.made >= 15'000 - 256);  // each was pushed out before it came again
  of.made = 0;
  for (std::uint64_t i = 4990; i < 5000; ++i) CHECK(of(i) == 10 * i);
  CHECK(of.made <= 2);
}

TEST_CASE("keys of equal hash are told apart, and two of them are known at a time", "[unit]") {
  Tenfold<Alike> of{Memo<Alike, std::uint64_t>(256)};
  for (int round = 0; round < 5; ++round) {
    CHECK(of(1) == 10);
    CHECK(of(2) == 20);
  }
  CHECK(of.made == 2);
  CHECK(of(3) == 30);
  CHECK(of(1) == 10);
  CHECK(of(2) == 20);
  CHECK(of.made > 3);
}

TEST_CASE("what throws leaves no answer", "[unit]") {
  Memo<Number, std::uint64_t> memo(256);
  CHECK_THROWS_AS(memo.get({5},
                           [](std::uint64_t& answer) {
                             answer = 1;
                             throw std::runtime_error("no");
                           }),
                  std::runtime_error);
  CHECK(memo.get({5}, [](std::uint64_t& answer) { answer = 50; }) == 50);
  CHECK(memo.get({5}, [](std::uint64_t& answer) { answer = 7; }) == 50);
}

}  // namespace test_memo
