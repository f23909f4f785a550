// Adopter: a chosen subset of rules that replace parts of a model by hand-written or generated kernels.
//
// Decides nothing itself: every match of every chosen rule is applied, whether the device is faster for it or not, so
// that a search over subsets is an axis of a study. Rules drop what training would have saved (attention: all tensors
// of batch x heads x tokens^2) and launches; kernels of a dialect in `compiled_dialects` are compiled at run time, once
// for each different kernel, which a short run feels: `compile_s` of the report. Before differentiation rules see the
// model and may give ops that have a gradient (attention), never fused ones; after it, forward and backward ops alike.
// Source: Adopter (docs/explain/fusion.md); rules in policies/fusion/rules.
#include "policies/fusion/pattern_match.hpp"

namespace orrery::policies {
namespace {

struct AdopterParams {
  sim::TextList rules{
      {"attention", "bias_gelu", "conv_batch_norm", "dropout_layer_norm", "fused_qkv", "linear_batch_norm", "softmax"}};
  std::vector<std::string> files;
  std::vector<sim::Node> inline_rules;
  sim::TextList compiled_dialects{{"triton"}};
  double compile_s = 0;

  static constexpr auto fields() {
    using A = AdopterParams;
    return sim::FieldTable{
        sim::field("rules", &A::rules, "Names of the shipped rules to apply."),
        sim::field("files", &A::files, sim::Unit::path, sim::any_value(), "Files of further rules."),
        sim::field("inline", &A::inline_rules, "Further rules, given inline."),
        sim::field("compiled_dialects", &A::compiled_dialects, "Dialects whose kernels are compiled at run time."),
        sim::field("compile_time", &A::compile_s, sim::Unit::seconds, sim::at_least(0),
                   "Time to compile one such kernel where its rule does not say.")};
  }
};

class Adopter final : public GraphPass {
 public:
  explicit Adopter(const AdopterParams& params)
      : rules_(load_rules({params.rules, params.files, params.inline_rules})) {
    for (FusionRule& rule : rules_) {
      const auto& compiled = params.compiled_dialects.items;
      const bool compiles = std::ranges::find(compiled, rule.dialect) != compiled.end();
      if (compiles && rule.compile_s <= 0) rule.compile_s = params.compile_s;
    }
  }

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    return apply_rules(graph, rules_, context, true, report);
  }

 private:
  std::vector<FusionRule> rules_;
};

}  // namespace

void add_adopter(PassRegistry& registry) {
  registry.add<AdopterParams>("adopter", "Replaces all matches of a chosen subset of kernel-integration rules.",
                              [](const AdopterParams& params) { return std::make_unique<Adopter>(params); });
}

}  // namespace orrery::policies
