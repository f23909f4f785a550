// Independent pieces of work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
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

/// Work on threads that stay. Pieces are handed on at any time and begun in that order; the owner, one thread, waits
/// for what it needs of them.
class WorkerPool {
 public:
  /// `jobs` threads at work; with one, the owner does the pieces itself while it waits.
  explicit WorkerPool(std::size_t jobs) {
    try {
      for (std::size_t t = 0; jobs > 1 && t < jobs; ++t) threads_.emplace_back([this] { loop(); });
    } catch (const std::system_error&) {
      // The host gives no more threads: those there are do the work.
    }
  }
  /// Pieces that have not begun are dropped.
  ~WorkerPool() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    wake_.notify_all();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t jobs() const { return std::max<std::size_t>(1, threads_.size()); }

  /// Hands on pieces, which must not throw.
  void submit(std::vector<std::function<void()>> pieces) {
    {
      const std::lock_guard lock(mutex_);
      for (auto& piece : pieces) queue_.push_back(std::move(piece));
    }
    if (pieces.size() == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
  }

  /// Waits until `ready()`, which is asked at first and whenever a piece has ended, never beside the end of one. It
  /// must become true by pieces that were handed on.
  void wait_until(const std::function<bool()>& ready) {
    std::unique_lock lock(mutex_);
    while (!ready()) {
      if (!threads_.empty()) {
        ended_.wait(lock);
        continue;
      }
      const std::function<void()> piece = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      piece();
      lock.lock();
    }
  }

  /// Calls `work(i)` for 0 … n-1, each once, and returns when all are done: the owner and threads that are free, ahead
  /// of pieces that wait. `work` must not throw.
  void for_each(std::size_t n, const std::function<void(std::size_t)>& work) {
    struct Shared {
      std::atomic<std::size_t> next{0};
      std::size_t busy = 0;
    };
    const auto shared = std::make_shared<Shared>();  // a piece may begin when all is done
    const auto drain = [shared, n, &work] {
      for (std::size_t i = shared->next++; i < n; i = shared->next++) work(i);
    };
    if (n > 1 && !threads_.empty()) {
      const std::lock_guard lock(mutex_);
      for (std::size_t t = 1; t < std::min(n, threads_.size()); ++t)
        queue_.push_front([this, shared, drain, n] {
          {
            const std::lock_guard busy(mutex_);
            if (shared->next >= n) return;  // `work` may be gone
            ++shared->busy;
          }
          drain();
          const std::lock_guard busy(mutex_);
          --shared->busy;
        });
      wake_.notify_all();
    }
    drain();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return shared->busy == 0; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return end_ || !queue_.empty(); });
      if (end_) return;
      const std::function<void()> piece = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      piece();
      lock.lock();
      ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<std::function<void()>> queue_;
  bool end_ = false;
  std::vector<std::jthread> threads_;  // last: joined before what they use goes
};

}  // namespace orrery::experiments
