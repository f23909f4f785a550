#include "policies/expression_subjects.hpp"

#include "policies/admission/request_rule.hpp"
#include "policies/batching/sequence_score.hpp"
#include "policies/expert_placement/replica_share.hpp"
#include "policies/experts/expert_score.hpp"
#include "policies/routing/replica_score.hpp"
#include "policies/transaction_order/transaction_score.hpp"

namespace orrery::policies {

const std::vector<ExpressionSubject>& expression_subjects() {
  static const std::vector<ExpressionSubject> all{
      {"batching",
       "Names that the scores of batching may use. `score`: the lowest waiting sequence is admitted first; `preempt`: "
       "the highest running one is preempted first.",
       {"batching.expression.score", "batching.expression.preempt"},
       expression_names<SequenceFacts>()},
      {"routing",
       "Names that the score of a replica may use; the request goes to the replica with the lowest score.",
       {"routing.expression.score"},
       expression_names<ReplicaScoreFacts>()},
      {"admission",
       "Names that the admission rule may use; a request is turned away where the rule is not 0.",
       {"admission.expression.reject"},
       expression_names<RequestRuleFacts>()},
      {"transaction_order",
       "Names that the score of a transaction may use; the one with the lowest score goes next.",
       {"transaction_order.expression.score"},
       expression_names<TransactionFacts>()},
      {"cache",
       "Names that the score of an expert in fast memory may use; of those that may go, the one with the lowest score "
       "is evicted.",
       {"cache.expression.score"},
       expression_names<ExpertScoreFacts>()},
      {"placement",
       "Names that the share of an expert's replica may use; the expert whose replicas bear the largest share gets the "
       "next replica.",
       {"placement.expression.share"},
       expression_names<ReplicaShareFacts>()}};
  return all;
}

std::vector<sim::ComponentInfo> expression_components() {
  std::vector<sim::ComponentInfo> all;
  for (const ExpressionSubject& subject : expression_subjects()) {
    sim::ComponentInfo component{subject.name + " expression", "expression", subject.doc, {}};
    for (const NameInfo& one : subject.names) {
      sim::FieldInfo info;
      info.name = one.name;
      info.type = "number";
      info.unit = one.unit;
      info.doc = one.doc;
      component.fields.push_back(std::move(info));
    }
    all.push_back(std::move(component));
  }
  return all;
}

}  // namespace orrery::policies
