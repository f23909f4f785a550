// Caches for tests, and random prompts that share their heads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/policies/view.hpp"

namespace orrery::policies::test {

inline std::unique_ptr<KvCache> make_cache(const std::string& name, const std::string& params, std::int64_t bytes,
                                           std::int64_t bytes_per_token = 1) {
  KvCacheRegistry registry("kvcache");
  register_kv_caches(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make({.bytes_per_token = bytes_per_token, .bytes_available = bytes});
}

/// A waiting sequence whose prompt says `text`, as far as it goes.
inline Sequence prompt(const Text& text, std::int64_t prompt_tokens) {
  Sequence seq;
  seq.text = &text;
  seq.prompt_tokens = seq.prefill_tokens = prompt_tokens;
  return seq;
}

/// A text of some 0 to 6 spans out of a small tree of common ones, so that texts share heads of any length.
inline Text random_text(sim::RandomStream& random) {
  Text text;
  std::uint64_t node = 1;
  for (auto left = random.below(6); left > 0; --left) {
    node = node * 3 + random.below(3);
    text.push_back({node, static_cast<std::int64_t>(1 + node % 23)});
  }
  if (random.below(2) == 0)
    text.push_back({1'000'000 + random.below(1'000'000), static_cast<std::int64_t>(random.below(40))});
  // Now and then a span that is cut short: the same text, but less of it.
  if (!text.empty() && random.below(4) == 0) text.back().tokens = 1 + text.back().tokens / 2;
  return text;
}

/// A text token by token.
inline std::vector<std::pair<std::uint64_t, std::int64_t>> tokens_of(const Text& text) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> tokens;
  for (const TextSpan& span : text)
    for (std::int64_t i = 0; i < span.tokens; ++i) tokens.emplace_back(span.id, i);
  return tokens;
}

}  // namespace orrery::policies::test
