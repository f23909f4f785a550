// Bayesian optimisation: believe something of every point, look where most can be gained, learn.
//
// After a few points at random, a Gaussian process an objective (gaussian_process.hpp) says what to expect elsewhere;
// the next point is the one of the largest expected improvement, for two objectives of the largest expected hypervolume
// improvement, for more that of a random weighing (ParEGO, Knowles 2006), times the probability of being feasible. What
// did not run is learned by a process over labels, +1 and below 0; each limit by one over its margins (met_labels). In
// a batch each point is believed to give its mean before the next is chosen (kriging believer, Ginsbourger 2010), as
// are points that are out. No point is proposed twice. Small spaces are weighed whole, others at random and near good
// points.
#include <algorithm>
#include <cmath>
#include <functional>

#include "experiments/search/candidates.hpp"
#include "experiments/search/driver.hpp"
#include "experiments/search/local_quadratic.hpp"
#include "experiments/search/moves.hpp"
#include "experiments/search/process/acquisition.hpp"
#include "experiments/search/process/gp_learner.hpp"
#include "experiments/search/space_parts.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct BayesianParams {
  std::int64_t initial = 0;
  std::int64_t candidates = 500;
  double refit = 0.05;
  double explore = 0.2;
  bool local = true;

  static constexpr auto fields() {
    using P = BayesianParams;
    return sim::FieldTable{
        sim::field("initial", &P::initial, sim::Unit::count, sim::at_least(0),
                   "Random points before the first model; 0: four, or two more than parameters in each part if "
                   "conditions divide the space."),
        sim::field("candidates", &P::candidates, sim::Unit::count, sim::at_least(10),
                   "Points considered for a proposal if the space is too large to consider all."),
        sim::field("refit", &P::refit, sim::Unit::ratio, sim::at_least(0),
                   "Length scales and noise are fitted again when the number of points has grown by this share."),
        sim::field("explore", &P::explore, sim::Unit::ratio, sim::between(0, 1),
                   "For a space divided by conditions: share of proposals for the part with the fewest points so far."),
        sim::field("local", &P::local,
                   "Whether every other proposal descends by a local quadratic model (three of four while it "
                   "succeeds), and one in four looks for another valley once a descent has ended. Needs one objective, "
                   "no limits, results of all points so far, and parameters that move in fine steps."),
    };
  }
};

using Coordinates = std::vector<double>;

// Values of a figure may change over any distance; whether a point runs says so little (one bit) that its likelihood
// favours steps and certainty, so the lengths of labels stay near the middle.
constexpr double kFigureSpread = 1.2, kLabelSpread = 0.3;
constexpr double kFewFeasible = 40;  ///< points that meet the limits at which a front is half known

/// A descent that has its turns among other proposals: every other one, three of four while that is what gets on, one
/// of four where a space has choices that it leaves alone.
class DescentInTurns {
 public:
  DescentInTurns(const Space& space, bool used, bool choices)
      : space_(space), descent_(space), used_(used), choices_(choices) {}

  std::optional<Point> propose() {
    others_ = false;
    if (!used_ || out_) return std::nullopt;
    const bool fast = descent_.improved() || descent_.at_best(values_);
    const std::uint64_t turn = turn_++ % 4;
    const bool own = choices_ ? turn == 0 : fast ? turn != 3 : turn % 2 == 0;
    others_ = turn == 3 && descent_.finished() > 0;
    if (!own) return std::nullopt;
    std::optional<Point> point = descent_.propose(values_);
    if (point) out_ = space_.key(*point);
    return point;
  }

  /// Whether the proposal that propose() has just left to others is to lead to another valley: a descent has ended.
  bool wants_others() const { return others_; }
  /// Whether a descent has been there.
  bool has_been(const Point& point) const { return descent_.near_finished(point); }

  void answer(const Trial& trial) {
    if (!out_ || space_.key(trial.proposal.point) != *out_) return;
    descent_.tell(trial.result.ok() ? std::optional(trial.result.objectives[0]) : std::nullopt);
    out_.reset();
  }
  void note(const Trial& trial) {
    if (used_) values_.push_back({trial.proposal.point, trial.result.objectives[0]});
  }

 private:
  const Space& space_;
  LocalQuadratic descent_;
  bool used_, choices_, others_ = false;
  std::vector<KnownValue> values_;
  std::optional<std::string> out_;  ///< key of its point that is out
  std::uint64_t turn_ = 0;
};

class BayesianDriver final : public StreamDriver {
 public:
  BayesianDriver(const BayesianParams& params, const DriverSetup& setup)
      : params_(params),
        space_(*setup.space),
        random_(setup.random),
        inputs_(space_),
        candidates_(space_),
        runs_(inputs_, kLabelSpread, params.refit),
        parts_(space_, setup.random.child("parts")),
        descent_(space_, params.local && setup.objectives == 1 && setup.limits == 0,
                 parts_.empty() && std::any_of(space_.parameters().begin(), space_.parameters().end(),
                                               [](const Parameter& p) { return !is_fine(p); })) {
    if (params_.initial == 0) params_.initial = first_points(setup.budget);
    const std::size_t models = setup.objectives <= 2 ? setup.objectives : 1;
    objectives_ = std::vector(models, GpLearner(inputs_, kFigureSpread, params.refit));
    limits_ = std::vector(setup.limits, GpLearner(inputs_, kFigureSpread, params.refit));
    has_room_.assign(setup.limits, true);
  }

  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    bool models = false;
    while (batch.size() < most) {
      const std::size_t proposed = told_.size() + out_.size() + batch.size();
      const bool random = static_cast<std::int64_t>(proposed) < params_.initial || told_.empty();
      std::optional<Point> point;
      if (random) {
        point = first_point(proposed);
      } else {
        const auto part = parts_.due(params_.explore);
        const bool turn = batch.empty() && !part && ok_.size() == told_.size();  // of the descent, perhaps
        if (turn) point = descent_.propose();
        if (point && is_out(*point)) point.reset();  // the descent hears of it all the same
        if (!point) {
          if (!models) learn();
          if (!models) believe_out();
          models = true;
          Where meant;
          if (part) meant = in_part(*part);
          if (turn && parts_.empty() && descent_.wants_others())
            meant = [this](const Point& at) { return !descent_.has_been(at); };
          point = suggest(meant);
          if (!point && meant) point = draw(meant);
        }
      }
      if (!point) break;
      candidates_.mark(*point);
      if (models && batch.size() + 1 < most) believe(inputs_.coordinates_of(*point));
      batch.push_back({*std::move(point)});
    }
    if (models) forget_beliefs();
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override {
    out_.clear();
    for (const Proposal& proposal : out) {
      candidates_.mark(proposal.point);
      out_.push_back(inputs_.coordinates_of(proposal.point));
    }
    return true;
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      descent_.answer(trial);
      if (trial.proposal.fidelity != 1 || !known_.insert(space_.key(trial.proposal.point)).second) continue;
      candidates_.mark(trial.proposal.point);
      told_.push_back({trial.proposal.point, trial.result});
      all_.push_back(inputs_.coordinates_of(trial.proposal.point));
      parts_.note(trial.proposal.point);
      if (trial.result.judged()) {
        judged_.push_back(told_.size() - 1);
        judged_places_.push_back(all_.back());
      }
      if (trial.result.ok()) {
        ok_.push_back(told_.size() - 1);
        descent_.note(trial);
      }
    }
  }

 private:
  static constexpr Pair kNowhere{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  struct Told {
    Point point;
    Evaluation result;
  };

  std::int64_t first_points(std::int64_t budget) const {
    if (parts_.empty()) return 4;
    return budget > 0 ? std::min(parts_.first_points(), std::max<std::int64_t>(4, budget / 4)) : parts_.first_points();
  }

  /// Of a parted space each part in turn, else anywhere.
  std::optional<Point> first_point(std::size_t index) {
    return parts_.empty() ? candidates_.any(random_) : draw(in_part(parts_.at(index)));
  }

  /// Which points are meant; none given: all.
  using Where = std::function<bool(const Point&)>;

  static Where in_part(std::string part) {
    return [part = std::move(part)](const Point& point) { return SpaceParts::of(point) == part; };
  }

  /// At random, of those that are meant if there are enough of them.
  std::optional<Point> draw(const Where& meant) {
    std::optional<Point> point;
    for (int tries = 0; tries < 200; ++tries) {
      point = candidates_.any(random_);
      if (!point || meant(*point)) return point;
    }
    return point;
  }

  void learn() {
    std::vector<double> ran;
    for (const Told& told : told_) ran.push_back(told.result.judged() ? 1 : -1);
    runs_fail_ = judged_.size() < told_.size();
    if (runs_fail_) runs_.learn(all_, std::move(ran));
    limits_break_.assign(limits_.size(), false);
    for (std::size_t l = 0; l < limits_.size(); ++l) {
      std::vector<double> margins;
      for (const std::size_t i : judged_) {
        const auto& all = told_[i].result.margins;
        margins.push_back(l < all.size() ? all[l] : 0);
      }
      set_room(l, std::any_of(margins.begin(), margins.end(), [](double margin) { return margin < 0; }));
      std::vector<double> labels = met_labels(margins);
      limits_break_[l] = !labels.empty();
      if (limits_break_[l]) limits_[l].learn(judged_places_, std::move(labels));
    }
    feasible_.clear();
    for (std::size_t i = 0; i < told_.size(); ++i)
      if (told_[i].result.feasible()) feasible_.push_back(i);
    if (!feasible_.empty()) learn_objectives();
  }

  /// A limit whose margins say how much room there is is a figure like any other; one that is only met or not is not.
  void set_room(std::size_t limit, bool room) {
    if (has_room_[limit] == room) return;
    has_room_[limit] = room;
    limits_[limit] = GpLearner(inputs_, room ? kFigureSpread : kLabelSpread, params_.refit);
  }

  void learn_objectives() {
    const std::size_t count = told_[ok_[0]].result.objectives.size();
    std::vector<std::vector<double>> scaled(count);
    for (std::size_t o = 0; o < count; ++o) {
      for (const std::size_t i : ok_) scaled[o].push_back(told_[i].result.objectives[o]);
      const ObjectiveScale scale(scaled[o]);
      for (double& value : scaled[o]) value = scale(value);
    }
    if (count > 2) {
      objectives_[0].fit_next_time();
      scaled = {weighed(scaled)};
    }
    fill_gaps(scaled);
    for (std::size_t o = 0; o < scaled.size(); ++o) objectives_[o].learn(all_, std::move(scaled[o]));
    set_targets();
  }

  /// Gives a value to points without result: one that gains nothing, the worst on the front (for one objective: the
  /// best). Without it the processes go on promising more where nothing runs.
  void fill_gaps(std::vector<std::vector<double>>& scaled) const {
    for (std::vector<double>& values : scaled) {
      std::vector<double> all(told_.size());
      for (std::size_t g = 0; g < ok_.size(); ++g) all[ok_[g]] = values[g];
      values = std::move(all);
    }
    std::vector<Pair> pairs;
    for (const std::size_t i : feasible_) pairs.push_back({scaled.front()[i], scaled.back()[i]});
    const std::vector<Pair> front = front_below(std::move(pairs), kNowhere);
    for (std::size_t i = 0; i < told_.size(); ++i) {
      if (told_[i].result.ok()) continue;
      scaled.back()[i] = front.front()[1];
      scaled.front()[i] = front.back()[0];
    }
  }

  /// Augmented Chebyshev sums of objectives with random weights.
  std::vector<double> weighed(const std::vector<std::vector<double>>& scaled) {
    std::vector<double> weights, least, sums(ok_.size(), 0), tops(ok_.size(), 0);
    double total = 0;
    for (std::size_t o = 0; o < scaled.size(); ++o) {
      weights.push_back(random_.exponential(1));
      total += weights.back();
    }
    for (std::size_t o = 0; o < scaled.size(); ++o) {
      const double low = *std::min_element(scaled[o].begin(), scaled[o].end());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const double part = weights[o] / total * (scaled[o][i] - low);
        sums[i] += part;
        tops[i] = std::max(tops[i], part);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = tops[i] + 0.05 * sums[i];
    const ObjectiveScale scale(sums);
    for (double& value : sums) value = scale(value);
    return sums;
  }

  /// What is to be improved on: the best mean, or the front of means and a reference behind it.
  void set_targets() {
    std::vector<std::vector<double>> means;
    for (const GpLearner& learner : objectives_) means.push_back(learner.smoothed());
    level_ = means[0][feasible_[0]];
    for (const std::size_t g : feasible_) level_ = std::min(level_, means[0][g]);
    if (objectives_.size() < 2) return;
    reached_.clear();
    for (const std::size_t g : feasible_) reached_.push_back({means[0][g], means[1][g]});
    set_front();
  }

  void set_front() {
    front_ = front_below(reached_, kNowhere);
    Pair worst = front_.front();
    for (const Pair& pair : front_.size() > 1 ? front_ : reached_)
      for (std::size_t o = 0; o < 2; ++o) worst[o] = std::max(worst[o], pair[o]);
    const Pair best{front_.front()[0], front_.back()[1]};
    // While few points are known the reference lies far behind the front: else nothing is to be gained beyond its ends,
    // and a front that begins in one corner stays there.
    const double least = 1 / (1 + static_cast<double>(feasible_.size()) / kFewFeasible);
    for (std::size_t o = 0; o < 2; ++o) reference_[o] = worst[o] + std::max(0.1 * (worst[o] - best[o]), least);
  }

  std::vector<double> scores(const std::vector<Point>& points) const {
    std::vector<Coordinates> where;
    for (const Point& point : points) where.push_back(inputs_.coordinates_of(point));
    std::vector<double> all(points.size(), 0.0);
    const auto add_feasibility = [&](const GpLearner& learner) {
      const auto beliefs = learner.predict(where);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += log_normal_below(beliefs[i].mean / beliefs[i].deviation);
    };
    if (runs_fail_) add_feasibility(runs_);
    for (std::size_t l = 0; l < limits_.size(); ++l)
      if (limits_break_[l]) add_feasibility(limits_[l]);
    if (feasible_.empty()) return all;
    std::vector<std::vector<Gaussian>> beliefs;
    for (const GpLearner& learner : objectives_) beliefs.push_back(learner.predict(where));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] += beliefs.size() == 1
                    ? log_expected_below(beliefs[0][i], level_)
                    : sim::det_log(std::max(
                          1e-300, expected_hypervolume_improvement(beliefs[0][i], beliefs[1][i], front_, reference_)));
    return all;
  }

  /// Good points to look around: the best few for each objective.
  std::vector<Point> good_points() const {
    std::vector<std::size_t> order(told_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<Point> points;
    const std::size_t count = ok_.empty() ? 1 : told_[ok_[0]].result.objectives.size();
    const std::size_t each = count == 1 ? 3 : 2;
    for (std::size_t o = 0; o < count; ++o) {
      const auto before = [&](std::size_t a, std::size_t b) { return better(told_[a].result, told_[b].result, o); };
      std::stable_sort(order.begin(), order.end(), before);
      for (std::size_t i = 0; i < std::min(each, order.size()); ++i) points.push_back(told_[order[i]].point);
    }
    return points;
  }

  /// The best mean of the points that are meant is what is to be improved on there.
  void target_only(const Where& meant) {
    if (objectives_.size() != 1 || feasible_.empty()) return;
    const std::vector<double> means = objectives_[0].smoothed();
    double level = std::numeric_limits<double>::infinity();
    for (const std::size_t i : feasible_)
      if (meant(told_[i].point)) level = std::min(level, means[i]);
    if (std::isfinite(level)) level_ = level;
  }

  std::vector<Point> best_of_these(const Where& meant) const {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < told_.size(); ++i)
      if (meant(told_[i].point)) own.push_back(i);
    std::stable_sort(own.begin(), own.end(),
                     [&](std::size_t a, std::size_t b) { return better(told_[a].result, told_[b].result, 0); });
    std::vector<Point> points;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, own.size()); ++i) points.push_back(told_[own[i]].point);
    return points;
  }

  std::optional<Point> suggest(const Where& meant) {
    const double level = level_;
    if (meant) target_only(meant);
    std::optional<Point> point = suggest_in(meant);
    level_ = level;
    return point;
  }

  std::optional<Point> suggest_in(const Where& meant) {
    const auto elsewhere = [&](const Point& point) { return meant && !meant(point); };
    const auto most = static_cast<std::size_t>(params_.candidates) / std::max<std::size_t>(1, objectives_.size());
    std::vector<Point> points = candidates_.draw(most, meant ? best_of_these(meant) : good_points(), random_);
    std::erase_if(points, elsewhere);
    if (points.empty()) return std::nullopt;
    const auto best_of = [&](std::vector<Point>& some) {
      const std::vector<double> all = scores(some);
      const auto best = static_cast<std::size_t>(std::max_element(all.begin(), all.end()) - all.begin());
      return std::pair(all[best], std::move(some[best]));
    };
    auto best = best_of(points);
    if (candidates_.whole()) return best.second;
    for (const double width : {0.1, 0.03, 0.01}) {
      std::vector<Point> closer = candidates_.near(best.second, most / 10, width, random_);
      std::erase_if(closer, elsewhere);
      if (closer.empty()) continue;
      if (auto next = best_of(closer); next.first > best.first) best = std::move(next);
    }
    return best.second;
  }

  void believe(const Coordinates& point) {
    if (runs_fail_) runs_.believe(point);
    for (std::size_t l = 0; l < limits_.size(); ++l)
      if (limits_break_[l]) limits_[l].believe(point);
    if (feasible_.empty()) return;
    if (objectives_.size() == 2) {
      reached_.push_back({objectives_[0].predict({point})[0].mean, objectives_[1].predict({point})[0].mean});
      set_front();
    }
    for (GpLearner& learner : objectives_) learner.believe(point);
  }
  bool is_out(const Point& point) const {
    return std::find(out_.begin(), out_.end(), inputs_.coordinates_of(point)) != out_.end();
  }
  /// What is out gives its mean too.
  void believe_out() {
    for (const Coordinates& point : out_) believe(point);
  }
  void forget_beliefs() {
    runs_.forget_beliefs();
    for (GpLearner& learner : limits_) learner.forget_beliefs();
    for (GpLearner& learner : objectives_) learner.forget_beliefs();
  }

  BayesianParams params_;
  const Space& space_;
  sim::RandomStream random_;
  GpInputs inputs_;
  Candidates candidates_;
  std::set<std::string> known_;
  std::vector<Told> told_;
  std::vector<std::size_t> ok_;      ///< of told_, those with a result
  std::vector<std::size_t> judged_;  ///< of told_, those whose limits were looked at
  std::vector<Coordinates> all_, judged_places_;
  std::vector<Coordinates> out_;       ///< of points whose results are still to come
  std::vector<std::size_t> feasible_;  ///< of told_
  GpLearner runs_;
  SpaceParts parts_;
  DescentInTurns descent_;
  std::vector<GpLearner> limits_, objectives_;
  std::vector<bool> limits_break_, has_room_;
  bool runs_fail_ = false;
  double level_ = 0;
  std::vector<Pair> reached_, front_;
  Pair reference_{};
};

}  // namespace

void add_bayesian_driver(DriverRegistry& registry) {
  registry.add<BayesianParams>("bayesian",
                               "Bayesian optimisation: Gaussian processes and expected (hypervolume) improvement.",
                               [](const BayesianParams& params, const DriverSetup& setup) {
                                 return std::make_unique<BayesianDriver>(params, setup);
                               });
}

}  // namespace orrery::experiments::search
