#!/usr/bin/env python3
"""Measures a GPU with PyTorch and writes the tables that `orrery calibrate`, `orrery fidelity` and the `profile` cost
model read: matrix products, prefill and decode attention, passes over memory, collectives.

    python3 profile_gpu.py --name my_gpu --out measured            # everything
    python3 profile_gpu.py --name my_gpu --out measured --tables gemm,attention --cold
    python3 profile_gpu.py --list                                  # what would be measured; needs no GPU
    torchrun --nproc-per-node 8 profile_gpu.py --name my_gpu --out measured --tables collectives

A time is the median of `--repeats` timings by CUDA events, each over enough calls to last 0.2 ms or more, after a
warm-up. Without `--cold` a call finds its operands in the L2 if they fit (as in serving frameworks' own benchmarks);
with it a buffer larger than the cache is overwritten before every call. The first lines of a file say on what and with
which versions it was measured. Next: give a catalog entry `"tables": {"my_gpu": "kernel"}` and run
`orrery calibrate my-gpu --data measured --holdout shapes`.
"""

import argparse
import csv
import datetime
import os
import pathlib
import statistics
import sys

TABLES = ("gemm", "attention", "stream", "collectives")
FLUSH_BYTES = 512 << 20  # larger than any L2 there is
LEAST_TIMED_S = 2e-4  # a timing shorter than this is all clock resolution

# Hidden sizes of models from 1 to 70 billion parameters and the products of their layers, (n, k).
PRODUCTS = tuple(
    sorted(
        {
            (n, k)
            for hidden, inner in ((2048, 8192), (4096, 11008), (4096, 14336), (5120, 13824), (8192, 28672))
            for n, k in ((hidden, hidden), (3 * hidden, hidden), (2 * inner, hidden), (hidden, inner))
        }
    )
)
PRODUCT_ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
HEADS = ((32, 32, 128), (32, 8, 128), (8, 1, 128), (16, 16, 64), (40, 8, 128), (64, 8, 128))
PREFILLS = tuple((b, t) for b in (1, 2, 4, 8, 16) for t in (64, 256, 512, 1024, 2048, 4096, 8192) if b * t <= 32768)
DECODES = tuple((b, c) for b in (1, 2, 4, 8, 16, 32, 64, 128) for c in (64, 256, 1024, 4096, 16384) if b * c <= 1 << 20)
WIDTHS = (1024, 2048, 4096, 5120, 8192, 11008, 14336)
STREAM_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
STREAM_OPS = ("residual", "norm", "activation", "rope", "softmax")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MESSAGE_ELEMENTS = tuple(1 << p for p in range(8, 29, 2))


def gemm_cases():
    """Products (m, n, k) to be measured."""
    return [(m, n, k) for n, k in PRODUCTS for m in PRODUCT_ROWS]


def context_cases():
    """Prefills (batch, tokens, heads, key heads, head dimension)."""
    return [(b, t, *heads) for heads in HEADS for b, t in PREFILLS]


def generation_cases():
    """Decode steps (batch, heads, key heads, head dimension, context)."""
    return [(b, *heads, c) for heads in HEADS for b, c in DECODES]


def stream_cases():
    """Passes over memory (op, tokens, width)."""
    return [(op, t, w) for op in STREAM_OPS for w in WIDTHS for t in STREAM_TOKENS]


def stream_bytes(op, tokens, width, element=2):
    """Bytes that a pass reads and writes at least: what the simulator counts for the same kernel."""
    tensor = tokens * width * element
    return {"residual": 3, "activation": 3}.get(op, 2) * tensor


class Timer:
    """Times a call on the device, with or without its operands in the cache."""

    def __init__(self, torch, repeats, cold):
        self.torch, self.repeats, self.cold = torch, repeats, cold
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda") if cold else None

    def _span(self, call, count):
        """Seconds a call of `count` calls in a row."""
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            call()
        end.record()
        cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    def seconds(self, call):
        """Median time of a call, s."""
        self._span(call, 3)
        if self.cold:
            spans = []
            for _ in range(self.repeats):
                self.flush.zero_()
                spans.append(self._span(call, 1))
            return statistics.median(spans)
        once = self._span(call, 1)
        count = max(1, min(1000, int(LEAST_TIMED_S / max(once, 1e-7)) + 1))
        return statistics.median(self._span(call, count) for _ in range(self.repeats))


class Table:
    """A CSV file that grows row by row, so that what was measured before a fault is kept."""

    def __init__(self, path, columns, notes):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "w", newline="", encoding="utf-8")
        for note in notes:
            self.file.write(f"# {note}\n")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(columns)

    def add(self, *cells):
        self.writer.writerow([f"{c:.6g}" if isinstance(c, float) else c for c in cells])
        self.file.flush()

    def close(self):
        self.file.close()


def measured(cases, make, timer, torch, log):
    """Yields (case, µs) of every case that fits the device's memory; `make` gives the call."""
    for i, case in enumerate(cases):
        if i % 100 == 0:
            log(f"  {i} of {len(cases)}")
        try:
            yield case, timer.seconds(make(*case)) * 1e6
        except torch.cuda.OutOfMemoryError:
            log(f"  {case}: does not fit the memory, left out")
            torch.cuda.empty_cache()


def profile_gemm(torch, timer, out, name, notes, log):
    def product(m, n, k):
        a = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
        b = torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
        return lambda: torch.nn.functional.linear(a, b)

    table = Table(out / "gemm" / f"{name}.csv", ("dtype", "m", "n", "k", "time_us"), notes)
    for (m, n, k), us in measured(gemm_cases(), product, timer, torch, log):
        table.add("bf16", m, n, k, us)
    table.close()


def profile_attention(torch, timer, out, name, notes, log):
    attend = torch.nn.functional.scaled_dot_product_attention

    def tensors(batch, heads, kv_heads, head_dim, queries, keys):
        make = lambda h, t: torch.randn(batch, h, t, head_dim, dtype=torch.bfloat16, device="cuda")
        return make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)

    def prefill(batch, tokens, heads, kv_heads, head_dim):
        q, k, v = tensors(batch, heads, kv_heads, head_dim, tokens, tokens)
        return lambda: attend(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)

    def decode(batch, heads, kv_heads, head_dim, context):
        q, k, v = tensors(batch, heads, kv_heads, head_dim, 1, context)
        return lambda: attend(q, k, v, enable_gqa=heads != kv_heads)

    columns = ("batch", "tokens", "num_heads", "num_kv_heads", "head_dim", "time_us")
    table = Table(out / "attention" / f"{name}.context.csv", columns, notes)
    for case, us in measured(context_cases(), prefill, timer, torch, log):
        table.add(*case, us)
    table.close()
    columns = ("batch", "num_heads", "num_kv_heads", "head_dim", "context", "time_us")
    table = Table(out / "attention" / f"{name}.generation.csv", columns, notes)
    for case, us in measured(generation_cases(), decode, timer, torch, log):
        table.add(*case, us)
    table.close()


def stream_call(torch, op, tokens, width):
    """One pass over memory of each class, as a framework runs it eagerly."""
    x = torch.randn(tokens, width, dtype=torch.bfloat16, device="cuda")
    functional = torch.nn.functional
    if op == "residual":
        y = torch.randn_like(x)
        return lambda: torch.add(x, y)
    if op == "norm":
        weight = torch.ones(width, dtype=torch.bfloat16, device="cuda")
        return lambda: functional.layer_norm(x, (width,), weight)
    if op == "activation":
        y = torch.randn_like(x)
        silu = torch.compile(lambda a, b: functional.silu(a) * b) if hasattr(torch, "compile") else None
        return lambda: silu(x, y) if silu else torch.mul(x, y)
    if op == "softmax":
        return lambda: torch.softmax(x, -1)
    cosine = torch.randn(tokens, width, dtype=torch.bfloat16, device="cuda")
    rotate = torch.compile(lambda a, c: a * c + torch.roll(a, width // 2, -1) * c) if hasattr(torch, "compile") else None
    return lambda: rotate(x, cosine) if rotate else torch.mul(x, cosine)


def profile_stream(torch, timer, out, name, notes, log):
    table = Table(out / "stream" / f"{name}.csv", ("op", "tokens", "width", "bytes", "time_us"), notes)
    make = lambda op, tokens, width: stream_call(torch, op, tokens, width)
    for (op, tokens, width), us in measured(stream_cases(), make, timer, torch, log):
        table.add(op, tokens, width, stream_bytes(op, tokens, width), us)
    table.close()


def profile_collectives(torch, timer, out, name, notes, log):
    """Needs torchrun: one process a device. The slowest rank's time counts; rank 0 writes."""
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)

    def call(collective, elements):
        x = torch.randn(elements, dtype=torch.bfloat16, device="cuda")
        if collective == "all_reduce":
            return lambda: dist.all_reduce(x)
        if collective == "all_gather":
            whole = torch.empty(elements * ranks, dtype=x.dtype, device="cuda")
            return lambda: dist.all_gather_into_tensor(whole, x)
        share = torch.empty(max(1, elements // ranks), dtype=x.dtype, device="cuda")
        if collective == "reduce_scatter":
            source = x[: share.numel() * ranks]
            return lambda: dist.reduce_scatter_tensor(share, source)
        source, target = x[: share.numel() * ranks], torch.empty(share.numel() * ranks, dtype=x.dtype, device="cuda")
        return lambda: dist.all_to_all_single(target, source)

    columns = ("collective", "num_gpus", "message_elements", "time_us")
    table = Table(out / "collectives" / f"nccl_{name}.csv", columns, notes) if rank == 0 else None
    cases = [(c, e) for c in COLLECTIVES for e in MESSAGE_ELEMENTS]
    for (collective, elements), us in measured(cases, call, timer, torch, log if rank == 0 else lambda _: None):
        slowest = torch.tensor([us], device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if table:
            table.add(collective, ranks, elements, float(slowest.item()))
    if table:
        table.close()
    dist.destroy_process_group()


PROFILES = {
    "gemm": profile_gemm,
    "attention": profile_attention,
    "stream": profile_stream,
    "collectives": profile_collectives,
}


def notes_of(torch, cold):
    """What was measured, on what, with what: the comment lines of every table."""
    properties = torch.cuda.get_device_properties(0)
    return (
        f"device: {torch.cuda.get_device_name(0)}, {properties.multi_processor_count} SMs, "
        f"{properties.total_memory >> 20} MiB",
        f"software: PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
        f"measured: {datetime.date.today().isoformat()}, median of CUDA-event timings, "
        f"operands {'out of the cache' if cold else 'in the cache where they fit'}",
    )


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", help="stem of the files, e.g. my_gpu")
    parser.add_argument("--out", type=pathlib.Path, help="folder to write the tables to")
    parser.add_argument("--tables", default="gemm,attention,stream", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--repeats", type=int, default=7, help="timings a median is taken of")
    parser.add_argument("--cold", action="store_true", help="operands out of the cache before every call")
    parser.add_argument("--list", action="store_true", help="say how many cases each table has, and stop")
    options = parser.parse_args(arguments)
    options.tables = options.tables.split(",")
    for table in options.tables:
        if table not in TABLES:
            parser.error(f"unknown table '{table}': expected some of {', '.join(TABLES)}")
    if options.repeats < 1:
        parser.error("--repeats: expected 1 or more")
    if not options.list and not (options.name and options.out):
        parser.error("--name and --out are needed")
    return options


def main(arguments=None):
    options = parse(arguments)
    if options.list:
        print(f"gemm: {len(gemm_cases())} products")
        print(f"attention: {len(context_cases())} prefills, {len(generation_cases())} decode steps")
        print(f"stream: {len(stream_cases())} passes over memory")
        print(f"collectives: {len(COLLECTIVES) * len(MESSAGE_ELEMENTS)} messages")
        return 0
    try:
        import torch
    except ImportError:
        print("profile_gpu: PyTorch is not installed here", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("profile_gpu: PyTorch sees no GPU", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    quiet = os.environ.get("RANK", "0") != "0"
    log = (lambda _: None) if quiet else (lambda text: print(text, file=sys.stderr))
    timer = Timer(torch, options.repeats, options.cold)
    for table in options.tables:
        log(table)
        PROFILES[table](torch, timer, options.out, options.name, notes_of(torch, options.cold), log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
