// Grid search: every allowed point in order, the last parameter fastest; a real takes as many evenly spaced values as
// `steps` says. Points that mean the same because a parameter does not count come once.
#include <set>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {
namespace {

struct GridParams {
  std::int64_t steps = 5;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("steps", &GridParams::steps, sim::Unit::count, sim::at_least(1),
                                      "Values tried of a real parameter, both ends included.")};
  }
};

class GridDriver final : public StreamDriver {
 public:
  GridDriver(const GridParams& params, const DriverSetup& setup) : space_(*setup.space) {
    for (std::size_t i = 0; i < space_.size(); ++i) {
      const auto levels = space_.parameters()[i].levels();
      sizes_.push_back(levels.value_or(static_cast<std::uint64_t>(params.steps)));
    }
    place_.resize(space_.size());
  }

  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    std::int64_t looked = 0;
    for (; batch.size() < most && !done_ && looked < kTries; advance(), ++looked) {
      Point point = here();
      if (!space_.allowed(point) || !seen_.insert(space_.key(point)).second) continue;
      batch.push_back({std::move(point)});
      looked = 0;
    }
    return batch;
  }
  void tell(std::span<const Trial>) override {}

 private:
  /// Points in a row that are not allowed or known, before the driver gives up: no allowed one may follow for years.
  static constexpr std::int64_t kTries = 4'000'000;

  Point here() const {
    Point point(space_.size());
    for (std::size_t i = 0; i < point.size(); ++i) {
      const Parameter& parameter = space_.parameters()[i];
      const auto place = static_cast<double>(place_[i]);
      if (parameter.has_choices())
        point[i] = place;
      else if (parameter.levels())
        point[i] = parameter.low + place;
      else
        point[i] = space_.from_unit(i, sizes_[i] == 1 ? 0.5 : place / static_cast<double>(sizes_[i] - 1));
    }
    return space_.canonical(std::move(point));
  }
  void advance() {
    for (std::size_t i = place_.size(); i-- > 0;) {
      if (++place_[i] < sizes_[i]) return;
      place_[i] = 0;
    }
    done_ = true;
  }

  const Space& space_;
  std::vector<std::uint64_t> sizes_, place_;
  std::set<std::string> seen_;
  bool done_ = false;
};

}  // namespace

void add_grid_driver(DriverRegistry& registry) {
  registry.add<GridParams>(
      "grid", "Evaluates every allowed point in order; the last parameter varies fastest.",
      [](const GridParams& params, const DriverSetup& setup) { return std::make_unique<GridDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
