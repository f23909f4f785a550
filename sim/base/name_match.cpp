#include "sim/base/name_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::sim {
namespace {

constexpr std::size_t kLeastPart = 3;  ///< letters of a text that is looked for inside of others

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  for (const auto word : std::views::split(name, '-'))
    if (word.begin() != word.end()) words.emplace_back(word.begin(), word.end());
  return words;
}

bool has_words(std::string_view name, const std::vector<std::string>& wanted) {
  const std::vector<std::string> words = words_of(name);
  return std::ranges::all_of(wanted, [&](const std::string& word) { return std::ranges::count(words, word) > 0; });
}

std::string taken_as(std::string_view text, std::string_view name) {
  return fmt::format("'{}' is taken as '{}'", text, name);
}

/// What published names have around the model's own: its owner ("meta-llama/"; more slashes are a path), and what a
/// copy was tuned to.
std::optional<std::string> without_trimmings(const std::string& text) {
  std::string name = folded(text);
  if (const auto slash = name.find('/'); slash != std::string::npos && name[0] != '.') name.erase(0, slash + 1);
  for (const std::string_view front : {"meta-", "nvidia-", "amd-", "google-", "intel-", "huawei-"})
    if (name.starts_with(front)) name.erase(0, front.size());
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view back :
         {"-instruct", "-chat", "-hf", "-it", "-base", "-v0.1", "-v0.2", "-v0.3", "-v1", "-v1.5"})
      if (name.size() > back.size() && name.ends_with(back)) {
        name.resize(name.size() - back.size());
        again = true;
      }
  }
  return name == folded(text) ? std::nullopt : std::optional(name);
}

}  // namespace

std::string folded(std::string_view name) {
  std::string out;
  for (const char letter : name) {
    if (letter >= 'A' && letter <= 'Z')
      out += static_cast<char>(letter - 'A' + 'a');
    else
      out += letter == '_' || letter == ' ' ? '-' : letter;
  }
  return out;
}

std::string same_spelling(const std::string& text, std::span<const std::string> known) {
  if (std::ranges::find(known, text) != known.end()) return text;
  const auto found = std::ranges::find(known, folded(text), [](const std::string& name) { return folded(name); });
  return found == known.end() ? text : *found;
}

NameMatch match_name(std::string_view text, std::span<const std::string> known, const Aliases& aliases) {
  const std::string spelt = same_spelling(std::string(text), known);
  if (std::ranges::find(known, spelt) != known.end()) return {.name = spelt, .note = {}};
  const std::string fold = folded(text);
  for (const auto& [alias, name] : aliases)
    if (folded(alias) == fold) return {.name = name, .note = taken_as(text, name)};
  const std::vector<std::string> wanted = words_of(fold);
  if (wanted.empty() || fold.size() < kLeastPart) return {};
  std::vector<std::string> holding;
  for (const std::string& name : known)
    if (has_words(folded(name), wanted)) holding.push_back(name);
  if (holding.size() != 1) return {};
  return {.name = holding.front(), .note = taken_as(text, holding.front())};
}

std::vector<std::string> near_names(std::string_view text, std::span<const std::string> known) {
  const std::string fold = folded(text);
  std::vector<std::string> near;
  const auto take = [&](const auto& fits) {
    if (!near.empty()) return;
    for (const std::string& name : known)
      if (fits(folded(name))) near.push_back(name);
    std::ranges::sort(near, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  };
  take([&](const std::string& name) { return name == fold; });
  if (fold.size() >= kLeastPart) {
    take([&](const std::string& name) { return name.starts_with(fold); });
    take([&](const std::string& name) { return name.find(fold) != std::string::npos; });
    const std::vector<std::string> words = words_of(fold);
    if (words.size() > 1) take([&](const std::string& name) { return has_words(name, words); });
  }
  if (!near.empty()) return near;
  if (std::vector<std::string> slips = nearest_names(fold, known); !slips.empty()) return slips;
  take([&](const std::string& name) { return name.size() >= kLeastPart && fold.find(name) != std::string::npos; });
  std::size_t longest = 0;
  const auto shared = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::mismatch(fold, name).in1 - fold.begin());
  };
  for (const std::string& name : known) longest = std::max(longest, shared(folded(name)));
  if (longest >= kLeastPart && 2 * longest > fold.size())
    take([&](const std::string& name) { return shared(name) == longest; });
  return near;
}

std::vector<std::string> catalog_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

NameMatch match_in_catalog(const std::string& text, const std::filesystem::path& folder) {
  // Most references are names to the letter; a catalog is listed only for the others.
  std::error_code none;
  if (!text.empty() && text.find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
      std::filesystem::is_regular_file(folder / (text + ".json"), none))
    return {.name = text, .note = {}};
  const std::vector<std::string> known = catalog_names(folder);
  Aliases aliases;
  for (const std::string& file : catalog_names(folder / "aliases")) {
    const Node root = read_json(folder / "aliases" / (file + ".json"));
    for (const auto& [alias, name] : root.members())
      if (name.is_string()) aliases.emplace_back(alias, name.as_string());
  }
  if (NameMatch match = match_name(text, known, aliases)) return match;
  const std::optional<std::string> bare = without_trimmings(text);
  if (!bare) return {};
  NameMatch match = match_name(*bare, known, aliases);
  if (match) match.note = taken_as(text, match.name);
  return match;
}

}  // namespace orrery::sim
