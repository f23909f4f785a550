// Lengths by published quantiles, and priorities of generated requests.
#include <algorithm>

#include "tests/traces/support.hpp"

namespace test_quantiles {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

std::string with(const std::string& lengths, const std::string& extra = "") {
  return R"({"requests": 40000, "arrivals": {"policy": "fixed"}, "lengths": {"policy": "quantiles", "quantiles": )" +
         lengths + "}" + extra + "}";
}

constexpr const char* kShareGpt = R"({"prompt": [{"share": 0, "tokens": 1}, {"share": 0.5, "tokens": 74},
    {"share": 0.8, "tokens": 348}, {"share": 0.95, "tokens": 1484}, {"share": 0.99, "tokens": 3388},
    {"share": 1, "tokens": 4096}], "prompt_mean": 306,
    "output": [{"share": 0, "tokens": 100}, {"share": 1, "tokens": 300}]})";

}  // namespace

TEST_CASE("quantiles: both the quantiles and the mean come out", "[prop]") {
  const auto trace = make_generated_trace(generator(with(kShareGpt)), 3);
  std::vector<std::int64_t> prompts;
  double prompt_sum = 0, output_sum = 0;
  for (const TraceRecord& record : read_all(*trace)) {
    prompts.push_back(record.prompt_tokens);
    prompt_sum += static_cast<double>(record.prompt_tokens);
    output_sum += static_cast<double>(record.output_tokens);
    CHECK(record.output_tokens >= 100);
    CHECK(record.output_tokens <= 300);
  }
  std::sort(prompts.begin(), prompts.end());
  CHECK(prompts[20'000] == Approx(74).epsilon(0.06));
  CHECK(prompts[32'000] == Approx(348).epsilon(0.06));
  CHECK(prompts[38'000] == Approx(1484).epsilon(0.06));
  CHECK(prompts[39'600] == Approx(3388).epsilon(0.06));
  CHECK(prompt_sum / 40'000 == Approx(306).epsilon(0.03));
  CHECK(output_sum / 40'000 == Approx(200).epsilon(0.01));  // a straight line
}

TEST_CASE("quantiles that cannot be say why", "[unit]") {
  const auto fault = [](const std::string& lengths) {
    return fault_of([&] { make_generated_trace(generator(with(lengths)), 1); });
  };
  const std::string output = R"("output": [{"share": 0, "tokens": 1}, {"share": 1, "tokens": 1}]})";
  CHECK_THAT(fault(R"({"prompt": [{"share": 0.1, "tokens": 1}, {"share": 1, "tokens": 9}], )" + output),
             Catch::Contains("the first of share 0"));
  CHECK_THAT(fault(R"({"prompt": [{"share": 0, "tokens": 5}, {"share": 1, "tokens": 4}], )" + output),
             Catch::Contains("do not fall"));
  CHECK_THAT(fault(R"({"prompt": [{"share": 0, "tokens": 1}, {"share": 1, "tokens": 9}], "prompt_mean": 9, )" + output),
             Catch::Contains("expected a mean between 1.0 and 9.0"));
}

TEST_CASE("priorities are drawn apart: lengths and arrivals stay", "[prop]") {
  const auto plain = read_all(*make_generated_trace(generator(with(kShareGpt)), 3));
  const auto shared = make_generated_trace(generator(with(kShareGpt, R"(, "high_share": 0.1)")), 3);
  CHECK(shared->columns().priorities);
  const auto records = read_all(*shared);
  CHECK(short_form(records) == short_form(plain));
  const auto high = std::count_if(records.begin(), records.end(), [](const TraceRecord& r) { return r.priority == 1; });
  CHECK(static_cast<double>(high) == Approx(4000).margin(5 * 60));  // sigma is sqrt(40000 x 0.09) = 60
}

}  // namespace test_quantiles
