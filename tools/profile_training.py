"""Training steps of a decoder on one GPU, for `profile_gpu.py --tables training`: time, memory, parts of a step.

The model is what libraries of 2024 run: RMS norms in fp32, rotations, attention in one kernel (of the library that
`--attention` names), a gated feed-forward, a cross entropy on logits in fp32; weights and gradients in bf16, AdamW with
fp32 master weights and moments. Recomputation is none, by op (what products and attention make is kept, every other product of a
layer is run again) or full, layer by layer. A compiled case compiles each layer and the loss.
"""

import statistics
import time

COLUMNS = (
    "hidden", "intermediate", "heads", "kv_heads", "layers", "vocab", "sequence", "micro_batch", "global_batch",
    "recompute", "compiled", "iter_s", "forward_s", "backward_s", "optimizer_s", "allocated_gib", "reserved_gib",
)  # fmt: skip
SMALL = (1024, 4096, 16, 16, 24, 32000)
ONE_B = (2048, 8192, 32, 8, 16, 128256)
EIGHT_B = (4096, 14336, 32, 8, 6, 128256)  # layers of 8B, six of them
THIRTEEN_B = (5120, 13824, 40, 40, 6, 32000)
WARM_STEPS, TIMED_STEPS = 3, 5


def cases():
    """(sizes, sequence, micro-batch, micro-batches, recomputation, compiled)."""
    eager = [
        *((SMALL, 1024, b, 1, "none") for b in (1, 4, 16)),
        (SMALL, 1024, 4, 4, "none"),
        (SMALL, 1024, 16, 1, "full"),
        *((ONE_B, 2048, b, 1, "none") for b in (1, 4, 8)),
        *((ONE_B, 8192, b, 1, "none") for b in (1, 2)),
        (ONE_B, 2048, 8, 1, "full"),
        (ONE_B, 8192, 2, 1, "by_op"),
        *((EIGHT_B, 2048, b, 1, "none") for b in (1, 2, 4)),
        (EIGHT_B, 8192, 1, 1, "none"),
        (EIGHT_B, 2048, 2, 4, "none"),
        (EIGHT_B, 8192, 1, 1, "by_op"),
        (EIGHT_B, 8192, 2, 1, "full"),
        *((THIRTEEN_B, 4096, b, 1, "none") for b in (1, 2)),
        (THIRTEEN_B, 4096, 2, 1, "full"),
    ]
    compiled = [
        (EIGHT_B, 8192, 1, 1, "none"),
        (EIGHT_B, 8192, 1, 1, "by_op"),
        (EIGHT_B, 8192, 2, 1, "full"),
        (ONE_B, 2048, 8, 1, "none"),
        (ONE_B, 8192, 2, 1, "none"),
        (THIRTEEN_B, 4096, 2, 1, "none"),
        (SMALL, 1024, 16, 1, "none"),
        (SMALL, 1024, 1, 1, "none"),
    ]
    return [(*case, False) for case in eager] + [(*case, True) for case in compiled]


def build(torch, sizes, sequence, recompute, compiled):
    """The model, a function of tokens and labels that gives the loss, on the GPU in bf16."""
    hidden, intermediate, heads, kv_heads, layers, vocab = sizes
    nn, functional = torch.nn, torch.nn.functional
    head_dim = hidden // heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            wide = x.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            linear = lambda n, k: nn.Linear(k, n, bias=False)
            self.q, self.o = linear(hidden, hidden), linear(hidden, hidden)
            self.k, self.v = linear(kv_heads * head_dim, hidden), linear(kv_heads * head_dim, hidden)
            self.gate, self.up = linear(intermediate, hidden), linear(intermediate, hidden)
            self.down = linear(hidden, intermediate)

        def forward(self, x, cos, sin):
            y = self.norm1(x)
            split = lambda z, h: z.view(x.shape[0], x.shape[1], h, head_dim).transpose(1, 2)
            q, k = rotate(split(self.q(y), heads), cos, sin), rotate(split(self.k(y), kv_heads), cos, sin)
            a = functional.scaled_dot_product_attention(
                q, k, split(self.v(y), kv_heads), is_causal=True, enable_gqa=heads != kv_heads
            )
            x = x + self.o(a.transpose(1, 2).reshape(x.shape))
            y = self.norm2(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocab, hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = Norm(), nn.Linear(hidden, vocab, bias=False)

    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    model = Model()
    torch.set_default_dtype(torch.float32)
    angles = torch.outer(torch.arange(sequence), 500000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
    torch.set_default_device("cpu")

    def loss_of(logits, labels):
        return functional.cross_entropy(logits.float().view(-1, vocab), labels.view(-1))

    if compiled:
        for layer in model.layers:
            layer.compile()
        loss_of = torch.compile(loss_of)

    from torch.utils import checkpoint

    def kept_products():
        """torchtitan's selection: keep attention, and every other product."""
        count = {False: 0, True: 0}
        aten = torch.ops.aten
        kept = {
            aten._scaled_dot_product_flash_attention.default,
            aten._scaled_dot_product_cudnn_attention.default,
        }

        def policy(context, op, *args, **kwargs):
            keep = op in kept
            if op == torch.ops.aten.mm.default:
                count[context.is_recompute] += 1
                keep = count[context.is_recompute] % 2 == 1
            kinds = checkpoint.CheckpointPolicy
            return kinds.MUST_SAVE if keep else kinds.PREFER_RECOMPUTE

        return checkpoint.create_selective_checkpoint_contexts(policy)

    def run(tokens, labels):
        x = model.embedding(tokens)
        for layer in model.layers:
            if recompute == "none":
                x = layer(x, cos, sin)
            elif recompute == "full":
                x = checkpoint.checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = checkpoint.checkpoint(layer, x, cos, sin, use_reentrant=False, context_fn=kept_products)
        return loss_of(model.head(model.norm(x)), labels)

    return model, run


class MasterAdamW:
    """AdamW on fp32 copies of bf16 weights."""

    def __init__(self, torch, params):
        self.torch, self.params = torch, list(params)
        self.masters = [p.detach().float() for p in self.params]
        self.adam = torch.optim.AdamW(self.masters, lr=1e-4, fused=True)

    def step(self):
        for master, param in zip(self.masters, self.params):
            master.grad, param.grad = param.grad.float(), None
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        with self.torch.no_grad():
            self.torch._foreach_copy_(self.params, self.masters)


def measure(torch, case):
    """The cells of a row after the plan's: times in s, memory in GiB."""
    sizes, sequence, micro_batch, micro_batches, recompute, compiled = case
    model, run = build(torch, sizes, sequence, recompute, compiled)
    optimizer = MasterAdamW(torch, model.parameters())
    tokens = torch.randint(sizes[-1], (micro_batch, sequence), device="cuda")
    cuda = torch.cuda
    marks = lambda n: [cuda.Event(enable_timing=True) for _ in range(n)]

    def step():
        begin = time.perf_counter()
        spans = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0}
        events = []
        for _ in range(micro_batches):
            three = marks(3)
            three[0].record()
            loss = run(tokens, tokens)
            three[1].record()
            loss.backward()
            three[2].record()
            events.append(three)
        last = marks(2)
        last[0].record()
        optimizer.step()
        last[1].record()
        cuda.synchronize()
        for a, b, c in events:
            spans["forward"] += a.elapsed_time(b) * 1e-3
            spans["backward"] += b.elapsed_time(c) * 1e-3
        spans["optimizer"] = last[0].elapsed_time(last[1]) * 1e-3
        return time.perf_counter() - begin, *spans.values()

    for _ in range(WARM_STEPS):
        step()
    cuda.reset_peak_memory_stats()
    times = [step() for _ in range(TIMED_STEPS)]
    gib = float(1 << 30)
    medians = [statistics.median(column) for column in zip(*times)]
    return *medians, cuda.max_memory_allocated() / gib, cuda.max_memory_reserved() / gib


def profile(torch, table, log):
    """Measures all cases; a row each in `table`."""
    for case in cases():
        sizes, sequence, micro_batch, micro_batches, recompute, compiled = case
        hidden, intermediate, heads, kv_heads, layers, vocab = sizes
        log(f"  {case}")
        torch.cuda.empty_cache()
        torch._dynamo.reset()
        try:
            measured = measure(torch, case)
        except torch.cuda.OutOfMemoryError:
            log("    does not fit the memory, left out")
            continue
        except RuntimeError as fault:  # of one case: the others stand
            log(f"    {str(fault).splitlines()[0]}")
            continue
        plan = (sequence, micro_batch, micro_batch * micro_batches, recompute, int(compiled))
        table.add(hidden, intermediate, heads, kv_heads, layers, vocab, *plan, *measured)
