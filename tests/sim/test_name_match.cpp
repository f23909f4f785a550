// Names as people type them: spellings, aliases, words, and what comes near.
#include "sim/base/name_match.hpp"

#include <catch2/catch.hpp>

#include "sim/base/fault.hpp"

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

}  // namespace test_name_match
