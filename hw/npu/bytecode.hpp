// How fused operators reach an NPU: one launch an operation, kernels compiled ahead or per shape, or bytecode that a
// host writes and a prebuilt virtual machine on the device decodes (DVM, arXiv 2603.24239; mindspore-ai/dvm).
//
// A fused operator is a leaf of DVM: `vector` (loads, SIMD instructions, stores over tiles), `cube` (a matrix product),
// or `mix` (a product whose tiles go on through SIMD instructions). With n instructions:
//   T_host = normalize + encode_fixed + n encode_instruction      (a shape not seen before; else relocate)
//   T_dev  = launch + code / core rate + ceil(tiles / cores) max(t_load, t_simd, t_store, n decode) + fill
// Every core copies the code once and walks all instructions for each of its tiles; load, SIMD and store pipes run
// beside the decoder, so decoding costs where n decode exceeds the longest pipe. fill = t_load + t_simd + t_store less
// the longest: the first load and the last store overlap nothing.
//   per_op    an operation is a kernel of its own: dispatch on the host, launch, operands and result through memory
//   aot       the fused kernel, compiled before; shapes rounded up to multiples of `bucket` elements (rows of a
//   product) jit       the fused kernel, compiled for `compile` when a shape is new bytecode  the fused kernel, decoded
// A stream of equal calls is a flow shop of stages (normalize, encode, submit, device):
//   serial      every call waits for the one before: N (sum of stages)
//   one_ahead   one host thread runs ahead of the device: h + d + (N-1) max(h, d)
//   phased      each host phase on a thread of its own: sum of stages + (N-1) longest stage
// Sizes of instructions and buffers are DVM's (src/isa.h, src/system.cc); encode, decode, normalize, tile and compile
// times are named assumptions, since nobody publishes them: DVM's tutorial says that most fused operators compile
// within about 100 us, run for tens to hundreds, and that ordinary operator compilation takes seconds.
// Left out: stacking of leaves in one launch (a property of graphs), the eight pipe events, tile tuning by measurement.
#pragma once

#include <cstdint>
#include <string_view>

#include "hw/npu/npu.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class RuntimeMode : std::uint8_t { per_op, aot, jit, bytecode };
constexpr auto enum_names(RuntimeMode) {
  using enum RuntimeMode;
  return sim::names<RuntimeMode>({{"per_op", per_op}, {"aot", aot}, {"jit", jit}, {"bytecode", bytecode}});
}

enum class LeafKind : std::uint8_t { vector, cube, mix };
enum class HostThreads : std::uint8_t { serial, one_ahead, phased };

/// One fused operator: instructions of a tile by kind, and the shape they run over.
struct FusedOp {
  LeafKind leaf = LeafKind::vector;
  std::int64_t loads = 1, stores = 1;  ///< operands read and results written, each of `elements`
  std::int64_t elementwise = 0;        ///< unary, binary, compare, select
  std::int64_t reduces = 0, wide = 0;  ///< along a row; longest SIMD instructions (gather, transpose, cast chains)
  std::int64_t elements = 0;           ///< of an operand of a vector leaf
  Gemm gemm = {};                      ///< of a cube or mix leaf; SIMD then runs over its results
  DType dtype = DType::fp16;
};

/// Constants of the runtime. Times in s.
struct BytecodeParams {
  double normalize_s = 20e-6, encode_fixed_s = 30e-6, encode_instruction_s = 5e-6, relocate_s = 3e-6;
  double dispatch_s = 10e-6, submit_s = 5e-6, decode_s = 50e-9, compile_s = 2;
  std::int64_t tile_bytes = 16384, load_store_bytes = 120, vector_cores = 2, bucket = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using P = BytecodeParams;
    return sim::FieldTable{
        sim::field("normalize", &P::normalize_s, Unit::seconds, sim::at_least(0), "Shape inference of a new shape."),
        sim::field("encode_fixed", &P::encode_fixed_s, Unit::seconds, sim::at_least(0),
                   "Writing bytecode, whatever its length (c0)."),
        sim::field("encode_instruction", &P::encode_instruction_s, Unit::seconds, sim::at_least(0),
                   "Writing one instruction, tiling decisions included (c1)."),
        sim::field("relocate", &P::relocate_s, Unit::seconds, sim::at_least(0),
                   "New addresses in bytecode of a shape seen before."),
        sim::field("dispatch", &P::dispatch_s, Unit::seconds, sim::at_least(0),
                   "A framework's work for an operation before it submits a kernel, eager mode."),
        sim::field("submit", &P::submit_s, Unit::seconds, sim::at_least(0), "Handing one kernel to the device."),
        sim::field("decode", &P::decode_s, Unit::seconds, sim::at_least(0),
                   "One instruction on a core's scalar unit (t_decode)."),
        sim::field("compile", &P::compile_s, Unit::seconds, sim::at_least(0), "Compiling one kernel just in time."),
        sim::field("tile", &P::tile_bytes, Unit::bytes, sim::between(32, 1 << 20),
                   "Largest tile of one operand in a vector core's buffer."),
        sim::field("load_store", &P::load_store_bytes, Unit::bytes, sim::between(8, 120),
                   "Bytecode of a load or store; 120 is the longest its length field allows."),
        sim::field("vector_cores", &P::vector_cores, Unit::count, sim::between(1, 16), "Vector cores a core."),
        sim::field("bucket", &P::bucket, Unit::count, sim::at_least(1),
                   "Elements (rows of a product) to whose multiples ahead-of-time kernels pad."),
    };
  }
};

/// What one call costs, stage by stage; s.
struct RuntimeTimes {
  double normalize_s = 0, encode_s = 0, submit_s = 0;  ///< host
  double device_s = 0;                                 ///< launch included
  double compile_s = 0;                                ///< beside the stages, when the shape is new
  double decode_s = 0;                                 ///< of one tile: what the pipes have to hide
  double pipe_s = 0;                                   ///< of one tile: longest of load, SIMD, store or product
  std::int64_t instructions = 0, code_bytes = 0, tiles = 0, waves = 0, launches = 0;
  double host_s() const { return normalize_s + encode_s + submit_s; }
};

/// Instructions of a tile.
std::int64_t instructions_of(const FusedOp& op);
/// Bytes of bytecode: 16 for an elementwise instruction, 24 for a reduction, 56 for the longest SIMD instruction.
std::int64_t code_bytes_of(const FusedOp& op, const BytecodeParams& params);
/// Bytes of one operand in a tile: `tile`, or less where the buffer of a vector core (512 bytes reserved, the code,
/// every operand twice) holds no more. At least 32.
std::int64_t tile_bytes_of(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op);

/// Costs of one call. `new_shape`: nothing is cached for the shape (bytecode is encoded, jit compiles).
RuntimeTimes runtime_times(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op, RuntimeMode mode,
                           bool new_shape);
/// From the first call to the last completion of `calls` equal calls, compilation not counted; 0 for none.
double stream_s(const RuntimeTimes& call, std::int64_t calls, HostThreads threads);

}  // namespace orrery::hw
