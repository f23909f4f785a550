// What was compiled for which sizes: the most recently used, up to a number of entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/sym/expr.hpp"

namespace orrery::policies {

class ShapeCache {
 public:
  /// `entries` 0: no limit.
  explicit ShapeCache(std::int64_t entries) : limit_(static_cast<std::size_t>(entries)) {}

  /// True if the sizes were there; they are now, as the last used. Linear in the entries.
  bool use(const models::Bindings& sizes) {
    const auto found = std::find(sizes_.begin(), sizes_.end(), sizes);
    if (found != sizes_.end()) {
      std::rotate(found, found + 1, sizes_.end());
      return true;
    }
    sizes_.push_back(sizes);
    if (limit_ > 0 && sizes_.size() > limit_) sizes_.erase(sizes_.begin());
    return false;
  }

 private:
  std::size_t limit_;
  std::vector<models::Bindings> sizes_;  ///< least recently used first
};

}  // namespace orrery::policies
