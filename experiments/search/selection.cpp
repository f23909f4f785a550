#include "experiments/search/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/base/fault.hpp"
#include "sim/base/math.hpp"
#include "sim/batch_means.hpp"

namespace orrery::experiments::search {
namespace {

MeanInterval interval_of(std::span<const double> values, double confidence) {
  const double none = std::numeric_limits<double>::infinity();
  RunningMean all;
  for (const double value : values) all.add(value);
  if (values.empty()) return {none, none};
  if (values.size() < 2) return {all.mean, none};
  return {all.mean, sim::mean_half_width(all.variance(), std::ssize(values), confidence)};
}

}  // namespace

// With a prior N(0, sigma^2) of the mean and n runs, the Bayes factor against a mean of 0 is (1 + n)^(-1/2) ((1 + t^2 /
// (n - 1)) / (1 + t^2 / ((n - 1)(1 + n))))^(n / 2). It equals 1 / error at the t^2 below, with k = ((1 + n)^(1/2) /
// error)^(2 / n); at no t where k >= 1 + n.
double anytime_half_width(const RunningMean& series, double error) {
  const double n = series.count;
  if (n < 2) return std::numeric_limits<double>::infinity();
  const double k = sim::det_pow(std::sqrt(1 + n) / error, 2 / n);
  if (k >= 1 + n) return std::numeric_limits<double>::infinity();
  const double t_squared = (n - 1) * (k - 1) / (1 - k / (1 + n));
  return std::sqrt(t_squared * series.variance() / n);
}

Selection::Selection(std::size_t candidates, std::size_t limits, const SelectionParams& params)
    : params_(params), all_(candidates), apart_(candidates) {
  for (std::size_t i = 0; i < candidates; ++i) {
    all_[i].by = i;
    all_[i].margins.resize(limits);
    all_[i].limits.resize(limits);
    all_[i].met.resize(limits);
    apart_[i].resize(i);
  }
  const double error = 1 - params.confidence;
  error_ = (limits > 0 ? error / 2 : error) / std::max<double>(1, static_cast<double>(candidates) - 1);
  limit_error_ = error / 2 / static_cast<double>(std::max<std::size_t>(1, candidates * limits));
}

void Selection::hear(std::size_t candidate, const Evaluation& result) {
  Candidate& one = all_[candidate];
  if (one.standing != Standing::contending) return;
  if (!result.ok()) {
    one.standing = Standing::not_run;
    one.reason = result.reason;
    if (round_ > 0) end_where_known();
  } else {
    one.values.push_back(result.objectives[0]);
    for (std::size_t l = 0; l < one.margins.size(); ++l)
      one.margins[l].push_back(l < result.margins.size() ? result.margins[l] : 0);
  }
  while (round_is_complete()) advance();
}

bool Selection::round_is_complete() const {
  if (decided_) return false;
  const auto needed = static_cast<std::size_t>(std::max(params_.initial, round_ + 1));
  return std::all_of(all_.begin(), all_.end(), [&](const Candidate& one) {
    return one.standing != Standing::contending || one.values.size() >= needed;
  });
}

bool Selection::meets(const Candidate& one) const {
  return std::all_of(one.met.begin(), one.met.end(), [](char met) { return met != 0; });
}

void Selection::advance() {
  const auto from = static_cast<std::size_t>(round_);
  round_ = std::max(params_.initial, round_ + 1);
  for (std::size_t r = from; r < static_cast<std::size_t>(round_); ++r)
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!contends(i)) continue;
      Candidate& one = all_[i];
      one.sum += one.values[r];
      for (std::size_t l = 0; l < one.limits.size(); ++l) one.limits[l].add(one.margins[l][r]);
      for (std::size_t j = 0; j < i; ++j)
        if (contends(j)) apart_[i][j].add(one.values[r] - all_[j].values[r]);
    }
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (contends(i)) judge_limits(i);
  send_away();
  end_where_known();
}

void Selection::judge_limits(std::size_t candidate) {
  Candidate& one = all_[candidate];
  for (std::size_t l = 0; l < one.limits.size(); ++l) {
    if (one.met[l] != 0) continue;  // others may have gone because of it
    const double half = anytime_half_width(one.limits[l], limit_error_);
    if (one.limits[l].mean - half > 0) {
      one.standing = Standing::over;
      one.by = l;
      return;
    }
    if (one.limits[l].mean + half <= params_.within) one.met[l] = 1;
  }
}

double Selection::least_difference(std::size_t candidate, std::size_t other) const {
  const RunningMean& apart = candidate > other ? apart_[candidate][other] : apart_[other][candidate];
  return (candidate > other ? apart.mean : -apart.mean) - anytime_half_width(apart, error_);
}

void Selection::send_away() {
  std::vector<std::pair<std::size_t, Standing>> out;
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (std::size_t j = 0; j < all_.size() && contends(i); ++j) {
      if (j == i || !contends(j) || !meets(all_[j])) continue;
      const double least = least_difference(i, j);
      const bool equal = least == 0 && j < i && apart_[i][j].squares == 0;
      if (least <= 0 && !equal) continue;
      all_[i].by = j;
      out.emplace_back(i, equal ? Standing::equal : Standing::worse);
      break;
    }
  for (const auto& [i, standing] : out) all_[i].standing = standing;
}

/// It is known when nothing contends, or when the least mean of those that contend is known to meet the limits and not
/// to be worse than another's by more than does not matter. What is not known to meet the limits then stays open.
void Selection::end_where_known() {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (contends(i) && (!least || all_[i].sum < all_[*least].sum)) least = i;
  decided_ = !least;
  if (!least || !meets(all_[*least])) return;
  const double mean = all_[*least].sum / static_cast<double>(round_);
  const double zone = params_.within * (mean == 0 ? 1 : std::abs(mean));
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (contends(i) && i != *least && least_difference(i, *least) < -zone) return;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!contends(i) || i == *least || !meets(all_[i])) continue;
    all_[i].standing = Standing::within;
    all_[i].by = *least;
  }
  all_[*least].standing = Standing::best;
  decided_ = true;
}

MeanInterval Selection::mean(std::size_t candidate) const {
  return interval_of(all_[candidate].values, params_.confidence);
}

double Selection::mean_margin(std::size_t candidate, std::size_t limit) const {
  RunningMean all;
  for (const double margin : all_[candidate].margins[limit]) all.add(margin);
  return all.mean;
}

MeanInterval Selection::difference(std::size_t candidate, std::size_t other) const {
  const std::vector<double>&a = all_[candidate].values, &b = all_[other].values;
  std::vector<double> apart;
  for (std::size_t r = 0; r < std::min(a.size(), b.size()); ++r) apart.push_back(a[r] - b[r]);
  return interval_of(apart, params_.confidence);
}

std::vector<std::size_t> Selection::order() const {
  std::vector<std::size_t> places(all_.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    if (standing(a) != standing(b)) return standing(a) < standing(b);
    return mean(a).mean < mean(b).mean;
  });
  return places;
}

std::size_t replicate_parameter(const Space& space, const std::string& over) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (parameter.name == over && parameter.kind == ParameterKind::integer) return i;
    names.push_back(parameter.name);
  }
  const bool there = std::find(names.begin(), names.end(), over) != names.end();
  sim::throw_fault({},
                   fmt::format("'over' of driver 'select': expected a parameter of whole numbers ('range', \"type\": "
                               "\"integer\"), got '{}'",
                               over),
                   there ? std::string() : sim::name_hint(over, names));
}

std::vector<Point> selection_candidates(const Space& space, const std::string& over) {
  const std::size_t seed = replicate_parameter(space, over);
  for (std::size_t i = 0; i < space.size(); ++i)
    if (i != seed && !space.parameters()[i].levels())
      sim::throw_fault({},
                       fmt::format("driver 'select' compares points one by one: expected 'values' of '{}', got a range "
                                   "of real numbers",
                                   space.parameters()[i].name),
                       "search.first names points to compare");
  const auto count = space.grid_size(seed);
  if (!count || *count > kMostCandidates)
    sim::throw_fault({}, fmt::format("driver 'select' compares at most {} points", kMostCandidates),
                     "search.first names points to compare");
  std::vector<Point> points;
  std::set<std::string> seen;
  for (std::uint64_t index = 0; index < *count; ++index) {
    Point point = space.grid_point(index, seed);
    if (space.allowed(point) && seen.insert(space.key(point)).second) points.push_back(std::move(point));
  }
  return points;
}

PointSelection::PointSelection(const Space& space, std::size_t limits, const SelectionParams& params)
    : space_(space),
      params_(params),
      limits_(limits),
      over_(replicate_parameter(space, params.over)),
      first_seed_(space.parameters()[over_].low),
      seeds_(space.parameters()[over_].high - first_seed_ + 1) {}

std::string PointSelection::key_of(Point point) const {
  point[over_] = first_seed_;
  return space_.key(point);
}

void PointSelection::add(Point point) {
  if (candidates_.size() == kMostCandidates || !places_.try_emplace(key_of(point), candidates_.size()).second) return;
  point[over_] = first_seed_;
  candidates_.push_back(std::move(point));
}

void PointSelection::begin() {
  if (candidates_.empty())
    for (Point& point : selection_candidates(space_, params_.over)) add(std::move(point));
  waiting_.resize(candidates_.size());
  heard_.resize(candidates_.size());
  asked_.resize(candidates_.size());
  selection_.emplace(candidates_.size(), limits_, params_);
}

void PointSelection::hear(const Point& point, const Evaluation& result) {
  const auto place = places_.find(key_of(point));
  if (place == places_.end()) return;
  waiting_[place->second].emplace(static_cast<std::size_t>(point[over_] - first_seed_), result);
  take(place->second);
}

/// Results go on in the order of seeds.
void PointSelection::take(std::size_t candidate) {
  auto& own = waiting_[candidate];
  std::size_t& next = heard_[candidate];
  for (auto found = own.find(next); found != own.end(); found = own.find(++next)) {
    selection_->hear(candidate, found->second);
    own.erase(found);
  }
  asked_[candidate] = std::max(asked_[candidate], next);
}

std::optional<Point> PointSelection::next() {
  std::size_t fewest = candidates_.size();
  for (std::size_t i = 0; i < candidates_.size() && !selection_->decided(); ++i)
    if (selection_->wants(i) && static_cast<double>(asked_[i]) < seeds_ &&
        (fewest == candidates_.size() || asked_[i] < asked_[fewest]))
      fewest = i;
  if (fewest == candidates_.size()) return std::nullopt;
  Point point = candidates_[fewest];
  point[over_] = first_seed_ + static_cast<double>(asked_[fewest]++);
  return point;
}

}  // namespace orrery::experiments::search
