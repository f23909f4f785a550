// What closed forms say of a job that checkpoints and starts anew. Seconds; M is the mean time between failures.
#pragma once

namespace orrery::experiments::job {

/// What decides: a checkpoint after `interval_s` of training that stops the job for `pause_s`; `recovery_s` from a
/// failure to the first step after it.
struct CheckpointTimes {
  double interval_s = 3600, pause_s = 0, recovery_s = 0;
};

/// Share of the time that goes into steps which stay: I / (M e^(R/M) (e^((I + C)/M) - 1)), exact for failures at a
/// constant rate, those during a recovery included (Daly, FGCS 2006, section 3).
double exact_ettr(const CheckpointTimes& times, double mttf_s);

/// 1 - (R + I/2) / M, as published for large clusters (Kokolis et al., HPCA 2025), less C/(I + C); at least 0.
double published_ettr(const CheckpointTimes& times, double mttf_s);

/// Interval that is best to first order: sqrt(2 C M) (Young, CACM 1974).
double young_interval_s(double pause_s, double mttf_s);

/// The same to higher order: sqrt(2 C M) (1 + sqrt(C / 2M)/3 + C/18M) - C for C < 2M, else M (Daly 2006, equation 37).
double daly_interval_s(double pause_s, double mttf_s);

}  // namespace orrery::experiments::job
