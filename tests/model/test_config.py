"""Sizes that are derived, with the published models' numbers."""

from __future__ import annotations

from builders import drafter_config, target_config

REAL = target_config(
    vocab_size=248320,
    hidden_size=2048,
    layer_types=(("linear_attention",) * 3 + ("full_attention",)) * 10,
    num_attention_heads=16,
    head_dim=256,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
)


def test_the_35b_target():
    assert REAL.num_hidden_layers == 40
    assert REAL.full_layers == tuple(range(3, 40, 4))
    assert len(REAL.linear_layers) == 30
    assert not set(REAL.full_layers) & set(REAL.linear_layers)
    assert (REAL.key_dim, REAL.value_dim, REAL.conv_dim) == (2048, 4096, 8192)
    assert REAL.rotary_dim == 64


def test_the_drafter():
    config = drafter_config(REAL)
    assert config.num_hidden_layers == 3
    assert config.num_drafts == 15
