// The best makespan of a small job shop by branch and bound over active schedules (Giffler and Thompson 1960): of the
// operations that could end first, take that machine and branch over those that could start before that end.
#pragma once

#include <limits>

#include "experiments/rl/envs/job_shop.hpp"

namespace orrery::experiments::rl::test {

inline void search_job_shop(const JobShop& shop, const JobShopSchedule& schedule, std::int64_t& best) {
  if (schedule.bound() >= best) return;
  if (schedule.done()) {
    best = schedule.bound();
    return;
  }
  std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
  std::size_t machine = 0;
  for (std::size_t job = 0; job < shop.jobs.size(); ++job) {
    if (schedule.job_done(job)) continue;
    const JobShopOperation operation = shop.jobs[job][schedule.next(job)];
    if (schedule.start(job) + operation.duration >= first_end) continue;
    first_end = schedule.start(job) + operation.duration;
    machine = operation.machine;
  }
  for (std::size_t job = 0; job < shop.jobs.size(); ++job) {
    if (schedule.job_done(job) || shop.jobs[job][schedule.next(job)].machine != machine) continue;
    if (schedule.start(job) >= first_end) continue;
    JobShopSchedule further = schedule;
    further.dispatch(job);
    search_job_shop(shop, further, best);
  }
}

inline std::int64_t job_shop_optimum(const JobShop& shop) {
  JobShopSchedule schedule;
  schedule.reset(shop);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (const char* rule : {"spt", "mwkr", "fifo"}) {
    schedule.reset(shop);
    while (!schedule.done()) schedule.dispatch(job_shop_rule(rule, shop, schedule));
    best = std::min(best, schedule.bound() + 1);
  }
  schedule.reset(shop);
  search_job_shop(shop, schedule, best);
  return best;
}

}  // namespace orrery::experiments::rl::test
