#include "hw/memory/dram_controller.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "hw/memory/place.hpp"

namespace orrery::hw {
namespace {

// The window is kept as a list a bank, oldest first, and each bank's candidate with the command that it needs next, so
// that a choice looks at banks and not at requests. Candidates change with admissions, commands of the bank, refreshes.
class Controller {
 public:
  Controller(const DramParams& dram, std::span<const DramRequest> requests, const DramControllerOptions& options)
      : dram_(dram), options_(options), requests_(requests), timer_(dram) {
    const auto size = std::min(at(options.window), requests.size());
    slots_.resize(size);
    for (std::size_t i = 0; i < size; ++i) slots_[i].next = i + 1 < size ? static_cast<std::int32_t>(i + 1) : kNone;
    free_ = size > 0 ? 0 : kNone;
    banks_.resize(at(dram.banks_per_lane()));
    next_refresh_.assign(at(dram.organisation.ranks), dram.timing.refi);
    first_due_ = options.refresh ? dram.timing.refi : kNoClock;
  }

  DramRun run() {
    while (waiting_ > 0 || next_ < requests_.size()) {
      if (waiting_ == 0) now_ = std::max(now_, requests_[next_].arrival);
      admit();
      if (now_ >= first_due_) {
        refresh();
      } else {
        step();
      }
    }
    run_.clocks = last_word_;
    return run_;
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Slot {
    std::int64_t row = 0, arrival = 0;
    std::uint64_t age = 0;  // number of the request
    std::int32_t next = kNone;
    bool write = false, opened = false;  // opened: an activation was made for it
  };
  struct Bank {
    std::int32_t head = kNone, candidate = kNone;
    std::uint64_t candidate_age = 0;
  };
  struct Choice {
    std::int64_t clock = kNoClock, bank = 0;
    std::uint64_t age = 0;
    DramOp op = DramOp::activate;
  };

  Slot& slot(std::int32_t index) { return slots_[static_cast<std::size_t>(index)]; }

  void admit() {
    while (free_ != kNone && next_ < requests_.size() && requests_[next_].arrival <= now_) {
      const DramRequest& r = requests_[next_];
      const std::int32_t index = free_;
      free_ = slot(index).next;
      slot(index) = {r.row, r.arrival, next_++, kNone, r.write, false};
      std::int32_t* link = &banks_[at(r.bank)].head;
      while (*link != kNone) link = &slot(*link).next;
      *link = index;
      ++waiting_;
      if (((reads_ | writes_) >> r.bank & 1) == 0) nominate(r.bank);
    }
  }

  // The bank's oldest request that hits its open row, else its oldest; and the command for it.
  void nominate(std::int64_t bank) {
    const BankSet bit = BankSet{1} << bank;
    for (BankSet* set : {&reads_, &writes_, &activates_, &precharges_}) *set &= ~bit;
    Bank& b = banks_[at(bank)];
    b.candidate = b.head;
    if (b.head == kNone) return;
    const std::int64_t open = timer_.open_row(bank);
    BankSet* set = open == DramTimer::kClosed ? &activates_ : &precharges_;
    for (std::int32_t i = b.head; i != kNone && open != DramTimer::kClosed; i = slot(i).next) {
      if (slot(i).row != open) continue;
      b.candidate = i;
      set = slot(i).write ? &writes_ : &reads_;
      break;
    }
    b.candidate_age = slot(b.candidate).age;
    *set |= bit;
  }

  void issue(DramOp op, std::int64_t bank, std::int64_t clock, std::int64_t row) {
    timer_.issue(op, bank, clock, row);
    if (options_.log != nullptr) options_.log->push_back({clock, op, bank, row});
    now_ = std::max(now_, clock);
  }

  // Closes the rank whose refresh is due and refreshes it.
  void refresh() {
    const auto rank = std::min_element(next_refresh_.begin(), next_refresh_.end()) - next_refresh_.begin();
    const std::int64_t first = rank * dram_.banks_per_rank(), end = first + dram_.banks_per_rank();
    for (std::int64_t bank = first; bank < end; ++bank) {
      if (!timer_.is_open(bank)) continue;
      issue(DramOp::precharge, bank, std::max(now_, timer_.earliest(DramOp::precharge, bank)), 0);
      ++run_.precharges;
    }
    issue(DramOp::refresh, first, std::max(now_, timer_.earliest(DramOp::refresh, first)), 0);
    ++run_.refreshes;
    next_refresh_[at(rank)] += dram_.timing.refi;
    first_due_ = *std::min_element(next_refresh_.begin(), next_refresh_.end());
    for (std::int64_t bank = first; bank < end; ++bank) nominate(bank);
  }

  template <DramOp kOp>
  void consider(BankSet set, Choice& best) const {
    for (; set != 0; set &= set - 1) {
      const std::int64_t bank = std::countr_zero(set);
      const std::int64_t clock = std::max(now_, timer_.earliest(kOp, bank));
      const std::uint64_t age = banks_[at(bank)].candidate_age;
      if (clock < best.clock || (clock == best.clock && age < best.age)) best = {clock, bank, age, kOp};
    }
  }

  // The command that may go first; ties go to column commands, then to the older request.
  Choice choose() const {
    Choice column, row;
    consider<DramOp::read>(reads_, column);
    consider<DramOp::write>(writes_, column);
    if (column.clock == now_) return column;
    consider<DramOp::activate>(activates_, row);
    consider<DramOp::precharge>(precharges_, row);
    return row.clock < column.clock ? row : column;
  }

  void step() {
    const Choice choice = choose();
    // A refresh, or a request not yet here, may come first.
    if (choice.clock >= first_due_) {
      now_ = first_due_;
      return;
    }
    if (free_ != kNone && next_ < requests_.size() && requests_[next_].arrival < choice.clock) {
      now_ = requests_[next_].arrival;
      return;
    }
    Slot& s = slot(banks_[at(choice.bank)].candidate);
    issue(choice.op, choice.bank, choice.clock, s.row);
    if (choice.op == DramOp::activate) {
      s.opened = true;
      ++run_.activations;
    } else if (choice.op == DramOp::precharge) {
      ++run_.precharges;
    } else {
      finish(choice);
    }
    nominate(choice.bank);
  }

  void finish(const Choice& choice) {
    Bank& bank = banks_[at(choice.bank)];
    const std::int32_t index = bank.candidate;
    Slot& s = slot(index);
    const std::int64_t done = choice.clock + (s.write ? dram_.timing.wl : dram_.timing.rl) + dram_.burst_clocks();
    (s.write ? run_.writes : run_.reads) += 1;
    run_.row_hits += s.opened ? 0 : 1;
    run_.latency_clocks += done - s.arrival;
    last_word_ = std::max(last_word_, done);
    std::int32_t* link = &bank.head;
    while (*link != index) link = &slot(*link).next;
    *link = s.next;
    s.next = free_;
    free_ = index;
    --waiting_;
  }

  const DramParams& dram_;
  const DramControllerOptions& options_;
  std::span<const DramRequest> requests_;
  DramTimer timer_;
  std::vector<Slot> slots_;
  std::vector<Bank> banks_;
  std::vector<std::int64_t> next_refresh_;
  BankSet reads_ = 0, writes_ = 0, activates_ = 0, precharges_ = 0;  // what banks' candidates need
  std::int64_t first_due_ = kNoClock;
  std::size_t next_ = 0, waiting_ = 0;
  std::int32_t free_ = kNone;
  std::int64_t now_ = 0, last_word_ = 0;
  DramRun run_;
};

}  // namespace

DramRun run_requests(const DramParams& dram, std::span<const DramRequest> requests,
                     const DramControllerOptions& options) {
  std::int64_t arrival = 0;
  for (const DramRequest& request : requests) {
    if (request.bank < 0 || request.bank >= dram.banks_per_lane())
      throw std::invalid_argument("a request for a bank that the pseudo-channel does not have");
    if (request.arrival < arrival) throw std::invalid_argument("requests must be in order of arrival");
    arrival = request.arrival;
  }
  if (options.window < 1) throw std::invalid_argument("a controller sees at least one request");
  return Controller(dram, requests, options).run();
}

double run_energy_j(const DramParams& dram, const DramRun& run) {
  const double bits = 8.0 * static_cast<double>(run.reads + run.writes) * static_cast<double>(dram.access_bytes());
  return static_cast<double>(run.activations) * dram.row_j() + bits * dram.access_bit_j();
}

}  // namespace orrery::hw
