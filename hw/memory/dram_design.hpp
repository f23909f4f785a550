// A memory controller whose every choice is a parameter: the design space of DRAM controllers.
//
// Threads send accesses to one pseudo-channel; an arbiter lets them in, a scheduler's buffer holds them, the scheduler
// and a page policy make commands, refreshes may be postponed or pulled in, and responses go back in one order or
// another. The choices and their values are those of DRAMSys, as the space of ArchGym lists them (10 parameters,
// 442,368 points: data/systems/dram_controller_space.csv); what each does is our reading, below. The timings are
// DramTimer's. With an open page, FR-FCFS, one shared buffer and no limits it is run_requests() of dram_controller.hpp,
// command by command (a test).
//
// Reading
//  - Arbiter. simple: accesses enter in the order in which they became ready, one that has no room holds all behind it.
//    fifo: the same, and a thread has at most `max_active_transactions` on their way. reorder: in addition a thread
//    gets its responses in the order of its accesses, and one without room holds its own thread only.
//  - Buffer. `request_buffer_size` places for each bank, for reads and for writes, or for all together.
//  - Scheduler, bank by bank. fifo: the oldest access. fr_fcfs: the oldest that hits the open row, else the oldest.
//    fr_fcfs_grp: the oldest hit of the bus' present direction first, then as fr_fcfs, and among banks too a column
//    command of that direction goes before one that turns the bus around, if both may go at once.
//  - Page. open: a row stays open until another is wanted. closed: every access closes it (auto-precharge, which takes
//    no place on the command bus). open_adaptive: closes it if the buffer holds an access to another row of the bank
//    and none to this one. closed_adaptive: leaves it open only if the buffer holds an access to this row.
//  - Refresh of all banks of a rank. One falls due every tREFI; up to `refresh_max_postponed` of them wait while there
//    are accesses, after which one goes at once; with the buffer empty those owed go, and up to
//    `refresh_max_pulled_in` before their time.
//  - Responses. fifo: as they come. reorder: in the order in which the controller took the accesses.
// Left out: power-down, refresh by bank, the time of arbiter and queues themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hw/memory/dram_controller.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

enum class PagePolicy : std::uint8_t { open, open_adaptive, closed, closed_adaptive };
constexpr auto enum_names(PagePolicy) {
  using enum PagePolicy;
  return sim::names<PagePolicy>(
      {{"open", open}, {"open_adaptive", open_adaptive}, {"closed", closed}, {"closed_adaptive", closed_adaptive}});
}

enum class DramScheduler : std::uint8_t { fifo, fr_fcfs, fr_fcfs_grp };
constexpr auto enum_names(DramScheduler) {
  using enum DramScheduler;
  return sim::names<DramScheduler>({{"fifo", fifo}, {"fr_fcfs", fr_fcfs}, {"fr_fcfs_grp", fr_fcfs_grp}});
}

enum class DramBuffer : std::uint8_t { bankwise, read_write, shared };
constexpr auto enum_names(DramBuffer) {
  using enum DramBuffer;
  return sim::names<DramBuffer>({{"bankwise", bankwise}, {"read_write", read_write}, {"shared", shared}});
}

enum class DramResponses : std::uint8_t { fifo, reorder };
constexpr auto enum_names(DramResponses) {
  using enum DramResponses;
  return sim::names<DramResponses>({{"fifo", fifo}, {"reorder", reorder}});
}

enum class DramRefresh : std::uint8_t { none, all_bank };
constexpr auto enum_names(DramRefresh) {
  using enum DramRefresh;
  return sim::names<DramRefresh>({{"none", none}, {"all_bank", all_bank}});
}

enum class DramArbiter : std::uint8_t { simple, fifo, reorder };
constexpr auto enum_names(DramArbiter) {
  using enum DramArbiter;
  return sim::names<DramArbiter>({{"simple", simple}, {"fifo", fifo}, {"reorder", reorder}});
}

/// One controller out of the space.
struct DramDesign {
  PagePolicy page_policy = PagePolicy::open;
  DramScheduler scheduler = DramScheduler::fr_fcfs;
  DramBuffer scheduler_buffer = DramBuffer::shared;
  std::int64_t request_buffer_size = 32;
  DramResponses response_queue = DramResponses::fifo;
  DramRefresh refresh_policy = DramRefresh::all_bank;
  std::int64_t refresh_max_postponed = 1;
  std::int64_t refresh_max_pulled_in = 1;
  DramArbiter arbiter = DramArbiter::simple;
  std::int64_t max_active_transactions = 32;

  static constexpr auto fields() {
    using sim::Unit;
    using D = DramDesign;
    constexpr sim::Range kSizes = sim::between(1, 4096), kRefreshes = sim::between(0, 64);
    return sim::FieldTable{
        sim::field("page_policy", &D::page_policy, "When the controller closes an open row."),
        sim::field("scheduler", &D::scheduler, "Which access to a bank is served next."),
        sim::field("scheduler_buffer", &D::scheduler_buffer, "How the scheduler's buffer is divided."),
        sim::field("request_buffer_size", &D::request_buffer_size, Unit::count, kSizes,
                   "Number of accesses that each part of the buffer holds."),
        sim::field("response_queue", &D::response_queue,
                   "Order in which the controller gives responses: as they come (fifo), or in the order of the "
                   "accesses (reorder)."),
        sim::field("refresh_policy", &D::refresh_policy, "Whether rows are refreshed, all banks of a rank at once."),
        sim::field("refresh_max_postponed", &D::refresh_max_postponed, Unit::count, kRefreshes,
                   "Most refreshes that may be postponed while there are accesses."),
        sim::field("refresh_max_pulled_in", &D::refresh_max_pulled_in, Unit::count, kRefreshes,
                   "Most refreshes that may be done ahead of time while there are no accesses."),
        sim::field("arbiter", &D::arbiter, "Order in which the arbiter accepts the accesses of threads."),
        sim::field("max_active_transactions", &D::max_active_transactions, Unit::count, kSizes,
                   "Most accesses that a thread may have under way; the simple arbiter has no limit."),
    };
  }
};

/// One access of a thread to a burst. A thread's accesses are given in its order.
struct DramAccess {
  std::int64_t thread = 0;
  std::int64_t ready = 0;  ///< clock from which it may be sent …
  bool dependent = false;  ///< … or, if set, clocks after the response to the thread's previous one
  std::int64_t bank = 0, row = 0;
  bool write = false;
};

struct DramDesignRun {
  DramRun commands;                     ///< latency_clocks: from ready to the response
  std::vector<std::int64_t> latencies;  ///< clocks, by access
  std::int64_t open_clocks = 0;         ///< with at least one row open
};

/// Plays all accesses to their responses. Deterministic; some 0.3 us an access. Throws std::invalid_argument for a bank
/// that there is not, or a negative clock.
DramDesignRun run_design(const DramParams& dram, const DramDesign& design, std::span<const DramAccess> accesses,
                         std::vector<DramCommand>* log = nullptr);

/// Energy of a run in J: rows opened, bits moved, rows refreshed, background, and what open rows add to it.
struct DramDesignEnergy {
  double rows = 0, bits = 0, refresh = 0, background = 0;
  double total() const { return rows + bits + refresh + background; }
};
DramDesignEnergy design_energy(const DramParams& dram, const DramDesignRun& run);

}  // namespace orrery::hw
