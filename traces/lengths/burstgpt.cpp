// burstgpt: prompts and answers of BurstGPT's conversations. Prompts are log-normal; an answer given its prompt comes
// from the figure "Statistics of Request and Response Tokens" of the trace's repository
// (burstgpt_response_vs_request.csv, read from pixels, about +-10 tokens): the median and the 90 % band by prompt
// tokens, linear between the columns below and constant beyond. Between the three quantiles the law is a split
// log-normal: below the median with the deviation that puts 5 % under the band, above it with the one that puts 5 %
// over it.
//
// Prompt defaults: median 327 and mean 478 tokens of the third part's conversations, so CV = sqrt((478 / 327)^2 - 1).
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/enum_names.hpp"
#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {

enum class Service : std::uint8_t { chatgpt, gpt4 };
constexpr auto enum_names(Service) {
  using enum Service;
  return sim::names<Service>({{"chatgpt", chatgpt}, {"gpt4", gpt4}});
}

namespace {

struct Point {
  double request, median, low, high;
};
constexpr std::array<Point, 13> kChatgpt{{{25, 170, 19, 579},
                                          {50, 155, 15, 583},
                                          {100, 89, 14, 505},
                                          {200, 123, 15, 387},
                                          {300, 113, 17, 381},
                                          {400, 137, 20, 435},
                                          {500, 167, 22, 488},
                                          {750, 215, 39, 535},
                                          {1000, 253, 53, 536},
                                          {1250, 304, 84, 539},
                                          {1500, 350, 136, 604},
                                          {1750, 390, 166, 621},
                                          {2000, 431, 188, 695}}};
constexpr std::array<Point, 13> kGpt4{{{25, 185, 24, 584},
                                       {50, 241, 19, 584},
                                       {100, 140, 11, 516},
                                       {200, 136, 6, 442},
                                       {300, 83, 6, 370},
                                       {400, 124, 14, 428},
                                       {500, 147, 16, 444},
                                       {750, 206, 45, 513},
                                       {1000, 239, 65, 502},
                                       {1250, 273, 90, 523},
                                       {1500, 298, 122, 564},
                                       {1750, 342, 147, 636},
                                       {2000, 378, 159, 661}}};
constexpr double kQuantile95 = 1.6448536269514722;  // of the normal

struct BurstgptParams {
  Service service = Service::chatgpt;
  double prompt_mean = 478;
  double prompt_cv = 1.066;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("service", &BurstgptParams::service, "Service whose outputs are drawn."),
                           sim::field("prompt_mean", &BurstgptParams::prompt_mean, sim::Unit::tokens,
                                      sim::between(1, 1e6), "Mean length of a prompt."),
                           sim::field("prompt_cv", &BurstgptParams::prompt_cv, sim::Unit::ratio, sim::between(0, 10),
                                      "Coefficient of variation of prompt lengths (log-normal).")};
  }
};

class Burstgpt final : public LengthSampler {
 public:
  explicit Burstgpt(const BurstgptParams& params)
      : points_(params.service == Service::chatgpt ? kChatgpt : kGpt4),
        sigma_(std::sqrt(sim::det_log1p(params.prompt_cv * params.prompt_cv))),
        mu_(sim::det_log(params.prompt_mean) - sigma_ * sigma_ / 2) {}

  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = to_tokens(random.log_normal(mu_, sigma_));
    const Point at = point(static_cast<double>(prompt));
    const double normal = random.normal();
    const double spread = sim::det_log(normal < 0 ? at.median / at.low : at.high / at.median) / kQuantile95;
    return {prompt, to_tokens(at.median * sim::det_exp(spread * normal))};
  }

 private:
  Point point(double request) const {
    const auto above =
        std::find_if(points_.begin(), points_.end(), [&](const Point& p) { return p.request >= request; });
    if (above == points_.begin()) return points_.front();
    if (above == points_.end()) return points_.back();
    const Point& a = *(above - 1);
    const double t = (request - a.request) / (above->request - a.request);
    const auto mix = [t](double x, double y) { return x + t * (y - x); };
    return {request, mix(a.median, above->median), mix(a.low, above->low), mix(a.high, above->high)};
  }

  std::array<Point, 13> points_;
  double sigma_, mu_;
};

}  // namespace

void add_burstgpt(LengthRegistry& registry) {
  registry.add<BurstgptParams>("burstgpt", "Prompts of conversations, and outputs given the prompt (BurstGPT).",
                               [](const BurstgptParams& params) { return std::make_unique<Burstgpt>(params); });
}

}  // namespace orrery::traces::lengths
