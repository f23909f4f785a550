// Points that a Gaussian process knows, and the factor of their correlations, which grows with them.
#pragma once

#include <cstddef>
#include <vector>

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

/// A space's points as coordinates that the kernel measures.
class GpInputs {
 public:
  explicit GpInputs(const Space& space);
  std::size_t parameters() const { return parameters_; }
  std::size_t coordinates() const { return owner_.size(); }
  std::vector<double> coordinates_of(const Point& point) const;
  /// Square of the distance along each parameter, before lengths.
  void squares(const double* a, const double* b, double* out) const;
  /// The parameter of a coordinate, and whether it is a category.
  std::size_t owner(std::size_t coordinate) const { return owner_[coordinate]; }
  bool category(std::size_t coordinate) const { return category_[coordinate] != 0; }

 private:
  const Space& space_;
  std::size_t parameters_;
  std::vector<std::size_t> owner_;
  std::vector<char> category_;
  std::vector<char> conditional_;  // by parameter
};

/// The kernel with its parameters: how alike two points are.
struct GpKernel {
  const GpInputs* inputs = nullptr;
  std::vector<double> scale;  ///< by coordinate: 1 / length of its parameter
  double noise = 0;           ///< its variance as a share of the signal's
};

class GpPoints {
 public:
  std::size_t size() const { return count_; }
  /// Of a point, by coordinate.
  std::vector<double> at(std::size_t index) const;
  /// Correlations of a place with every point. O(n).
  void correlate(const GpKernel& kernel, const double* place, double* out) const;
  /// O(n^2).
  void append(const GpKernel& kernel, const double* point);
  /// Forgets points beyond the first n.
  void shrink(std::size_t n);
  /// Lower triangle, row after row.
  const double* factor() const { return factor_.data(); }

 private:
  std::size_t count_ = 0;
  std::vector<std::vector<double>> columns_;  // by coordinate: of each point
  std::vector<double> factor_;
};

}  // namespace orrery::experiments::search
