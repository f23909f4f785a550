// Router traces: which experts every token of a text chose, layer by layer.
//
// Two kinds of file hold them (docs/explain/router-traces.md). CSV: a line a token, the experts as hex digits in the
// order of their scores (the format of public traces of Qwen3-30B-A3B). Binary: the same in a byte a choice, with the
// routers' scores where they are known. Both may be compressed with gzip or Zstandard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery::traces {

/// An expert of a layer.
using ExpertId = std::uint16_t;

inline constexpr std::int64_t kMostExpertsOfLayer = 1 << 14;

/// The choices of a layer, token after token.
struct RouterLayer {
  std::int64_t layer = 0;             ///< its number in the model
  std::vector<ExpertId> choices;      ///< top_k a token, all unlike, the best first
  std::vector<std::uint16_t> scores;  ///< of all experts, a token after another, in 65,535ths; empty: not known
};

/// All layers have choices of the same tokens.
struct RouterTrace {
  std::int64_t experts = 0;  ///< of a layer
  std::int64_t top_k = 0;    ///< that a token chooses
  std::int64_t context = 0;  ///< tokens of a text, after which another begins; 0: all are one text
  std::vector<RouterLayer> layers;

  std::int64_t tokens() const {
    return layers.empty() ? 0 : static_cast<std::int64_t>(layers.front().choices.size()) / top_k;
  }
  /// Choices of tokens [first, last) of a layer.
  std::span<const ExpertId> choices(std::size_t layer, std::int64_t first, std::int64_t last) const {
    return std::span(layers[layer].choices)
        .subspan(static_cast<std::size_t>(first * top_k), static_cast<std::size_t>((last - first) * top_k));
  }
  /// Tokens of a text.
  std::int64_t text_tokens() const { return context > 0 ? context : tokens(); }
};

/// What a file need not say. Zero: as it says, else (`experts`) as `else_experts` says, or the smallest power of two
/// that holds all choices, and (`context`) one text.
struct RouterReading {
  std::int64_t experts = 0, context = 0;
  std::int64_t else_experts = 0;
};

/// Reads a file of either kind. Throws sim::ConfigError: an expert that a layer cannot have or that a token chose
/// twice, tokens that choose unlike many, layers with unlike many tokens, a damaged file.
RouterTrace read_router_trace(const std::string& path, const RouterReading& reading = {});

/// Whether a file looks like one: the binary kind's first bytes, or a column "experts".
bool is_router_trace(const std::string& path);

/// Writes by the name's ending: ".csv", else binary. CSV keeps no scores.
void write_router_trace(const RouterTrace& trace, const std::string& path);

/// What a model must have in common with a trace; throws sim::ConfigError at `where` if it has not.
struct RoutedModel {
  std::string name;
  std::int64_t experts = 0, top_k = 0, layers = 0;
};
void check_router_trace(const RouterTrace& trace, const RoutedModel& model, const std::string& where);

/// Tokens [first, last) of all layers. Texts keep their ends where `first` begins one; else it is all one text.
RouterTrace part_of(const RouterTrace& trace, std::int64_t first, std::int64_t last);

/// A batch of so many texts that go side by side: token 0 of each, then token 1 of each. Texts are equally long pieces
/// of the trace, whole contexts where there are enough. What is left over at the end is dropped.
RouterTrace side_by_side(const RouterTrace& trace, std::int64_t texts);

/// The tokens at these places, in this order; all one text.
RouterTrace in_order(const RouterTrace& trace, std::span<const std::int64_t> tokens);

}  // namespace orrery::traces
