"""Targets of any shape whose weights are made from a seed, on the device, and that know one text.

The head maps every token to its successor on a cycle, through all layers: each adds its part, and
the parts together are as large beside the embedding as a recipe says. So all of a pass's work is
real, and its result is known. Tokens share a factor with some of those before them, and an expert's
router row has a size of its own: both decide how many experts a block has, as they do in real text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.bench.scripted.cycle import Cycle
from hybridspec.model.config import TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.gdn import GDNMixer
from hybridspec.model.target import Layer, Step, Target
from hybridspec.runtime.state import TargetState

LOGIT = 64.0  # a logit is so many times a cosine
MEASURED = 256  # tokens of the pass that sizes are measured in
CHUNK = 16384  # rows of the vocabulary at once: 134 MB in float32 at the 35B shape
DECAYS, STEPS = (1.0, 16.0), (1e-3, 1e-1)  # as GDN layers are usually begun with


@dataclass(frozen=True, slots=True)
class Recipe:
    """How tokens and routers are made.

    Attributes:
        shared: c, the part of an embedding's square that is the shared factor; the cosine of two
            tokens that share it.
        copied: q, the probability that a token has the factor of one before it.
        skew: sigma of the log-normal sizes of router rows.
        ratio: r, the size of all layers' parts together by that of the embedding.
    """

    shared: float = 0.76
    copied: float = 0.5
    skew: float = 0.85
    ratio: float = 0.7


RECIPES = {"skewed": Recipe(), "uniform": Recipe(shared=0.0, skew=0.0)}


def scripted_target(
    config: TargetConfig, cycle: Cycle, recipe: Recipe, generator: torch.Generator,
    dtype: torch.dtype,
) -> Target:  # fmt: skip
    """A target on the generator's device that follows the cycle. Nothing is ever there twice: rows
    are made in place, layer by layer.

    Raises:
        ValueError: a shape with one table for embedding and head.
    """
    if config.tie_word_embeddings:
        raise ValueError(
            "A scripted head is the embedding in another order, so the two cannot be one table. "
            "Use a shape with tie_word_embeddings off."
        )
    target = Target(config, generator.device, dtype)
    fill_tables(target, cycle, recipe, generator)
    for layer in target.layers:
        fill_layer(layer, recipe, generator)
    target.norm.zero_()
    target.prepare()
    resize(target, cycle.run(0, MEASURED), recipe.ratio)
    return target


def scripted_drafter(drafter: Drafter, generator: torch.Generator) -> Drafter:
    """Random weights that keep a stream's size about as it is; what it proposes is replaced."""
    for weight in drafter.slots().values():
        if weight.ndim >= 2:
            weight.normal_(0.0, weight.shape[-1] ** -0.5, generator=generator)
        else:
            weight.normal_(1.0, 0.1, generator=generator)
    drafter.prepare()
    return drafter


def fill_tables(target: Target, cycle: Cycle, recipe: Recipe, generator: torch.Generator) -> None:
    """Embedding rows of unit mean square, and a head that turns each into its successor's logit."""
    embedding, head, successors = target.embedding, target.head, cycle.successors()
    head.normal_(generator=generator)  # for now, the factors
    embedding.normal_(generator=generator)  # for now, what is each token's alone
    centres = cycle.centres(recipe.copied, generator)
    for rows in _chunks(len(centres), embedding.device):
        own = embedding[rows].float() * (1 - recipe.shared) ** 0.5
        mixed = own.add_(head[centres[rows]].float(), alpha=recipe.shared**0.5)
        embedding[rows] = mixed.to(embedding.dtype)
    for rows in _chunks(len(centres), embedding.device):
        scaled = embedding[rows].float() * (LOGIT / embedding.shape[1])
        head[successors[rows]] = scaled.to(head.dtype)


def fill_layer(layer: Layer, recipe: Recipe, generator: torch.Generator) -> None:
    """Random weights that keep a stream's size; norms near 1; decays of real GDN layers."""
    for name, slot in layer.slots().items():
        if name.endswith("conv1d.weight"):
            slot.normal_(0.0, 0.5, generator=generator)  # 4 taps: keeps the size
        elif slot.ndim >= 2:
            slot.normal_(0.0, slot.shape[-1] ** -0.5, generator=generator)
        else:
            slot.normal_(0.0, 0.1, generator=generator)
    if layer.gdn is not None:
        _fill_gates(layer.gdn, generator)
    rows = layer.mlp.router
    sizes = torch.empty(len(rows), 1, device=rows.device)
    rows.mul_(sizes.normal_(0.0, 1.0, generator=generator).mul_(recipe.skew).exp_())


def _fill_gates(gdn: GDNMixer, generator: torch.Generator) -> None:
    """Decays and steps drawn as training begins with them: states remember hundreds of tokens."""
    gdn.norm.add_(1.0)  # the one norm whose factor is the weight itself
    low, high = (torch.tensor(b).log().item() for b in STEPS)
    gdn.a_log.uniform_(*DECAYS, generator=generator).log_()
    steps = gdn.dt_bias.uniform_(low, high, generator=generator).exp_()
    steps.copy_(steps.expm1().log())  # softplus of it is the step


def resize(target: Target, ids: Tensor, ratio: float) -> None:
    """Give every layer's two parts the size at which all of them together are `ratio` times the
    embedding, by one pass over ids [T].

    Part j of n moves the stream as far from the embedding as a random walk gets in j steps of equal
    size: ratio sqrt(j / n). So no part dwarfs the others, whatever direction they have.
    """
    state = TargetState(target.config, len(ids), device=target.device, dtype=target.dtype)
    target.set_context(len(ids))
    step = Step(state.slot(), target.rope, None)
    x = target.embedding[ids]
    walk = _Walk(x, ratio, 2 * len(target.layers))
    for layer in target.layers:
        x = walk.step(x, layer.mix(x, step), (layer.w_out,))
        after = layer.experts(layer.route(x))
        x = walk.step(x, after, (layer.mlp.down, layer.mlp.shared_down))


class _Walk:
    """The stream's way from the embedding, part by part."""

    def __init__(self, start: Tensor, ratio: float, parts: int) -> None:
        self.start, self.parts, self.done = start.float(), parts, 0
        self.most = ratio * self.start.norm()

    def step(self, x: Tensor, after: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        """Scale the weights of the part that led from x to `after` [T, K]; where it leads now."""
        self.done += 1
        way, part = x.float() - self.start, after.float() - x.float()
        goal = self.most * (self.done / self.parts) ** 0.5
        factor = _factor(way, part, goal)
        for weight in weights:
            weight.mul_(factor)
        return x + (part * factor).to(x.dtype)


def _factor(way: Tensor, part: Tensor, goal: Tensor) -> Tensor:
    """The f > 0 at which |way + f part| is the goal, which is more than |way|."""
    along, square = (way * part).sum(), part.square().sum()
    missing = (goal.square() - way.square().sum()).clamp_min(0)
    return (-along + (along.square() + square * missing).sqrt()) / square


def _chunks(rows: int, device: torch.device) -> Iterator[Tensor]:
    yield from torch.arange(rows, device=device).split(CHUNK)
