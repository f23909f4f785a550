#include "experiments/evolve/evolution.hpp"

#include <algorithm>
#include <cmath>

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
  }

  void compare_best() {
    const auto best = result_.archive.best();
    if (!best) return;
    const Candidate& candidate = result_.archive[*best];
    result_.best = {candidate.text, candidate.figures, {}};
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
    for (std::string& text : source_.propose(number, archive)) {
      Verdict verdict{.text = std::move(text), .entry = {}, .refusal = {}};
      fresh_of.emplace_back();
      if (auto tree = read_candidate(study_, verdict.text, verdict.refusal)) {
        Tree simple = simplified(*tree);
        std::string key = text_of(simple, study_.names);
        verdict.entry = archive.find(key);
        if (!verdict.entry) {
          const auto [at, is_new] = place.emplace(key, fresh.size());
          if (is_new) fresh.push_back({.text = std::move(key), .tree = std::move(simple), .generation = number});
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

  void evaluate(std::vector<Candidate>& fresh) {
    std::vector<std::string> texts;
    for (const Candidate& one : fresh) texts.push_back(one.text);
    std::vector<Figures> figures = evaluator_.candidates(texts, study_.training);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      fresh[i].fitness = fitness_of(study_, figures[i]);
      for (const RunFigure& one : figures[i])
        if (fresh[i].why.empty()) fresh[i].why = one.reason;
      fresh[i].figures = std::move(figures[i]);
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
  const Candidate &x = all_[a], &y = all_[b];
  if (!x.fitness || !y.fitness) return x.fitness.has_value() && !y.fitness;
  return *x.fitness != *y.fitness ? *x.fitness < *y.fitness : x.tree.size() < y.tree.size();
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
