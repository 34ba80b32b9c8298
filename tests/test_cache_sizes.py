"""The table of what published models cache: worked out by hand, and measured on cache objects."""

from __future__ import annotations

import pytest

from bench.cache_sizes import MODELS, Model, elements, explained, held, main, measured, model

BY_HAND = {
    "Llama 2 7B": 32 * 2 * 32 * 128,
    "Llama 2 70B": 80 * 2 * 8 * 128,
    "Llama 3 8B": 32 * 2 * 8 * 128,
    "Mistral 7B": 32 * 2 * 8 * 128,
    "DeepSeek 67B": 95 * 2 * 8 * 128,
    "DeepSeek-V2": 60 * (512 + 64),
    "DeepSeek-V3": 61 * (512 + 64),
}


@pytest.mark.parametrize("of", MODELS, ids=lambda of: of.name)
def test_numbers_and_bytes_are_those_by_hand(of: Model) -> None:
    assert elements(of, 1) == BY_HAND[of.name]
    assert elements(of, 7, batch=3) == 21 * BY_HAND[of.name]
    assert held(of, 100) == 200 * BY_HAND[of.name]
    assert held(of, 3, bits=4) == -(-3 * BY_HAND[of.name] // 2)


@pytest.mark.parametrize("of", MODELS, ids=lambda of: of.name)
@pytest.mark.parametrize("tokens", [1, 37])
def test_a_cache_object_holds_as_many_bytes(of: Model, tokens: int) -> None:
    pytest.importorskip("transformers")
    assert measured(of, tokens) == held(of, tokens)


def test_grouped_keys_save_the_ratio_of_heads() -> None:
    """h/G times less than a key head for every query head, G times more than a single one."""
    found = model("Llama 2 70B")
    every = Model("h", found.layers, 64, (64, 128), (64, 128))
    single = Model("1", found.layers, 64, (1, 128), (1, 128))
    assert elements(every, 5) == 64 // 8 * elements(found, 5)
    assert elements(found, 5) == 8 * elements(single, 5)


@pytest.mark.parametrize("window", [2, 3, 5])
@pytest.mark.parametrize("chunks", [(1,) * 12, (4, 1, 1, 1, 1), (5, 5), (6, 1, 3), (10, 1)])
def test_a_window_rolls_in_order_and_keeps_what_the_next_token_sees(
    window: int, chunks: tuple[int, ...]
) -> None:
    """Transformers' layer for windows of so many keys, the newest among them: a step sees the last
    ones in their order, none twice, and one less stays for the next token."""
    torch = pytest.importorskip("torch")
    layers = pytest.importorskip("transformers.cache_utils")
    layer = layers.DynamicSlidingWindowLayer(sliding_window=window)
    done = 0
    for chunk in chunks:
        places = torch.arange(done, done + chunk, dtype=torch.float32).reshape(1, 1, chunk, 1)
        seen, _ = layer.update(places, -places)
        done += chunk
        before = max(0, done - chunk - (window - 1))
        assert seen.flatten().tolist() == list(range(before, done))
        kept = range(max(0, done - (window - 1)), done)
        assert layer.keys.flatten().tolist() == list(kept)
        assert (-layer.values).flatten().tolist() == list(kept)


def test_a_window_of_the_newest_key_alone_is_known_to_show_every_key() -> None:
    """A defect, in BUGS.md: none is to stay, and the slice from -0 on is all of them. Fails once it
    is repaired."""
    torch = pytest.importorskip("torch")
    layers = pytest.importorskip("transformers.cache_utils")
    layer = layers.DynamicSlidingWindowLayer(sliding_window=1)
    for place in (0.0, 1.0):
        seen, _ = layer.update(torch.full((1, 1, 1, 1), place), torch.zeros(1, 1, 1, 1), 0)
    assert layer.get_mask_sizes(1)[0] == 1
    assert seen.flatten().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", ["StaticCache", "DynamicCache"])
def test_caches_of_two_sequences_share_nothing_and_copy(kind: str) -> None:
    """Read back to the bit, whatever becomes of the tensors that were appended."""
    torch = pytest.importorskip("torch")
    caches = pytest.importorskip("transformers.cache_utils")
    config = pytest.importorskip("transformers").LlamaConfig(
        hidden_size=8, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1
    )
    options = {"config": config, "max_cache_len": 6} if kind == "StaticCache" else {}
    first, second = (getattr(caches, kind)(**options) for _ in range(2))
    k = torch.linspace(-1.0, 1.0, 2 * 3 * 4).reshape(1, 2, 3, 4)
    first.update(k.clone(), -k, 0)
    second.update(2.0 * k, k.clone(), 0)
    later = k[:, :, :1].clone()
    seen, _ = first.update(later, -later, 0)
    later.zero_()
    assert torch.equal(seen[:, :, :3], k)
    assert torch.equal(seen[:, :, 3:4], k[:, :, :1])
    assert torch.equal(second.layers[0].keys[:, :, :3], 2.0 * k)


def test_the_shares_are_told_with_what_they_compare() -> None:
    shares = [round(100 * share, 2) for _, share in explained()]
    assert shares == [93.34, 82.24, 98.24]


def test_the_command_prints_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    main()
    told = capsys.readouterr().out
    assert all(of.name in told for of in MODELS)
    assert told.count("same") == len(MODELS) + 1
    assert "DIFFERENT" not in told
