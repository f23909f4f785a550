// Job shops: every job visits machines in an order of its own; the last one to finish is to finish early.
//
// The instance and the schedule that grows from dispatches, apart from the environment (job_shop.cpp), so that tests
// and rules can use them. Times are whole units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery::experiments::rl {

struct JobShopOperation {
  std::size_t machine = 0;
  std::int64_t duration = 0;
};

struct JobShop {
  std::size_t machines = 0;
  std::vector<std::vector<JobShopOperation>> jobs;  ///< operations in order
};

/// Durations uniform on 1 … 99 and orders of machines uniform, as Taillard's ("Benchmarks for basic scheduling
/// problems", EJOR 64, 1993).
JobShop random_job_shop(std::size_t jobs, std::size_t machines, sim::RandomStream random);
/// The 6x6 instance of Fisher and Thompson, "Probabilistic learning combinations of local job-shop scheduling rules",
/// in Muth and Thompson (eds.), Industrial Scheduling, 1963 (known as FT06). Optimum 55.
JobShop ft06_job_shop();

/// A schedule that grows: dispatching a job starts its next operation as soon as job and machine are free.
class JobShopSchedule {
 public:
  void reset(const JobShop& shop);
  void dispatch(std::size_t job);

  bool job_done(std::size_t job) const { return next_[job] == shop_->jobs[job].size(); }
  bool done() const { return left_ == 0; }
  std::size_t next(std::size_t job) const { return next_[job]; }
  std::int64_t job_ready(std::size_t job) const { return job_ready_[job]; }
  std::int64_t job_left(std::size_t job) const { return job_left_[job]; }
  std::int64_t machine_free(std::size_t machine) const { return machine_free_[machine]; }
  std::int64_t machine_left(std::size_t machine) const { return machine_left_[machine]; }
  /// When the job's next operation would start.
  std::int64_t start(std::size_t job) const;
  /// No schedule that goes on from here ends before: the longest of each job's ready time and work left, and each
  /// machine's. At the end it is the makespan.
  std::int64_t bound() const;

 private:
  const JobShop* shop_ = nullptr;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> job_ready_, job_left_, machine_free_, machine_left_;
  std::size_t left_ = 0;
};

/// A classic rule's choice among the jobs that are not done (ties: the lower index): "spt" the shortest operation,
/// "mwkr" the most work left, "fifo" the earliest start. Throws std::invalid_argument for another name.
std::size_t job_shop_rule(const std::string& rule, const JobShop& shop, const JobShopSchedule& schedule);

}  // namespace orrery::experiments::rl
