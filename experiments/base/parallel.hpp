// Independent pieces of work on a few threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
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

/// The same with threads that stay, for many small batches.
class WorkerPool {
 public:
  /// `jobs` threads, of which the caller of for_each() is one.
  explicit WorkerPool(std::size_t jobs) {
    try {
      for (std::size_t t = 1; t < jobs; ++t) threads_.emplace_back([this] { loop(); });
    } catch (const std::system_error&) {
      // The host gives no more threads: those there are do the work.
    }
  }
  ~WorkerPool() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    wake_.notify_all();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t jobs() const { return threads_.size() + 1; }

  /// Calls `work(i)` for 0 … n-1, each once, and returns when all are done. `work` must not throw. One call at a time.
  void for_each(std::size_t n, const std::function<void(std::size_t)>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      size_ = n;
      next_ = 0;
      ++batch_;
    }
    wake_.notify_all();
    drain(work, n);
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return busy_ == 0; });
    work_ = nullptr;
  }

 private:
  void drain(const std::function<void(std::size_t)>& work, std::size_t n) {
    for (std::size_t i = next_++; i < n; i = next_++) work(i);
  }
  void loop() {
    std::size_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return end_ || (batch_ != seen && work_ != nullptr); });
      if (end_) return;
      seen = batch_;
      const auto* work = work_;
      const std::size_t n = size_;
      ++busy_;
      lock.unlock();
      drain(*work, n);
      lock.lock();
      if (--busy_ == 0) idle_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t size_ = 0, batch_ = 0, busy_ = 0;
  std::atomic<std::size_t> next_{0};
  bool end_ = false;
  std::vector<std::jthread> threads_;  // last: joined before what they use goes
};

}  // namespace orrery::experiments
