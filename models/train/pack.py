"""Pack the checkpoints of a run into a timeline: about three bits per weight.

Each checkpoint is coded as a difference from the decoded one before it. A matrix is an integer number of steps of rms /
STEPS_PER_RMS away from its prediction, so a number's error is at most half a step and does not accumulate over the
checkpoints. ship.py measures the effect on the sink and stores it with the measurements on the exact weights. No torch.

    timeline/index.json    names, shapes, step sizes, measurements, the log of the run
    timeline/0400.gz       int8 steps of each matrix in order, then the F32 numbers of the others
"""

import numpy as np

STEPS = (0, 10, 30, 100, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 2000, 2400, 3200, 4000)
# Steps per root mean square of a matrix. We measured the effect of a coarse step tensor by tensor: the head is the most
# sensitive (in loss, not in sink), then the embedding.
STEPS_PER_RMS = {"lm_head.weight": 4.0, "model.embed_tokens.weight": 2.0}
OTHERS_PER_RMS = 1.25

Arrays = dict[str, np.ndarray]


def coded(array: np.ndarray) -> bool:
    """True for matrices; vectors (gains, biases) are few and stay exact."""
    return array.ndim == 2


def encode(arrays: Arrays, before: Arrays | None) -> tuple[bytes, list[float], list[bool], Arrays]:
    """The bytes of one checkpoint, step size and kind of prediction of each matrix, and the weights that a reader
    decodes. All arithmetic is in F32, like a reader's."""
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
