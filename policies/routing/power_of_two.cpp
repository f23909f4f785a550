// Power of two choices: of a few replicas drawn at random the least loaded (Mitzenmacher, 2001). Needs the load of as
// few replicas as it draws, and has most of the gain of looking at all.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

struct PowerOfTwoParams {
  std::int64_t choices = 2;
  LoadOf load = LoadOf::requests;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("choices", &PowerOfTwoParams::choices, sim::Unit::count, sim::between(1, 64),
                                      "Number of different replicas drawn."),
                           sim::field("load", &PowerOfTwoParams::load, "What counts as load of a replica.")};
  }
};

class PowerOfTwo final : public Router {
 public:
  PowerOfTwo(const PowerOfTwoParams& params, sim::RandomStream random) : params_(params), random_(std::move(random)) {}
  std::size_t route(const RouteView& view) override {
    // The first of a random order of the places, as far as it is needed.
    const std::size_t n = view.replicas.size();
    places_.resize(n);
    for (std::size_t i = 0; i < n; ++i) places_[i] = i;
    const std::size_t choices = std::min(n, static_cast<std::size_t>(params_.choices));
    std::size_t best = 0;
    for (std::size_t i = 0; i < choices; ++i) {
      std::swap(places_[i], places_[i + static_cast<std::size_t>(random_.below(n - i))]);
      const std::size_t place = places_[i];
      if (i == 0 || load_of(view.replicas[place], params_.load) < load_of(view.replicas[best], params_.load))
        best = place;
    }
    return best;
  }
  bool reads_live() const override { return is_live(params_.load); }

 private:
  PowerOfTwoParams params_;
  sim::RandomStream random_;
  std::vector<std::size_t> places_;
};

}  // namespace

void add_power_of_two(RouterRegistry& registry) {
  registry.add<PowerOfTwoParams>("power_of_two", "The least loaded of a few replicas drawn at random, two by default.",
                                 [](const PowerOfTwoParams& params, sim::RandomStream random) {
                                   return std::make_unique<PowerOfTwo>(params, std::move(random));
                                 });
}

}  // namespace orrery::policies
