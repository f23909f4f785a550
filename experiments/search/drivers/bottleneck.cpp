// Bottleneck-guided search (AutoDSE: Sohrabizadeh, Yu, Gao, Cong 2022): the breakdown of a result says where the time
// goes, the setup says which parameters to move when it goes there, and the search moves one of those. A tree of
// points: each has its parameters in the order of its own breakdown, largest part first; the open point of the highest
// quality moves its next parameter by one value each way. Parameters that no remedy names are moved when no open point
// has another to move. Children that are no more than `tolerance` worse stay open. Quality is the objective itself
// (`performance`) or what it gains over its parent for what a second objective, the cost, loses (`finite_difference`).
// Once every point is closed it starts again at random. Differs from AutoDSE in that it moves both ways, and does not
// divide the space beforehand.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "experiments/search/moves.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::search {

enum class BottleneckQuality : std::uint8_t { performance, finite_difference };
constexpr auto enum_names(BottleneckQuality) {
  using enum BottleneckQuality;
  return sim::names<BottleneckQuality>({{"performance", performance}, {"finite_difference", finite_difference}});
}

enum class BottleneckStart : std::uint8_t { first, middle, random };
constexpr auto enum_names(BottleneckStart) {
  using enum BottleneckStart;
  return sim::names<BottleneckStart>({{"first", first}, {"middle", middle}, {"random", random}});
}

namespace {

struct BottleneckParams {
  BottleneckQuality quality = BottleneckQuality::performance;
  BottleneckStart start = BottleneckStart::middle;
  double tolerance = 0.05;
  double step = 0.125;
  bool ends = false;

  static constexpr auto fields() {
    using P = BottleneckParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("quality", &P::quality,
                   "Which open point is extended first: that of the best objective, or that of the best gain over cost "
                   "(needs a second objective)."),
        sim::field("start", &P::start, "First point: first values, the middle of all ranges, or a random one."),
        sim::field("tolerance", &P::tolerance, Unit::ratio, sim::at_least(0),
                   "Share of its parent's objective by which a child may be worse and stay open."),
        sim::field("step", &P::step, Unit::ratio, sim::between(1e-9, 1),
                   "Step for reals and long ranges, as a share of the range; a fifth of it is tried as well."),
        sim::field("ends", &P::ends,
                   "Whether a move among a few ordered values may also go straight to the last one (such as all copies "
                   "of a loop).")};
  }
};

struct Open {
  Trial trial;
  double quality = 0;
  std::vector<std::size_t> order;  ///< parameters to move, those that remedies name first
  std::size_t named = 0;           ///< how many those are
  std::size_t next = 0;

  bool has_remedy() const { return next < named; }
};

class BottleneckDriver final : public StreamDriver {
 public:
  BottleneckDriver(const BottleneckParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), remedies_(setup.remedies), random_(setup.random) {}

  std::vector<Proposal> ask(std::size_t most) override {
    while (next_ == wave_.size())
      if (!advance()) return {};
    std::vector<Proposal> batch;
    for (; batch.size() < most && next_ < wave_.size(); ++next_) batch.push_back({wave_[next_]});
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override { return next_ < wave_.size() || out.empty(); }
  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) hear(trial);
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"open", static_cast<double>(open_.size())}, {"starts", static_cast<double>(starts_)}};
  }

 private:
  void hear(const Trial& trial) {
    double quality = trial.result.ok() ? -trial.result.objectives[0] : 0;
    if (parent_) {
      if (!keeps(trial.result, parent_->result)) return;
      if (params_.quality == BottleneckQuality::finite_difference)
        quality = gain_over_cost(trial.result, parent_->result);
    }
    Open open{.trial = trial, .quality = quality};
    set_order(open);
    open_.push_back(std::move(open));
  }
  bool keeps(const Evaluation& child, const Evaluation& parent) const {
    const double over = child.violation(), over_parent = parent.violation();
    if (over != over_parent) return over < over_parent;
    if (!child.ok() || !parent.ok()) return true;  // the way out of what does not fit
    const double before = parent.objectives[0];
    return child.objectives[0] <= before + params_.tolerance * std::abs(before);
  }
  /// What the objective falls for what the cost rises; infinite where it falls for nothing.
  static double gain_over_cost(const Evaluation& child, const Evaluation& parent) {
    if (!child.ok() || !parent.ok()) return 0;
    const double gain = parent.objectives[0] - child.objectives[0];
    if (child.objectives.size() < 2) return gain;
    const double cost = child.objectives[1] - parent.objectives[1];
    if (cost > 0) return gain / cost;
    return gain > 0 ? std::numeric_limits<double>::infinity() : gain;
  }
  /// Parameters in the order of the breakdown's parts, each once, the unnamed ones last.
  void set_order(Open& open) const {
    auto parts = open.trial.result.breakdown;
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::size_t>& order = open.order;
    const auto add = [&](std::size_t p) {
      if (!std::isnan(open.trial.proposal.point[p]) && std::find(order.begin(), order.end(), p) == order.end())
        order.push_back(p);
    };
    for (const auto& [name, time] : parts)
      for (const auto& [part, parameters] : remedies_)
        if (part == name) std::for_each(parameters.begin(), parameters.end(), add);
    open.named = order.size();
    for (std::size_t p = 0; p < space_.size(); ++p) add(p);
  }

  /// The next moves of the best open point, or a start; false if the space gives none.
  bool advance() {
    wave_.clear();
    next_ = 0;
    std::erase_if(open_, [](const Open& open) { return open.next == open.order.size(); });
    if (open_.empty()) {
      parent_.reset();
      auto point = start();
      if (!point) return false;
      seen_.insert(space_.key(*point));
      wave_.push_back(*std::move(point));
      return true;
    }
    Open& best = *std::max_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) {
      if (a.has_remedy() != b.has_remedy()) return b.has_remedy();
      const double over_a = a.trial.result.violation(), over_b = b.trial.result.violation();
      return over_a != over_b ? over_a > over_b : a.quality < b.quality;
    });
    parent_ = best.trial;
    move(best.order[best.next++]);
    return true;
  }
  std::optional<Point> start() {
    if (starts_++ == 0 && params_.start != BottleneckStart::random) {
      const bool middle = params_.start == BottleneckStart::middle;
      Point point = space_.from_units(std::vector<double>(space_.size(), middle ? 0.5 : 0.0));
      if (space_.allowed(point)) return point;
    }
    return space_.sample(random_);
  }
  void move(std::size_t p) {
    const Point& from = parent_->proposal.point;
    for (const double value : values(p, from[p])) {
      Point point = from;
      point[p] = value;
      point = completed(space_, std::move(point), random_);
      if (space_.allowed(point) && seen_.insert(space_.key(point)).second) wave_.push_back(std::move(point));
    }
  }
  std::vector<double> values(std::size_t p, double at) const {
    const Parameter& parameter = space_.parameters()[p];
    std::vector<double> all;
    if (parameter.kind == ParameterKind::categorical) {
      for (std::size_t i = 0; i < parameter.choices.size(); ++i)
        if (static_cast<double>(i) != at) all.push_back(static_cast<double>(i));
    } else if (!is_fine(parameter)) {
      all = {at + 1, at - 1};  // beyond an end: clamped to the point itself, which is known
      const bool chosen = parameter.has_choices();
      if (params_.ends)
        all.insert(all.begin() + 1, chosen ? static_cast<double>(parameter.choices.size() - 1) : parameter.high);
    } else {
      const double u = space_.to_unit(p, at);
      for (const double by : {params_.step, -params_.step, params_.step / 5, -params_.step / 5})
        all.push_back(space_.from_unit(p, u + by));
    }
    return all;
  }

  BottleneckParams params_;
  const Space& space_;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> remedies_;
  sim::RandomStream random_;
  std::vector<Open> open_;
  std::optional<Trial> parent_;  ///< of the wave; nothing: it is a start
  std::vector<Point> wave_;
  std::size_t next_ = 0;
  std::set<std::string> seen_;
  std::int64_t starts_ = 0;
};

}  // namespace

void add_bottleneck_driver(DriverRegistry& registry) {
  registry.add<BottleneckParams>("bottleneck",
                                 "Changes the parameters that the breakdown of a result names as its bottleneck.",
                                 [](const BottleneckParams& params, const DriverSetup& setup) {
                                   return std::make_unique<BottleneckDriver>(params, setup);
                                 });
}

}  // namespace orrery::experiments::search
