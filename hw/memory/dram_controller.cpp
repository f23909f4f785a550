#include "hw/memory/dram_controller.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>

namespace orrery::hw {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class Controller {
 public:
  Controller(const DramParams& dram, std::span<const DramRequest> requests, const DramControllerOptions& options)
      : dram_(dram), options_(options), requests_(requests), timer_(dram) {
    window_.reserve(static_cast<std::size_t>(options.window));
    next_refresh_.assign(static_cast<std::size_t>(dram.organisation.ranks), dram.timing.refi);
  }

  DramRun run() {
    admit();
    while (!window_.empty() || next_ < requests_.size()) {
      if (window_.empty()) now_ = std::max(now_, requests_[next_].arrival);
      admit();
      if (options_.refresh && refresh_if_due()) continue;
      step();
    }
    run_.clocks = last_word_;
    return run_;
  }

 private:
  struct Entry {
    std::int64_t bank, row, arrival;
    bool write, opened;  // opened: an activation was made for it
  };
  struct Choice {
    std::int64_t clock = kNever;
    DramOp op = DramOp::activate;
    std::size_t entry = 0;
  };

  void admit() {
    while (next_ < requests_.size() && window_.size() < static_cast<std::size_t>(options_.window) &&
           requests_[next_].arrival <= now_) {
      const DramRequest& r = requests_[next_++];
      window_.push_back({r.bank, r.row, r.arrival, r.write, false});
    }
  }

  void issue(DramOp op, std::int64_t bank, std::int64_t clock, std::int64_t row) {
    timer_.issue(op, bank, clock, row);
    if (options_.log != nullptr) options_.log->push_back({clock, op, bank, row});
    now_ = std::max(now_, clock);
  }

  bool refresh_if_due() {
    for (std::int64_t rank = 0; rank < dram_.organisation.ranks; ++rank) {
      std::int64_t& due = next_refresh_[static_cast<std::size_t>(rank)];
      if (now_ < due) continue;
      const std::int64_t first = rank * dram_.banks_per_rank();
      for (std::int64_t bank = first; bank < first + dram_.banks_per_rank(); ++bank) {
        if (!timer_.is_open(bank)) continue;
        issue(DramOp::precharge, bank, std::max(now_, timer_.earliest(DramOp::precharge, bank)), 0);
        ++run_.precharges;
      }
      issue(DramOp::refresh, first, std::max(now_, timer_.earliest(DramOp::refresh, first)), 0);
      ++run_.refreshes;
      due += dram_.timing.refi;
      return true;
    }
    return false;
  }

  // The oldest hit of every bank, else its oldest request.
  Choice choose() const {
    std::array<std::size_t, 64> candidate;  // read only where `seen` has the bank's bit
    BankSet seen = 0, hit = 0;
    for (std::size_t i = 0; i < window_.size(); ++i) {
      const Entry& e = window_[i];
      const BankSet bit = BankSet{1} << e.bank;
      if ((hit & bit) != 0) continue;
      if (timer_.open_row(e.bank) == e.row) {
        hit |= bit;
        candidate[static_cast<std::size_t>(e.bank)] = i;
      } else if ((seen & bit) == 0) {
        candidate[static_cast<std::size_t>(e.bank)] = i;
      }
      seen |= bit;
    }
    Choice best;
    for (; seen != 0; seen &= seen - 1) {
      const std::int64_t bank = std::countr_zero(seen);
      const std::size_t i = candidate[static_cast<std::size_t>(bank)];
      const bool is_hit = (hit >> bank & 1) != 0;
      const DramOp op = is_hit                 ? (window_[i].write ? DramOp::write : DramOp::read)
                        : timer_.is_open(bank) ? DramOp::precharge
                                               : DramOp::activate;
      const std::int64_t clock = std::max({now_, timer_.earliest(op, bank), window_[i].arrival});
      const bool column = is_hit, best_column = best.op == DramOp::read || best.op == DramOp::write;
      if (clock < best.clock || (clock == best.clock && (column != best_column ? column : i < best.entry)))
        best = {clock, op, i};
    }
    return best;
  }

  void step() {
    const Choice choice = choose();
    // A refresh, or a request not yet here, may come first.
    if (options_.refresh) {
      const std::int64_t due = *std::min_element(next_refresh_.begin(), next_refresh_.end());
      if (choice.clock >= due && now_ < due) {
        now_ = due;
        return;
      }
    }
    if (next_ < requests_.size() && window_.size() < static_cast<std::size_t>(options_.window) &&
        requests_[next_].arrival < choice.clock) {
      now_ = requests_[next_].arrival;
      return;
    }
    Entry& entry = window_[choice.entry];
    issue(choice.op, entry.bank, choice.clock, entry.row);
    switch (choice.op) {
      case DramOp::activate:
        entry.opened = true;
        ++run_.activations;
        return;
      case DramOp::precharge:
        ++run_.precharges;
        return;
      default:
        finish(choice);
    }
  }

  void finish(const Choice& choice) {
    const Entry& entry = window_[choice.entry];
    const std::int64_t done = choice.clock + (entry.write ? dram_.timing.wl : dram_.timing.rl) + dram_.burst_clocks();
    (entry.write ? run_.writes : run_.reads) += 1;
    run_.row_hits += entry.opened ? 0 : 1;
    run_.latency_clocks += done - entry.arrival;
    last_word_ = std::max(last_word_, done);
    window_.erase(window_.begin() + static_cast<std::ptrdiff_t>(choice.entry));
  }

  const DramParams& dram_;
  const DramControllerOptions& options_;
  std::span<const DramRequest> requests_;
  DramTimer timer_;
  std::vector<Entry> window_;
  std::vector<std::int64_t> next_refresh_;
  std::size_t next_ = 0;
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
