// Descent by local quadratic models, for parameters that move by fine steps: what a driver that looks at a whole space
// ends with.
//
// Around a centre the values of the nearest points are interpolated by the quadratic whose Hessian is least in the
// Frobenius norm (Powell 2004); the next point is its minimum within a trust region, a cube whose half-width grows
// where the model foretells well and shrinks where not. Where points lie too flat for a model, the next is a step the
// way they know least of. A centre whose region has shrunk away is finished, and the next begins at the best point that
// is not near a finished one. Other parameters stay as they are at the centre. For values without much noise.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

/// A point whose value is known.
struct KnownValue {
  Point point;
  double value = 0;
};

class LocalQuadratic {
 public:
  explicit LocalQuadratic(const Space& space) : space_(space) {}
  /// The next point; nothing where no point has fine parameters, or all that is known lies near finished centres.
  std::optional<Point> propose(std::span<const KnownValue> known);
  /// The value of the point that propose() gave last; nothing: it has none.
  void tell(std::optional<double> value);
  /// Whether the last step made it better.
  bool improved() const { return improved_; }
  /// Whether its centre is the best that is known.
  bool at_best(std::span<const KnownValue> known) const {
    return centre_ &&
           std::none_of(known.begin(), known.end(), [&](const KnownValue& one) { return one.value < centre_->value; });
  }
  std::size_t finished() const { return finished_.size(); }
  /// Whether a descent has begun or ended so near.
  bool near_finished(const Point& point) const;

 private:
  struct Neighbour {
    std::vector<double> step;  ///< from the centre, in radii
    double value = 0;
  };
  struct Asked {
    std::vector<double> place;  ///< of the fine parameters, unit interval
    double foretold = 0;        ///< decrease; 0: a step to learn from
  };

  bool begin(std::span<const KnownValue> known);
  void settle_at(const KnownValue& best, double radius);
  void finish();
  /// Whether a better point is so near.
  bool beaten(std::span<const KnownValue> known, const KnownValue& one, double within) const;
  /// Whether the same parameters count.
  bool same_part(const Point& a, const Point& b) const;
  /// Largest difference of a fine parameter in its interval; 1 where anything else differs.
  double distance(const Point& a, const Point& b) const;
  /// Indices of parameters that count there and move by fine steps.
  std::vector<std::size_t> fine_at(const Point& point) const;
  std::vector<double> place_of(const Point& point) const;
  bool same_base(const Point& point) const;
  std::vector<Neighbour> neighbours(std::span<const KnownValue> known) const;
  std::vector<double> flat_step(const std::vector<Neighbour>& around) const;
  Point point_at(const std::vector<double>& place) const;

  const Space& space_;
  std::optional<KnownValue> centre_;
  std::vector<std::size_t> fine_;
  double radius_ = 0;
  bool improved_ = false;
  std::optional<Asked> asked_;
  Point start_;
  std::vector<Point> finished_;  ///< where descents ended, and where they began
  std::size_t begun_ = 0;
  bool polishing_ = false;   ///< goes on where a descent has ended
  double kept_share_ = 1;    ///< of the difference that ends a descent, when polishing
  double little_ = 0;        ///< what is no gain
  std::size_t stalled_ = 0;  ///< steps in a row without one
  int flat_ = 0;             ///< steps in a row that were to learn from
};

}  // namespace orrery::experiments::search
