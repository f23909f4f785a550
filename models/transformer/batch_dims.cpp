#include "models/transformer/batch_dims.hpp"

namespace orrery::models {

std::span<const Symbol, kDims> batch_symbols() {
  static const std::array<Symbol, kDims> symbols{Symbol("T"), Symbol("R"), Symbol("Q"), Symbol("K"), Symbol("P"),
                                                 Symbol("S"), Symbol("C"), Symbol("E"), Symbol("X")};
  return symbols;
}

BatchSizes::BatchSizes()
    : values_([]<std::size_t... i>(std::index_sequence<i...>) {
        const std::span<const Symbol, kDims> symbols = batch_symbols();
        return decltype(values_){std::pair{symbols[i], std::int64_t{0}}...};
      }(std::make_index_sequence<kDims>())) {}

}  // namespace orrery::models
