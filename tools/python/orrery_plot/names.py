"""What figures and panels are called, HTML and PNG alike."""

from . import units

METRICS = ("ttft", "tbt", "tpot", "e2e", "queueing")
METRIC_NAMES = {
    "ttft": ("TTFT", "time to first token"), "tbt": ("TBT", "time between tokens"),
    "tpot": ("TPOT", "time per output token, mean of a request"), "e2e": ("E2E", "end-to-end latency"),
    "queueing": ("Queueing", "arrival to admission"),
}
# Column of series.csv, title, unit shown, factor into that unit.
SERIES_PANELS = (("running", "Running requests", "requests", 1.0), ("waiting", "Waiting requests", "requests", 1.0),
                 ("kv_used_bytes", "KV cache in use", "GiB", 1 / units.GIB),
                 ("batch_tokens", "Tokens in the batch", "tokens", 1.0), ("power_w", "Power", "W", 1.0))
REQUEST_PANELS = (("ttft_s", "TTFT"), ("e2e_s", "E2E latency"))
