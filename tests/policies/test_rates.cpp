// Learning-rate schedules: the identities that their formulas promise.
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/rate/rate.hpp"

namespace test_rates {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::vector<double> rates(const std::string& name, std::int64_t steps, const std::string& params = "{}",
                          std::span<const double> norms = {}) {
  RateRegistry registry("rate");
  register_rates(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->rates({.steps = steps, .norms = norms});
}

}  // namespace

TEST_CASE("rates: at half of the steps") {
  // Step 50 of 100 is z = 1/2.
  const auto half = [](const std::string& name, const std::string& params = "{}") {
    return rates(name, 100, params)[49];
  };
  CHECK(half("constant") == 1);
  CHECK(half("linear") == Approx(0.5));
  CHECK(half("cosine") == Approx(0.5));
  CHECK(half("rex") == Approx(2.0 / 3));
  for (const double phi : {2.0, 1.0, 0.5, 0.01})  // 2 / (2 + phi)
    CHECK(half("uba", R"({"phi": )" + std::to_string(phi) + "}") == Approx(2 / (2 + phi)));
  CHECK(half("step") == 1);  // falls behind it
  CHECK(rates("step", 100)[50] == Approx(0.1));
  CHECK(rates("step", 100)[75] == Approx(0.01));
}

TEST_CASE("rates: UBA is cosine at phi 2 and 2(1+c)/(3+c) at 1") {
  const std::vector<double> cosine = rates("cosine", 64), uba = rates("uba", 64, R"({"phi": 2})");
  const std::vector<double> one = rates("uba", 64, R"({"phi": 1})");
  for (std::size_t t = 0; t < 64; ++t) {
    CHECK(uba[t] == Approx(cosine[t]).margin(1e-12));
    const double c = std::cos(3.14159265358979 * static_cast<double>(t + 1) / 64);
    CHECK(one[t] == Approx(2 * (1 + c) / (3 + c)).margin(1e-12));
  }
  CHECK(rates("uba", 64, R"({"phi": 1e-6})")[31] == Approx(1).margin(1e-5));
}

TEST_CASE("rates: they begin near the peak, never rise but for refined ones, and end at zero") {
  for (const std::string name : {"linear", "cosine", "rex", "uba", "step", "constant"}) {
    CAPTURE(name);
    const std::vector<double> all = rates(name, 1000);
    CHECK(all.front() <= 1);
    CHECK(all.front() > 0.99);
    for (std::size_t t = 1; t < all.size(); ++t) CHECK(all[t] <= all[t - 1]);
    if (name != "step" && name != "constant") CHECK(all.back() == Approx(0).margin(1e-12));
  }
}

TEST_CASE("rates: equal norms are refined to the linear schedule, falling ones to a late fall") {
  const std::vector<double> equal(50, 3.7), linear = rates("linear", 50);
  const std::vector<double> refined = rates("refined", 50, "{}", equal);
  for (std::size_t t = 0; t < 50; ++t) CHECK(refined[t] == Approx(linear[t]).margin(1e-12));
  // Norms that fall from 2 to 1 give early steps a quarter of the weight: a warm-up and a fall.
  std::vector<double> falling;
  for (int t = 0; t < 50; ++t) falling.push_back(2 - t / 49.0);
  const std::vector<double> late = rates("refined", 50, "{}", falling);
  CHECK(late[0] < linear[0]);
  CHECK(late[25] > linear[25]);
  CHECK(late.back() == 0);
}

}  // namespace test_rates
