// Latin hypercube: a design of n points in which each of n equal parts of every parameter's interval holds one
// (McKay, Beckman, Conover 1979). Figures that are sums of effects of single parameters are estimated far better by it
// than by random points. Where several designs are drawn, the one whose closest two points are furthest apart is
// kept. Points that are not allowed are left out, and further designs follow until the budget is used.
#include <algorithm>
#include <numeric>

#include "experiments/search/proposing.hpp"

namespace orrery::experiments::search {
namespace {

struct LatinHypercubeParams {
  std::int64_t points = 0;
  std::int64_t designs = 1;

  static constexpr auto fields() {
    using P = LatinHypercubeParams;
    return sim::FieldTable{
        sim::field("points", &P::points, sim::Unit::count, sim::between(0, 1e6),
                   "Points of a design; 0: the budget, at most 10,000."),
        sim::field("designs", &P::designs, sim::Unit::count, sim::between(1, 1000),
                   "Designs drawn, of which the one with the best spread is kept; each takes points^2 steps.")};
  }
};

using Design = std::vector<std::vector<double>>;  ///< a place of the unit cube a point

double closest(const Design& design) {
  double least = 1e300;
  for (std::size_t i = 0; i < design.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < design[i].size(); ++p) {
        const double gap = design[i][p] - design[j][p];
        sum += gap * gap;
      }
      least = std::min(least, sum);
    }
  return least;
}

class LatinHypercubeDriver final : public StreamDriver {
 public:
  LatinHypercubeDriver(const LatinHypercubeParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {
    if (params_.points == 0) params_.points = std::clamp<std::int64_t>(setup.budget, 1, 10'000);
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return allowed_proposals(space_, most, [&] {
      if (next_ == design_.size()) draw_best();
      return space_.from_units(design_[next_++]);
    });
  }
  void tell(std::span<const Trial>) override {}

 private:
  Design draw() {
    const auto n = static_cast<std::size_t>(params_.points);
    Design design(n, std::vector<double>(space_.size()));
    std::vector<std::size_t> strata(n);
    for (std::size_t p = 0; p < space_.size(); ++p) {
      std::iota(strata.begin(), strata.end(), std::size_t{0});
      random_.shuffle(std::span(strata));
      for (std::size_t i = 0; i < n; ++i)
        design[i][p] = (static_cast<double>(strata[i]) + random_.uniform()) / static_cast<double>(n);
    }
    return design;
  }
  void draw_best() {
    design_ = draw();
    next_ = 0;
    double spread = params_.designs > 1 ? closest(design_) : 0;
    for (std::int64_t i = 1; i < params_.designs; ++i) {
      Design other = draw();
      if (const double gap = closest(other); gap > spread) {
        spread = gap;
        design_ = std::move(other);
      }
    }
  }

  LatinHypercubeParams params_;
  const Space& space_;
  sim::RandomStream random_;
  Design design_;
  std::size_t next_ = 0;
};

}  // namespace

void add_latin_hypercube_driver(DriverRegistry& registry) {
  registry.add<LatinHypercubeParams>("latin_hypercube", "Designs that spread evenly over every parameter.",
                                     [](const LatinHypercubeParams& params, const DriverSetup& setup) {
                                       return std::make_unique<LatinHypercubeDriver>(params, setup);
                                     });
}

}  // namespace orrery::experiments::search
