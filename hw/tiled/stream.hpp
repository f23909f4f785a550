// Passes over memory in the `tiled` model.
//
// Two kinds of kernel make them. An elementwise kernel (adds, copies, plain activations) loads 16 bytes a thread and is
// bound by the memory, or by its instructions where an element costs many:
//   memory = cold bytes / (bandwidth * share) + hot bytes / (l2_bandwidth * l2_share)
//   issue  = FLOPs * slots a FLOP / (SMs * 128 lanes * clock)
//   t      = fixed + |memory, issue|_4
// A row kernel (norms, gated activations, rotary embeddings, softmax) gives each row to one thread block of T threads,
// which walks along it in I = width / (T * vector) iterations. As many blocks share an SM as its threads allow
// (threads_per_sm / T, at most 32); rows beyond that wait for another wave:
//   iteration(b) = latency + (1 - hot) miss_latency + chain / clock + b * slots * ceil(T/32) / (4 * clock)
//   wave(b)      = overhead / clock + I * iteration(b)            b blocks on the fullest SM
//   t            = fixed + |floor(rows / (SMs b_max)) wave(b_max) + wave(rest), memory|_4
// Loads of one element a thread are why such kernels stay far below the memory's rate: 2,048 threads with two bytes
// each in flight and half a microsecond of latency are 8 GB/s an SM (Little's law), whatever the memory could do.
// hot is the share of a pass's bytes that are still in the L2 from the kernel before or may stay there for the next:
//   hot = x^4 / (1 + x^4),  x = l2_reach * l2 / bytes
// A kernel that sweeps its rows more than once finds them on chip unless the rows in flight exceed the L2:
//   miss = 1 - y^4 / (1 + y^4),  y = l2_reach * l2 / (2 * bytes of rows in flight); sweeps * miss * (1 - hot) more
//   reads
//
// What a library's kernel does (T, vector, slots, sweeps) is the same on every device and stands in kStyles with its
// source; what a device does (bandwidth share, latencies) in StreamConstants. Sources of the form: vLLM
// csrc/layernorm_kernels.cu, activation_kernels.cu, pos_encoding_kernels.cu (a block a token, scalar loads); PyTorch
// layer_norm_kernel.cu and SoftMax.cu. Left out: alignment, rows that start in the middle of a cache line, clocks.
#pragma once

#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {

/// Which library kernel makes a pass: what `Pass::by_class` stands for, given its class, rows and bytes.
Pass resolve_pass(const Streaming& shape, OpClass op);

/// Time of a streaming pass without its launch; zero for no work.
TiledTime tiled_streaming(const GpuParams& gpu, const Streaming& shape, OpClass op, DType dtype);

/// Share of `bytes` that the L2 still holds: near 1 for what fits, near 0 for twice that.
double hot_share(const GpuParams& gpu, double bytes);

}  // namespace orrery::hw
