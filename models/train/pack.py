"""Pack the checkpoints of a run into a timeline: about three bits a weight.

Each checkpoint is coded against the decoded one before it. A matrix is a whole number of steps of
rms / STEPS_PER_RMS away from its prediction, so the error of a number is at most half a step, and it
does not add up over the checkpoints. What that does to the sink is measured and written beside
what was measured on the exact weights (ship.py). No torch.

    timeline/index.json    names, shapes, step sizes, measurements, the log of the run
    timeline/0400.gz       int8 steps of each matrix in order, then the F32 numbers of the others
"""

import numpy as np

STEPS = (0, 10, 30, 100, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 2000, 2400, 3200, 4000)
# Steps per root mean square of a matrix. What a coarse step does was measured tensor by tensor: the
# head is the most easily hurt (loss, not sink), then the embedding.
STEPS_PER_RMS = {"lm_head.weight": 4.0, "model.embed_tokens.weight": 2.0}
OTHERS_PER_RMS = 1.25

Arrays = dict[str, np.ndarray]


def coded(array: np.ndarray) -> bool:
    """Vectors (gains, biases) are few, and kept as they are."""
    return array.ndim == 2


def encode(arrays: Arrays, before: Arrays | None) -> tuple[bytes, list[float], list[bool], Arrays]:
    """The bytes of one checkpoint, step size and kind of prediction of each matrix, and what a
    reader decodes. All arithmetic in F32, for a reader has no other."""
    codes, plain = [], []
    scales: list[float] = []
    from_previous: list[bool] = []
    decoded: Arrays = {}
    for name, array in arrays.items():
        if not coded(array):
            plain.append(array.astype("<f4").tobytes())
            decoded[name] = array
            continue
        base = np.zeros_like(array) if before is None else before[name]
        predicted = bool(np.square(array - base).sum() < np.square(array).sum())
        base = base if predicted else np.zeros_like(array)
        scale = np.float32(np.sqrt(np.square(array).mean())
                           / STEPS_PER_RMS.get(name, OTHERS_PER_RMS))
        steps = np.rint((array - base) / scale)
        if np.abs(steps).max() > 127:
            scale = np.float32(np.abs(array - base).max() / 127)
            steps = np.rint((array - base) / scale)
        codes.append(steps.astype(np.int8).tobytes())
        scales.append(float(scale))
        from_previous.append(predicted)
        decoded[name] = base + steps.astype(np.float32) * scale
    return b"".join(codes + plain), scales, from_previous, decoded
