// Choices of one agent, part by part, for learners that value them: Q(s, a) = sum over parts of Q_part(s, a_part).
//
// One part is the common case and the sum is nothing but Q. With several the sum is the additive decomposition of
// Sunehag et al. ("Value-decomposition networks for cooperative multi-agent learning", AAMAS 2018): best choices and
// expectations of independent parts separate, so that 10 parts of 5 choices need 50 outputs and not 5^10.
#pragma once

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/learner.hpp"

namespace orrery::experiments::rl {

class Choices {
 public:
  explicit Choices(const ActionSpace& space) {
    for (const std::int64_t n : space.choices) {
      begins_.push_back(size_);
      sizes_.push_back(static_cast<std::size_t>(n));
      size_ += static_cast<std::size_t>(n);
    }
  }
  std::size_t parts() const { return sizes_.size(); }
  std::size_t size() const { return size_; }
  std::size_t begin(std::size_t part) const { return begins_[part]; }
  std::size_t size(std::size_t part) const { return sizes_[part]; }
  /// The mask of a part, of a row's mask or of nothing.
  const std::uint8_t* mask(const std::uint8_t* row, std::size_t part) const {
    return row == nullptr ? nullptr : row + begins_[part];
  }
  std::size_t allowed(const std::uint8_t* row, std::size_t part) const {
    if (row == nullptr) return sizes_[part];
    std::size_t count = 0;
    for (std::size_t i = 0; i < sizes_[part]; ++i) count += row[begins_[part] + i];
    return count;
  }
  /// Q of an action.
  double value(const double* q, const double* action) const {
    double sum = 0;
    for (std::size_t part = 0; part < parts(); ++part) sum += q[begins_[part] + static_cast<std::size_t>(action[part])];
    return sum;
  }
  void best(const double* q, const std::uint8_t* row, double* action) const {
    for (std::size_t part = 0; part < parts(); ++part)
      action[part] = static_cast<double>(masked_argmax(q + begins_[part], mask(row, part), sizes_[part]));
  }

 private:
  std::vector<std::size_t> begins_, sizes_;
  std::size_t size_ = 0;
};

}  // namespace orrery::experiments::rl
