// Kernels from the sizes that people know: passes over memory with their exact FLOPs and bytes, and shapes condensed
// from what varies within a launch.
//
// A pass reads each operand once and writes each result once, `bytes_of(dtype)` an element unless said otherwise. What
// a library adds to that (a second read of a row, scalar loads, several launches) is a property of the device and its
// library, not of the work: Pass (hw/base/kernel.hpp) names it, hw/tiled/stream.cpp models it. FLOPs count every
// addition, multiplication, division, square root, exponential and comparison as one; docs/explain/kernels.md lists
// them.
#pragma once

#include <cstdint>
#include <span>

#include "hw/base/kernel.hpp"

namespace orrery::hw {

enum class Norm : std::uint8_t { rms, layer };
enum class Activation : std::uint8_t { relu, gelu, silu };
enum class Optimizer : std::uint8_t { sgd, sgd_momentum, adam, adamw };

/// Rows of `hidden` elements, normalised and scaled by a weight (and shifted by a bias: layer norm).
/// FLOPs an element: rms 4 (square, add, scale, weight), layer 7 (add; subtract, square, add; scale, weight, bias); and
/// per row rms 4 and layer 5 (divide twice or thrice, epsilon, square root, reciprocal).
Kernel norm_kernel(Norm norm, std::int64_t rows, std::int64_t hidden, DType dtype);
/// Softmax of rows. FLOPs an element 5: comparison, subtraction, exponential, addition, division.
Kernel softmax_kernel(std::int64_t rows, std::int64_t columns, DType dtype);
/// Activation of rows of `width` elements; gated: times a second operand of the same size. FLOPs an element: ReLU 1,
/// SiLU 4 (negate, exponential, add, divide), GELU by tanh 9; a gate adds 1.
Kernel activation_kernel(Activation activation, bool gated, std::int64_t rows, std::int64_t width, DType dtype);
/// Rotary embedding, in place, of `rotated` dimensions of every head of queries and keys; reads one row of sines and
/// cosines (`rotated` elements) a token. FLOPs 3 an element: 4 products and 2 sums a pair.
Kernel rope_kernel(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t rotated, DType dtype);
/// Sum of two tensors: 1 FLOP an element.
Kernel residual_kernel(std::int64_t rows, std::int64_t hidden, DType dtype);
/// Rows of a table picked by 4-byte ids.
Kernel embedding_kernel(std::int64_t tokens, std::int64_t hidden, DType dtype);
/// One token of each row of logits. Greedy: 1 comparison a logit. Otherwise: temperature, softmax and a draw from the
/// running sum, 8 FLOPs a logit. Writes a 4-byte id a row.
Kernel sampling_kernel(std::int64_t rows, std::int64_t vocabulary, bool greedy, DType dtype);
/// Copies `rows` rows of `width` elements out of (gather) or into (scatter) places that 4-byte indices name. `adds`:
/// the scattered rows are added to what is there, which is read too (1 FLOP an element).
Kernel gather_kernel(std::int64_t rows, std::int64_t width, DType dtype);
Kernel scatter_kernel(std::int64_t rows, std::int64_t width, bool adds, DType dtype);
/// Copy of `bytes`.
Kernel copy_kernel(std::int64_t bytes);
/// `rows` x `columns` elements from `from` to `to`, in blocks of `block` elements of a row that share a 4-byte scale.
/// Quantising finds each block's largest magnitude first: 4 FLOPs an element (magnitude, comparison, product, rounding)
/// and one division a block; dequantising takes 1 an element.
Kernel quantise_kernel(std::int64_t rows, std::int64_t columns, std::int64_t block, DType from, DType to);
Kernel dequantise_kernel(std::int64_t rows, std::int64_t columns, std::int64_t block, DType from, DType to);
/// One step over `parameters` weights kept in `dtype`, gradients in `gradient`. `master`: an fp32 copy of the weights
/// is read and written too and the `dtype` weights are only written. States are fp32: none (sgd), one (momentum), two
/// (Adam). FLOPs a weight: sgd 2, momentum 4, Adam 14, AdamW 16.
Kernel optimizer_kernel(Optimizer optimizer, std::int64_t parameters, bool master, DType dtype, DType gradient);
/// The top `k` of `experts` scores of each token, after a softmax: 5 FLOPs a score and k comparisons a score; writes k
/// weights (fp32) and k ids (4 bytes) a token.
Kernel router_kernel(std::int64_t tokens, std::int64_t experts, std::int64_t k, DType dtype);
/// Weighted sum of `k` rows into each of `tokens` rows; reads k fp32 weights a token. FLOPs 2 k an element.
Kernel combine_kernel(std::int64_t tokens, std::int64_t k, std::int64_t width, DType dtype);

/// Condenses rows by group; groups without rows cost nothing.
GroupedGemm grouped_gemm(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k);

/// One launch in place of `kernels`: FLOPs add up; of each tensor of `on_chip_bytes`, which one kernel writes and the
/// next reads, both passes are gone. Class and dtype are those of the largest matrix product, else of the first kernel.
/// Throws std::invalid_argument for no kernels, for a negative tensor, and where more is taken off than is there.
Kernel fuse(std::span<const Kernel> kernels, std::span<const std::int64_t> on_chip_bytes);

}  // namespace orrery::hw
