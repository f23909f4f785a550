// Successive halving and Hyperband: many points are looked at on a short run, the best share of them on a longer one,
// and so on to full runs (Jamieson and Talwalkar 2016; Li et al. 2018). A bracket that starts at fidelity eta^-s takes
// eta^s points there, and its rung r looks at the best eta^(s-r) at fidelity eta^(r-s). Plain successive halving
// repeats the longest bracket; with `hyperband` brackets of s = longest … 0 take turns, each with about as much work,
// which guards against short runs that mislead. New points are random, or come from Sobol's sequence.
#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/search/driver.hpp"
#include "experiments/search/sobol.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct SuccessiveHalvingParams {
  std::int64_t eta = 3;
  double min_fidelity = 1.0 / 27;
  std::int64_t points = 0;
  bool hyperband = false;
  bool even = true;

  static constexpr auto fields() {
    using P = SuccessiveHalvingParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("eta", &P::eta, Unit::count, sim::between(2, 100),
                   "One in this many points is promoted to the next rung."),
        sim::field("min_fidelity", &P::min_fidelity, Unit::ratio, sim::between(1e-9, 1),
                   "Smallest share of a full run that the first rung gets."),
        sim::field("points", &P::points, Unit::count, sim::between(0, 1e6),
                   "Points of the first rung of a bracket; 0: as many as leave one at the last rung."),
        sim::field("hyperband", &P::hyperband, "Whether brackets that start at later rungs take turns (Hyperband)."),
        sim::field("even", &P::even, "Whether new points come from Sobol's sequence, in place of random ones.")};
  }
};

class SuccessiveHalvingDriver final : public StreamDriver {
 public:
  SuccessiveHalvingDriver(const SuccessiveHalvingParams& params, const DriverSetup& setup)
      : params_(params),
        space_(*setup.space),
        random_(setup.random),
        sequence_(space_.size(), true, setup.random.child("sobol").bits()) {
    const double rungs = sim::det_log(1 / params_.min_fidelity) / sim::det_log(static_cast<double>(params_.eta));
    longest_ = static_cast<std::int64_t>(std::floor(rungs + 1e-9));
    bracket_ = longest_;
  }

  std::vector<Proposal> ask(std::size_t most) override {
    if (next_ == rung_.size() && !advance()) return {};
    std::vector<Proposal> batch;
    for (; batch.size() < most && next_ < rung_.size(); ++next_) batch.push_back({rung_[next_], fidelity()});
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override { return next_ < rung_.size() || out.empty(); }
  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) heard_.push_back(trial);
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"brackets", static_cast<double>(brackets_)}, {"promoted", static_cast<double>(promoted_)}};
  }

 private:
  double power(std::int64_t exponent) const {
    double value = 1;
    for (std::int64_t i = 0; i < exponent; ++i) value *= static_cast<double>(params_.eta);
    return value;
  }
  double fidelity() const { return 1 / power(bracket_ - level_); }

  /// Points of a bracket's first rung. Hyperband gives each bracket about the work of the longest one.
  std::size_t size() const {
    const double first = params_.points > 0 ? static_cast<double>(params_.points) : power(longest_);
    const double rungs = static_cast<double>(longest_ + 1) / static_cast<double>(bracket_ + 1);
    return static_cast<std::size_t>(std::ceil(first / power(longest_ - bracket_) * rungs));
  }

  /// The next rung, or the first of the next bracket; false if the space gives no point.
  bool advance() {
    if (level_ < bracket_ && !heard_.empty()) {
      promote();
    } else {
      if (brackets_++ > 0 && params_.hyperband) bracket_ = bracket_ == 0 ? longest_ : bracket_ - 1;
      level_ = 0;
      rung_.clear();
      while (rung_.size() < size()) {
        auto point = fresh();
        if (!point) break;
        rung_.push_back(*std::move(point));
      }
    }
    next_ = 0;
    heard_.clear();
    return !rung_.empty();
  }
  void promote() {
    std::stable_sort(heard_.begin(), heard_.end(),
                     [](const Trial& a, const Trial& b) { return better(a.result, b.result); });
    const std::size_t kept = std::max<std::size_t>(1, heard_.size() / static_cast<std::size_t>(params_.eta));
    rung_.clear();
    for (std::size_t i = 0; i < kept; ++i) rung_.push_back(heard_[i].proposal.point);
    promoted_ += static_cast<std::int64_t>(kept);
    ++level_;
  }
  std::optional<Point> fresh() {
    for (int i = 0; params_.even && i < 100; ++i) {
      Point point = space_.from_units(sequence_.next());
      if (space_.allowed(point)) return point;
    }
    return space_.sample(random_);
  }

  SuccessiveHalvingParams params_;
  const Space& space_;
  sim::RandomStream random_;
  SobolSequence sequence_;
  std::int64_t longest_ = 0, bracket_ = 0, level_ = 0;  ///< rungs of a bracket are its levels 0 … bracket_
  std::vector<Point> rung_;
  std::size_t next_ = 0;  ///< of the rung, to be asked for
  std::vector<Trial> heard_;
  std::int64_t brackets_ = 0, promoted_ = 0;
};

}  // namespace

void add_successive_halving_driver(DriverRegistry& registry) {
  registry.add<SuccessiveHalvingParams>("successive_halving", "Runs many points briefly, and the best ones for longer.",
                                        [](const SuccessiveHalvingParams& params, const DriverSetup& setup) {
                                          return std::make_unique<SuccessiveHalvingDriver>(params, setup);
                                        });
}

}  // namespace orrery::experiments::search
