#include "sim/base/fault.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/name_match.hpp"

namespace orrery::sim {
namespace {

std::string all_text(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    if (!text.empty()) text += '\n';
    text += fault.text();
  }
  return text;
}

/// Letters to insert, drop, change or swap with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string Fault::text() const {
  std::string text = where.file;
  if (!where.pointer.empty()) text += (text.empty() ? "" : ":") + where.pointer;
  text += text.empty() ? message : ": " + message;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

ConfigError::ConfigError(std::vector<Fault> faults)
    : std::runtime_error(all_text(faults)), faults_(std::move(faults)) {}

void Faults::add(const Origin& where, std::string message, std::string hint) {
  faults_.push_back({where, std::move(message), std::move(hint)});
}

void Faults::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

void Faults::throw_if_any() const {
  if (!faults_.empty()) throw ConfigError(faults_);
}

void throw_fault(Origin where, std::string message, std::string hint) {
  throw ConfigError({Fault{std::move(where), std::move(message), std::move(hint)}});
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known) {
  std::vector<std::string> best;
  // A slip is a letter in a short name, two in a longer one, a third of a long one; never the whole name.
  std::size_t best_distance = std::max<std::size_t>(name.size() < 4 ? 1 : 2, name.size() / 3);
  if (best_distance >= name.size()) return best;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance > best_distance) continue;
    if (distance < best_distance) best.clear();
    best.push_back(candidate);
    best_distance = distance;
  }
  std::sort(best.begin(), best.end());
  best.erase(std::unique(best.begin(), best.end()), best.end());
  return best;
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  const std::vector<std::string> best = nearest_names(name, known);
  return best.empty() ? std::string{} : best.front();
}

std::string name_hint(std::string_view name, std::vector<std::string> known) {
  std::sort(known.begin(), known.end());
  if (known.empty()) return "none is allowed here";
  constexpr std::size_t kFew = 4, kMany = 16;
  const std::vector<std::string> near = name.empty() ? std::vector<std::string>{} : near_names(name, known);
  if (near.empty()) return fmt::format("known: {}", fmt::join(known, ", "));
  if (near.size() == 1) return fmt::format("did you mean '{}'?", near.front());
  if (near.size() <= kFew)
    return fmt::format("did you mean '{}' or '{}'?", fmt::join(near.begin(), near.end() - 1, "', '"), near.back());
  const auto end = near.begin() + static_cast<std::ptrdiff_t>(std::min(near.size(), kMany));
  return fmt::format("near it: {}{}", fmt::join(near.begin(), end, ", "), end == near.end() ? "" : ", …");
}

}  // namespace orrery::sim
