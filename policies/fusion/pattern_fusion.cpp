// Pattern fusion: groups of ops that a library has one kernel for, found by rules.
//
// Decides: rules (policies/fusion/fusion_rule.hpp) are tried by priority; of each, matches in the graph's order; an op
// belongs to the first match that takes it. A match becomes one op of the rule's dialect. With a device, a match whose
// kernel would be slower than its ops stays as it is, unless `always`. After the declared patterns of BYOC and RAF.
#include "policies/fusion/pattern_match.hpp"

namespace orrery::policies {
namespace {

struct PatternFusionParams {
  sim::TextList rules{{"bias_activation", "add_norm", "gated_activation"}};
  std::vector<std::string> files;
  std::vector<sim::Node> inline_rules;
  bool always = false;

  static constexpr auto fields() {
    using P = PatternFusionParams;
    return sim::FieldTable{
        sim::field("rules", &P::rules, "Names of the shipped rules to use."),
        sim::field("files", &P::files, sim::Unit::path, sim::any_value(), "Files of further rules."),
        sim::field("inline", &P::inline_rules, "Further rules, given inline."),
        sim::field("always", &P::always, "Whether to fuse even where that makes the device slower.")};
  }
};

class PatternFusion final : public GraphPass {
 public:
  explicit PatternFusion(const PatternFusionParams& params)
      : rules_(load_rules({params.rules, params.files, params.inline_rules})), always_(params.always) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    return apply_rules(graph, rules_, context, always_, report);
  }

 private:
  std::vector<FusionRule> rules_;
  bool always_;
};

}  // namespace

void add_pattern_fusion(PassRegistry& registry) {
  registry.add<PatternFusionParams>(
      "pattern_fusion", "Ops that match a rule become one kernel of the rule's dialect.",
      [](const PatternFusionParams& params) { return std::make_unique<PatternFusion>(params); });
}

}  // namespace orrery::policies
