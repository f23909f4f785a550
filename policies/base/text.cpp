#include <algorithm>

#include "policies/base/types.hpp"

namespace orrery::policies {

std::int64_t common_tokens(const Text& a, const Text& b) {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i].id == b[i].id; ++i) {
    tokens += std::min(a[i].tokens, b[i].tokens);
    if (a[i].tokens != b[i].tokens) break;
  }
  return tokens;
}

}  // namespace orrery::policies
