// Time and resources of a loop nest that high-level synthesis turns into hardware, by pragmas: what searches over
// accelerator designs are tried on (AutoDSE: Sohrabizadeh, Yu, Gao, Cong, TODAES 2022).
//
// A kernel is three nested loops around one body of multiply-adds, and arrays that loops index. Pragmas of a loop:
// `parallel` copies of what is inside, and `pipeline`: off; fine, iterations start every II cycles and the loops inside
// are unrolled; of the outermost loop coarse, transfers of a tile run beside the computation of the one before. `tile`
// cuts the outermost loop: what it indexes is moved tile by tile. `interface_bits` is the width of the memory port,
// `cache` whether arrays are kept on chip or read where they are used.
//
//   body          depth cycles, and what ports take beyond one; a carried loop (a sum) waits `carried` cycles
//   off           ceil(trip / parallel) (inside + 2) cycles
//   fine          depth + tree + (ceil(trip / parallel) - 1) II,  II = max(carried, port)
//   port          ceil(accesses of copies / (2 banks)), the most of all arrays; banks follow the copies up to 64
//   tree          carried ceil(log2(copies)) to add up the copies of a sum
//   memory        bytes of a tile over min(interface, bandwidth / clock), and 64 cycles a burst
//   no cache      the body waits for a burst, and port is all its bytes over the memory port
//   total         tiles (memory + compute), or tiles max(memory, compute) + the smaller one once if coarse
//
// DSP: copies of the body over II. Block RAM: banks of each array, twice if coarse. What does not fit is a value.
// Left out: clocks that fall as designs fill the part, bank conflicts, imperfect nests, floating-point reordering.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "hw/fpga/fpga.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class HlsPipeline : std::uint8_t { off, fine };
constexpr auto enum_names(HlsPipeline) {
  using enum HlsPipeline;
  return sim::names<HlsPipeline>({{"off", off}, {"fine", fine}});
}

/// An array of 32-bit words. `by`: which loops index it. A gathered one is indexed by data.
struct HlsArray {
  std::string name;
  std::int64_t words = 0;
  std::array<bool, 3> by{};
  bool gathered = false, written = false;
};

/// Loops from the outermost in. `carried`: cycles that an iteration waits for a result of the one before; 0: none.
struct HlsKernel {
  std::string name;
  std::array<std::int64_t, 3> trip{1, 1, 1}, carried{};
  std::int64_t depth = 10;  ///< of the body
  double macs = 1;          ///< multiply-adds of the body
  std::vector<HlsArray> arrays;
};

/// `gemm` (512^3), `stencil` (3 x 3 over 1,024^2), `nw` (Needleman-Wunsch of 2,048 by 2,048), `spmv` (8,192 rows of
/// 64).
HlsKernel hls_kernel(const std::string& name);
std::vector<std::string> hls_kernel_names();

struct HlsDesign {
  std::array<std::int64_t, 3> parallel{1, 1, 1};
  std::array<HlsPipeline, 3> pipeline{};
  bool coarse = false, cache = false;
  std::int64_t tiles = 1;  ///< of the outermost loop
  std::int64_t interface_bits = 32;
};

struct HlsOutcome {
  double cycles = 0;
  double memory = 0, compute = 0;  ///< cycles of all tiles, before they overlap
  std::array<double, 3> loop{};    ///< of `compute`, what each loop's own iterations cost
  double dsp = 0, bram18 = 0, lut = 0;
};

/// A design of a kernel on a part. Divisors need not be exact: the last round is a whole one.
std::variant<HlsOutcome, FpgaDoesNotFit> hls_time(const FpgaParams& fpga, const HlsKernel& kernel,
                                                  const HlsDesign& design);

}  // namespace orrery::hw
