// Names as people type them: spellings, aliases, words, and what comes near.
#include "sim/base/name_match.hpp"

#include <catch2/catch.hpp>

#include "sim/base/fault.hpp"
#include "tests/sim/input_support.hpp"

namespace test_name_match {

using namespace orrery::sim;

namespace {

const std::vector<std::string> kParts{"a100-pcie-80gb", "a100-sxm4-80gb", "a10g",   "b200-sxm",      "h100-pcie-80gb",
                                      "h100-sxm5-80gb", "tpu-v3",         "tpu-v4", "v100-sxm2-16gb"};

}  // namespace

TEST_CASE("a spelling is a name", "[unit]") {
  CHECK(folded("H100_SXM5 80GB") == "h100-sxm5-80gb");
  CHECK(same_spelling("Token-Budget", std::vector<std::string>{"token_budget"}) == "token_budget");
  CHECK(same_spelling("tokens", std::vector<std::string>{"token_budget"}) == "tokens");
  CHECK(match_name("TPU_V4", kParts).name == "tpu-v4");
  CHECK(match_name("TPU_V4", kParts).note.empty());  // the name itself, if not in its own spelling
}

TEST_CASE("aliases, and words that stand in one name only", "[unit]") {
  const Aliases aliases{{"h100", "h100-sxm5-80gb"}};
  CHECK(match_name("H100", kParts, aliases).name == "h100-sxm5-80gb");
  CHECK(match_name("H100", kParts, aliases).note == "'H100' is taken as 'h100-sxm5-80gb'");
  CHECK(match_name("b200", kParts).name == "b200-sxm");
  CHECK(match_name("80gb-h100-sxm5", kParts).name == "h100-sxm5-80gb");
  CHECK(!match_name("a100-80gb", kParts));  // two have both words
  CHECK(!match_name("v1", kParts));         // no word of any
  CHECK(!match_name("", kParts));
}

TEST_CASE("what comes near: names that hold a text go before the edit distance", "[unit]") {
  using Names = std::vector<std::string>;
  CHECK(near_names("h100", kParts) == Names{"h100-pcie-80gb", "h100-sxm5-80gb"});  // and not a10g, two letters away
  CHECK(near_names("sxm5", kParts) == Names{"h100-sxm5-80gb"});
  CHECK(near_names("a100-80gb", kParts) == Names{"a100-pcie-80gb", "a100-sxm4-80gb"});
  CHECK(near_names("a10h", kParts) == Names{"a10g"});
  CHECK(near_names("h1000", kParts) == Names{"h100-pcie-80gb", "h100-sxm5-80gb"});
  CHECK(near_names("a10g-spot", kParts) == Names{"a10g"});
  CHECK(near_names("quantum", kParts).empty());
  CHECK(name_hint("h100", kParts) == "did you mean 'h100-pcie-80gb' or 'h100-sxm5-80gb'?");
  CHECK(name_hint("quantum", {"b", "a"}) == "known: a, b");
  CHECK(name_hint("80gb", {"80gb-1", "80gb-2", "80gb-3", "80gb-4", "80gb-5"}) ==
        "near it: 80gb-1, 80gb-2, 80gb-3, 80gb-4, 80gb-5");
}

TEST_CASE("a spelling folds the letters A to Z, underlines and blanks", "[unit]") {
  CHECK(folded("AZaz_ -09@[`{") == "azaz---09@[`{");
  CHECK(same_spelling("a-B", std::vector<std::string>{"A_b", "a-B"}) == "a-B");  // to the letter goes first
  CHECK(same_spelling("A-B", std::vector<std::string>{"a_b", "a b"}) == "a_b");  // of several the first
  CHECK(match_name("a-B", std::vector<std::string>{"A_b"}).name == "A_b");
}

TEST_CASE("words of a name: all of them, from three letters on", "[unit]") {
  CHECK(match_name("10g", std::vector<std::string>{"x-10g"}).name == "x-10g");
  CHECK_FALSE(match_name("v3", kParts));  // a word of tpu-v3 alone, but two letters
  CHECK(match_name("--h100--pcie", kParts).name == "h100-pcie-80gb");
  CHECK_FALSE(match_name("----", kParts));
  CHECK_FALSE(match_name("h100-sxm4", kParts));  // words of two names
  // An alias goes before words, the name itself before an alias.
  CHECK(match_name("b200", kParts, {{"B200", "a10g"}}).name == "a10g");
  CHECK(match_name("b200-sxm", kParts, {{"b200-sxm", "a10g"}}).name == "b200-sxm");
}

TEST_CASE("what comes near, kind by kind", "[unit]") {
  using Names = std::vector<std::string>;
  CHECK(near_names("A10G", kParts) == Names{"a10g"});  // spelt alike, and nothing else
  CHECK(near_names("tpu", Names{"tpu-v4", "x-tpu", "tpu-v10", "tpu-v3"}) ==
        Names{"tpu-v3", "tpu-v4", "tpu-v10"});  // those that begin so, the short ones first
  CHECK(near_names("100-", kParts) ==
        Names{"a100-pcie-80gb", "a100-sxm4-80gb", "h100-pcie-80gb", "h100-sxm5-80gb", "v100-sxm2-16gb"});
  CHECK(near_names("80gb-h100", kParts) == Names{"h100-pcie-80gb", "h100-sxm5-80gb"});  // both words, in any order
  CHECK(near_names("tp", Names{"tpu-v3", "to"}) == Names{"to"});  // two letters are looked for nowhere: a slip
  // Names that the text holds, of three letters at least.
  CHECK(near_names("my-tpu-v3-cluster", kParts) == Names{"tpu-v3"});
  CHECK(near_names("xx-ab-yyyyyyyyyyyyy", Names{"ab"}).empty());
  CHECK(near_names("xx-abc-yyyyyyyyyyyyy", Names{"abc"}) == Names{"abc"});
  // Those that begin alike: three letters and more than half of the text.
  CHECK(near_names("abcdxyz", Names{"abcd-one-two", "abc-one-two"}) == Names{"abcd-one-two"});
  CHECK(near_names("abcwxyz", Names{"abcd-one-two"}).empty());                     // 3 of 7
  CHECK(near_names("abcd-wxyz", Names{"abcd-one-two"}) == Names{"abcd-one-two"});  // 5 of 9
  CHECK(near_names("abcdwxyz", Names{"abcd-one-two"}).empty());                    // 4 of 8 are just half
}

TEST_CASE("a catalog's entries by name, alias, owner and tuned copy", "[unit]") {
  const orrery::test::Scratch scratch;
  for (const char* name : {"llama-3.1-8b", "qwen-7b", "bare"}) scratch.write(std::string(name) + ".json", "{}");
  scratch.write("notes.txt", "none");
  scratch.write("aliases/one.json", R"({"llama": "llama-3.1-8b", "count": 3})");
  const auto meant = [&](const std::string& text) { return match_in_catalog(text, scratch.path()); };
  CHECK(catalog_names(scratch.path()) == std::vector<std::string>{"bare", "llama-3.1-8b", "qwen-7b"});
  CHECK(catalog_names(scratch.path() / "none").empty());
  CHECK(meant("qwen-7b").name == "qwen-7b");
  CHECK(meant("qwen-7b").note.empty());
  CHECK(meant("QWEN_7B").name == "qwen-7b");
  CHECK(meant("Llama").name == "llama-3.1-8b");
  CHECK(meant("Llama").note == "'Llama' is taken as 'llama-3.1-8b'");
  CHECK(meant("meta-llama/Llama-3.1-8B").name == "llama-3.1-8b");
  CHECK(meant("meta-llama/Llama-3.1-8B").note == "'meta-llama/Llama-3.1-8B' is taken as 'llama-3.1-8b'");
  CHECK(meant("Qwen/Qwen-7B-Chat").name == "qwen-7b");
  for (const char* front : {"meta-", "nvidia-", "amd-", "google-", "intel-", "huawei-"})
    CHECK(meant(std::string(front) + "bare").name == "bare");
  for (const char* back : {"-instruct", "-chat", "-hf", "-it", "-base", "-v0.1", "-v0.2", "-v0.3", "-v1", "-v1.5"})
    CHECK(meant("bare" + std::string(back)).name == "bare");
  CHECK(meant("bare-it-chat-v0.1").name == "bare");  // again and again
  CHECK_FALSE(meant("count"));                       // an alias of what is no text
  CHECK_FALSE(meant("./bare"));                      // a path
  CHECK_FALSE(meant("a/b/bare"));
  CHECK_FALSE(meant("-instruct"));
  CHECK_FALSE(meant(""));
  CHECK_FALSE(meant("notes"));
  scratch.write("aliases/two.json", "{");
  CHECK_NOTHROW(meant("bare"));  // a name to the letter asks for no list
  CHECK_THAT(orrery::test::fault_of([&] { meant("Bare"); }), Catch::Contains("expected valid JSON"));
}

}  // namespace test_name_match
