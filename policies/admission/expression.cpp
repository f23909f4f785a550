// Admission by an expression: a request is turned away ("expression") where its value is not 0; without a value (NaN)
// it comes in. Names and units: request_rule.hpp, `orrery describe expression`. `requests + parked + 1 > 256 *
// replicas` is queue_limit.
#include <cmath>

#include "policies/admission/request_rule.hpp"

namespace orrery::policies {
namespace {

struct ExpressionAdmissionParams {
  RequestRule reject{"0"};

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("reject", &ExpressionAdmissionParams::reject,
                                      "A request is turned away where the value of this expression is not 0.")};
  }
};

class ExpressionAdmission final : public AdmissionControl {
 public:
  explicit ExpressionAdmission(const ExpressionAdmissionParams& params) : reject_(params.reject) {}
  std::optional<std::string_view> reject(const AdmissionView& view) override {
    const double value = reject_({view});
    if (std::isnan(value) || value == 0) return std::nullopt;
    return "expression";
  }

 private:
  RequestRule reject_;
};

}  // namespace

void add_expression_admission(AdmissionRegistry& registry) {
  registry.add<ExpressionAdmissionParams>(
      "expression", "A request is turned away where the value of an expression is not 0.",
      [](const ExpressionAdmissionParams& params) { return std::make_unique<ExpressionAdmission>(params); });
}

}  // namespace orrery::policies
