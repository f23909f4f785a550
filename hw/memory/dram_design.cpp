#include "hw/memory/dram_design.hpp"

#include <algorithm>
#include <stdexcept>

#include "hw/memory/dram_arbiter.hpp"
#include "hw/memory/place.hpp"

namespace orrery::hw {
namespace {

constexpr double kRefreshesOfAllRows = 8192;  // JEDEC: every row within as many refreshes

class DesignRun {
 public:
  DesignRun(const DramParams& dram, const DramDesign& design, std::span<const DramAccess> accesses,
            std::vector<DramCommand>* log)
      : dram_(dram), design_(design), accesses_(accesses), log_(log), timer_(dram), front_(design, accesses) {
    banks_.resize(at(dram.banks_per_lane()));
    room_.assign(design.scheduler_buffer == DramBuffer::bankwise     ? banks_.size()
                 : design.scheduler_buffer == DramBuffer::read_write ? 2
                                                                     : 1,
                 design.request_buffer_size);
    refreshed_.assign(at(dram.organisation.ranks), 0);
  }

  DramDesignRun run() {
    while (!front_.done()) {
      front_.respond(now_);
      front_.admit(now_, [&](std::size_t access) { return take(access); });
      if (refresh_if_due()) continue;
      const Choice choice = choose();
      const std::int64_t event = front_.next_event(now_), refresh = next_refresh();
      if (event < choice.clock || refresh <= choice.clock) {
        now_ = std::min(event, refresh);
      } else {
        issue(choice);
      }
    }
    run_.commands.clocks = last_word_;
    run_.latencies = front_.latencies();
    for (const std::int64_t latency : run_.latencies) run_.commands.latency_clocks += latency;
    if (open_ > 0) run_.open_clocks += std::max<std::int64_t>(0, last_word_ - open_since_);
    return std::move(run_);
  }

 private:
  struct Waiting {
    std::size_t access = 0, age = 0;
    bool opened = false;  // an activation was made for it
  };
  struct Bank {
    std::vector<Waiting> queue;  // oldest first
    std::size_t candidate = 0;   // index into queue
    DramOp op = DramOp::activate;
  };
  struct Choice {
    std::int64_t clock = kNoClock, bank = 0;
    int rank = 0;  // of commands that may go at one clock, the lowest
    std::size_t age = 0;
    bool before(const Choice& other) const {
      if (clock != other.clock) return clock < other.clock;
      return rank != other.rank ? rank < other.rank : age < other.age;
    }
  };

  const DramAccess& of(const Waiting& waiting) const { return accesses_[waiting.access]; }
  std::int64_t& room(const DramAccess& access) {
    switch (design_.scheduler_buffer) {
      case DramBuffer::bankwise:
        return room_[at(access.bank)];
      case DramBuffer::read_write:
        return room_[access.write ? 1 : 0];
      case DramBuffer::shared:
        break;
    }
    return room_[0];
  }

  // Takes an access into the buffer, if it has room.
  bool take(std::size_t index) {
    const DramAccess& access = accesses_[index];
    if (room(access) == 0) return false;
    --room(access);
    ++pending_;
    banks_[at(access.bank)].queue.push_back({index, taken_++, false});
    nominate(access.bank);
    return true;
  }

  // The access that the bank serves next, and the command for it.
  void nominate(std::int64_t bank) {
    Bank& b = banks_[at(bank)];
    if (b.queue.empty()) return;
    b.candidate = 0;
    const std::int64_t open = timer_.open_row(bank);
    if (open != DramTimer::kClosed && design_.scheduler != DramScheduler::fifo) {
      const auto hit = [&](const Waiting& waiting) { return of(waiting).row == open; };
      const auto grouped = [&](const Waiting& waiting) { return hit(waiting) && of(waiting).write == writing_; };
      auto found = b.queue.end();
      if (design_.scheduler == DramScheduler::fr_fcfs_grp)
        found = std::find_if(b.queue.begin(), b.queue.end(), grouped);
      if (found == b.queue.end()) found = std::find_if(b.queue.begin(), b.queue.end(), hit);
      if (found != b.queue.end()) b.candidate = static_cast<std::size_t>(found - b.queue.begin());
    }
    const DramAccess& access = of(b.queue[b.candidate]);
    b.op = open == DramTimer::kClosed ? DramOp::activate
           : open != access.row       ? DramOp::precharge
           : access.write             ? DramOp::write
                                      : DramOp::read;
  }

  static bool is_column(DramOp op) { return op == DramOp::read || op == DramOp::write; }

  // The command that may go first; ties go to column commands (of the bus' direction, if grouped), then to the older.
  Choice choose() const {
    Choice best;
    for (std::size_t i = 0; i < banks_.size(); ++i) {
      const Bank& b = banks_[i];
      if (b.queue.empty()) continue;
      const auto bank = static_cast<std::int64_t>(i);
      const bool turns = design_.scheduler == DramScheduler::fr_fcfs_grp && (b.op == DramOp::write) != writing_;
      const Choice choice{std::max(now_, timer_.earliest(b.op, bank)), bank,
                          !is_column(b.op) ? 2
                          : turns          ? 1
                                           : 0,
                          b.queue[b.candidate].age};
      if (choice.before(best)) best = choice;
    }
    return best;
  }

  void command(DramOp op, std::int64_t bank, std::int64_t clock, std::int64_t row) {
    timer_.issue(op, bank, clock, row);
    if (log_ != nullptr) log_->push_back({clock, op, bank, row});
    now_ = std::max(now_, clock);
    if (op == DramOp::activate && open_++ == 0) open_since_ = std::max(clock, open_until_);
    if (op == DramOp::precharge) closed(clock);
  }
  void closed(std::int64_t clock) {
    open_until_ = std::max(open_until_, clock);  // a row that closes by itself does so later than now
    if (--open_ == 0) run_.open_clocks += std::max<std::int64_t>(0, open_until_ - open_since_);
  }

  void issue(const Choice& choice) {
    Bank& b = banks_[at(choice.bank)];
    Waiting& waiting = b.queue[b.candidate];
    const DramOp op = b.op;
    command(op, choice.bank, choice.clock, of(waiting).row);
    if (op == DramOp::activate) {
      waiting.opened = true;
      ++run_.commands.activations;
    } else if (op == DramOp::precharge) {
      ++run_.commands.precharges;
    } else {
      finish(choice);
      return;
    }
    nominate(choice.bank);
  }

  void finish(const Choice& choice) {
    Bank& b = banks_[at(choice.bank)];
    const Waiting served = b.queue[b.candidate];
    const DramAccess& access = of(served);
    (access.write ? run_.commands.writes : run_.commands.reads) += 1;
    run_.commands.row_hits += served.opened ? 0 : 1;
    const std::int64_t done = choice.clock + (access.write ? dram_.timing.wl : dram_.timing.rl) + dram_.burst_clocks();
    last_word_ = std::max(last_word_, done);
    front_.served(served.access, served.age, done);
    b.queue.erase(b.queue.begin() + static_cast<std::ptrdiff_t>(b.candidate));
    ++room(access);
    --pending_;
    if (closes(b, access.row)) {
      closed(timer_.close_after_access(choice.bank));
      ++run_.commands.precharges;
    }
    if (access.write != writing_) {
      writing_ = access.write;
      if (design_.scheduler == DramScheduler::fr_fcfs_grp)
        for (std::size_t i = 0; i < banks_.size(); ++i) nominate(static_cast<std::int64_t>(i));
    }
    nominate(choice.bank);
  }

  // Whether the page policy closes the row after an access.
  bool closes(const Bank& bank, std::int64_t row) const {
    if (design_.page_policy == PagePolicy::open) return false;
    if (design_.page_policy == PagePolicy::closed) return true;
    const bool hit =
        std::any_of(bank.queue.begin(), bank.queue.end(), [&](const Waiting& w) { return of(w).row == row; });
    return !hit && (design_.page_policy == PagePolicy::closed_adaptive || !bank.queue.empty());
  }

  // Refreshes of a rank that have fallen due and not gone; below 0: that went before their time.
  std::int64_t owed(std::size_t rank) const { return now_ / dram_.timing.refi - refreshed_[rank]; }
  std::int64_t allowed() const { return pending_ > 0 ? design_.refresh_max_postponed : -design_.refresh_max_pulled_in; }

  bool refresh_if_due() {
    if (design_.refresh_policy == DramRefresh::none) return false;
    for (std::size_t rank = 0; rank < refreshed_.size(); ++rank) {
      if (owed(rank) <= allowed()) continue;
      refresh(static_cast<std::int64_t>(rank));
      return true;
    }
    return false;
  }
  // The next clock at which a refresh has to go, as things stand.
  std::int64_t next_refresh() const {
    if (design_.refresh_policy == DramRefresh::none) return kNoClock;
    const std::int64_t least = *std::min_element(refreshed_.begin(), refreshed_.end());
    return (least + allowed() + 1) * dram_.timing.refi;
  }

  void refresh(std::int64_t rank) {
    const std::int64_t first = rank * dram_.banks_per_rank(), end = first + dram_.banks_per_rank();
    for (std::int64_t bank = first; bank < end; ++bank) {
      if (!timer_.is_open(bank)) continue;
      command(DramOp::precharge, bank, std::max(now_, timer_.earliest(DramOp::precharge, bank)), 0);
      ++run_.commands.precharges;
    }
    command(DramOp::refresh, first, std::max(now_, timer_.earliest(DramOp::refresh, first)), 0);
    ++run_.commands.refreshes;
    ++refreshed_[at(rank)];
    for (std::int64_t bank = first; bank < end; ++bank) nominate(bank);
  }

  const DramParams& dram_;
  const DramDesign& design_;
  std::span<const DramAccess> accesses_;
  std::vector<DramCommand>* log_;
  DramTimer timer_;
  DramFront front_;
  std::vector<Bank> banks_;
  std::vector<std::int64_t> room_, refreshed_;
  std::size_t taken_ = 0;
  std::int64_t pending_ = 0, open_ = 0, open_since_ = 0, open_until_ = 0;
  bool writing_ = false;  // direction of the bus
  std::int64_t now_ = 0, last_word_ = 0;
  DramDesignRun run_;
};

}  // namespace

DramDesignRun run_design(const DramParams& dram, const DramDesign& design, std::span<const DramAccess> accesses,
                         std::vector<DramCommand>* log) {
  for (const DramAccess& access : accesses) {
    if (access.bank < 0 || access.bank >= dram.banks_per_lane())
      throw std::invalid_argument("an access to a bank that the pseudo-channel does not have");
    if (access.ready < 0 || access.thread < 0) throw std::invalid_argument("clocks and threads are not negative");
  }
  return DesignRun(dram, design, accesses, log).run();
}

DramDesignEnergy design_energy(const DramParams& dram, const DramDesignRun& run) {
  const DramRun& c = run.commands;
  const auto lanes = static_cast<double>(dram.lanes());
  const double rows_a_refresh =
      static_cast<double>(dram.banks_per_rank() * dram.organisation.rows) / kRefreshesOfAllRows;
  DramDesignEnergy energy;
  energy.rows = static_cast<double>(c.activations) * dram.row_j();
  energy.bits = 8.0 * static_cast<double>((c.reads + c.writes) * dram.access_bytes()) * dram.access_bit_j();
  energy.refresh = static_cast<double>(c.refreshes) * rows_a_refresh * dram.row_j();
  energy.background = (dram.energy.background_w * static_cast<double>(c.clocks) +
                       dram.energy.open_rows_w * static_cast<double>(run.open_clocks)) /
                      lanes / dram.clock_hz;
  return energy;
}

}  // namespace orrery::hw
