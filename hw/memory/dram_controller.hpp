// A memory controller of one pseudo-channel: requests in, commands out, by FR-FCFS with open pages.
//
// Of the requests in a window (the queue), each bank's candidate is its oldest request that hits the open row, else its
// oldest request at all; a row with hits in the window stays open. The command that may go earliest goes next; ties go
// to column commands, then to the older request (Rixner et al., "Memory access scheduling", ISCA 2000). Refresh: once
// tREFI has passed, all banks of the rank are closed and a refresh goes before anything else of that rank.
// Deterministic; a command costs a scan of the window, some 100 ns of host time.
// Left out: write drain thresholds, starvation limits, postponed refreshes, several channels (each is independent).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/memory/dram.hpp"
#include "hw/memory/dram_timing.hpp"

namespace orrery::hw {

/// One burst. `bank` as in DramPlace; requests are given in order of arrival.
struct DramRequest {
  std::int64_t arrival = 0;  ///< clock
  std::int64_t bank = 0, row = 0;
  bool write = false;
};

/// A command as it went.
struct DramCommand {
  std::int64_t clock = 0;
  DramOp op = DramOp::activate;
  std::int64_t bank = 0, row = 0;  ///< for refresh: the first bank of the rank
};

struct DramControllerOptions {
  std::int64_t window = 32;  ///< requests that the scheduler sees
  bool refresh = true;
  std::vector<DramCommand>* log = nullptr;  ///< where commands are appended, if anywhere
};

struct DramRun {
  std::int64_t clocks = 0;  ///< until the last word has passed the bus
  std::int64_t reads = 0, writes = 0, activations = 0, precharges = 0, refreshes = 0;
  std::int64_t row_hits = 0;        ///< column commands that needed no activation of their own
  std::int64_t latency_clocks = 0;  ///< sum over requests: arrival to last word
  /// Commands issued.
  std::int64_t commands() const { return reads + writes + activations + precharges + refreshes; }
};

/// Plays all requests to their end. Throws std::invalid_argument for a bank that there is not, or for arrivals out of
/// order.
DramRun run_requests(const DramParams& dram, std::span<const DramRequest> requests,
                     const DramControllerOptions& options = {});

/// Energy of a run in J, without the background: rows opened, and bits moved to or from the host.
double run_energy_j(const DramParams& dram, const DramRun& run);

}  // namespace orrery::hw
