#!/usr/bin/env python3
"""Measures a GPU with PyTorch and writes the tables that `orrery calibrate`, `orrery fidelity` and the `profile` cost
model read: matrix products, attention of prompts, of decodes and backwards, passes over memory, training steps,
collectives.

    python3 profile_gpu.py --name my_gpu --out measured            # everything
    python3 profile_gpu.py --name my_gpu --out measured --tables gemm,attention --cold
    python3 profile_gpu.py --list                                  # what would be measured; needs no GPU
    torchrun --nproc-per-node 8 profile_gpu.py --name my_gpu --out measured --tables collectives

A time is the median of `--repeats` timings by CUDA events, after a warm-up. Without `--cold` each is of a captured
graph with calls for about 1 ms, and a call finds its operands in the L2 if they fit (as in serving frameworks' own
benchmarks); with it a buffer larger than the cache is overwritten before every call, launched meanwhile. The
first lines of a file say on what and with which versions it was measured. Next: give a catalog entry `"tables": {"my_gpu": "pytorch"}` and run
`orrery calibrate my-gpu --data measured --holdout shapes`.
"""

import argparse
import contextlib
import csv
import datetime
import os
import pathlib
import statistics
import sys

TABLES = ("gemm", "grouped", "attention", "stream", "training", "collectives")
FLUSH_BYTES = 512 << 20  # larger than any L2 there is
LEAST_TIMED_S = 1e-3  # of calls in a graph: what launching it takes is then below one in a hundred

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
FP8_LEAST_ROWS = 16  # kernels with scales want multiples of 16
# Products of experts, (experts, n, k): those of Qwen3-30B-A3B, DeepSeek-V3 on eight ranks, Mixtral 8x7B.
EXPERT_PRODUCTS = (
    (128, 1536, 2048), (128, 2048, 768), (32, 4096, 7168), (32, 7168, 2048), (8, 28672, 4096), (8, 4096, 14336),
)  # fmt: skip
EXPERT_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
HEADS = ((32, 32, 128), (32, 8, 128), (8, 1, 128), (16, 16, 64), (40, 8, 128), (64, 8, 128))
PREFILLS = tuple((b, t) for b in (1, 2, 4, 8, 16) for t in (64, 256, 512, 1024, 2048, 4096, 8192) if b * t <= 32768)
DECODES = tuple((b, c) for b in (1, 2, 4, 8, 16, 32, 64, 128) for c in (64, 256, 1024, 4096, 16384) if b * c <= 1 << 20)
WIDTHS = (1024, 2048, 4096, 5120, 8192, 11008, 14336)
HEAD_DIM = 128
STREAM_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
STREAM_OPS = (
    "residual", "norm", "activation", "rope", "softmax", "widen", "narrow", "broadcast", "log_softmax", "adam",
)  # fmt: skip
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MESSAGE_ELEMENTS = tuple(1 << p for p in range(8, 29, 2))


def gemm_cases():
    """Products (m, n, k) to be measured."""
    return [(m, n, k) for n, k in PRODUCTS for m in PRODUCT_ROWS]


def fp8_cases():
    """Products (m, n, k) of operands in 8 bits."""
    return [(m, n, k) for m, n, k in gemm_cases() if m % FP8_LEAST_ROWS == 0]


def grouped_cases():
    """Products of experts (experts, rows of each, n, k)."""
    return [(e, rows, n, k) for e, n, k in EXPERT_PRODUCTS for rows in EXPERT_ROWS]


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
    wide = {"widen": 3, "narrow": 3, "log_softmax": 4, "adam": 14}  # fp32 counts twice
    return ({"residual": 3, "activation": 3, "rope": 3} | wide).get(op, 2) * tensor


class Timer:
    """Times a call on the device: what its kernels take, not what launching them does.

    Calls are captured as a graph that is replayed, since a small kernel is over before the host has launched the next.
    Everything runs in one stream of its own: gradients run in the stream of what they belong to.
    """

    def __init__(self, torch, repeats, cold):
        self.torch, self.repeats, self.cold = torch, repeats, cold
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda") if cold else None
        self.stream = torch.cuda.Stream()

    def _span(self, call):
        """Seconds of a call."""
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def seconds(self, call):
        """Median time of a call, s."""
        for _ in range(3):
            once = self._span(call)
        if self.cold:  # launched while the buffer is written
            spans = []
            for _ in range(self.repeats):
                self.flush.zero_()
                spans.append(self._span(call))
            return statistics.median(spans)
        count = max(1, min(1000, int(LEAST_TIMED_S / max(once, 1e-7)) + 1))
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(count):
                call()
        graph.replay()
        return statistics.median(self._span(graph.replay) for _ in range(self.repeats)) / count


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
            with torch.cuda.stream(timer.stream):
                us = timer.seconds(make(*case)) * 1e6
            yield case, us
        except torch.cuda.OutOfMemoryError:
            log(f"  {case}: does not fit the memory, left out")
            torch.cuda.empty_cache()
        except RuntimeError as fault:  # a kernel that this device or version does not have: the others stand
            log(f"  {case}: {str(fault).splitlines()[0]}")


def profile_gemm(torch, timer, out, name, notes, log):
    def product(m, n, k):
        a = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
        b = torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
        return lambda: torch.nn.functional.linear(a, b)

    def scaled(rows):
        """A product of e4m3 operands with a scale a tensor, or a scale a row of each."""

        def make(m, n, k):
            narrow = lambda r: torch.randn(r, k, dtype=torch.bfloat16, device="cuda").to(torch.float8_e4m3fn)
            a, b = narrow(m), narrow(n).t()
            scale = lambda *shape: torch.ones(shape, dtype=torch.float32, device="cuda")
            scale_a, scale_b = (scale(m, 1), scale(1, n)) if rows else (scale(), scale())
            return lambda: torch._scaled_mm(
                a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True
            )

        return make

    table = Table(out / "gemm" / f"{name}.csv", ("dtype", "m", "n", "k", "time_us"), notes)
    for (m, n, k), us in measured(gemm_cases(), product, timer, torch, log):
        table.add("bf16", m, n, k, us)
    if hasattr(torch, "float8_e4m3fn") and torch.cuda.get_device_capability(0) >= (8, 9):
        for dtype, rows in (("fp8", False), ("fp8_rowwise", True)):
            for (m, n, k), us in measured(fp8_cases(), scaled(rows), timer, torch, log):
                table.add(dtype, m, n, k, us)
    table.close()


def profile_grouped(torch, timer, out, name, notes, log):
    def product(experts, rows, n, k):
        a = torch.randn(experts * rows, k, dtype=torch.bfloat16, device="cuda")
        b = torch.randn(experts, n, k, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
        ends = torch.arange(1, experts + 1, dtype=torch.int32, device="cuda") * rows
        return lambda: torch._grouped_mm(a, b, offs=ends)

    table = Table(out / "grouped" / f"{name}.csv", ("dtype", "experts", "rows", "n", "k", "time_us"), notes)
    for case, us in measured(grouped_cases(), product, timer, torch, log):
        table.add("bf16", *case, us)
    table.close()


def attention_backend(torch, name):
    """A context in which PyTorch's attention is of one library and no other."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name])


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

    def backward(*case):
        q, k, v = (x.requires_grad_() for x in tensors(*case_tensors(case)))
        out = attend(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        slope = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), slope, retain_graph=True)

    def case_tensors(case):
        batch, tokens, heads, kv_heads, head_dim = case
        return batch, heads, kv_heads, head_dim, tokens, tokens

    table = Table(out / "attention" / f"{name}.backward.csv", columns, notes)
    for case, us in measured(context_cases(), backward, timer, torch, log):
        table.add(*case, us)
    table.close()
    columns = ("batch", "num_heads", "num_kv_heads", "head_dim", "context", "time_us")
    table = Table(out / "attention" / f"{name}.generation.csv", columns, notes)
    for case, us in measured(generation_cases(), decode, timer, torch, log):
        table.add(*case, us)
    table.close()


COMPILED = {}


def compiled(torch, op, width, function):
    """`function` compiled for each shape apart, as in training. A fresh start for each width: past eight shapes PyTorch
    would silently run it eagerly."""
    if (op, width) not in COMPILED:
        COMPILED.clear()
        torch._dynamo.reset()
        COMPILED[op, width] = torch.compile(function, dynamic=False)
    return COMPILED[op, width]


def halves_turned(torch, x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


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
        silu = compiled(torch, op, width, lambda a, b: functional.silu(a) * b)
        return lambda: silu(x, y)
    if op == "widen":
        return lambda: x.float()
    if op in ("narrow", "log_softmax", "adam"):
        y = x.float()
        if op == "narrow":
            return lambda: y.bfloat16()
        if op == "log_softmax":
            return lambda: torch.log_softmax(y, -1)
        y.grad = torch.ones_like(y)
        return torch.optim.AdamW([y], fused=True, capturable=True).step
    if op == "broadcast":  # as a rotation's product: heads whose tokens lie apart, times one row for all of them
        heads = x.view(tokens, width // HEAD_DIM, HEAD_DIM).transpose(0, 1)
        row = torch.randn(tokens, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        return lambda: heads * row
    if op == "softmax":
        return lambda: torch.softmax(x, -1)
    cosine = torch.randn(tokens, width, dtype=torch.bfloat16, device="cuda")
    rotate = compiled(torch, op, width, lambda a, c: a * c + halves_turned(torch, a) * c)
    return lambda: rotate(x, cosine)


def profile_stream(torch, timer, out, name, notes, log):
    table = Table(out / "stream" / f"{name}.csv", ("op", "tokens", "width", "bytes", "time_us"), notes)
    make = lambda op, tokens, width: stream_call(torch, op, tokens, width)
    for (op, tokens, width), us in measured(stream_cases(), make, timer, torch, log):
        table.add(op, tokens, width, stream_bytes(op, tokens, width), us)
    table.close()


def profile_training(torch, timer, out, name, notes, log):
    import profile_training as steps  # beside this file

    table = Table(out / "training" / f"{name}.steps.csv", steps.COLUMNS, notes)
    steps.profile(torch, table, log)
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
    "grouped": profile_grouped,
    "attention": profile_attention,
    "stream": profile_stream,
    "training": profile_training,
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
        f"{'operands out of the cache' if cold else 'calls in a graph, operands in the cache where they fit'}",
    )


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", help="stem of the files, e.g. my_gpu")
    parser.add_argument("--out", type=pathlib.Path, help="folder to write the tables to")
    parser.add_argument("--tables", default="gemm,grouped,attention,stream,training", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--attention", default="flash", choices=("flash", "cudnn"), help="library of attention")
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
        print(f"gemm: {len(gemm_cases())} products, {2 * len(fp8_cases())} in 8 bits")
        print(f"grouped: {len(grouped_cases())} products of experts")
        print(f"attention: {len(context_cases())} prefills and their gradients, {len(generation_cases())} decode steps")
        print(f"stream: {len(stream_cases())} passes over memory")
        import profile_training as steps

        print(f"training: {len(steps.cases())} steps")
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
        notes, attends = notes_of(torch, options.cold), table in ("attention", "training")
        with attention_backend(torch, options.attention) if attends else contextlib.nullcontext():
            notes += (f"attention: {options.attention}",) if attends else ()
            PROFILES[table](torch, timer, options.out, options.name, notes, log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
