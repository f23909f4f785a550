#include "experiments/job/play.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "experiments/job/failures.hpp"

namespace orrery::experiments::job {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Steps that are done but may still be lost, and what they took.
struct Work {
  double steps = 0;  ///< in whole batches
  double productive_s = 0, slower_s = 0;
  double all_s() const { return productive_s + slower_s; }
  Work& operator+=(const Work& other) {
    steps += other.steps, productive_s += other.productive_s, slower_s += other.slower_s;
    return *this;
  }
};

struct Repair {
  double time_s = 0;
  std::int64_t node = -1;
  bool operator>(const Repair& other) const { return std::pair(time_s, node) > std::pair(other.time_s, other.node); }
};

class Player {
 public:
  Player(const JobConfig& config, const JobShape& shape, std::int64_t index,
         const std::function<void(const JobEvent&)>& tell)
      : config_(config),
        shape_(shape),
        times_(job_times(config, shape)),
        policy_(config.params.policies.recovery.make()),
        stream_(config.failures, shape.nodes, config.params.run.seed, index),
        tell_(tell),
        spares_(config.params.job.spares) {
    history_.by_component.assign(config.failures.names.size(), 0);
    decision_ = decide();
    coming_ = stream_.next();
  }

  History play() {
    while (!over()) train();
    settle();
    say(EventKind::end, now_);
    return std::move(history_);
  }

 private:
  double end() const { return config_.params.job.duration_s; }
  std::int64_t wanted() const { return config_.params.job.steps; }
  double kept_steps() const { return history_.steps + writing_.steps + since_.steps; }
  bool over() const { return now_ >= end() || (wanted() > 0 && kept_steps() >= static_cast<double>(wanted()) - 1e-9); }
  double step_s() const { return decision_.step_s * (1 + policy_->step_overhead()); }

  void say(EventKind kind, double begin, std::int64_t node = -1, std::int64_t component = -1) {
    if (tell_)
      tell_({kind, begin, now_, node, component, kept_steps(), decision_.waits ? 0 : step_s(), decision_.share});
  }

  /// What the policy makes of the nodes there are; the same question is asked once.
  policies::RecoveryDecision decide() {
    std::set<Cell> cells, stateless;
    std::vector<std::int64_t> nodes;
    for (const auto& [node, back] : lost_) {
      nodes.push_back(node);
      cells.insert(shape_.cells[at(node)].begin(), shape_.cells[at(node)].end());
    }
    stateless = cells;
    for (const std::int64_t node : empty_)
      stateless.insert(shape_.cells[at(node)].begin(), shape_.cells[at(node)].end());
    std::vector<std::int64_t> holders(shape_.stages.size(), shape_.copies);
    for (const Cell& cell : stateless) --holders[at(cell.stage)];
    const bool survives = !crashed_ && std::ranges::all_of(holders, [](std::int64_t left) { return left > 0; });
    if (decisions_.size() > kMostDecisions) decisions_.clear();
    const auto [known, fresh] = decisions_.try_emplace({nodes, survives});
    if (!fresh) return known->second;
    std::vector<policies::RecoveryStage> stages = shape_.stages;
    std::set<std::int64_t> copies;
    for (const Cell& cell : cells) {
      ++stages[at(cell.stage)].lost;
      copies.insert(cell.copy);
    }
    known->second = policy_->decide({.copies = shape_.copies,
                                     .micro_batches = shape_.micro_batches,
                                     .step_s = shape_.step_s,
                                     .stages = stages,
                                     .lost_copies = std::ssize(copies),
                                     .state_survives = survives,
                                     .step_with = shape_.step_with});
    return known->second;
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  /// Time passes, into one account. False: something happened first, and it is now that moment.
  bool pass(double seconds, double& account) {
    const double until = std::min({now_ + seconds, coming_.time_s, end()});
    account += until - now_;
    const bool whole = until >= now_ + seconds;
    now_ = until;
    return whole;
  }

  /// Steps until a checkpoint is due or something changes. A failure cuts a step off; a node that returns waits for its
  /// end.
  void train() {
    const double until = std::min(coming_.time_s, end()), one = step_s();
    const std::int64_t in_memory = config_.params.checkpoint.in_memory_steps;
    std::int64_t count = times_.interval_steps - done_;
    if (in_memory > 0) count = std::min(count, in_memory - done_ % in_memory);
    if (wanted() > 0) {
      const double missing = (static_cast<double>(wanted()) - kept_steps()) / decision_.share;
      count = std::min(count, static_cast<std::int64_t>(std::ceil(missing - 1e-9)));
    }
    const bool returns = !lost_.empty() && !repairs_.empty();
    if (returns) {
      const double steps = std::ceil((repairs_.top().time_s - now_) / one - 1e-9);
      count = static_cast<std::int64_t>(std::clamp(steps, 1.0, static_cast<double>(std::max<std::int64_t>(count, 1))));
    }
    const double room = std::floor((until - now_) / one + 1e-9);
    const bool cut = room < static_cast<double>(count);
    if (cut) count = static_cast<std::int64_t>(room);
    do_steps(count, one, until);
    if (cut) {
      history_.seconds.lost += until - now_;
      if (until > now_) ++history_.runs;
      now_ = until;
      return change();
    }
    if (returns && repairs_.top().time_s <= now_) change();
    if (over()) return;
    if (done_ >= times_.interval_steps)
      checkpoint();
    else if (in_memory > 0 && count > 0 && done_ % in_memory == 0)
      copy();
  }

  void do_steps(std::int64_t count, double one, double until) {
    const double all = static_cast<double>(count), productive = all * decision_.share * shape_.step_s;
    const Work work{all * decision_.share, productive, all * one - productive};
    now_ = std::min(until, now_ + all * one);
    since_ += work;
    uncopied_ += work;
    done_ += count;
    history_.runs += count;
    finish_write();
  }

  void copy() {
    if (!pass(times_.copy_s, history_.seconds.checkpoints)) return change();
    uncopied_ = {};
  }

  void checkpoint() {
    if (writing_until_ < kNever && writing_until_ > now_) {  // one at a time: the last one is not written yet
      if (!pass(writing_until_ - now_, history_.seconds.checkpoints)) return change();
    }
    finish_write();
    const double begin = now_;
    if (!pass(times_.pause_s, history_.seconds.checkpoints)) return change();
    ++history_.checkpoints;
    writing_ = since_;
    since_ = {};
    uncopied_ = {};
    done_ = 0;
    writing_until_ = now_ + times_.write_s;
    finish_write();
    say(EventKind::checkpoint, begin);
  }

  /// What is written can no more be lost.
  void finish_write() {
    if (writing_until_ > now_) return;
    keep(writing_);
    writing_ = {};
    writing_until_ = kNever;
  }

  void keep(const Work& work) {
    history_.steps += work.steps;
    history_.seconds.productive += work.productive_s;
    history_.seconds.slower += work.slower_s;
  }

  void lose(Work& work) {
    history_.seconds.lost += work.all_s();
    work = {};
  }

  void roll_back() {
    ++history_.rollbacks;
    if (in_memory_survives()) {
      since_ += {-uncopied_.steps, -uncopied_.productive_s, -uncopied_.slower_s};
      lose(uncopied_);
      return;
    }
    finish_write();
    lose(writing_);
    lose(since_);
    uncopied_ = {};
    writing_until_ = kNever;
    done_ = 0;
  }

  /// Whether every copy in memory outlives: a node's lies with its neighbour too.
  bool in_memory_survives() const {
    if (config_.params.checkpoint.in_memory_steps == 0 || crashed_) return false;
    const auto gone = [&](std::int64_t node) { return lost_.contains(node) || empty_.contains(node); };
    std::vector<std::int64_t> all(empty_.begin(), empty_.end());
    for (const auto& [node, back] : lost_) all.push_back(node);
    for (const std::int64_t node : all)
      if (gone((node ^ 1) < shape_.nodes ? node ^ 1 : node - 1)) return false;
    return shape_.nodes > 1;
  }

  /// A failure or a node that returns: the policy is asked, and the job recovers.
  void change() {
    if (now_ >= end()) return;
    const double begin = now_, stood = history_.seconds.recovery + history_.seconds.waiting;
    const bool failed = take_changes();
    if (failed) ++history_.recoveries;
    recover(failed);
    if (failed) history_.down_s += history_.seconds.recovery + history_.seconds.waiting - stood;
    say(EventKind::recovery, begin);
  }

  /// What has happened up to now; whether something failed.
  bool take_changes() {
    bool failed = false;
    while (coming_.time_s <= now_) {
      const Failure failure = coming_;
      coming_ = stream_.next();
      if (failure.node >= 0 && lost_.contains(failure.node)) continue;
      failed = true;
      ++history_.failures;
      if (failure.component >= 0) ++history_.by_component[at(failure.component)];
      if (failure.node < 0) {
        crashed_ = true;
      } else {
        empty_.insert(failure.node);
        lost_.emplace(failure.node, now_ + failure.repair_s);
        repairs_.push({now_ + failure.repair_s, failure.node});
      }
      say(EventKind::failure, now_, failure.node, failure.component);
    }
    take_repairs();
    while (!lost_.empty() && spares_ > 0) {  // spares stand in, in the order of nodes
      --spares_;
      ++swaps_;
      empty_.insert(lost_.begin()->first);
      lost_.erase(lost_.begin());
    }
    skip_absent();
    return failed;
  }

  void take_repairs() {
    while (!repairs_.empty() && repairs_.top().time_s <= now_) {
      const std::int64_t node = repairs_.top().node;
      repairs_.pop();
      if (lost_.erase(node) == 0) {
        ++spares_;  // a spare has its place
        continue;
      }
      empty_.insert(node);
      say(EventKind::node_back, now_, node);
    }
  }

  /// A node that is away does not fail.
  void skip_absent() {
    for (auto away = lost_.find(coming_.node); away != lost_.end() && away->second > coming_.time_s;
         away = lost_.find(coming_.node))
      coming_ = stream_.next();
  }

  void recover(bool failed) {
    const RecoveryParams& costs = config_.params.recovery;
    double& account = history_.seconds.recovery;
    while (now_ < end()) {
      decision_ = decide();
      const bool copied = in_memory_survives();
      if (decision_.rolls_back) roll_back();
      if (failed && !pass(costs.detect_s, account)) {
        (void)take_changes();
        continue;
      }
      failed = false;
      if (decision_.waits) {
        failed = wait();
        continue;
      }
      const double state = decision_.rolls_back ? costs.restart_s + (copied ? times_.move_s : times_.load_s)
                           : state_moves()      ? times_.move_s
                                                : 0;
      if (pass(communicators_s() + state + swaps_ * costs.swap_s, account)) break;
      failed = take_changes();
    }
    empty_.clear();  // whoever is in place now has its state
    crashed_ = false;
    swaps_ = 0;
  }

  /// Whether somebody waits for state: a node that is new in its place, or stages whose layers change hands.
  bool state_moves() const {
    for (const std::int64_t node : empty_)
      if (!lost_.contains(node)) return true;
    for (std::size_t s = 0; s < shape_.stages.size(); ++s)
      if (decision_.layers[s] != shape_.stages[s].layers) return true;
    return false;
  }

  double communicators_s() const {
    const RecoveryParams& costs = config_.params.recovery;
    std::int64_t ranks = shape_.ranks;
    if (decision_.communicators == policies::Communicators::groups)
      ranks = std::min(ranks, shape_.copies + std::ssize(shape_.stages));
    if (decision_.communicators == policies::Communicators::edited) ranks = std::min(ranks, shape_.node_devices);
    return costs.communicator_s + costs.communicator_rank_s * static_cast<double>(ranks);
  }

  /// Until the next node returns; whether something failed meanwhile.
  bool wait() {
    const double begin = now_;
    bool failed = false;
    for (const std::size_t lost = lost_.size(); now_ < end() && lost_.size() >= lost;) {
      const double back = repairs_.empty() ? end() : repairs_.top().time_s;
      (void)pass(std::max(0.0, back - now_), history_.seconds.waiting);
      if (now_ < end()) failed = take_changes() || failed;
    }
    say(EventKind::waiting, begin);
    return failed;
  }

  /// What is done when the time is over counts.
  void settle() {
    keep(writing_);
    keep(since_);
    writing_ = since_ = uncopied_ = {};
    history_.done = wanted() > 0 && history_.steps >= static_cast<double>(wanted()) - 1e-9;
  }

  static constexpr std::size_t kMostDecisions = 4096;

  const JobConfig& config_;
  const JobShape& shape_;
  const JobTimes times_;
  const std::unique_ptr<policies::Recovery> policy_;
  FailureStream stream_;
  const std::function<void(const JobEvent&)>& tell_;

  double now_ = 0;
  Failure coming_;
  std::int64_t spares_ = 0;
  std::map<std::int64_t, double> lost_;  // nobody is in their place, until then
  std::set<std::int64_t> empty_;         // nobody, or somebody who has no state yet
  bool crashed_ = false;
  double swaps_ = 0;
  std::priority_queue<Repair, std::vector<Repair>, std::greater<>> repairs_;
  policies::RecoveryDecision decision_;
  std::map<std::pair<std::vector<std::int64_t>, bool>, policies::RecoveryDecision> decisions_;

  std::int64_t done_ = 0;  // steps since the last checkpoint
  Work since_, writing_, uncopied_;
  double writing_until_ = kNever;
  History history_;
};

}  // namespace

JobSeconds& JobSeconds::operator+=(const JobSeconds& other) {
  productive += other.productive;
  slower += other.slower;
  lost += other.lost;
  checkpoints += other.checkpoints;
  recovery += other.recovery;
  waiting += other.waiting;
  return *this;
}

JobTimes job_times(const JobConfig& config, const JobShape& shape) {
  const CheckpointParams& checkpoint = config.params.checkpoint;
  const RecoveryParams& recovery = config.params.recovery;
  const auto over = [](double bytes, double rate) { return rate > 0 ? bytes / rate : 0; };
  const double write = checkpoint.write_s.value_or(over(shape.state_bytes, checkpoint.storage_bytes_per_s));
  const double copy = checkpoint.pause_s.value_or(over(shape.node_bytes, checkpoint.host_bytes_per_s));
  const bool waits = checkpoint.kind == CheckpointKind::synchronous;
  const double steps = std::round(checkpoint.interval_s / shape.step_s);
  return {.interval_steps = static_cast<std::int64_t>(std::clamp(steps, 1.0, 1e15)),
          .pause_s = waits ? write : copy,
          .write_s = waits ? 0 : write,
          .copy_s = copy,
          .load_s = over(shape.state_bytes, checkpoint.storage_bytes_per_s),
          .move_s = over(shape.node_bytes, recovery.peer_bytes_per_s)};
}

History play(const JobConfig& config, const JobShape& shape, std::int64_t index,
             const std::function<void(const JobEvent&)>& tell) {
  return Player(config, shape, index, tell).play();
}

}  // namespace orrery::experiments::job
