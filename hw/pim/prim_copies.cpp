// What the hosts of the PrIM benchmarks copy, and when.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hw/pim/prim.hpp"

namespace orrery::hw {
namespace {

constexpr std::array<std::pair<std::string_view, Prim>, 13> kNames{{{"BS", Prim::bs},
                                                                    {"GEMV", Prim::gemv},
                                                                    {"HST-L", Prim::hst_l},
                                                                    {"HST-S", Prim::hst_s},
                                                                    {"MLP", Prim::mlp},
                                                                    {"RED", Prim::red},
                                                                    {"SCAN-RSS", Prim::scan_rss},
                                                                    {"SCAN-SSA", Prim::scan_ssa},
                                                                    {"SEL", Prim::sel},
                                                                    {"TRNS", Prim::trns},
                                                                    {"TS", Prim::ts},
                                                                    {"UNI", Prim::uni},
                                                                    {"VA", Prim::va}}};
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

/// One array of `bytes` a DPU beside its arguments.
double one_array(const Host& host, double dpus, double bytes) {
  return host.push(bytes, bytes * dpus, bytes * dpus);
}

double scan_inter_dpu(const UpmemParams& upmem, const Host& host) {
  return host.symbol(8 * static_cast<double>(upmem.tasklets)) + host.arguments();
}

}  // namespace

std::optional<Prim> prim_of(std::string_view name) {
  for (const auto& [known, prim] : kNames)
    if (known == name) return prim;
  return std::nullopt;
}

std::string_view to_string(Prim prim) {
  for (const auto& [name, known] : kNames)
    if (known == prim) return name;
  return "?";
}

PrimTimes prim_times(const UpmemParams& upmem, Prim prim, std::int64_t dpu_count, std::int64_t size_count) {
  const auto n = static_cast<double>(dpu_count), size = static_cast<double>(size_count);
  const auto tasklets = static_cast<double>(upmem.tasklets);
  const Host host(upmem, n);
  const double elements = prim_padded_elements(upmem, prim, n, size);
  PrimTimes t;
  t.kernel_s = prim_kernel_s(upmem, prim, n, size);
  switch (prim) {
    case Prim::va:  // two arrays in, one out, 32 bits
      t.cpu_to_dpu_s = 2 * host.push(4 * elements, 4 * elements * n, 8 * elements * n);
      t.dpu_to_cpu_s = host.pull(4 * elements);
      break;
    case Prim::red:  // 64 bits; a count and a cycle counter of every tasklet come back
      t.cpu_to_dpu_s = one_array(host, n, 8 * elements);
      t.dpu_to_cpu_s = host.symbol(16 * tasklets);
      break;
    case Prim::scan_rss:
    case Prim::scan_ssa:  // sums of tasklets come back, offsets go out as new arguments
      t.cpu_to_dpu_s = one_array(host, n, 8 * elements);
      t.dpu_to_dpu_s = scan_inter_dpu(upmem, host);
      t.dpu_to_cpu_s = host.pull(8 * elements);
      break;
    case Prim::sel:
    case Prim::uni:  // half of the elements stay; each DPU has another number of them, so copies are serial
      t.cpu_to_dpu_s = one_array(host, n, 8 * elements);
      t.dpu_to_cpu_s = n * serial_copy_s(upmem.from_dpu, 4 * elements);
      break;
    case Prim::hst_s:
    case Prim::hst_l:  // 256 counters a DPU
      t.cpu_to_dpu_s = one_array(host, n, 4 * elements);
      t.dpu_to_cpu_s = host.pull(4 * 256);
      break;
    case Prim::bs: {  // the array to everyone, each its queries
      const double set = 8 * size + 8 * elements * n;
      t.cpu_to_dpu_s = host.push(8 * size, 8 * size, set) + host.push(8 * elements, 8 * elements * n, set);
      t.dpu_to_cpu_s = host.symbol(8 * tasklets);
      break;
    }
    case Prim::gemv:
      t.cpu_to_dpu_s = host.push(256 * elements, 256 * elements * n, 256 * size) + host.push(256, 256, 256);
      t.dpu_to_cpu_s = host.pull(4 * elements);
      break;
    case Prim::mlp:  // weights of three layers and the vector; between layers the vector goes around
      t.cpu_to_dpu_s = 3 * (host.push(4 * size * elements, 4 * size * elements * n, 12 * size * size) +
                            host.push(4 * size, 4 * size, 4 * size));
      t.dpu_to_dpu_s = 2 * (host.pull(4 * elements) + host.push(4 * size, 4 * size, 4 * size));
      t.dpu_to_cpu_s = host.pull(4 * elements);
      break;
    case Prim::ts:  // arguments one DPU after another; query, samples, means and deviations in parallel
      t.cpu_to_dpu_s = n * serial_copy_s(upmem.to_dpu, kArguments) + host.push(256, 256, 256) +
                       3 * host.push(4 * (elements + 64), 4 * (elements + 64) * n, 12 * elements * n);
      t.dpu_to_cpu_s = host.symbol(16 * tasklets);
      break;
    case Prim::trns: {  // 64 column blocks; every row of 8 elements is a copy of its own
      const double rounds = std::ceil(64 / n);
      t.cpu_to_dpu_s = rounds * 4 * size * host.push(64, 64 * n, 64 * n);
      t.dpu_to_cpu_s = rounds * host.pull(256 * size);
      break;
    }
  }
  if (prim != Prim::ts && prim != Prim::trns) t.cpu_to_dpu_s += host.arguments();
  return t;
}

}  // namespace orrery::hw
