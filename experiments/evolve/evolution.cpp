#include "experiments/evolve/evolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery::experiments::evolve {

namespace {

class Loop {
 public:
  Loop(const Systems& systems, const EvolveStudy& study, Source& source, const EvolveOptions& options)
      : study_(study),
        source_(source),
        evaluator_(
            study, systems, options.jobs,
            [this, &options](std::int64_t runs) {
              if (options.progress) options.progress(std::ssize(result_.generations), runs);
            },
            options.stop) {}

  EvolveResult run() {
    compare_baselines();
    for (std::int64_t g = 0; g < study_.search.generations && !source_.ended(); ++g) generation(g);
    compare_best();
    result_.notes = source_.notes();
    result_.runs = evaluator_.runs();
    return std::move(result_);
  }

 private:
  void compare_baselines() {
    const std::vector<Figures> training = evaluator_.baselines(study_.training);
    std::vector<Figures> held_out(study_.baselines.size());
    if (!study_.held_out.empty()) held_out = evaluator_.baselines(study_.held_out);
    for (std::size_t i = 0; i < study_.baselines.size(); ++i)
      result_.baselines.push_back({study_.baselines[i].name, training[i], held_out[i]});
    check_bounds();
  }

  /// A bound that is a ratio to a baseline needs that baseline's figure.
  void check_bounds() const {
    sim::Faults faults;
    for (std::size_t i = 0; i < study_.objective.bounds.size(); ++i) {
      for (const Comparison& baseline : result_.baselines) {
        if (baseline.name != study_.objective.bounds[i].of || bounded_means(study_, baseline.training)[i]) continue;
        std::string why;
        for (const RunFigure& one : baseline.training)
          if (why.empty()) why = one.reason;
        faults.add(study_.bound_origins[i], fmt::format("baseline '{}' has no such figure: {}", baseline.name, why));
      }
    }
    faults.throw_if_any();
  }

  void compare_best() {
    const auto best = result_.archive.best();
    if (!best) return;
    const Candidate& candidate = result_.archive[*best];
    result_.best = {candidate.text, candidate.figures, {}};
    for (std::size_t at = *best;;) {
      result_.lineage.push_back(at);
      const auto& parents = result_.archive[at].from.parents;
      if (parents.empty()) break;
      at = parents.front();
    }
    if (!study_.held_out.empty())
      result_.best->held_out = evaluator_.candidates(std::span(&candidate.text, 1), study_.held_out).front();
  }

  void generation(std::int64_t number) {
    Archive& archive = result_.archive;
    GenerationRow row;
    std::vector<Verdict> verdicts;
    std::vector<Candidate> fresh;
    std::map<std::string, std::size_t> place;  // of fresh ones
    std::vector<std::optional<std::size_t>> fresh_of;
    for (Proposal& one : source_.propose(number, archive)) {
      Verdict verdict{.text = std::move(one.text), .entry = {}, .refusal = {}};
      fresh_of.emplace_back();
      if (auto tree = read_candidate(study_, verdict.text, verdict.refusal)) {
        Tree simple = simplified(*tree);
        std::string key = text_of(simple, study_.names);
        verdict.entry = archive.find(key);
        if (!verdict.entry) {
          const auto [at, is_new] = place.emplace(key, fresh.size());
          if (is_new)
            fresh.push_back(
                {.text = std::move(key), .tree = std::move(simple), .generation = number, .from = std::move(one.from)});
          verdict.fresh = is_new;
          fresh_of.back() = at->second;
        }
      } else {
        refuse(verdict.refusal.kind, row);
      }
      verdicts.push_back(std::move(verdict));
    }
    evaluate(fresh);
    const std::size_t first = archive.size();
    for (Candidate& one : fresh) archive.add(std::move(one));
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (fresh_of[i]) verdicts[i].entry = first + *fresh_of[i];
    count(verdicts, row);
    result_.generations.push_back(row);
    source_.told(verdicts, archive);
  }

  void refuse(Refusal::Kind kind, GenerationRow& row) {
    ++row.refused;
    ++(kind == Refusal::Kind::faulty      ? result_.faulty
       : kind == Refusal::Kind::too_large ? result_.too_large
                                          : result_.forbidden);
  }

  /// All at the first scenarios; the best of them at the others.
  void evaluate(std::vector<Candidate>& fresh) {
    const std::span<const Scenario> all = study_.training;
    const std::size_t first = static_cast<std::size_t>(study_.search.first_runs.value_or(std::ssize(all)));
    std::vector<std::size_t> chosen(fresh.size());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    run(fresh, chosen, all.first(first));
    if (first == all.size()) return;
    std::ranges::stable_sort(chosen, [&](std::size_t a, std::size_t b) { return better(fresh[a], fresh[b]); });
    const auto pass = static_cast<std::size_t>(std::ceil(study_.search.pass * static_cast<double>(fresh.size())));
    for (std::size_t i = pass; i < chosen.size(); ++i) {
      Candidate& one = fresh[chosen[i]];
      if (one.fitness) one.why = fmt::format("not among the best at the first {} runs", first);
      one.fitness.reset();
    }
    chosen.resize(std::min(chosen.size(), pass));
    std::erase_if(chosen, [&](std::size_t i) { return !fresh[i].fitness; });
    std::ranges::sort(chosen);
    run(fresh, chosen, all.subspan(first));
  }

  /// Runs those at more scenarios; what they are worth is of all that they came to.
  void run(std::vector<Candidate>& fresh, std::span<const std::size_t> chosen, std::span<const Scenario> scenarios) {
    std::vector<std::string> texts;
    for (const std::size_t i : chosen) texts.push_back(fresh[i].text);
    std::vector<Figures> figures = evaluator_.candidates(texts, scenarios);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      Candidate& one = fresh[chosen[k]];
      for (RunFigure& figure : figures[k]) {
        if (one.why.empty()) one.why = figure.reason;
        one.figures.push_back(std::move(figure));
      }
      one.fitness = fitness_of(study_, one.figures);
      std::vector<std::span<const RunFigure>> baselines;
      for (const Comparison& baseline : result_.baselines)
        baselines.push_back(std::span(baseline.training).first(one.figures.size()));
      one.violation = violation_of(study_, one.figures, baselines);
    }
  }

  void count(std::span<const Verdict> verdicts, GenerationRow& row) const {
    const Archive& archive = result_.archive;
    const double sign = study_.objective.goal == Goal::maximise ? -1 : 1;
    row.proposed = std::ssize(verdicts);
    std::vector<double> values;
    for (const Verdict& one : verdicts) {
      if (!one.entry) continue;
      ++(one.fresh ? row.fresh : row.known);
      if (const auto fitness = archive[*one.entry].fitness) values.push_back(sign * *fitness);
    }
    row.median = quantile(std::move(values), 0.5);
    if (const auto best = archive.best()) {
      row.best = sign * *archive[*best].fitness;
      row.best_nodes = archive[*best].tree.size();
      row.best_violation = archive[*best].violation;
    }
  }

  const EvolveStudy& study_;
  Source& source_;
  EvolveResult result_;
  Evaluator evaluator_;
};

}  // namespace

std::optional<std::size_t> Archive::find(const std::string& text) const {
  const auto found = index_.find(text);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t Archive::add(Candidate candidate) {
  const std::size_t index = all_.size();
  index_.emplace(candidate.text, index);
  all_.push_back(std::move(candidate));
  if (all_[index].fitness && (!best_ || better(index, *best_))) best_ = index;
  return index;
}

bool Archive::better(std::size_t a, std::size_t b) const {
  return evolve::better(all_[a], all_[b]);
}

bool better(const Candidate& a, const Candidate& b) {
  if (!a.fitness || !b.fitness) return a.fitness.has_value() && !b.fitness;
  if (a.violation != b.violation) return a.violation < b.violation;
  return *a.fitness != *b.fitness ? *a.fitness < *b.fitness : a.tree.size() < b.tree.size();
}

std::optional<double> quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

EvolveResult evolve(const Systems& systems, const EvolveStudy& study, Source& source, const EvolveOptions& options) {
  return Loop(systems, study, source, options).run();
}

}  // namespace orrery::experiments::evolve
