"""Decodes the files of a timeline, independently of the page's decoder."""

import numpy as np
import pytest

from models.train import pack

Shapes = dict[str, tuple[int, ...]]


def decode(raw: bytes, before: pack.Arrays | None, shapes: Shapes, scales: list[float],
           from_previous: list[bool]) -> pack.Arrays:
    result, at, matrices = {}, 0, [name for name, shape in shapes.items() if len(shape) == 2]
    for name, scale, predicted in zip(matrices, scales, from_previous, strict=True):
        steps = np.frombuffer(raw, np.int8, int(np.prod(shapes[name])), at).reshape(shapes[name])
        at += steps.size
        result[name] = steps.astype(np.float32) * np.float32(scale)
        if predicted:
            result[name] = before[name] + result[name]
    for name, shape in shapes.items():
        if len(shape) != 2:
            result[name] = np.frombuffer(raw, "<f4", int(np.prod(shape)), at).reshape(shape)
            at += result[name].nbytes
    assert at == len(raw)
    return result


@pytest.fixture
def run() -> list[pack.Arrays]:
    """Returns five checkpoints in which one matrix drifts, one is redrawn each time, and one has an outlier."""
    random = np.random.default_rng(0)
    drifting = random.normal(size=(8, 16)).astype(np.float32)
    result = []
    for _ in range(5):
        drifting = drifting + random.normal(size=(8, 16)).astype(np.float32) * np.float32(0.1)
        spike = random.normal(size=(4, 4096)).astype(np.float32)
        spike[1, 2] = 1000.0
        result.append({
            "drifting": drifting, "new": random.normal(size=(6, 6)).astype(np.float32),
            "gain": random.normal(size=16).astype(np.float32), "spike": spike,
        })
    return result


def test_decoding_gives_the_bits_that_encode_returned(run: list[pack.Arrays]) -> None:
    shapes = {name: array.shape for name, array in run[0].items()}
    meant = read = None
    for arrays in run:
        raw, scales, from_previous, meant = pack.encode(arrays, meant)
        read = decode(raw, read, shapes, scales, from_previous)
        assert all(np.array_equal(read[name], meant[name]) for name in shapes)
        assert read["gain"].tobytes() == arrays["gain"].tobytes()


def test_the_error_is_half_a_step_and_does_not_add_up(run: list[pack.Arrays]) -> None:
    meant = None
    for i, arrays in enumerate(run):
        _, scales, from_previous, meant = pack.encode(arrays, meant)
        for name, scale in zip(("drifting", "new", "spike"), scales, strict=True):
            assert np.abs(meant[name] - arrays[name]).max() <= scale * 0.5001
        assert from_previous[0] == (i > 0)  # a slowly changing matrix is predicted
        assert from_previous[1] is False


def test_every_step_fits_into_a_byte(run: list[pack.Arrays]) -> None:
    raw, scales, _, meant = pack.encode(run[0], None)
    assert scales[2] == pytest.approx(1000 / 127)
    assert abs(meant["spike"]).max() == pytest.approx(1000.0)
    assert np.frombuffer(raw, np.int8, 128 + 36 + 4 * 4096).max() == 127


def test_a_number_of_127_steps_keeps_the_size_of_the_step() -> None:
    one = np.zeros((1, 10_322), np.float32)
    one[0, 0] = 1  # 1.25 sqrt(10,322) = 126.997 steps
    raw, [scale], _, _ = pack.encode({"one": one}, None)
    assert scale == np.float32(np.sqrt(np.square(one).mean()) / pack.OTHERS_PER_RMS) != np.float32(1 / 127)
    assert np.frombuffer(raw, np.int8).max() == 127
