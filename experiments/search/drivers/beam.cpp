// Beam search over the parameters in order: a beam of points is expanded by every value of the first parameter, the
// best `width` stay, then of the second, and so on; passes repeat from the last beam until none improves it, and then
// from a new random point. With width 1 it is coordinate descent. Reals and long ranges of integers take `steps`
// evenly spread values in the first pass; every further pass spreads them over half the range around the beam's own
// value. Source: Lowerre 1976 (the search); used for schedules of tensor programs by Adams et al. 2019.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "experiments/search/moves.hpp"

namespace orrery::experiments::search {
namespace {

struct BeamParams {
  std::int64_t width = 3;
  std::int64_t steps = 8;

  static constexpr auto fields() {
    using P = BeamParams;
    return sim::FieldTable{sim::field("width", &P::width, sim::Unit::count, sim::between(1, 10'000),
                                      "Points kept after each parameter (beam width)."),
                           sim::field("steps", &P::steps, sim::Unit::count, sim::between(2, 10'000),
                                      "Values of a real or a long range that are tried per pass.")};
  }
};

class BeamDriver final : public StreamDriver {
 public:
  BeamDriver(const BeamParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {}

  std::vector<Proposal> ask(std::size_t most) override {
    for (std::size_t idle = 0; next_ == wave_.size(); ++idle)
      if (idle > kIdle || !advance()) return {};
    std::vector<Proposal> batch;
    for (; batch.size() < most && next_ < wave_.size(); ++next_) batch.push_back({wave_[next_]});
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override { return next_ < wave_.size() || out.empty(); }
  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) heard_.push_back(trial);
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"restarts", static_cast<double>(restarts_ > 0 ? restarts_ - 1 : 0)}, {"pass", static_cast<double>(pass_)}};
  }

 private:
  static constexpr std::size_t kIdle = 100'000;  ///< waves in a row with nothing to try, before the driver gives up

  /// The next wave of points; false if the space gives no point to start at.
  bool advance() {
    narrow();
    wave_.clear();
    next_ = 0;
    if (beam_.empty() || (parameter_ == space_.size() && !next_pass())) {
      const auto start = space_.sample(random_);
      if (!start) return false;
      wave_.push_back(*start);
      beam_.clear();
      parameter_ = pass_ = 0;
      ++restarts_;
      return true;
    }
    expand(parameter_++);
    return true;
  }
  /// Lets the best of the beam and of what was heard stay.
  void narrow() {
    beam_.insert(beam_.end(), heard_.begin(), heard_.end());
    heard_.clear();
    std::stable_sort(beam_.begin(), beam_.end(),
                     [](const Trial& a, const Trial& b) { return better(a.result, b.result); });
    std::vector<Trial> kept;
    std::set<std::string> seen;
    for (Trial& trial : beam_)
      if (std::ssize(kept) < params_.width && seen.insert(space_.key(trial.proposal.point)).second)
        kept.push_back(std::move(trial));
    beam_ = std::move(kept);
  }
  /// False if the last pass brought nothing, and finer values of reals would not either.
  bool next_pass() {
    const bool improved = !at_pass_start_ || better(beam_.front().result, *at_pass_start_);
    if (!improved && (!has_fine_steps(space_) || pass_ >= kPasses)) {
      at_pass_start_.reset();
      return false;
    }
    at_pass_start_ = beam_.front().result;
    parameter_ = 0;
    ++pass_;
    return true;
  }
  void expand(std::size_t p) {
    std::set<std::string> seen;
    for (const Trial& trial : beam_) seen.insert(space_.key(trial.proposal.point));
    for (const Trial& trial : beam_) {
      const Point& from = trial.proposal.point;
      if (std::isnan(from[p])) continue;
      for (const double value : values(p, from[p])) {
        Point point = from;
        point[p] = value;
        point = completed(space_, std::move(point), random_);
        if (space_.allowed(point) && seen.insert(space_.key(point)).second) wave_.push_back(std::move(point));
      }
    }
  }
  std::vector<double> values(std::size_t p, double at) const {
    const Parameter& parameter = space_.parameters()[p];
    std::vector<double> all;
    if (!is_fine(parameter)) {
      for (std::uint64_t i = 0; i < *parameter.levels(); ++i)
        all.push_back(static_cast<double>(i) + (parameter.has_choices() ? 0 : parameter.low));
      return all;
    }
    const double range = std::ldexp(1.0, -static_cast<int>(std::min<std::int64_t>(pass_, kPasses)));
    const double low = std::clamp(space_.to_unit(p, at) - range / 2, 0.0, 1 - range);
    for (std::int64_t i = 0; i < params_.steps; ++i)
      all.push_back(
          space_.from_unit(p, low + range * (static_cast<double>(i) + 0.5) / static_cast<double>(params_.steps)));
    return all;
  }

  static constexpr std::int64_t kPasses = 20;  ///< halvings of the range of reals

  BeamParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<Trial> beam_, heard_;
  std::vector<Point> wave_;
  std::size_t next_ = 0, parameter_ = 0;
  std::int64_t pass_ = 0, restarts_ = 0;
  std::optional<Evaluation> at_pass_start_;
};

}  // namespace

void add_beam_driver(DriverRegistry& registry) {
  registry.add<BeamParams>(
      "beam", "Beam search over the parameters in order, pass after pass.",
      [](const BeamParams& params, const DriverSetup& setup) { return std::make_unique<BeamDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
