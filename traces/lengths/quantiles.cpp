// quantiles: prompt and answer independent, each by the quantiles and the mean that somebody published of them.
//
// Between two quantiles a and b a length is a + (b - a) u^k with u uniform, so that a segment of weight w adds
// w (a + (b - a) / (k + 1)) to the mean. One k for all segments makes the mean that which is given:
//     1 / (k + 1) = (mean - sum of w a) / (sum of w (b - a));
// without a mean k = 1 (straight lines). What is not published is assumed: the least length and the greatest.
#include <fmt/format.h>

#include <vector>

#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct QuantilePoint {
  double share = 0;
  std::int64_t tokens = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("share", &QuantilePoint::share, sim::Unit::ratio, sim::between(0, 1),
                                 "Share of the lengths that are at most this long.")),
        sim::required(
            sim::field("tokens", &QuantilePoint::tokens, sim::Unit::tokens, kTokens, "Length at this quantile."))};
  }
};

struct QuantilesParams {
  std::vector<QuantilePoint> prompt, output;
  std::optional<double> prompt_mean, output_mean;
  static constexpr auto fields() {
    using Q = QuantilesParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("prompt", &Q::prompt, "Quantiles of prompt lengths, rising from share 0 to share 1.")),
        sim::required(sim::field("output", &Q::output, "Quantiles of output lengths, rising from share 0 to share 1.")),
        sim::field("prompt_mean", &Q::prompt_mean, Unit::tokens, kTokens,
                   "Mean length of a prompt, which shapes the curve between quantiles; null: straight lines."),
        sim::field("output_mean", &Q::output_mean, Unit::tokens, kTokens,
                   "Mean length of an output, which shapes the curve between quantiles; null: straight lines.")};
  }
};

/// One of the two distributions.
class Law {
 public:
  Law(const std::vector<QuantilePoint>& points, std::optional<double> mean, const char* what) : points_(points) {
    const sim::Origin origin{fmt::format("quantiles lengths: {}", what), ""};
    if (points.size() < 2 || points.front().share != 0 || points.back().share != 1)
      sim::throw_fault(origin, "expected two points or more, the first of share 0, the last of share 1");
    double low = 0, rise = 0;
    for (std::size_t i = 1; i < points.size(); ++i) {
      const double weight = points[i].share - points[i - 1].share;
      if (!(weight > 0) || points[i].tokens < points[i - 1].tokens)
        sim::throw_fault(origin, "expected shares that rise and tokens that do not fall");
      low += weight * static_cast<double>(points[i - 1].tokens);
      rise += weight * static_cast<double>(points[i].tokens - points[i - 1].tokens);
    }
    if (!mean || rise == 0) return;
    if (!(*mean > low && *mean < low + rise))
      sim::throw_fault(origin, fmt::format("expected a mean between {:.1f} and {:.1f}, which is what the quantiles "
                                           "allow, got {:.1f}",
                                           low, low + rise, *mean));
    power_ = rise / (*mean - low) - 1;
  }
  std::int64_t draw(sim::RandomStream& random) const {
    const double u = random.uniform();
    std::size_t i = 1;
    while (i + 1 < points_.size() && u >= points_[i].share) ++i;
    const QuantilePoint &a = points_[i - 1], &b = points_[i];
    const double within = (u - a.share) / (b.share - a.share);
    return to_tokens(static_cast<double>(a.tokens) +
                     static_cast<double>(b.tokens - a.tokens) * (within > 0 ? sim::det_pow(within, power_) : 0));
  }

 private:
  std::vector<QuantilePoint> points_;
  double power_ = 1;
};

class Quantiles final : public LengthSampler {
 public:
  explicit Quantiles(const QuantilesParams& p)
      : prompt_(p.prompt, p.prompt_mean, "prompt"), output_(p.output, p.output_mean, "output") {}
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = prompt_.draw(random);
    return {prompt, output_.draw(random)};
  }

 private:
  Law prompt_, output_;
};

}  // namespace

void add_quantiles(LengthRegistry& registry) {
  registry.add<QuantilesParams>("quantiles", "Lengths from published quantiles and means.",
                                [](const QuantilesParams& params) { return std::make_unique<Quantiles>(params); });
}

}  // namespace orrery::traces::lengths
