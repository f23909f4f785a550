#include "experiments/search/analysis/importance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "experiments/search/analysis/process_shares.hpp"

namespace orrery::experiments::search {
namespace {

constexpr std::size_t kLeastTrials = 8;

double mean_of(std::span<const double> all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return all.empty() ? 0 : sum / double(all.size());
}

double variance_of(std::span<const double> all) {
  const double mean = mean_of(all);
  double sum = 0;
  for (const double x : all) sum += (x - mean) * (x - mean);
  return all.empty() ? 0 : sum / double(all.size());
}

/// Values of a parameter at the middles of equal parts of its interval.
std::vector<double> levels_of(const Space& space, std::size_t parameter, std::size_t most) {
  const auto levels = space.parameters()[parameter].levels();
  const bool categorical = space.parameters()[parameter].kind == ParameterKind::categorical;
  const std::size_t n = levels && (categorical || *levels < most) ? std::size_t(*levels) : most;
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(space.from_unit(parameter, (double(i) + 0.5) / double(n)));
  return values;
}

struct Data {
  std::vector<Point> points;
  std::vector<double> values;
};

/// Mean predictions over a sample of the space with one or two parameters held.
class Means {
 public:
  Means(const Space& space, const Forest& forest, std::vector<Point> sample)
      : space_(space), forest_(forest), sample_(std::move(sample)) {}

  std::vector<double> alone(std::size_t p, const std::vector<double>& levels) const {
    std::vector<double> means;
    for (const double level : levels) means.push_back(mean([&](Point& point) { point[p] = level; }));
    return means;
  }
  double both(std::size_t p, double a, std::size_t q, double b) const {
    return mean([&](Point& point) {
      point[p] = a;
      point[q] = b;
    });
  }
  std::vector<double> all() const {
    std::vector<double> values;
    for (const Point& point : sample_) values.push_back(forest_.predict(point));
    return values;
  }

 private:
  template <class Hold>
  double mean(Hold hold) const {
    double sum = 0;
    for (Point point : sample_) {
      hold(point);
      sum += forest_.predict(space_.canonical(std::move(point)));
    }
    return sum / double(sample_.size());
  }
  const Space& space_;
  const Forest& forest_;
  std::vector<Point> sample_;
};

/// Growth of the squared error when parameter p is exchanged between trials.
double exchanged_error(const Forest& forest, const Data& data, std::size_t p, sim::RandomStream random) {
  std::vector<std::size_t> order(data.points.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(std::span(order));
  double growth = 0;
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    Point point = data.points[i];
    const double before = forest.predict_unseen(i, point) - data.values[i];
    point[p] = data.points[order[i]][p];
    const double after = forest.predict_unseen(i, point) - data.values[i];
    growth += after * after - before * before;
  }
  return growth / double(data.points.size());
}

/// Range of `predict` from the best trial when one parameter takes each level.
template <class Predict>
double range_from(const Space& space, Predict predict, const Point& best, std::size_t p,
                  const std::vector<double>& levels) {
  double low = predict(best), high = low;
  for (const double level : levels) {
    Point point = best;
    point[p] = level;
    const double value = predict(space.canonical(std::move(point)));
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return high - low;
}

/// Shares by means over a sample.
void ask_forest(const Space& space, const Means& means, const std::vector<std::vector<double>>& levels,
                Importance& result) {
  const double whole = variance_of(means.all());
  std::vector<std::vector<double>> alone;
  for (std::size_t p = 0; p < space.size(); ++p) {
    alone.push_back(means.alone(p, levels[p]));
    result.parameters[p].main_effect = whole > 0 ? variance_of(alone[p]) / whole : 0;
  }
  std::size_t pair = 0;
  for (std::size_t p = 0; p < space.size(); ++p)
    for (std::size_t q = p + 1; q < space.size(); ++q) {
      std::vector<double> rest;
      for (std::size_t a = 0; a < levels[p].size(); ++a)
        for (std::size_t b = 0; b < levels[q].size(); ++b)
          rest.push_back(means.both(p, levels[p][a], q, levels[q][b]) - alone[p][a] - alone[q][b]);
      result.interactions[pair++].share = whole > 0 ? variance_of(rest) / whole : 0;
    }
}

/// Shares by Sobol's indices.
void ask_process(const Space& space, const ProcessShares& process, const ImportanceOptions& options,
                 Importance& result) {
  const ProcessShares::Shares shares = process.shares(options.process_sample, options.seed);
  std::size_t pair = 0;
  for (std::size_t p = 0; p < space.size(); ++p) {
    result.parameters[p].main_effect = std::max(0.0, shares.alone[p]);
    for (std::size_t q = p + 1; q < space.size(); ++q)
      result.interactions[pair++].share = std::max(0.0, shares.both[p][q]);
  }
}

}  // namespace

Importance importance(const Space& space, std::span<const Trial> trials, std::size_t objective,
                      const ImportanceOptions& options) {
  Importance result;
  Data data;
  std::vector<const Trial*> known;
  for (const Trial& trial : trials)
    if (trial.result.ok() && trial.proposal.fidelity == 1) known.push_back(&trial);
  const std::size_t step = std::max<std::size_t>(1, (known.size() + options.trials - 1) / options.trials);
  for (std::size_t i = 0; i < known.size(); i += step) {
    data.points.push_back(known[i]->proposal.point);
    data.values.push_back(known[i]->result.objectives[objective]);
  }
  result.trials = data.points.size();
  const double spread = variance_of(data.values);
  if (result.trials < kLeastTrials) return result;
  const sim::RandomStream random(options.seed, "importance");
  const Forest forest(space, data.points, data.values, random.child("forest"), options.forest);
  double error = 0;
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    const double off = forest.predict_unseen(i, data.points[i]) - data.values[i];
    error += off * off;
  }
  result.explained = spread > 0 ? 1 - error / double(data.points.size()) / spread : 0;

  std::vector<Point> sample;
  sim::RandomStream draws = random.child("sample");
  for (std::size_t i = 0; i < options.sample; ++i)
    if (auto point = space.sample(draws)) sample.push_back(*std::move(point));
  if (sample.empty()) return result;
  const Point& best =
      data.points[std::size_t(std::min_element(data.values.begin(), data.values.end()) - data.values.begin())];
  std::vector<std::vector<double>> levels;
  for (std::size_t p = 0; p < space.size(); ++p) {
    levels.push_back(levels_of(space, p, options.levels));
    result.parameters.push_back(
        {.parameter = space.parameters()[p].name,
         .permutation = spread > 0 ? exchanged_error(forest, data, p, random.child("exchange").child(p)) / spread : 0});
    for (std::size_t q = p + 1; q < space.size(); ++q)
      result.interactions.push_back({space.parameters()[p].name, space.parameters()[q].name, 0});
  }
  std::optional<ProcessShares> process;
  if (space.size() <= options.process_parameters)
    process.emplace(space, data.points, data.values, options.process_trials);
  result.process = process && process->explained() > result.explained;
  if (result.process) {
    result.explained = process->explained();
    ask_process(space, *process, options, result);
  } else {
    ask_forest(space, Means(space, forest, std::move(sample)), levels, result);
  }
  const auto predict = [&](const Point& point) {
    return result.process ? process->predict(point) : forest.predict(point);
  };
  for (std::size_t p = 0; p < space.size(); ++p)
    result.parameters[p].range_at_best = range_from(space, predict, best, p, levels[p]);
  result.rest = 1;
  for (const ParameterImportance& one : result.parameters) result.rest -= one.main_effect;
  for (const Interaction& one : result.interactions) result.rest -= one.share;
  result.rest = std::max(0.0, result.rest);
  std::stable_sort(result.interactions.begin(), result.interactions.end(),
                   [](const Interaction& a, const Interaction& b) { return a.share > b.share; });
  return result;
}

std::vector<Elementary> elementary_effects(const Space& space, std::span<const Trial> trials, std::size_t objective) {
  std::vector<Elementary> all;
  for (std::size_t p = 0; p < space.size(); ++p) {
    std::map<std::string, std::vector<std::pair<double, double>>> rows;  // by the rest of the point
    for (const Trial& trial : trials) {
      if (!trial.result.ok() || trial.proposal.fidelity != 1 || std::isnan(trial.proposal.point[p])) continue;
      Point rest = trial.proposal.point;
      rest[p] = 0;
      rows[space.key(rest)].emplace_back(trial.proposal.point[p], trial.result.objectives[objective]);
    }
    std::vector<double> effects;
    for (auto& [rest, row] : rows) {
      std::sort(row.begin(), row.end());
      for (std::size_t i = 1; i < row.size(); ++i) {
        if (row[i].first == row[i - 1].first) continue;
        const bool category = space.parameters()[p].kind == ParameterKind::categorical;
        const double apart = category ? 1 : space.to_unit(p, row[i].first) - space.to_unit(p, row[i - 1].first);
        effects.push_back((row[i].second - row[i - 1].second) / apart);
      }
    }
    Elementary effect{.parameter = space.parameters()[p].name, .pairs = effects.size()};
    effect.deviation = std::sqrt(variance_of(effects));
    for (const double x : effects) effect.mean += std::abs(x) / double(effects.size());
    all.push_back(std::move(effect));
  }
  return all;
}

}  // namespace orrery::experiments::search
