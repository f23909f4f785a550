// How large the classes of experiments/ are: what holds many parts is to be made of objects that hold a few each.
//
// The count is textual. In a text without comments, literals and preprocessor lines the direct members of a class body
// are what stands between its semicolons and the bodies of its functions, with everything in parentheses, braces and
// angle brackets left out. One with parentheses in front of any "=" is a method, one that declares no member of an
// object (a type, a friend, an alias, a constant) counts for nothing, and any other is data, as often as its commas
// say.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace test_class_sizes {

namespace fs = std::filesystem;

namespace {

constexpr int kMostMethods = 40, kMostData = 25;

/// Classes that may be larger, and why.
const std::map<std::string, std::string> kLarger{};

/// Without comments, literals and preprocessor lines.
std::string bare(const std::string& text) {
  static constexpr std::string_view kRaw = "R\"";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    const bool identifier_before = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0);
    if (rest.starts_with("//") || (rest.front() == '#' && (out.empty() || out.back() == '\n'))) {
      i = std::min(text.size(), text.find('\n', i));
    } else if (rest.starts_with("/*")) {
      i = text.find("*/", i) + 2;
    } else if (rest.starts_with(kRaw) && !identifier_before) {
      const std::string end = ")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"";
      i = text.find(end, i) + end.size();
    } else if (rest.front() == '"' || (rest.front() == '\'' && !identifier_before)) {
      for (++i; text[i] != rest.front(); ++i)
        if (text[i] == '\\') ++i;
      ++i;
    } else {
      out += text[i++];
    }
  }
  return out;
}

/// Past the bracket that closes the one at `open`.
std::size_t past(std::string_view text, std::size_t open, char opens, char closes) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opens) ++depth;
    if (text[i] == closes && --depth == 0) return i + 1;
  }
  return text.size();
}

std::string trimmed(const std::string& text) {
  static const std::regex kLabels(R"(^(\s|(public|private|protected)\s*:(?!:))*)");
  return std::regex_replace(text, kLabels, "", std::regex_constants::format_first_only);
}

/// Declarations that stand directly in a class body, brackets emptied.
std::vector<std::string> declarations(std::string_view body) {
  std::vector<std::string> all;
  std::string now;
  const auto next = [&] {
    if (std::string one = trimmed(now); !one.empty()) all.push_back(std::move(one));
    now.clear();
  };
  for (std::size_t i = 0; i < body.size();) {
    const char c = body[i];
    const bool named = !now.empty() && (std::isalnum(static_cast<unsigned char>(now.back())) != 0);
    if (c == '(') {
      now += "()";
      i = past(body, i, '(', ')');
    } else if (c == '<' && named && !now.ends_with("operator")) {
      i = past(body, i, '<', '>');
    } else if (c == '{') {
      now += "{}";
      i = past(body, i, '{', '}');
      const std::size_t after = body.find_first_not_of(" \n", i);
      const bool ends =
          after == std::string_view::npos || std::string_view(";,{").find(body[after]) == std::string_view::npos;
      if (ends && now.find('(') != std::string::npos) next();
    } else if (c == ';') {
      next();
      ++i;
    } else {
      now += c;
      ++i;
    }
  }
  return all;
}

struct Size {
  int methods = 0, data = 0;
};

Size size_of(std::string_view body) {
  static const std::regex kNoMember(
      R"(^(using|friend|enum|class|struct|union|typedef|static_assert|template\s*(class|struct))\b)");
  static const std::regex kConstant(R"(^(inline\s+)?static\s)");
  Size size;
  for (const std::string& one : declarations(body)) {
    if (std::regex_search(one, kNoMember)) continue;
    const bool method =
        one.find("operator") != std::string::npos || one.substr(0, one.find('=')).find('(') != std::string::npos;
    if (method) {
      ++size.methods;
    } else if (!std::regex_search(one, kConstant)) {
      size.data += 1 + static_cast<int>(std::count(one.begin(), one.end(), ','));
    }
  }
  return size;
}

/// Every class that a text defines, nested ones too.
std::map<std::string, Size> classes(const std::string& text) {
  static const std::regex kHead(R"((\benum\s+)?\b(class|struct)\s+([A-Za-z_][\w:]*)\s*(final\s*)?(:[^;{}()]*)?\{)");
  std::map<std::string, Size> sizes;
  for (std::sregex_iterator it(text.begin(), text.end(), kHead), end; it != end; ++it) {
    if ((*it)[1].matched) continue;
    const auto open = static_cast<std::size_t>(it->position() + it->length() - 1);
    const std::size_t close = past(text, open, '{', '}');
    sizes[(*it)[3]] = size_of(std::string_view(text).substr(open + 1, close - open - 2));
  }
  return sizes;
}

}  // namespace

TEST_CASE("the members of a class are counted", "[structure]") {
  const auto sizes = classes(bare(R"cpp(
    // class None { int x; };
#define NONE class Macro {
    enum class Colour { red, green };
    template <class T>
    class A final : public Base<T, int>, private Other {
     public:
      using Name = std::string;
      A(int a, int b) : a_(a), b_{b} {}
      explicit A(const char* = "class C { int x; }") : A(1, 2) {}
      bool operator<(const A&) const = default;
      std::map<int, int> get() const { return {{1, 2}}; }
      static constexpr int kMost = 3;
      struct Inner {
        int x = 0, y = 0;  ///< both
        std::function<int(int)> f = [](int v) { return v; };
      };

     private:
      friend class B;
      std::array<std::pair<int, int>, 2> a_{}, b_{{{1, 2}}};
      std::int64_t most_ = std::max<int>(1, 2);
      std::function<void(int, int)> call_;
    };)cpp"));
  REQUIRE(sizes.size() == 2);
  CHECK(sizes.at("A").methods == 4);
  CHECK(sizes.at("A").data == 4);
  CHECK(sizes.at("Inner").methods == 0);
  CHECK(sizes.at("Inner").data == 3);
}

TEST_CASE("no class of experiments is large", "[structure]") {
  std::size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(ORRERY_SOURCE_DIR) / "experiments")) {
    if (entry.path().extension() != ".hpp" && entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    for (const auto& [name, size] : classes(bare({std::istreambuf_iterator<char>(file), {}}))) {
      ++seen;
      INFO(entry.path().string() << ": " << name << " has " << size.methods << " methods and " << size.data << " data");
      CHECK((kLarger.contains(name) || (size.methods <= kMostMethods && size.data <= kMostData)));
    }
  }
  CHECK(seen > 500);  // or the check looked at nothing
}

}  // namespace test_class_sizes
