#include "experiments/search/local_quadratic.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <tuple>

#include "experiments/search/moves.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kFirstRadius = 0.1, kLeastRadius = 1e-6, kMostRadius = 0.4, kApart = 0.25, kLinked = 0.8, kNear = 2,
                 kLittle = 1e-5;
constexpr std::size_t kMostPoints = 70;

/// m(s) = g s + s H s / 2.
struct Quadratic {
  Eigen::VectorXd gradient;
  Eigen::MatrixXd hessian;
  double at(const Eigen::VectorXd& s) const { return gradient.dot(s) + s.dot(hessian * s) / 2; }
};

/// Through values at `steps` (columns; one of them 0), of the least Hessian.
Quadratic interpolate(const Eigen::MatrixXd& steps, const Eigen::VectorXd& values) {
  const Eigen::Index n = steps.rows(), p = steps.cols();
  Eigen::MatrixXd system = Eigen::MatrixXd::Zero(p + n + 1, p + n + 1);
  for (Eigen::Index i = 0; i < p; ++i)
    for (Eigen::Index j = 0; j < p; ++j) {
      const double inner = steps.col(i).dot(steps.col(j));
      system(i, j) = inner * inner / 2;
    }
  system.block(0, p, p, 1).setOnes();
  system.block(p, 0, 1, p).setOnes();
  system.block(0, p + 1, p, n) = steps.transpose();
  system.block(p + 1, 0, n, p) = steps;
  Eigen::VectorXd right = Eigen::VectorXd::Zero(p + n + 1);
  right.head(p) = values;
  const Eigen::VectorXd solved = system.completeOrthogonalDecomposition().solve(right);
  Quadratic model{solved.tail(n), Eigen::MatrixXd::Zero(n, n)};
  for (Eigen::Index i = 0; i < p; ++i) model.hessian += solved(i) * steps.col(i) * steps.col(i).transpose();
  return model;
}

/// Least point in a box that holds 0, by descent along coordinates from 0.
Eigen::VectorXd least(const Quadratic& model, const Eigen::VectorXd& low, const Eigen::VectorXd& high) {
  const Eigen::Index n = low.size();
  Eigen::VectorXd s = Eigen::VectorXd::Zero(n), slope = model.gradient;
  for (int sweep = 0; sweep < 200; ++sweep) {
    double moved = 0;
    for (Eigen::Index i = 0; i < n; ++i) {
      const double bend = model.hessian(i, i);
      const auto change = [&](double to) { return slope(i) * (to - s(i)) + bend * (to - s(i)) * (to - s(i)) / 2; };
      double to = bend > 1e-14 ? std::clamp(s(i) - slope(i) / bend, low(i), high(i))
                               : (change(low(i)) < change(high(i)) ? low(i) : high(i));
      if (change(to) >= 0) continue;
      slope += model.hessian.col(i) * (to - s(i));
      moved = std::max(moved, std::abs(to - s(i)));
      s(i) = to;
    }
    if (moved < 1e-9) break;
  }
  return s;
}

/// From the least to the median value: the first points are anywhere, so it says what is much.
double spread(std::span<const KnownValue> known) {
  std::vector<double> values;
  for (const KnownValue& one : known) values.push_back(one.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle - *std::min_element(values.begin(), values.end());
}

}  // namespace

std::vector<std::size_t> LocalQuadratic::fine_at(const Point& point) const {
  std::vector<std::size_t> fine;
  for (std::size_t p = 0; p < space_.size(); ++p)
    if (is_fine(space_.parameters()[p]) && !std::isnan(point[p])) fine.push_back(p);
  return fine;
}

std::vector<double> LocalQuadratic::place_of(const Point& point) const {
  std::vector<double> place;
  for (const std::size_t p : fine_) place.push_back(space_.to_unit(p, point[p]));
  return place;
}

bool LocalQuadratic::same_base(const Point& point) const {
  std::size_t next = 0;
  for (std::size_t p = 0; p < space_.size(); ++p) {
    if (next < fine_.size() && fine_[next] == p) {
      ++next;
      if (std::isnan(point[p])) return false;
      continue;
    }
    const double own = centre_->point[p];
    if (std::isnan(own) != std::isnan(point[p]) || (!std::isnan(own) && own != point[p])) return false;
  }
  return true;
}

double LocalQuadratic::distance(const Point& a, const Point& b) const {
  double far = 0;
  for (std::size_t p = 0; p < space_.size(); ++p) {
    if (std::isnan(a[p]) != std::isnan(b[p])) return 1;
    if (std::isnan(a[p])) continue;
    if (!is_fine(space_.parameters()[p]) && a[p] != b[p]) return 1;
    far = std::max(far, std::abs(space_.to_unit(p, a[p]) - space_.to_unit(p, b[p])));
  }
  return std::min(far, 0.999);
}

bool LocalQuadratic::same_part(const Point& a, const Point& b) const {
  for (std::size_t p = 0; p < space_.size(); ++p)
    if (std::isnan(a[p]) != std::isnan(b[p])) return false;
  return true;
}

bool LocalQuadratic::near_finished(const Point& point) const {
  return std::any_of(finished_.begin(), finished_.end(),
                     [&](const Point& other) { return distance(point, other) < kApart; });
}

bool LocalQuadratic::beaten(std::span<const KnownValue> known, const KnownValue& one, double within) const {
  return std::any_of(known.begin(), known.end(), [&](const KnownValue& other) {
    return other.value < one.value && distance(one.point, other.point) < within;
  });
}

bool LocalQuadratic::begin(std::span<const KnownValue> known) {
  // In the part of a parted space where fewest descents have ended; there the best point that is far from where others
  // began and ended, and of such rather one that nothing near it beats (multi level single linkage): it may lie in
  // another valley.
  const KnownValue* best = nullptr;
  if (++begun_ % 3 == 0) {  // the best so far once more, to a thousandth of the difference that ended it before
    for (const KnownValue& one : known)
      if ((best == nullptr || one.value < best->value) && !fine_at(one.point).empty()) best = &one;
    if (best != nullptr) {
      kept_share_ *= 1e-3;
      settle_at(*best, kFirstRadius / 4);
      polishing_ = true;
      return true;
    }
  }
  polishing_ = false;
  std::size_t fewest = 0;
  bool best_alone = false;
  for (const KnownValue& one : known) {
    const std::vector<std::size_t> fine = fine_at(one.point);
    if (fine.empty() || near_finished(one.point)) continue;
    const auto ended = static_cast<std::size_t>(
        std::count_if(finished_.begin(), finished_.end(), [&](const Point& p) { return same_part(one.point, p); }));
    const bool alone = !finished_.empty() && !beaten(known, one,
                                                     kLinked * std::pow(static_cast<double>(known.size()),
                                                                        -1 / static_cast<double>(fine.size())));
    const auto rank = std::make_tuple(ended, !alone, one.value);
    if (best != nullptr && rank >= std::make_tuple(fewest, !best_alone, best->value)) continue;
    best = &one;
    fewest = ended;
    best_alone = alone;
  }
  if (best == nullptr) return false;
  settle_at(*best, kFirstRadius);
  return true;
}

void LocalQuadratic::settle_at(const KnownValue& best, double radius) {
  centre_ = best;
  start_ = best.point;
  fine_ = fine_at(best.point);
  radius_ = radius;
  flat_ = 0;
  stalled_ = 0;
}

std::vector<LocalQuadratic::Neighbour> LocalQuadratic::neighbours(std::span<const KnownValue> known) const {
  const std::vector<double> centre = place_of(centre_->point);
  std::vector<std::pair<double, Neighbour>> all;
  for (const KnownValue& one : known) {
    if (!same_base(one.point) || (!polishing_ && near_finished(one.point))) continue;
    Neighbour neighbour{place_of(one.point), one.value};
    double far = 0;
    for (std::size_t i = 0; i < centre.size(); ++i) {
      neighbour.step[i] = (neighbour.step[i] - centre[i]) / radius_;
      far += neighbour.step[i] * neighbour.step[i];
    }
    all.emplace_back(far, std::move(neighbour));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t n = centre.size();
  const std::size_t most = std::min({all.size(), (n + 1) * (n + 2) / 2, kMostPoints});
  std::vector<Neighbour> nearest;
  for (std::size_t i = 0; i < most; ++i) {
    // A bent valley is no quadratic: what is far away is used only where too little is near.
    if (i > 2 * n && all[i].first > kNear * kNear * static_cast<double>(n)) break;
    nearest.push_back(std::move(all[i].second));
  }
  return nearest;
}

std::vector<double> LocalQuadratic::flat_step(const std::vector<Neighbour>& around) const {
  // The direction in which the points of twice the region are spread least.
  const auto n = static_cast<Eigen::Index>(fine_.size());
  Eigen::MatrixXd scatter = Eigen::MatrixXd::Zero(n, n);
  for (const Neighbour& one : around) {
    const Eigen::Map<const Eigen::VectorXd> step(one.step.data(), n);
    if (step.cwiseAbs().maxCoeff() <= 2.5) scatter += step * step.transpose();
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(scatter);
  Eigen::VectorXd direction = solver.eigenvectors().col(0);
  // The sign of an eigenvector is no one's choice: its largest part is made positive, every other time negative.
  Eigen::Index largest = 0;
  direction.cwiseAbs().maxCoeff(&largest);
  if ((direction(largest) < 0) != (flat_ % 2 == 1)) direction = -direction;
  const std::vector<double> centre = place_of(centre_->point);
  std::vector<double> place(centre.size());
  for (std::size_t i = 0; i < place.size(); ++i) {
    const double step = radius_ * direction(static_cast<Eigen::Index>(i)) / direction.cwiseAbs().maxCoeff();
    place[i] = centre[i] + step;
    if (place[i] < 0 || place[i] > 1) place[i] = std::clamp(centre[i] - step, 0.0, 1.0);
  }
  return place;
}

Point LocalQuadratic::point_at(const std::vector<double>& place) const {
  Point point = centre_->point;
  for (std::size_t i = 0; i < fine_.size(); ++i)
    point[fine_[i]] = space_.from_unit(fine_[i], std::min(place[i], std::nextafter(1.0, 0.0)));
  return space_.canonical(std::move(point));
}

std::optional<Point> LocalQuadratic::propose(std::span<const KnownValue> known) {
  asked_.reset();
  if (!centre_ && !begin(known)) return std::nullopt;
  // Whoever else has found better within the same parameters moves the centre.
  for (const KnownValue& one : known)
    if (one.value < centre_->value && same_base(one.point) && (polishing_ || !near_finished(one.point))) {
      centre_ = one;
      radius_ = std::max(radius_, kFirstRadius / 4);
    }
  for (int tries = 0; tries < 30; ++tries) {
    if (!polishing_ && near_finished(centre_->point)) {  // another descent has been here
      finish();
      if (!begin(known)) return std::nullopt;
    }
    const std::vector<Neighbour> around = neighbours(known);
    const auto n = static_cast<Eigen::Index>(fine_.size());
    std::size_t close = 0;
    for (const Neighbour& one : around) {
      double far = 0;
      for (const double step : one.step) far = std::max(far, std::abs(step));
      close += far <= 2.5 ? 1 : 0;
    }
    Asked asked{.place = {}, .foretold = 0};
    if (close >= fine_.size() + 1) {
      Eigen::MatrixXd steps(n, static_cast<Eigen::Index>(around.size()));
      Eigen::VectorXd values(static_cast<Eigen::Index>(around.size()));
      for (std::size_t i = 0; i < around.size(); ++i) {
        steps.col(static_cast<Eigen::Index>(i)) = Eigen::Map<const Eigen::VectorXd>(around[i].step.data(), n);
        values(static_cast<Eigen::Index>(i)) = around[i].value - centre_->value;
      }
      const double scale = std::max(1e-300, values.cwiseAbs().maxCoeff());
      const Quadratic model = interpolate(steps, values / scale);
      const std::vector<double> centre = place_of(centre_->point);
      Eigen::VectorXd low(n), high(n);
      for (Eigen::Index i = 0; i < n; ++i) {
        low(i) = std::max(-1.0, -centre[static_cast<std::size_t>(i)] / radius_);
        high(i) = std::min(1.0, (1 - centre[static_cast<std::size_t>(i)]) / radius_);
      }
      const Eigen::VectorXd step = least(model, low, high);
      const double foretold = -model.at(step) * scale;
      if (std::isfinite(foretold) && foretold > 1e-14 * std::abs(centre_->value) && step.cwiseAbs().maxCoeff() > 1e-3) {
        asked.foretold = foretold;
        for (std::size_t i = 0; i < centre.size(); ++i)
          asked.place.push_back(centre[i] + radius_ * step(static_cast<Eigen::Index>(i)));
      } else if (flat_ > 1) {
        radius_ /= 4;  // the model is at its least here
        flat_ = 0;
      }
    }
    little_ = kLittle * (polishing_ ? kept_share_ : 1) * spread(known);
    const bool stalled = stalled_ > fine_.size() + 4 && radius_ < 0.1;
    if (stalled || radius_ < kLeastRadius || (asked.foretold > 0 && asked.foretold < little_ && radius_ < 0.1)) {
      finish();
      if (!begin(known)) return std::nullopt;
      continue;
    }
    if (asked.place.empty()) {
      asked.place = flat_step(around);
      ++flat_;
    }
    Point point = point_at(asked.place);
    const bool seen = std::any_of(known.begin(), known.end(), [&](const KnownValue& one) {
      return same_base(one.point) && space_.key(one.point) == space_.key(point);
    });
    if (!seen && space_.allowed(point)) {
      asked_ = std::move(asked);
      return point;
    }
    radius_ /= 2;
  }
  finish();
  return std::nullopt;
}

void LocalQuadratic::finish() {
  if (!polishing_) finished_.push_back(centre_->point);
  if (!polishing_ && distance(centre_->point, start_) >= kApart) finished_.push_back(start_);
  centre_.reset();
}

void LocalQuadratic::tell(std::optional<double> value) {
  improved_ = false;
  if (!asked_ || !centre_) return;
  const Asked asked = *std::exchange(asked_, std::nullopt);
  const double decrease = value ? centre_->value - *value : -1;
  improved_ = decrease > 0;
  stalled_ = decrease > little_ ? 0 : stalled_ + 1;
  if (asked.foretold > 0) {
    flat_ = 0;
    const double ratio = decrease / asked.foretold;
    double reach = 0;
    const std::vector<double> centre = place_of(centre_->point);
    for (std::size_t i = 0; i < centre.size(); ++i) reach = std::max(reach, std::abs(asked.place[i] - centre[i]));
    if (ratio > 0.7 && reach > 0.9 * radius_)
      radius_ = std::min(2 * radius_, kMostRadius);
    else if (ratio < 0.1)
      radius_ = std::min(radius_ / 2, std::max(reach, radius_ / 8));
  }
  if (improved_) centre_ = KnownValue{point_at(asked.place), *value};
}

}  // namespace orrery::experiments::search
