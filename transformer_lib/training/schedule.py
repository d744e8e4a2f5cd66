"""The learning rate of each update."""

from transformer_lib.reference.training import inverse_square_root, warmup_cosine
from transformer_lib.training.settings import TrainingSettings

__all__ = ["learning_rate"]


def learning_rate(settings: TrainingSettings, step: int) -> float:
    r"""Rate of one update: it rises along a line, then falls.

    Up to :math:`w` = ``warmup`` both schedules are :math:`\mathrm{lr} \cdot t / w`.
    After it ``"inverse_sqrt"`` is :math:`\mathrm{lr}\,\sqrt{w / t}`, the paper's equation
    3 with its height set free, and ``"cosine"`` with :math:`T` = ``steps``

    .. math:: \frac{\mathrm{lr}}{2} \Big(1 + \cos \pi \frac{t - w}{T - w}\Big).

    Parameters
    ----------
    settings
        ``lr``, ``schedule``, ``warmup`` and ``steps``.
    step
        Number :math:`t` of the update; the first is 1.

    Returns
    -------
    rate
        0 or more.

    Raises
    ------
    ValueError
        If ``step`` is below 1.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 5.3; Loshchilov and Hutter
    2017, *SGDR*, equation 5.

    Examples
    --------
    >>> settings = TrainingSettings(steps=100, max_tokens=64, lr=0.1, warmup=10)
    >>> [round(learning_rate(settings, step), 3) for step in (1, 10, 55, 99)]
    [0.01, 0.1, 0.05, 0.0]
    """
    if step < 1:
        raise ValueError(f"step: got {step}, wanted 1 or more")
    lr, warmup = settings.lr, settings.warmup
    if settings.schedule == "inverse_sqrt":
        highest = inverse_square_root(warmup, 1, warmup)
        return lr * inverse_square_root(step, 1, warmup) / highest
    return lr * warmup_cosine(step, settings.steps, warmup)
