// windowed_gamma: gamma gaps whose rate and shape change from window to window, and a rate that follows the day: the
// arrivals of BurstGPT (Wang et al., KDD 2025, arXiv 2401.17644v5: "modelled scaling" with windows of 20 minutes; its
// generator uses shape 0.5, and 60 s where it gets lists).
//
// Gaps are drawn in units of the mean gap, with the shape of the window in which they begin, and pass at the rate of
// each window they cross: the mean rate is exact whatever the windows, and a gap across a window is not cut. Shape k
// gives gaps a coefficient of variation of 1 / sqrt(k): 0.5 gives 1.41, 1 is Poisson.
//
// Rate of a window = rate x day(hour) x rates[window] x e^(spread N - spread^2 / 2), each relative to its mean. `day`
// is the median hour of BurstGPT's first two months as its repository draws it (burstgpt_hourly_profile.csv; hours
// whose line cannot be read are between their neighbours); API traffic has no clean cycle, its hours spread by e^(2.5
// N) (quartiles 58 and 1614 of one hour: ln(1614 / 58) / 1.349 = 2.47).
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/math.hpp"
#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {

enum class Day : std::uint8_t { flat, chatgpt_conversation, gpt4_conversation };
constexpr auto enum_names(Day) {
  using enum Day;
  return sim::names<Day>(
      {{"flat", flat}, {"chatgpt_conversation", chatgpt_conversation}, {"gpt4_conversation", gpt4_conversation}});
}

namespace {

using Hours = std::array<double, 24>;
// Requests an hour, median over days.
constexpr Hours kChatgpt{45.8, 27.9, 16.1,  10.5,  4.0,   4.3,   4.6,  12.0,  19.8,  105.9, 156.7, 157.9,
                         68.1, 91.6, 154.8, 183.9, 188.2, 131.9, 76.8, 100.9, 117.6, 107.1, 94.1,  74.9};
constexpr Hours kGpt4{25.0, 17.9, 6.9,  5.5,  4.8,  4.8,  5.8,  6.9,  8.0,  36.0, 66.1, 67.9,
                      27.1, 38.8, 66.8, 84.9, 84.9, 66.8, 39.9, 49.1, 58.0, 55.9, 52.0, 44.9};
constexpr std::int64_t kHourNs = 3'600'000'000'000;
constexpr double kLeast = 1e-6;  // of a window's relative rate, so that time always passes

struct WindowedGammaParams {
  double rate = 1;
  double window_s = 1200;
  double shape = 0.5;
  std::vector<double> shapes, rates;
  double shape_spread = 0, rate_spread = 0;
  Day day = Day::flat;
  double start_hour = 0;

  static constexpr auto fields() {
    using sim::Unit;
    using P = WindowedGammaParams;
    return sim::FieldTable{
        sim::field("rate", &P::rate, Unit::per_s, kRates, "Mean arrivals per second."),
        sim::field("window", &P::window_s, Unit::seconds, sim::between(1, 1e7), "Length of a window."),
        sim::field("shape", &P::shape, Unit::none, sim::between(0.01, 1e4),
                   "Shape of the gaps' gamma distribution where `shapes` is empty; the coefficient of variation is 1 / "
                   "sqrt(shape)."),
        sim::field("shapes", &P::shapes, Unit::none, sim::between(0.01, 1e4),
                   "Shapes of successive windows, repeated in turn; empty: shape."),
        sim::field("rates", &P::rates, Unit::none, sim::between(0, 1e6),
                   "Relative rates of successive windows, repeated in turn; empty: all alike."),
        sim::field("shape_spread", &P::shape_spread, Unit::none, sim::between(0, 3),
                   "Standard deviation of the logarithm of each window's random factor on the shape."),
        sim::field("rate_spread", &P::rate_spread, Unit::none, sim::between(0, 4),
                   "Standard deviation of the logarithm of each window's random factor on the rate."),
        sim::field("day", &P::day, "Daily cycle of the rate."),
        sim::field("start_hour", &P::start_hour, Unit::none, sim::between(0, 24), "Hour of the day at time 0.")};
  }
};

class WindowedGamma final : public ArrivalProcess {
 public:
  explicit WindowedGamma(const WindowedGammaParams& params)
      : params_(params),
        window_ns_(static_cast<std::int64_t>(params.window_s * 1e9)),
        start_ns_(static_cast<std::int64_t>(params.start_hour * static_cast<double>(kHourNs))) {
    double sum = 0;
    for (const double rate : params.rates) sum += rate;
    for (double& rate : params_.rates) rate = sum > 0 ? rate * static_cast<double>(params_.rates.size()) / sum : 1;
    if (params.day != Day::flat) {
      hours_ = params.day == Day::chatgpt_conversation ? kChatgpt : kGpt4;
      double day = 0;
      for (const double hour : *hours_) day += hour;
      for (double& hour : *hours_) hour *= 24 / day;
    }
  }

  std::int64_t next(std::int64_t previous_ns, sim::RandomStream& random) override {
    enter(previous_ns, random);
    double left = random.gamma(shape_, 1 / shape_);  // in mean gaps
    std::int64_t now = previous_ns;
    while (true) {
      const std::int64_t piece_end = std::min(window_end_, hour_end(now));
      const double rate = params_.rate * std::max(kLeast, relative_ * hour_of(now));
      const double here = static_cast<double>(piece_end - now) * 1e-9 * rate;
      if (left < here) return std::min(advance(now, left / rate), piece_end);
      left -= here;
      now = advance(piece_end, 0);
      enter(now, random);
    }
  }

 private:
  /// Moves on to the window of this time and draws what is random about each on the way.
  void enter(std::int64_t now, sim::RandomStream& random) {
    while (now >= window_end_) {
      advance(window_end_, params_.window_s);  // 64 bits hold the end
      window_end_ += window_ns_;
      shape_ = params_.shapes.empty() ? params_.shape : params_.shapes[window_ % params_.shapes.size()];
      relative_ = params_.rates.empty() ? 1 : params_.rates[window_ % params_.rates.size()];
      if (params_.shape_spread > 0) shape_ *= sim::det_exp(params_.shape_spread * random.normal());
      if (params_.rate_spread > 0)
        relative_ *= sim::det_exp(params_.rate_spread * (random.normal() - params_.rate_spread / 2));
      shape_ = std::clamp(shape_, 0.01, 1e4);
      ++window_;
    }
  }
  std::int64_t hour_end(std::int64_t now) const {
    if (!hours_) return window_end_;
    return now + kHourNs - (now + start_ns_) % kHourNs;
  }
  double hour_of(std::int64_t now) const {
    return hours_ ? (*hours_)[static_cast<std::size_t>((now + start_ns_) / kHourNs % 24)] : 1;
  }

  WindowedGammaParams params_;
  std::int64_t window_ns_, start_ns_;
  std::optional<Hours> hours_;
  std::int64_t window_end_ = 0;
  std::size_t window_ = 0;
  double shape_ = 1, relative_ = 1;
};

}  // namespace

void add_windowed_gamma(ArrivalRegistry& registry) {
  registry.add<WindowedGammaParams>(
      "windowed_gamma", "Gamma-distributed gaps whose rate and shape change by windows and by the hour (BurstGPT).",
      [](const WindowedGammaParams& params) { return std::make_unique<WindowedGamma>(params); });
}

}  // namespace orrery::traces::arrivals
