// A replay memory: the last so many steps, of which batches are drawn uniformly (Lin, Machine Learning 8, 1992).
#pragma once

#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/network.hpp"

namespace orrery::experiments::rl {

class Replay {
 public:
  /// Rows of such lengths; a mask of length 0 where there is none.
  Replay(std::size_t capacity, std::size_t observation, std::size_t action, std::size_t mask)
      : capacity_(capacity), observation_(observation), action_(action), mask_(mask) {}

  std::size_t size() const { return rewards_.size(); }
  /// Adds the rows of all environments of one agent.
  void add(const Experience& experience);

  /// Steps drawn with replacement; columns.
  struct Batch {
    MatrixXd before, after;
    std::vector<double> actions, rewards;
    std::vector<std::uint8_t> terminated, masks, after_masks;
    std::size_t n = 0;
    const std::uint8_t* mask(std::size_t i) const { return row(masks, i); }
    const std::uint8_t* after_mask(std::size_t i) const { return row(after_masks, i); }

   private:
    const std::uint8_t* row(const std::vector<std::uint8_t>& rows, std::size_t i) const {
      return rows.empty() ? nullptr : rows.data() + i * (rows.size() / n);
    }
  };
  Batch draw(std::size_t n, sim::RandomStream& random) const;
  void state(Archive& archive) {
    archive(next_, before_, after_, actions_, rewards_, terminated_, masks_, after_masks_);
  }

 private:
  std::size_t capacity_, observation_, action_, mask_, next_ = 0;
  std::vector<double> before_, after_, actions_, rewards_;
  std::vector<std::uint8_t> terminated_, masks_, after_masks_;
};

}  // namespace orrery::experiments::rl
