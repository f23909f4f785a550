// Independent pieces of work on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace orrery::experiments {

/// Calls `work(i)` for 0 … n-1, each once, on at most `jobs` threads of which the caller is one. Which thread takes
/// which is open, so that results must go to places of their own. `work` must not throw.
template <class Work>
void parallel_for(std::size_t n, std::size_t jobs, Work work) {
  std::atomic<std::size_t> next{0};
  const auto worker = [&] {
    for (std::size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::jthread> threads;
  for (std::size_t t = 1; t < jobs && t < n; ++t) threads.emplace_back(worker);
  worker();
}

}  // namespace orrery::experiments
