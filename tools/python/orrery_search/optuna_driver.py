"""Optuna's samplers behind JSON lines, for the search driver `optuna` (experiments/search/drivers/optuna.cpp).

One request a line, one answer a line. First {"parameters": [{"name", "kind", "low", "high", "log", "choices"}], "objectives",
"limits", "sampler", "seed"} -> {"optuna": version}. Then {"ask": n} -> {"points": [[number, ...], ...]}, and {"tell":
[{"asked": index or null, "point", "status", "objectives", "margins"}]} -> {}. Parameters that do not count in a point are
told as null. A fault is answered with {"error": text}.
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")
import optuna  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
MARGINS = "margins"


def distribution(parameter):
    kind = parameter["kind"]
    if kind == "categorical":
        return optuna.distributions.CategoricalDistribution(list(range(parameter["choices"])))
    if kind == "ordinal":
        return optuna.distributions.IntDistribution(0, parameter["choices"] - 1)
    if kind == "integer":
        return optuna.distributions.IntDistribution(int(parameter["low"]), int(parameter["high"]), log=parameter["log"])
    return optuna.distributions.FloatDistribution(parameter["low"], parameter["high"], log=parameter["log"])


class Driver:
    def __init__(self, setup):
        self.distributions = {p["name"]: distribution(p) for p in setup["parameters"]}
        self.names = list(self.distributions)
        limited = {"constraints_func": lambda trial: trial.user_attrs.get(MARGINS, [0.0])} if setup["limits"] else {}
        seed = setup["seed"]
        if setup["sampler"] == "tpe":
            sampler = optuna.samplers.TPESampler(seed=seed, **limited)
        elif setup["sampler"] == "nsga2":
            sampler = optuna.samplers.NSGAIISampler(seed=seed, **limited)
        else:
            sampler = optuna.samplers.RandomSampler(seed=seed)
        self.study = optuna.create_study(directions=["minimize"] * setup["objectives"], sampler=sampler)
        self.pending = []

    def ask(self, count):
        for trial in self.pending:  # nothing was told of these
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        self.pending = [self.study.ask(self.distributions) for _ in range(count)]
        return {"points": [[float(trial.params[name]) for name in self.names] for trial in self.pending]}

    def tell(self, results):
        told = set()
        for result in results:
            ok = result["status"] == "ok"
            state = optuna.trial.TrialState.COMPLETE if ok else optuna.trial.TrialState.FAIL
            index = result["asked"]
            if index is not None and index not in told:
                told.add(index)
                trial = self.pending[index]
                if ok and result["margins"]:
                    trial.set_user_attr(MARGINS, result["margins"])
                self.study.tell(trial, result["objectives"] if ok else None, state)
            elif ok:
                self.add(result)
        self.pending = [trial for i, trial in enumerate(self.pending) if i not in told]
        return {}

    def add(self, result):
        known = {n: v for n, v in zip(self.names, result["point"]) if v is not None}
        params = {
            n: int(v) if not isinstance(self.distributions[n], optuna.distributions.FloatDistribution) else v
            for n, v in known.items()
        }
        attributes = {MARGINS: result["margins"]} if result["margins"] else {}
        self.study.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions={n: self.distributions[n] for n in params},
                values=result["objectives"],
                user_attrs=attributes,
            )
        )


def main():
    driver = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "parameters" in request:
                driver = Driver(request)
                answer = {"optuna": optuna.__version__}
            elif "ask" in request:
                answer = driver.ask(request["ask"])
            else:
                answer = driver.tell(request["tell"])
        except Exception as error:  # the other side shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
