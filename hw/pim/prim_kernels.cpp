// The launches of the PrIM benchmarks: instructions of the inner loops, transfers and meetings of tasklets.
//
// Counts are of a straightforward compilation: one shift-and-add per address, one load or store an access (64 bits at
// once), two instructions for a 64-bit addition, an index and a branch a turn of a loop that is not unrolled. The
// second number counts instructions with two source registers: addresses with a base and an index, sums, stores of
// computed addresses, branches that compare registers.
#include <algorithm>
#include <array>
#include <cmath>

#include "hw/pim/prim.hpp"

namespace orrery::hw {
namespace {

constexpr double kBlock = 1024;  ///< bytes of a transfer, unless said otherwise

constexpr Instructions kVa{8, 5};        // 2 addresses, 2 loads, add, store, index, branch
constexpr Instructions kRed{6, 4};       // address, load, add, add with carry, index, branch
constexpr Instructions kSum{3, 2};       // unrolled: load, add, add with carry
constexpr Instructions kScan{4, 3};      // unrolled: load, add, add with carry, store where the sum is at hand
constexpr Instructions kAdd{4, 2};       // unrolled: load, add, add with carry, store
constexpr Instructions kSelect{4, 1};    // load, test, and for the half that stays: address, store, position
constexpr Instructions kUnique{4.5, 2};  // load, two compares with the last one, and the same for the half that stays
constexpr Instructions kMac{11, 4};      // 2 addresses, 3 loads, call, add, store, index, branch and a move
constexpr Instructions kMacTail{13, 4};  // the same in a loop that checks two bounds a turn
constexpr Instructions kTsMac{12, 5};    // index sum, compare, 2 addresses, 3 loads, call, add, store, index, branch
constexpr Instructions kTsDistance{40, 10};  // per sample, products and division left out
constexpr Instructions kBsStep{30, 0};       // middle, compares, new bounds, two checks of ends
constexpr Instructions kBsScan{7, 3};        // address, load, two compares, index, branch and a move
constexpr Instructions kHst{11, 5};          // 2 addresses, 2 loads, call, shift, add, store, index, branch and a move
constexpr Instructions kLock{6, 0};          // taking and giving back a mutex

/// What every launch of these programs needs of the machine.
class Dpu {
 public:
  explicit Dpu(const UpmemParams& upmem) : upmem_(upmem), tasklets_(static_cast<double>(upmem.tasklets)) {}

  double issue(Instructions code) const { return issue_cycles(upmem_, code); }
  double read(double bytes) const { return dma_read_cycles(upmem_, bytes); }
  double write(double bytes) const { return dma_write_cycles(upmem_, bytes); }
  double call() const { return upmem_.instructions.dma_call; }
  double product(double bits) const { return issue(multiply(upmem_, bits)); }
  double divide() const { return upmem_.instructions.divide; }
  double tasklets() const { return tasklets_; }
  double gap() const { return static_cast<double>(upmem_.issue_gap); }

  /// Cycles of `items` equal pieces of work, dealt to tasklets one by one; a fraction of a piece counts as such.
  double dealt(double items, double issue, double dma) const {
    const double most = std::min(items, std::ceil(items / tasklets_));
    return free_running_cycles(upmem_, {items * issue, items * dma, most * issue, most * dma});
  }
  double lockstep(const LockstepRound& round, double rounds) const { return lockstep_cycles(upmem_, round, rounds); }
  /// Seconds of a launch of so many cycles.
  double launch(double cycles) const { return upmem_.launch_s + cycles / upmem_.clock_hz; }

 private:
  const UpmemParams& upmem_;
  double tasklets_;
};

/// Blocks of 1 KB through a loop: `code` per element of `bytes`, `reads` and `writes` transfers a block.
double streamed(const Dpu& dpu, double elements, double bytes, Instructions code, double reads, double writes) {
  const double per_block = kBlock / bytes;
  const double issue = dpu.issue(code) * per_block + (reads + writes) * dpu.call() + 10;
  return dpu.dealt(elements / per_block, issue, reads * dpu.read(kBlock) + writes * dpu.write(kBlock));
}

/// Scans and selections of 64-bit elements: blocks in lockstep, since each tasklet needs the count of the one before.
double chained(const Dpu& dpu, double elements, Instructions before, Instructions after, double write_bytes) {
  const double per_block = kBlock / 8;
  const LockstepRound round{dpu.read(kBlock), dpu.write(write_bytes), dpu.issue(before) * per_block + dpu.call(),
                            dpu.issue(after) * per_block + dpu.call()};
  return dpu.lockstep(round, std::ceil(elements / per_block / dpu.tasklets()));
}

/// Rows of a matrix times a vector, two rows at a time a tasklet; `bits` of the smaller factor.
double rows_times_vector(const Dpu& dpu, double rows, double columns, Instructions mac, double bits) {
  const double blocks = columns / 64;  // 256 bytes of row and vector
  const double row = columns * (dpu.issue(mac) + dpu.product(bits)) + blocks * 2 * dpu.call() + 40;
  const double dma = blocks * 2 * dpu.read(256) + dpu.write(8) / 2;
  return dpu.dealt(std::ceil(rows / 2), 2 * row, 2 * dma) * (rows < 2 ? rows / 2 : 1);
}

/// Significant bits of the smaller of a random number below `a` and one below `b`, on average; at least one step.
double mean_bits_of_smaller(int a, int b) {
  double bits = 0;
  for (int limit = 1; limit < std::min(a, b); limit *= 2) {  // P(smaller >= limit) for each further bit
    if (limit > 1) bits += (a - limit) * 1.0 / a * (b - limit) / b;
  }
  return bits + 1;
}

struct SearchPath {
  double steps = 0, scanned = 0;  ///< blocks read, and elements compared in them, of a query
};
/// Bisection of `size` sorted numbers 1, 2, … for the queries 0, 1, … size / 8 in blocks of 32 elements: a block is
/// scanned where its first number is not above the query.
SearchPath search_path(std::int64_t size) {
  constexpr std::int64_t kElements = 32, kSamples = 256;
  SearchPath path;
  const std::int64_t queries = std::max<std::int64_t>(1, size / 8), samples = std::min(kSamples, queries);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::int64_t query = (2 * sample + 1) * queries / (2 * samples);
    std::int64_t low = 0, high = size, middle = size / 2;
    while (true) {
      path.steps += 1;
      if (middle + 1 <= query && query <= middle + kElements) {
        path.scanned += static_cast<double>(query - middle);
        break;
      }
      if (middle + 1 <= query) {
        path.scanned += kElements;
        low = middle;
      } else {
        high = middle;
      }
      middle = (low + high) / 2;
      if (middle < kElements || middle > high - kElements) {  // the block at the end settles it
        path.steps += 1;
        path.scanned += kElements / 2.0;
        break;
      }
    }
  }
  return {path.steps / static_cast<double>(samples), path.scanned / static_cast<double>(samples)};
}

double binary_search(const Dpu& dpu, double queries, double size) {
  const SearchPath path = search_path(static_cast<std::int64_t>(size));
  const double issue = path.steps * (dpu.issue(kBsStep) + dpu.call()) + path.scanned * dpu.issue(kBsScan) + 40;
  return dpu.dealt(queries, issue, dpu.read(8) + (2 + path.steps) * dpu.read(256));
}

/// Step 2: each tile of 4 x 8 elements is transposed in WRAM. Step 3: vectors of 4 elements follow the cycles of the
/// permutation; one mutex guards the array of those that are done, which lies in MRAM.
double transposition_s(const Dpu& dpu, double tiles) {
  const double element = dpu.issue({12, 4}) + 2 * dpu.product(3) + dpu.divide();
  const double step2 = dpu.dealt(tiles, 32 * element + 2 * dpu.call() + 20, dpu.read(256) + dpu.write(256));
  const double guarded = dpu.gap() * (2 * dpu.call() + dpu.issue(kLock) + 10) + dpu.read(8) + dpu.write(8);
  const double vector = 2 * dpu.product(6) + dpu.divide() + 4 * 6 + 4 * dpu.call() + 2 * dpu.issue(kLock) + 40;
  const double dma = dpu.read(32) + dpu.write(32) + dpu.read(8) + dpu.write(8);
  const double vectors = 8 * tiles;
  const double step3 = std::max(vectors * guarded, dpu.dealt(vectors, vector, dma));
  return dpu.launch(step2) + dpu.launch(step3);
}

/// A histogram of 256 counters: one a tasklet, added up at the end, or one for all behind a mutex.
double histogram(const Dpu& dpu, double elements, bool shared) {
  const double extra = shared ? dpu.issue(kLock) : 0;
  const double per_block = kBlock / 4;
  const double issue = per_block * (dpu.issue(kHst) + dpu.product(9) + extra) + dpu.call();
  double cycles = dpu.dealt(elements / per_block, issue, dpu.read(kBlock));
  if (shared) cycles = std::max(cycles, elements * dpu.gap() * (dpu.issue(kLock) + 3));
  const double copies = shared ? 1 : dpu.tasklets();
  return cycles + 256 * (copies * 5 + 5) + dpu.write(kBlock);
}

}  // namespace

double prim_padded_elements(const UpmemParams& upmem, Prim prim, double dpus, double size) {
  const auto tasklets = static_cast<double>(upmem.tasklets);
  const auto up = [](double value, double step) { return std::ceil(value / step) * step; };
  switch (prim) {
    case Prim::scan_rss:
    case Prim::scan_ssa:
    case Prim::sel:
    case Prim::uni:
      return up(std::ceil(size / dpus), tasklets * kBlock / 8);
    case Prim::bs:
      return up(size / 8, dpus * tasklets) / dpus;
    case Prim::ts:
      return up(size, dpus * tasklets * 64) / dpus;
    default:
      return up(std::ceil(size / dpus), 2);
  }
}

double prim_kernel_s(const UpmemParams& upmem, Prim prim, double dpus, double size) {
  const Dpu dpu(upmem);
  const double elements = prim_padded_elements(upmem, prim, dpus, size);
  switch (prim) {
    case Prim::va:
      return dpu.launch(streamed(dpu, elements, 4, kVa, 2, 1));
    case Prim::red:
      return dpu.launch(streamed(dpu, elements, 8, kRed, 1, 0));
    case Prim::scan_rss:
      return dpu.launch(streamed(dpu, elements, 8, kSum, 1, 0)) +
             dpu.launch(chained(dpu, elements, kScan, kAdd, kBlock));
    case Prim::scan_ssa:
      return dpu.launch(chained(dpu, elements, kScan, kAdd, kBlock)) +
             dpu.launch(streamed(dpu, elements, 8, kAdd, 1, 1));
    case Prim::sel:
      return dpu.launch(chained(dpu, elements, kSelect, {}, kBlock / 2));
    case Prim::uni:
      return dpu.launch(chained(dpu, elements, kUnique, {}, kBlock / 2));
    case Prim::gemv:
      return dpu.launch(rows_times_vector(dpu, size / dpus, 64, kMacTail, mean_bits_of_smaller(50, 50)));
    case Prim::mlp:  // the weights are zeros but for one in a hundred
      return 3 * dpu.launch(rows_times_vector(dpu, std::ceil(size / dpus), size, kMac, 0));
    case Prim::ts: {
      const double sample = 64 * (dpu.issue(kTsMac) + dpu.product(mean_bits_of_smaller(127, 64))) +
                            dpu.issue(kTsDistance) + 3 * dpu.product(8) + dpu.divide();
      return dpu.launch(dpu.dealt(elements / 64, 64 * sample, 5 * dpu.read(256)));
    }
    case Prim::bs:
      return dpu.launch(binary_search(dpu, elements, size));
    case Prim::trns:
      return std::ceil(64 / dpus) * transposition_s(dpu, size);
    case Prim::hst_s:
      return dpu.launch(histogram(dpu, elements, false));
    case Prim::hst_l:
      return dpu.launch(histogram(dpu, elements, true));
  }
  return 0;
}

}  // namespace orrery::hw
