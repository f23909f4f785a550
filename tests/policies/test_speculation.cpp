// Speculators by themselves: lengths from prices, acceptance against its closed form.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "policies/speculation/speculation.hpp"
#include "sim/base/random.hpp"

namespace test_speculation {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// A roofline: reading the weights takes 1000, a token 10 of compute; whichever is longer. A draft step costs 50.
class Roofline final : public StepPrices {
 public:
  std::int64_t verify_ps(std::int64_t sequences, std::int64_t tokens, std::int64_t) const override {
    return std::max<std::int64_t>(1000, 10 * sequences * tokens);
  }
  std::int64_t draft_ps(std::int64_t, std::int64_t drafts, std::int64_t) const override { return 50 * drafts; }
};

const Roofline kRoofline;

std::unique_ptr<Speculator> make(const std::string& block, std::uint64_t seed = 1) {
  SpeculationRegistry registry("speculation");
  register_speculation(registry);
  sim::Faults faults;
  auto choice = registry.parse_block(sim::parse_json(block, "test"), "none", faults);
  faults.throw_if_any();
  return choice.make(kRoofline, seed);
}

Sequence at(std::int64_t order, std::int64_t generated) {
  Sequence seq;
  seq.order = order;
  seq.generated_then = generated;
  return seq;
}

/// Mean tokens of a step over `count` sequences and places.
double mean_kept(Speculator& speculator, std::int64_t drafts, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(speculator.accepted(at(i / 50, i % 50), drafts));
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("Tokens of a step have their closed form", "[unit][theory]") {
  for (const double a : {0.1, 0.5, 0.7, 0.95})
    for (std::int64_t g = 0; g <= 8; ++g)
      CHECK(tokens_a_step(a, g) == Approx((1 - std::pow(a, static_cast<double>(g + 1))) / (1 - a)));
  CHECK(tokens_a_step(1, 4) == 5);
  CHECK(tokens_a_step(0, 4) == 1);
}

TEST_CASE("What is kept has the mean of independent acceptance", "[theory]") {
  for (const double a : {0.3, 0.7, 0.9}) {
    const auto speculator = make(R"({"policy": "mtp", "mtp": {"acceptance": )" + std::to_string(a) + "}}");
    for (const std::int64_t g : {1, 4, 8}) {
      const double expected = tokens_a_step(a, g) - 1;
      // 20,000 draws of 0 … g: a standard error of at most g / 2 / sqrt(20000) = g / 283; four of them.
      CHECK(mean_kept(*speculator, g, 20'000) == Approx(expected).margin(static_cast<double>(g) / 70));
    }
  }
}

TEST_CASE("Certain drafts are all kept, hopeless ones never", "[unit]") {
  CHECK(mean_kept(*make(R"({"policy": "mtp", "mtp": {"acceptance": 1}})"), 4, 200) == 4);
  CHECK(mean_kept(*make(R"({"policy": "mtp", "mtp": {"acceptance": 0}})"), 4, 200) == 0);
}

TEST_CASE("Requests may differ in acceptance, with the same mean", "[theory]") {
  const auto speculator = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.6, "spread": 0.25}})");
  // One draft: kept with the mean probability, whatever the spread; 400 requests of 50 steps. The standard error of the
  // mean over requests is 0.25 / sqrt(400) = 0.0125, that of the draws 0.0035.
  CHECK(mean_kept(*speculator, 1, 20'000) == Approx(0.6).margin(0.05));
  // Between requests the share kept varies more than draws alone do: 0.25 against sqrt(0.24 / 50) = 0.07.
  double squares = 0;
  for (std::int64_t request = 0; request < 400; ++request) {
    double kept = 0;
    for (std::int64_t i = 0; i < 50; ++i) kept += static_cast<double>(speculator->accepted(at(request, i), 1)) / 50;
    squares += (kept - 0.6) * (kept - 0.6) / 400;
  }
  CHECK(std::sqrt(squares) == Approx(0.26).margin(0.04));  // sqrt(0.25^2 + 0.07^2)
}

TEST_CASE("What is kept depends on the sequence and its place alone", "[prop]") {
  const auto one = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.7}})");
  const auto other = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.7}})");
  for (std::int64_t i = 0; i < 100; ++i) (void)other->accepted(at(1000 + i, 3), 4);  // others in the batch
  bool longer = false;
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t kept = one->accepted(at(i, i), 4);
    CHECK(other->accepted(at(i, i), 4) == kept);
    // A longer proposal keeps at least as much: the same tokens are wrong.
    CHECK(one->accepted(at(i, i), 8) >= kept);
    longer = longer || one->accepted(at(i, i), 8) > kept;
  }
  CHECK(longer);
  CHECK(mean_kept(*make(R"({"policy": "mtp", "mtp": {"acceptance": 0.7}})", 2), 4, 100) != mean_kept(*one, 4, 100));
}

TEST_CASE("Batches that must stay in step go on by the least that was kept", "[unit]") {
  std::vector<std::int64_t> kept{3, 1, 4};
  make(R"({"policy": "mtp", "mtp": {"ragged": "own"}})")->level(kept);
  CHECK(kept == std::vector<std::int64_t>{3, 1, 4});
  make(R"({"policy": "mtp", "mtp": {"ragged": "least"}})")->level(kept);
  CHECK(kept == std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("The adaptive length is the argument of the minimum and never grows with the batch", "[prop]") {
  const auto speculator = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.7, "drafts": 8, "adaptive": true}})");
  std::int64_t before = 8;
  for (std::int64_t b = 1; b <= 300; ++b) {
    const std::int64_t length = speculator->length(b, 0);
    const auto a_token = [&](std::int64_t g) {
      return static_cast<double>(kRoofline.verify_ps(b, 1 + g, 0) + 50 * g) / tokens_a_step(0.7, g);
    };
    for (std::int64_t g = 0; g <= 8; ++g) CHECK(a_token(length) <= a_token(g));
    CHECK(length <= before);
    before = length;
  }
  // Batch 1: 8 drafts cost 1400 for E = (1 - 0.7^9) / 0.3 = 3.199 tokens, 437.6 each; 6 cost 1300 for 3.059, 425.0;
  // 5 cost 1250 for 2.941, 425.0 (424.99 against 424.97 the other way: 6 wins); none costs 1000.
  CHECK(speculator->length(1, 0) >= 5);
  CHECK(speculator->length(300, 0) == 0);  // past the ridge every proposed token is paid for: 10 b, for less than one
}

TEST_CASE("Lengths can be fixed, capped by the batch, or nothing at all", "[unit]") {
  const auto fixed = make(R"({"policy": "n_gram", "n_gram": {"drafts": 3, "max_batch": 4}})");
  CHECK(fixed->length(4, 0) == 3);
  CHECK(fixed->length(5, 0) == 0);
  CHECK(fixed->length(0, 100) == 0);
  CHECK(make("{}")->length(1, 0) == 0);
  CHECK(make(R"({"policy": "n_gram", "n_gram": {"match": 0}})")->drafts(at(1, 1), 1, 4) == 0);
  CHECK(make(R"({"policy": "n_gram", "n_gram": {"match": 1}})")->drafts(at(1, 1), 1, 4) == 4);
}

namespace {

/// A draw of a sequence at a place, as the process makes them: of what is kept (purpose 0) or proposed (1).
double draw_at(std::uint64_t seed, std::uint64_t order, std::uint64_t place, std::uint64_t purpose) {
  return sim::RandomStream(seed, "speculation").child(order).child(place * 4 + purpose).uniform();
}

}  // namespace

TEST_CASE("What is kept is the most tokens whose chance is above the draw of that place", "[unit]") {
  for (const double rate : {0.3, 0.7, 0.95}) {
    const auto speculator = make(R"({"policy": "mtp", "mtp": {"acceptance": )" + std::to_string(rate) + "}}", 3);
    for (std::uint64_t order = 0; order < 30; ++order)
      for (std::uint64_t place = 0; place < 5; ++place) {
        const double u = draw_at(3, order, place, 0);
        std::int64_t kept = 0;
        while (kept < 6 && u < std::pow(rate, static_cast<double>(kept + 1))) ++kept;
        CHECK(speculator->accepted(at(static_cast<std::int64_t>(order), static_cast<std::int64_t>(place)), 6) == kept);
      }
  }
}

TEST_CASE("n_gram proposes at places whose draw is below the share of matches", "[unit]") {
  const auto speculator = make(R"({"policy": "n_gram", "n_gram": {"match": 0.4}})", 5);
  for (std::uint64_t order = 0; order < 30; ++order)
    for (std::uint64_t place = 0; place < 5; ++place)
      CHECK(speculator->drafts(at(static_cast<std::int64_t>(order), 0), static_cast<std::int64_t>(place), 3) ==
            (draw_at(5, order, place, 1) < 0.4 ? 3 : 0));
}

TEST_CASE("Rates that differ are drawn once a request: a beta, or all or nothing where no beta is as wide", "[unit]") {
  // A deviation of 0.5 at a mean of 0.5 is that of a coin.
  const auto coin = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.5, "spread": 0.5}})");
  int all = 0;
  for (std::int64_t order = 0; order < 400; ++order) {
    const std::int64_t first = coin->accepted(at(order, 0), 4);
    CHECK((first == 0 || first == 4));
    for (std::int64_t place = 1; place < 4; ++place) CHECK(coin->accepted(at(order, place), 4) == first);
    all += first == 4 ? 1 : 0;
  }
  CHECK(std::abs(all - 200) < 40);  // a deviation of 10
  // Mean 0.8 and deviation 0.2: 0.16 / 0.04 - 1 = 3 tokens of a Polya urn, 2.4 and 0.6.
  const auto beta = make(R"({"policy": "mtp", "mtp": {"acceptance": 0.8, "spread": 0.2}})", 9);
  for (std::uint64_t order = 0; order < 40; ++order) {
    sim::RandomStream own = sim::RandomStream(9, "speculation").child(order).child("rate");
    const double a = own.gamma(0.8 * 3, 1);
    const double b = own.gamma(0.2 * 3, 1);
    const double rate = a / (a + b), u = draw_at(9, order, 0, 0);
    std::int64_t kept = 0;
    while (kept < 6 && u < std::pow(rate, static_cast<double>(kept + 1))) ++kept;
    CHECK(beta->accepted(at(static_cast<std::int64_t>(order), 0), 6) == kept);
  }
}

TEST_CASE("The adaptive length is asked for batches in any order, and of equal prices the shorter is taken", "[unit]") {
  struct Flat final : StepPrices {
    std::int64_t verify_ps(std::int64_t sequences, std::int64_t tokens, std::int64_t context) const override {
      // Every token that is accepted for certain costs 100; a context of 77 was asked for.
      return context == 77 ? (sequences > 2 ? 100 * tokens : 1000) : 1;
    }
    std::int64_t draft_ps(std::int64_t, std::int64_t drafts, std::int64_t context) const override {
      return context == 77 && drafts > 3 ? 100'000 : 0;
    }
  };
  const Flat flat;
  SpeculationRegistry registry("speculation");
  register_speculation(registry);
  sim::Faults faults;
  const auto speculator =
      registry
          .parse_block(sim::parse_json(R"({"policy": "mtp", "mtp": {"acceptance": 1, "adaptive": true, "drafts": 6,
                                           "context": 77, "max_batch": 50}})",
                                       "test"),
                       "none", faults)
          .make(flat, 1);
  CHECK(speculator->length(40, 0) == 0);  // 100 a token whatever is proposed
  CHECK(speculator->length(2, 0) == 3);   // 1,000 for any number, but drafts past three are dear
  CHECK(speculator->length(1, 0) == 3);
  CHECK(speculator->length(3, 0) == 0);
  CHECK(speculator->length(50, 0) == 0);
  CHECK(speculator->length(51, 0) == 0);
  CHECK(speculator->length(2, 0) == 3);
  CHECK(speculator->length(0, 0) == 0);
}

TEST_CASE("Who drafts, and with how many layers", "[unit]") {
  CHECK(make("{}")->drafter() == Drafter::none);
  CHECK(make("{}")->accepted(at(1, 1), 4) == 0);
  CHECK(make(R"({"policy": "n_gram"})")->drafter() == Drafter::none);
  CHECK(make(R"({"policy": "mtp", "mtp": {"layers": 3}})")->drafter() == Drafter::layers);
  CHECK(make(R"({"policy": "mtp", "mtp": {"layers": 3}})")->draft_layers() == 3);
  std::vector<std::int64_t> none;
  make(R"({"policy": "mtp", "mtp": {"ragged": "least"}})")->level(none);
  CHECK(none.empty());
}

}  // namespace test_speculation
