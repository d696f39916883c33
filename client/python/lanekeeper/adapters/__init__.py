"""Streams in the hands of frameworks: one module each, which imports its framework when it is imported itself.

| module        | for                                                   |
|---------------|-------------------------------------------------------|
| `torch`       | PyTorch's DataLoader, torchdata's StatefulDataLoader  |
| `huggingface` | transformers' Trainer, accelerate                     |
| `lightning`   | Lightning's Trainer                                   |
| `megatron`    | Megatron-core's data iterator                         |
| `torchtitan`  | TorchTitan's data loader                              |
| `nemo`        | NeMo AutoModel's recipes for language models          |
| `jax`         | JAX arrays, Grain's iterators                         |

All of them keep to three things. A step of the stream is a step of the optimizer, over all ranks: its sequences are
the global batch, and gradient accumulation cuts them (`micro_batches`). The state is `Stream.state_dict`'s, the same
on every rank, of what was used and not of what was fetched; any number of ranks goes on from it. What a framework
would do to the data beyond that (shard it again, shuffle it, count its epochs) is kept from it, or refused with the
reason.
"""
