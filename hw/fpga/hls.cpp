#include "hw/fpga/hls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery::hw {
namespace {

constexpr double kBurst = 64;      // cycles from a request to its first word
constexpr double kLoopCycles = 2;  // entering and leaving an iteration of a loop that is no pipeline
constexpr double kMostBanks = 64;  // into which tools cut an array
constexpr double kWord = 4;        // bytes

double up(double value) {
  return std::ceil(value);
}

/// ceil(log2(n)) of a whole number.
double levels(double n) {
  return n <= 1 ? 0 : static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n) - 1));
}

/// The nest with its copies settled: loops inside a fine pipeline are unrolled.
struct Nest {
  std::array<double, 3> trip{}, copies{};
  std::size_t pipelined = 3;  ///< outermost loop that is a fine pipeline; 3: none
};

Nest nest_of(const HlsKernel& kernel, const HlsDesign& design) {
  Nest nest;
  for (std::size_t i = 0; i < 3; ++i) {
    nest.trip[i] = static_cast<double>(kernel.trip[i]);
    if (i == 0) nest.trip[i] = up(nest.trip[i] / static_cast<double>(design.tiles));
    if (nest.pipelined == 3 && design.pipeline[i] == HlsPipeline::fine) nest.pipelined = i;
    nest.copies[i] =
        i > nest.pipelined ? nest.trip[i] : std::min(nest.trip[i], static_cast<double>(design.parallel[i]));
  }
  return nest;
}

double all_copies(const Nest& nest) {
  return nest.copies[0] * nest.copies[1] * nest.copies[2];
}

double banks_of(const HlsArray& array, const Nest& nest) {
  if (array.gathered) return 1;
  double banks = 1;
  for (std::size_t i = 0; i < 3; ++i)
    if (array.by[i]) banks *= nest.copies[i];
  return std::min(banks, kMostBanks);
}

/// Cycles between iterations for the ports of arrays; words that cross the memory port where nothing is cached.
double port_cycles(const HlsKernel& kernel, const HlsDesign& design, const Nest& nest, double port_bytes) {
  double most = 1, words = 0;
  for (const HlsArray& array : kernel.arrays) {
    double accesses = 1;
    for (std::size_t i = 0; i < 3; ++i)
      if (array.by[i] || array.gathered) accesses *= nest.copies[i];
    words += accesses * (array.written ? 2 : 1);
    most = std::max(most, up(accesses / (2 * banks_of(array, nest))));
  }
  return design.cache ? most : std::max(1.0, up(words * kWord / port_bytes));
}

/// Cycles of one tile's computation, and what each loop adds.
double compute_cycles(const HlsKernel& kernel, const HlsDesign& design, const Nest& nest, double port,
                      std::array<double, 3>& loop) {
  double tree = 0, inside = static_cast<double>(kernel.depth) + (design.cache ? 0 : kBurst) + port - 1;
  for (std::size_t i = 0; i < 3; ++i)
    if (kernel.carried[i] > 0) tree += static_cast<double>(kernel.carried[i]) * levels(nest.copies[i]);
  inside += tree;
  for (std::size_t k = 3; k-- > 0;) {
    if (k > nest.pipelined) continue;  // unrolled
    const double rounds = up(nest.trip[k] / nest.copies[k]), before = inside;
    if (k == nest.pipelined)
      inside += (rounds - 1) * std::max(port, static_cast<double>(kernel.carried[k]));
    else
      inside = rounds * (inside + kLoopCycles);
    loop[k] = inside - before;
  }
  return inside;
}

/// Cycles that a tile's arrays take on their way.
double memory_cycles(const HlsKernel& kernel, const HlsDesign& design, double port_bytes) {
  if (!design.cache) return 0;  // it is in the body
  double cycles = 0;
  for (const HlsArray& array : kernel.arrays) {
    const double tiles = array.by[0] ? static_cast<double>(design.tiles) : 1;
    cycles += (array.written ? 2 : 1) * (kBurst + static_cast<double>(array.words) / tiles * kWord / port_bytes);
  }
  return cycles;
}

double block_rams(const HlsKernel& kernel, const HlsDesign& design, const Nest& nest) {
  if (!design.cache) return 0;
  double total = 0;
  for (const HlsArray& array : kernel.arrays) {
    const double words = up(static_cast<double>(array.words) / (array.by[0] ? static_cast<double>(design.tiles) : 1));
    const double banks = banks_of(array, nest);
    total += banks * up(words / banks / 512) * (design.coarse ? 2 : 1);  // 512 words of 36 bits a block
  }
  return total;
}

}  // namespace

std::vector<std::string> hls_kernel_names() {
  return {"gemm", "nw", "spmv", "stencil"};
}

HlsKernel hls_kernel(const std::string& name) {
  if (name == "gemm")
    return {.name = name,
            .trip = {512, 512, 512},
            .carried = {0, 0, 7},
            .depth = 14,
            .arrays = {{"a", 512 * 512, {true, false, true}},
                       {"b", 512 * 512, {false, true, true}},
                       {"c", 512 * 512, {true, true, false}, false, true}}};
  if (name == "stencil")
    return {.name = name,
            .trip = {1024, 1024, 9},
            .carried = {0, 0, 7},
            .depth = 14,
            .arrays = {{"in", 1024 * 1024, {true, true, false}},
                       {"weights", 9, {false, false, true}},
                       {"out", 1024 * 1024, {true, true, false}, false, true}}};
  if (name == "nw")  // a cell waits for its neighbours: both outer loops are carried, by turns
    return {.name = name,
            .trip = {2048, 2048, 3},
            .carried = {4, 1, 1},
            .depth = 6,
            .macs = 0.5,
            .arrays = {{"a", 2048, {true, false, false}},
                       {"b", 2048, {false, true, false}},
                       {"score", 2048 * 2048, {true, true, false}, false, true}}};
  return {.name = "spmv",
          .trip = {8192, 64, 1},
          .carried = {0, 7, 0},
          .depth = 14,
          .arrays = {{"values", 8192 * 64, {true, true, false}},
                     {"columns", 8192 * 64, {true, true, false}},
                     {"x", 8192, {false, false, false}, true},
                     {"y", 8192, {true, false, false}, false, true}}};
}

std::variant<HlsOutcome, FpgaDoesNotFit> hls_time(const FpgaParams& fpga, const HlsKernel& kernel,
                                                  const HlsDesign& design) {
  const Nest nest = nest_of(kernel, design);
  const double port_bytes =
      std::min(static_cast<double>(design.interface_bits) / 8, fpga.memory_bandwidth / fpga.clock_hz);
  const double port = port_cycles(kernel, design, nest, port_bytes);
  const double tiles = static_cast<double>(design.tiles);
  HlsOutcome out;
  const double compute = compute_cycles(kernel, design, nest, port, out.loop);
  const double memory = memory_cycles(kernel, design, port_bytes);
  out.compute = tiles * compute;
  out.memory = tiles * memory;
  out.cycles = design.coarse ? tiles * std::max(compute, memory) + std::min(compute, memory) : out.compute + out.memory;
  for (double& part : out.loop) part *= tiles;

  double interval = nest.pipelined < 3 ? std::max(port, static_cast<double>(kernel.carried[nest.pipelined])) : 1;
  interval = std::min(interval, all_copies(nest));  // a unit at least
  const double units = up(all_copies(nest) * kernel.macs / interval);
  out.dsp = units / fpga.macs_per_dsp.fp32;
  out.lut = units * fpga.luts_per_mac + static_cast<double>(design.interface_bits) * 8;
  out.bram18 = block_rams(kernel, design, nest);
  const double keep = 1 - fpga.shell_share;
  const auto lacks = [&](const char* what, double need, double have) {
    return FpgaDoesNotFit{fmt::format("{} of {:.0f}, there are {:.0f} beside the shell", what, need, have)};
  };
  if (out.dsp > keep * static_cast<double>(fpga.dsp)) return lacks("DSP slices", out.dsp, keep * double(fpga.dsp));
  if (out.bram18 > keep * static_cast<double>(fpga.bram18))
    return lacks("block RAMs", out.bram18, keep * double(fpga.bram18));
  if (out.lut > keep * static_cast<double>(fpga.lut)) return lacks("look-up tables", out.lut, keep * double(fpga.lut));
  return out;
}

}  // namespace orrery::hw
