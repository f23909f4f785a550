// Names as people type them: case, underlines and blanks do not matter, known other names lead to the one that is
// meant, and what leads nowhere is answered with names that come near.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::sim {

/// A name in one spelling: lower case, '_' and blanks as '-'.
std::string folded(std::string_view name);

/// Other names, and what each stands for.
using Aliases = std::vector<std::pair<std::string, std::string>>;

/// Which of the known names a text means.
struct NameMatch {
  std::string name;  ///< empty: none of them
  std::string note;  ///< for the user, where it is more than another spelling: "'h100' is taken as 'h100-sxm5-80gb'"
  explicit operator bool() const { return !name.empty(); }
};

/// The name itself, the one of the same spelling, the one that an alias stands for, or the only one in which all the
/// words of `text` stand ("b200" is "b200-sxm").
NameMatch match_name(std::string_view text, std::span<const std::string> known, const Aliases& aliases = {});
/// The one known name that is spelt alike; `text` as it is if there is none.
std::string same_spelling(const std::string& text, std::span<const std::string> known);

/// Names that a text which means none of them may have meant, the likeliest first: those that hold it, the one
/// nearest in edit distance, those that it holds, those that begin alike. All of one sort; none if nothing is near.
std::vector<std::string> near_names(std::string_view text, std::span<const std::string> known);

/// Stems of the .json files in a folder, sorted.
std::vector<std::string> catalog_names(const std::filesystem::path& folder);
/// The entry of a catalog folder that a text means; aliases are members of aliases/*.json in it. A name with an owner
/// before it ("meta-llama/Llama-3.1-8B") and words of a tuned copy behind it ("-Instruct") mean the entry without them.
/// Throws ConfigError for a damaged file of aliases.
NameMatch match_in_catalog(const std::string& text, const std::filesystem::path& folder);

}  // namespace orrery::sim
