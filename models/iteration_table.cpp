#include "models/iteration_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "models/iteration_program.hpp"

namespace orrery::models {
namespace {

constexpr int kFraction = 16;  ///< bits of a position between two knots
constexpr std::int64_t kLongest = std::int64_t{1} << 46;

[[noreturn]] void throw_past(std::int64_t x, std::int64_t top) {
  throw std::out_of_range(fmt::format("iteration table: no knot for {}, the last is {}", x, top));
}

std::int64_t linear(std::int64_t a, std::int64_t b, std::int64_t along, int bits) {
  return a + (((b - a) * along) >> bits);
}

}  // namespace

KnotAxis::KnotAxis(int bits, std::int64_t top) : bits_(bits) {
  while (knot(size_) < top) ++size_;
  top_ = knot(size_);
  size_ += 2;  // a knot beyond the last, so that every place has a next one
}

std::int64_t KnotAxis::knot(std::size_t i) const {
  const auto x = static_cast<std::int64_t>(i);
  const std::int64_t octave = x >> bits_;
  if (octave < 2) return x;
  const auto shift = static_cast<int>(octave - 1);
  return (x - (static_cast<std::int64_t>(shift) << bits_)) << shift;
}

KnotAxis::Place KnotAxis::place(std::int64_t x) const {
  if (x < 0 || x > top_) throw_past(x, top_);
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x)));
  const int shift = std::max(0, width - bits_ - 1);
  const std::int64_t knot = (static_cast<std::int64_t>(shift) << bits_) + (x >> shift);
  return {static_cast<std::size_t>(knot), x & ((std::int64_t{1} << shift) - 1), shift};
}

/// Prices the groups of a graph, by what their work depends on.
struct IterationTable::Sampler {
  enum class Kind : std::uint8_t { fixed, head, dense, attention };

  Sampler(const OpGraph& op_graph, const KernelPrice& kernel_price, const TransferPrice& transfer_price)
      : graph(op_graph), price(kernel_price), price_transfer(transfer_price) {
    const std::vector<Symbol> expected{batch, past, tokens};
    if (graph.symbols() != expected) {
      std::string found;
      for (const Symbol symbol : graph.symbols()) found += (found.empty() ? "" : ", ") + symbol.name();
      throw GraphError(
          fmt::format("graph '{}': expected the dimensions batch, past, tokens of a decoder with a cache, "
                      "got {}",
                      graph.name, found.empty() ? "none" : found));
    }
    groups = group_ops(graph);
    for (const OpGroup& group : groups) kinds.push_back(kind_of(group.work));
  }

  Kind kind_of(const OpWork& work) const {
    const auto depends = [&](Symbol symbol) {
      return work.matrix_flops.depends_on(symbol) || work.vector_flops.depends_on(symbol) ||
             work.read_bytes.depends_on(symbol) || work.write_bytes.depends_on(symbol);
    };
    if (depends(past)) return Kind::attention;
    if (depends(tokens)) return Kind::dense;
    return depends(batch) ? Kind::head : Kind::fixed;
  }

  /// Time of all ops of a kind, ps.
  std::int64_t time(Kind kind, std::int64_t n, std::int64_t new_tokens, std::int64_t cached) {
    Bindings at;
    at.set(batch, n);
    at.set(tokens, new_tokens);
    at.set(past, cached);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (kinds[i] != kind) continue;
      launches.kernels.clear();
      launches.transfers.clear();
      lower(graph, groups[i].first, at, launches);
      for (const GraphKernel& launch : launches.kernels) total += groups[i].count * price(launch.kernel);
      for (const GraphTransfer& transfer : launches.transfers) total += groups[i].count * price_transfer(transfer);
      if (total >= kLongest) throw std::overflow_error("iteration table: an iteration of 70 s or more");
    }
    return total;
  }

  std::vector<std::int64_t> by_rows(Kind kind, const KnotAxis& axis) {
    std::vector<std::int64_t> out(axis.size(), 0);
    for (std::size_t i = 1; i < axis.size(); ++i) out[i] = time(kind, axis.knot(i), 1, 0);
    return out;
  }

  const OpGraph& graph;
  const KernelPrice& price;
  const TransferPrice& price_transfer;
  Symbol batch{"batch"}, tokens{"tokens"}, past{"past"};
  std::vector<OpGroup> groups;
  std::vector<Kind> kinds;
  GraphLaunches launches;
};

IterationTable::IterationTable(const OpGraph& graph, const KernelPrice& price, const TransferPrice& price_transfer,
                               const Limits& limits)
    : rows_(limits.dense_bits, limits.tokens),
      sequences_(limits.sequence_bits, limits.sequences),
      chunk_(limits.context_bits, limits.tokens),
      context_(limits.context_bits, limits.context) {
  Sampler sampler(graph, price, price_transfer);
  using Kind = Sampler::Kind;
  fixed_ = sampler.time(Kind::fixed, 1, 1, 0);
  dense_ = sampler.by_rows(Kind::dense, rows_);
  head_ = sampler.by_rows(Kind::head, rows_);
  decode_.assign(sequences_.size() * context_.size(), 0);
  for (std::size_t s = 1; s < sequences_.size(); ++s)
    for (std::size_t c = 0; c < context_.size(); ++c)
      decode_[s * context_.size() + c] = sampler.time(Kind::attention, sequences_.knot(s), 1, context_.knot(c));
  prefill_.assign(chunk_.size() * context_.size(), 0);
  for (std::size_t t = 1; t < chunk_.size(); ++t)
    for (std::size_t c = 0; c < context_.size(); ++c)
      prefill_[t * context_.size() + c] = sampler.time(Kind::attention, 1, chunk_.knot(t), context_.knot(c));
}

std::int64_t IterationTable::between(const std::vector<std::int64_t>& table, const KnotAxis::Place& row,
                                     std::size_t column, std::int64_t along) const {
  const std::int64_t* upper = table.data() + row.knot * context_.size() + column;
  const std::int64_t* lower = upper + context_.size();
  return linear(linear(upper[0], upper[1], along, kFraction), linear(lower[0], lower[1], along, kFraction), row.past,
                row.shift);
}

std::int64_t IterationTable::time_ps(const BatchDims& batch) const {
  std::int64_t total = fixed_;
  const auto by_rows = [&](const std::vector<std::int64_t>& table, std::int64_t rows) {
    const KnotAxis::Place at = rows_.place(rows);
    total += linear(table[at.knot], table[at.knot + 1], at.past, at.shift);
  };
  by_rows(dense_, batch.tokens);
  by_rows(head_, batch.logit_rows);
  if (const DecodeSums& d = batch.decode; d.sequences > 0) {
    // Cached tokens a sequence: the mean context without the new token, whole and a remainder.
    const std::int64_t cached = d.context_tokens - d.sequences;
    const std::int64_t mean = cached / d.sequences, rest = cached - mean * d.sequences;
    const KnotAxis::Place column = context_.place(mean);
    const std::int64_t along = ((column.past << kFraction) + (rest << kFraction) / d.sequences) >> column.shift;
    total += between(decode_, sequences_.place(d.sequences), column.knot, along);
  }
  if (const PrefillSums& p = batch.prefill; p.sequences > 0) {
    // Equal chunks with as many pairs: q * past + q * (q + 1) / 2 each.
    const std::int64_t q = std::max<std::int64_t>(1, p.q_tokens / p.sequences);
    const std::int64_t past = std::max<std::int64_t>(0, (p.pairs / p.sequences - q * (q + 1) / 2) / q);
    const KnotAxis::Place column = context_.place(past);
    const std::int64_t along = (column.past << kFraction) >> column.shift;
    total += p.sequences * between(prefill_, chunk_.place(q), column.knot, along);
  }
  return total;
}

std::size_t IterationTable::samples() const {
  return dense_.size() + head_.size() + decode_.size() + prefill_.size();
}

}  // namespace orrery::models
