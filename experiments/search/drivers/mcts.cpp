// Monte Carlo tree search: a level of the tree is a parameter, a branch one of its values; a walk goes down by upper
// confidence bounds (UCT, Kocsis and Szepesvári 2006), adds one branch, and draws what is left. Of reals and long
// ranges of integers a node has as many branches as a power of its visits (progressive widening, Coulom 2007): half of
// them drawn anywhere, half near the best branch. A result's reward is the share of all results so far that are worse,
// which needs no scale; a branch is worth the mean of its walks' rewards and of its best one, weighted by `greed`. What
// is drawn below the tree is, with chance `guided`, the value that the best walk through the last node has there, else
// a step from it or any value. Branches that are exhausted are left.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "experiments/search/moves.hpp"
#include "experiments/search/proposing.hpp"
#include "experiments/search/waiting.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct MctsParams {
  double exploration = 0.3;
  double widening = 0.5;
  double guided = 0.7;
  double greed = 0.5;
  double width = 0.1;

  static constexpr auto fields() {
    using P = MctsParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("exploration", &P::exploration, Unit::none, sim::at_least(0),
                   "Weight of the width of the confidence bound against mean rewards in [0, 1]."),
        sim::field("widening", &P::widening, Unit::none, sim::between(0, 1),
                   "Exponent of progressive widening: the node of a real parameter has visits ^ widening branches."),
        sim::field("guided", &P::guided, Unit::ratio, sim::between(0, 1),
                   "Probability that a value below the tree is taken from the best point through the last node."),
        sim::field("greed", &P::greed, Unit::ratio, sim::between(0, 1),
                   "Weight of the best reward of a branch against the mean reward."),
        sim::field("width", &P::width, Unit::ratio, sim::between(1e-9, 1),
                   "Step from the best branch of a real parameter to a new one, as a share of the range.")};
  }
};

constexpr std::size_t kNoTrial = std::numeric_limits<std::size_t>::max();

struct TreeNode {
  double value = 0;  ///< of the parameter above
  std::vector<std::size_t> children;
  double visits = 0, reward = 0;
  bool exhausted = false;
  std::size_t best = kNoTrial;  ///< of the trials through it
  double mean() const { return visits > 0 ? reward / visits : 0; }
};

class MctsDriver final : public StreamDriver {
 public:
  MctsDriver(const MctsParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random), nodes_(1), paths_(space_) {}

  std::vector<Proposal> ask(std::size_t most) override {
    paths_.begin();
    return proposals(most, [&] { return next(); });
  }

  bool can_ask(std::span<const Proposal> out) override {
    paths_.keep(out);
    return true;
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      const double reward = rank(trial.result);
      const auto path = paths_.take(trial.proposal.point);
      if (!path) continue;
      trials_.push_back(trial);
      for (const std::size_t at : *path) {
        TreeNode& node = nodes_[at];
        node.reward += reward;
        if (node.best == kNoTrial || better(trial.result, trials_[node.best].result)) node.best = trials_.size() - 1;
      }
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"nodes", static_cast<double>(nodes_.size())}};
  }

 private:
  static constexpr int kTries = 1000;  ///< walks that are not allowed before a random point is taken

  std::optional<Point> next() {
    for (int i = 0; i < kTries && !nodes_[0].exhausted; ++i) {
      std::vector<std::size_t> path;
      Point point = walk(path);
      for (const std::size_t node : path) nodes_[node].visits += 1;  // no reward yet: others of the batch go elsewhere
      if (!space_.allowed(point)) continue;
      paths_.add(point, std::move(path));
      return point;
    }
    if (nodes_[0].exhausted) return std::nullopt;
    auto point = space_.sample(random_);
    if (point) paths_.add(*point, {});
    return point;
  }

  /// From the root to a new branch, then by draws.
  Point walk(std::vector<std::size_t>& path) {
    Point point(space_.size(), std::numeric_limits<double>::quiet_NaN());
    std::size_t node = 0;
    path.push_back(node);
    bool added = false;
    for (std::size_t p = 0; p < space_.size() && !added; ++p) {
      node = step_down(node, p, point, added);
      point[p] = nodes_[node].value;
      path.push_back(node);
    }
    if (path.size() == space_.size() + 1) {
      nodes_[node].exhausted = true;
      close(path);
      return space_.canonical(std::move(point));
    }
    draw_rest(point, path);
    return completed(space_, std::move(point), random_);
  }

  /// Values below the tree, those of the best walk through the nearest node that has one, or steps from them.
  void draw_rest(Point& point, const std::vector<std::size_t>& path) {
    const auto known =
        std::find_if(path.rbegin(), path.rend(), [&](std::size_t n) { return nodes_[n].best != kNoTrial; });
    if (known == path.rend()) return;
    const Point& best = trials_[nodes_[*known].best].proposal.point;
    for (std::size_t p = path.size() - 1; p < point.size(); ++p) {
      if (std::isnan(best[p])) continue;
      const bool guided = random_.bernoulli(params_.guided);
      if (guided || random_.bernoulli(0.5))
        point[p] = guided ? best[p] : space_.step(p, best[p], fine_width(), random_);
    }
  }
  /// Coarse and fine steps alike.
  double fine_width() { return params_.width * sim::det_exp(-5 * random_.uniform()); }

  std::size_t step_down(std::size_t node, std::size_t p, const Point& above, bool& added) {
    const Parameter& parameter = space_.parameters()[p];
    if (!counts(p, above)) {
      if (nodes_[node].children.empty()) return add(node, std::numeric_limits<double>::quiet_NaN());
      return nodes_[node].children[0];
    }
    const std::size_t have = nodes_[node].children.size();
    if (is_fine(parameter)) {
      const double room = std::max(1.0, sim::det_pow(nodes_[node].visits, params_.widening));
      if (static_cast<double>(have) < room || all_exhausted(node)) {
        added = true;
        return add(node, new_value(node, p));
      }
    } else if (have < *parameter.levels()) {
      added = true;
      return add(node, unused_value(node, parameter));
    }
    return best_child(node);
  }
  bool counts(std::size_t p, const Point& above) const {
    return !space_.parameters()[p].counts || !std::isnan(space_.canonical(above)[p]);
  }
  std::size_t add(std::size_t node, double value) {
    nodes_.push_back({.value = value});
    nodes_[node].children.push_back(nodes_.size() - 1);
    return nodes_.size() - 1;
  }
  double new_value(std::size_t node, std::size_t p) {
    const auto& children = nodes_[node].children;
    if (children.empty() || random_.bernoulli(0.5)) return space_.from_unit(p, random_.uniform());
    std::size_t best = kNoTrial;
    for (const std::size_t c : children)
      if (nodes_[c].best != kNoTrial &&
          (best == kNoTrial || better(trials_[nodes_[c].best].result, trials_[nodes_[best].best].result)))
        best = c;
    if (best == kNoTrial) return space_.from_unit(p, random_.uniform());
    return space_.step(p, nodes_[best].value, fine_width(), random_);
  }
  /// A value of a choice or a short range that has no branch yet, each alike.
  double unused_value(std::size_t node, const Parameter& parameter) {
    std::vector<double> free;
    for (std::uint64_t i = 0; i < *parameter.levels(); ++i) {
      const double value = static_cast<double>(i) + (parameter.has_choices() ? 0 : parameter.low);
      const auto& children = nodes_[node].children;
      if (std::none_of(children.begin(), children.end(), [&](std::size_t c) { return nodes_[c].value == value; }))
        free.push_back(value);
    }
    return free[random_.below(free.size())];
  }
  bool all_exhausted(std::size_t node) const {
    const auto& children = nodes_[node].children;
    return std::all_of(children.begin(), children.end(), [&](std::size_t c) { return nodes_[c].exhausted; });
  }
  std::size_t best_child(std::size_t node) const {
    const double log_visits = sim::det_log(std::max(1.0, nodes_[node].visits));
    std::size_t best = nodes_[node].children[0];
    double best_bound = -1;
    for (const std::size_t c : nodes_[node].children) {
      const TreeNode& child = nodes_[c];
      if (child.exhausted) continue;
      const double top = child.best == kNoTrial ? 0 : share(trials_[child.best].result);
      const double worth = (1 - params_.greed) * child.mean() + params_.greed * top;
      const double bound = worth + params_.exploration * std::sqrt(log_visits / std::max(1.0, child.visits));
      if (bound > best_bound) {
        best_bound = bound;
        best = c;
      }
    }
    return best;
  }
  /// Marks nodes above an exhausted one that have no branch left.
  void close(const std::vector<std::size_t>& path) {
    for (std::size_t p = path.size() - 1; p-- > 0;) {
      const Parameter& parameter = space_.parameters()[p];
      const auto& children = nodes_[path[p]].children;
      const bool skipped = children.size() == 1 && std::isnan(nodes_[children[0]].value);
      if (!skipped && (is_fine(parameter) || children.size() < *parameter.levels())) return;
      if (!all_exhausted(path[p])) return;
      nodes_[path[p]].exhausted = true;
    }
  }

  using Merit = std::pair<double, double>;  ///< violation, objective
  static Merit merit(const Evaluation& result) { return {result.violation(), result.ok() ? result.objectives[0] : 0}; }
  /// Share of results that are worse, equals counted half.
  double share(const Evaluation& result) const {
    if (!result.ok() || ranked_.empty()) return 0;
    const auto [low, high] = std::equal_range(ranked_.begin(), ranked_.end(), merit(result));
    const auto worse = static_cast<double>(ranked_.end() - high), equal = static_cast<double>(high - low);
    return (worse + equal / 2) / static_cast<double>(ranked_.size());
  }
  double rank(const Evaluation& result) {
    const double reward = share(result);
    const Merit mine = merit(result);
    ranked_.insert(std::upper_bound(ranked_.begin(), ranked_.end(), mine), mine);
    return reward;
  }

  MctsParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<TreeNode> nodes_;
  Waiting<std::vector<std::size_t>> paths_;  ///< nodes from the root, of each proposal
  std::vector<Merit> ranked_;                ///< of all results, the best first
  std::vector<Trial> trials_;
};

}  // namespace

void add_mcts_driver(DriverRegistry& registry) {
  registry.add<MctsParams>(
      "mcts", "Experimental: Monte Carlo tree search over the parameters in order.",
      [](const MctsParams& params, const DriverSetup& setup) { return std::make_unique<MctsDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
