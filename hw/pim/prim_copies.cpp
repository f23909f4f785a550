// What the hosts of the PrIM benchmarks copy, and when.
#include <algorithm>
#include <cmath>

#include "hw/pim/prim.hpp"

namespace orrery::hw {
namespace {

constexpr double kArguments = 32;  ///< bytes of a DPU's arguments, at most

/// The copies of a run, added up as a host makes them.
class Host {
 public:
  Host(const UpmemParams& upmem, double dpus) : upmem_(upmem), dpus_(dpus) {}
  /// A parallel copy of `bytes` to every DPU; `working_set` bytes of host data are in use around it.
  double push(double bytes, double distinct, double working_set) const {
    return parallel_copy_s(upmem_, upmem_.to_dpu, {dpus_, bytes, distinct, working_set});
  }
  double pull(double bytes) const {
    return parallel_copy_s(upmem_, upmem_.from_dpu, {dpus_, bytes, bytes * dpus_, bytes * dpus_});
  }
  double arguments() const { return push(kArguments, 0, 0); }
  double symbol(double bytes) const { return symbol_read_s(upmem_, dpus_, bytes); }

 private:
  const UpmemParams& upmem_;
  double dpus_;
};

struct PrimRun {
  const UpmemParams& upmem;
  Host host;
  Prim prim;
  double dpus, size, elements;  ///< `elements` a DPU, padded
  double tasklets() const { return static_cast<double>(upmem.tasklets); }
};

double inputs_s(const PrimRun& run) {
  const Host& host = run.host;
  const double n = run.dpus, each = run.elements, size = run.size;
  const auto array = [&](double bytes, double working_set) { return host.push(bytes, bytes * n, working_set); };
  switch (run.prim) {
    case Prim::va:  // two arrays of 32 bits
      return host.arguments() + 2 * array(4 * each, 8 * each * n);
    case Prim::red:
    case Prim::scan_rss:
    case Prim::scan_ssa:
    case Prim::sel:
    case Prim::uni:  // one of 64 bits
      return host.arguments() + array(8 * each, 8 * each * n);
    case Prim::hst_s:
    case Prim::hst_l:
      return host.arguments() + array(4 * each, 4 * each * n);
    case Prim::bs:  // the sorted numbers to everyone, and each its queries
      return host.arguments() + host.push(8 * size, 8 * size, 8 * size + 8 * each * n) +
             array(8 * each, 8 * size + 8 * each * n);
    case Prim::gemv:
      return host.arguments() + array(256 * each, 256 * size) + host.push(256, 256, 256);
    case Prim::mlp:  // weights of three layers, each with its vector
      return host.arguments() +
             3 * (array(4 * size * each, 12 * size * size) + host.push(4 * size, 4 * size, 4 * size));
    case Prim::ts:  // arguments one DPU after another; query, samples, means and deviations in parallel
      return n * serial_copy_s(run.upmem.to_dpu, kArguments) + host.push(256, 256, 256) +
             3 * array(4 * (each + 64), 12 * each * n);
    case Prim::trns:  // 64 column blocks; every row of 8 elements is a copy of its own
      return std::ceil(64 / n) * 4 * size * array(64, 64 * n);
  }
  return 0;
}

double outputs_s(const PrimRun& run) {
  const Host& host = run.host;
  switch (run.prim) {
    case Prim::va:
    case Prim::gemv:
    case Prim::mlp:
      return host.pull(4 * run.elements);
    case Prim::scan_rss:
    case Prim::scan_ssa:
      return host.pull(8 * run.elements);
    case Prim::sel:
    case Prim::uni:  // half of the elements stay; each DPU has another number of them, so copies are serial
      return run.dpus * serial_copy_s(run.upmem.from_dpu, 4 * run.elements);
    case Prim::hst_s:
    case Prim::hst_l:  // 256 counters a DPU
      return host.pull(4 * 256);
    case Prim::red:  // a count and a cycle counter of every tasklet
    case Prim::ts:   // smallest and largest distance, and where
      return host.symbol(16 * run.tasklets());
    case Prim::bs:
      return host.symbol(8 * run.tasklets());
    case Prim::trns:
      return std::ceil(64 / run.dpus) * host.pull(256 * run.size);
  }
  return 0;
}

double between_s(const PrimRun& run) {
  if (run.prim == Prim::scan_rss || run.prim == Prim::scan_ssa)  // sums come back, offsets go out as arguments
    return run.host.symbol(8 * run.tasklets()) + run.host.arguments();
  if (run.prim == Prim::mlp)  // the vector between three layers
    return 2 * (run.host.pull(4 * run.elements) + run.host.push(4 * run.size, 4 * run.size, 4 * run.size));
  return 0;
}

/// Bytes that a CPU has to move from and to memory for the same work, each once.
double cpu_bytes(Prim prim, double size) {
  switch (prim) {
    case Prim::va:
      return 12 * size;
    case Prim::red:
      return 8 * size;
    case Prim::scan_rss:
    case Prim::scan_ssa:
      return 16 * size;
    case Prim::sel:
    case Prim::uni:
      return 12 * size;
    case Prim::hst_s:
    case Prim::hst_l:
      return 4 * size;
    case Prim::bs:
      return 8 * size + size;
    case Prim::gemv:
      return 256 * size;
    case Prim::mlp:
      return 12 * size * size;
    case Prim::ts:
      return 12 * size;
    case Prim::trns:
      return 2 * 8.0 * 64 * 8 * 4 * size;
  }
  return 0;
}

}  // namespace

PrimTimes prim_times(const UpmemParams& upmem, Prim prim, std::int64_t dpus, std::int64_t size) {
  const PrimRun run{upmem,
                    Host(upmem, static_cast<double>(dpus)),
                    prim,
                    static_cast<double>(dpus),
                    static_cast<double>(size),
                    prim_padded_elements(upmem, prim, static_cast<double>(dpus), static_cast<double>(size))};
  return {prim_kernel_s(upmem, prim, run.dpus, run.size), inputs_s(run), outputs_s(run), between_s(run)};
}

double prim_cpu_s(const UpmemParams& upmem, Prim prim, std::int64_t size) {
  return cpu_bytes(prim, static_cast<double>(size)) / upmem.host_memory_bandwidth;
}

}  // namespace orrery::hw
