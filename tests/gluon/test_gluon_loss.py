"""Losses against their formulas in NumPy, eager and hybridized, and the errors they explain."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigluon import autograd, nd
from minigluon.gluon import loss as losses

RNG = np.random.default_rng(2)
P, Q, R = (RNG.normal(size=(4, 5)).astype("float32") for _ in range(3))
SIGN = np.sign(RNG.normal(size=(4, 5))).astype("float32")
BITS = (SIGN > 0).astype("float32")
CLASSES = RNG.integers(0, 5, 4).astype("float32")
COUNTS = RNG.poisson(2, (4, 5)).astype("float32")
WEIGHTS = RNG.random((4, 1)).astype("float32")


def _softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _bce(p: Any, y: Any, weight: Any = 1.0) -> Any:
    return -(weight * y * np.log(p) + (1 - y) * np.log(1 - p)).mean(1)


def _cosine(a: Any, b: Any) -> Any:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


PICKED = -np.log(_softmax(P))[np.arange(4), CLASSES.astype(int)]
POS = np.array([0.5, 1, 2, 3, 1], "float32")
CASES: dict[str, tuple[Callable[[], Any], list[Any], Any]] = {
    "l2": (losses.L2Loss, [P, Q], ((P - Q) ** 2).mean(1) / 2),
    "l2 weights": (lambda: losses.L2Loss(0.25), [P, Q, WEIGHTS],
                   (WEIGHTS * (P - Q) ** 2).mean(1) / 8),
    "l2 over axis 0": (lambda: losses.L2Loss(batch_axis=1), [P, Q], ((P - Q) ** 2).mean(0) / 2),
    "l1": (lambda: losses.L1Loss(0.5), [P, Q], abs(P - Q).mean(1) / 2),
    "softmax": (losses.SoftmaxCrossEntropyLoss, [P, CLASSES], PICKED),
    "softmax weights": (losses.SoftmaxCELoss, [P, CLASSES, WEIGHTS], PICKED * WEIGHTS[:, 0]),
    "softmax dense": (lambda: losses.SoftmaxCELoss(sparse_label=False), [P, _softmax(Q)],
                      -(_softmax(Q) * np.log(_softmax(P))).sum(1)),
    "softmax logits": (lambda: losses.SoftmaxCELoss(from_logits=True),
                       [np.log(_softmax(P)), CLASSES], PICKED),
    "softmax axis": (lambda: losses.SoftmaxCELoss(axis=1), [P[:, :, None], CLASSES[:, None]],
                     PICKED),
    "sigmoid": (losses.SigmoidBCELoss, [P, BITS], _bce(_sigmoid(P), BITS)),
    "sigmoid pos_weight": (losses.SigmoidBinaryCrossEntropyLoss, [P, BITS, np.ones((1, 1)), POS],
                           _bce(_sigmoid(P), BITS, POS)),
    "from sigmoid": (lambda: losses.SigmoidBCELoss(from_sigmoid=True),
                     [_sigmoid(P), BITS, np.ones((1, 1)), POS], _bce(_sigmoid(P), BITS, POS)),
    "kl": (losses.KLDivLoss, [np.log(_softmax(P)), _softmax(Q)],
           (_softmax(Q) * (np.log(_softmax(Q)) - np.log(_softmax(P)))).sum(1)),
    "kl raw": (lambda: losses.KLDivLoss(from_logits=False), [P, _softmax(Q)],
               (_softmax(Q) * (np.log(_softmax(Q)) - np.log(_softmax(P)))).sum(1)),
    "huber": (lambda: losses.HuberLoss(rho=0.5), [P, Q],
              np.where(abs(P - Q) > 0.5, abs(P - Q) - 0.25, (P - Q) ** 2).mean(1)),
    "hinge": (lambda: losses.HingeLoss(margin=0.5), [P, SIGN],
              np.maximum(0, 0.5 - P * SIGN).mean(1)),
    "squared hinge": (losses.SquaredHingeLoss, [P, SIGN],
                      (np.maximum(0, 1 - P * SIGN) ** 2).mean(1)),
    "logistic": (losses.LogisticLoss, [P, SIGN], np.log1p(np.exp(-P * SIGN)).mean(1)),
    "logistic binary": (lambda: losses.LogisticLoss(label_format="binary"), [P, BITS],
                        _bce(_sigmoid(P), BITS)),
    "triplet": (losses.TripletLoss, [P, Q, R],
                np.maximum(0, ((Q - P) ** 2 - (R - P) ** 2).sum(1) + 1)),
    "cosine": (lambda: losses.CosineEmbeddingLoss(margin=0.1), [P, Q, np.array([1, -1, -1, 1])],
               np.where([True, False, False, True], 1 - _cosine(P, Q),
                        np.maximum(0, _cosine(P, Q) - 0.1))[:, None]),
    "poisson": (losses.PoissonNLLLoss, [P, COUNTS], [(np.exp(P) - COUNTS * P).mean()]),
    "poisson rate": (lambda: losses.PoissonNLLLoss(from_logits=False), [abs(P), COUNTS],
                     [(abs(P) - COUNTS * np.log(abs(P) + 1e-8)).mean()]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_its_formula_eager_and_hybridized(case: str) -> None:
    make, inputs, expected = CASES[case]
    gradients = []
    for hybrid in (False, True):
        block, arrays = make(), [nd.array(x) for x in inputs]
        if hybrid:
            block.hybridize()
        arrays[0].attach_grad()
        with autograd.record():
            found = block(*arrays)
        found.backward()
        gradients.append(arrays[0].grad.asnumpy())
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-5, atol=1e-6)
    assert abs(gradients[0]).max() > 0
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-5, atol=1e-7)


def test_the_figures_of_the_contract() -> None:
    one, two = nd.array([1, 2, 3, 4]), nd.array([1, 3, 5, 7])
    weights = nd.array([0.5, 1, 0.5, 1])
    assert float(losses.L1Loss()(one, two).sum().asscalar()) == 6
    assert float(losses.L1Loss(weight=0.5)(one, two).sum().asscalar()) == 3
    assert float(losses.L1Loss()(one, two, weights).sum().asscalar()) == 5
    assert float(losses.L2Loss()(one, two).sum().asscalar()) == 7
    assert float(losses.L2Loss(weight=0.25)(one, two).sum().asscalar()) == 1.75
    assert float(losses.L2Loss()(one, two, weights).sum().asscalar()) == 6
    pred, label = nd.array([[0, 2], [1, 4]]), nd.array([0, 1])
    found = losses.SoftmaxCrossEntropyLoss()(pred, label, nd.array([[0.5], [1]]))
    np.testing.assert_allclose(found.asnumpy(), [1.06346405, 0.04858733], rtol=1e-6)


def test_full_poisson_adds_stirling_only_above_one() -> None:
    target, rate = np.array([[0, 1, 2, 5]], "float32"), np.ones((1, 4), "float32")
    found = losses.PoissonNLLLoss(from_logits=False, compute_full=True)(
        nd.array(rate), nd.array(target))
    big = np.array([2.0, 5.0])
    stirling = big * np.log(big) - big + 0.5 * np.log(2 * np.pi * big)
    assert float(found.asscalar()) == pytest.approx(1 + stirling.sum() / 4, rel=1e-5)


def test_one_hot_labels_get_a_hint() -> None:
    pred, label = nd.zeros((32, 51)), nd.zeros((32, 51))
    for hybrid in (False, True):
        block = losses.SoftmaxCrossEntropyLoss()
        if hybrid:
            block.hybridize()
        with pytest.raises(ValueError, match="sparse_label=False"):
            block(pred, label)
    assert losses.SoftmaxCELoss()(pred, nd.zeros((32, 1))).shape == (32,)


def test_settings_and_names() -> None:
    assert repr(losses.L2Loss()) == "L2Loss(batch_axis=0, w=1.0)"
    assert losses.SoftmaxCELoss is losses.SoftmaxCrossEntropyLoss
    with pytest.raises(ValueError, match="label_format"):
        losses.LogisticLoss(label_format="odd")


def test_a_loss_of_ones_own() -> None:
    class Cubic(losses.Loss):
        def hybrid_forward(self, F: Any, pred: Any, label: Any) -> Any:
            return self._finish(F, F.abs(pred - label) ** 3, None)

    found = Cubic(weight=2.0, batch_axis=0)(nd.array(P), nd.array(Q))
    np.testing.assert_allclose(found.asnumpy(), 2 * (abs(P - Q) ** 3).mean(1), rtol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_ctc_figures_in_all_layouts_and_by_lengths(hybrid: bool) -> None:
    label = np.array([[1, 0, -1, -1], [2, 1, 1, -1]])
    other = np.where(label < 0, 3, label)  # lengths given: the padding may be anything
    lengths, steps = np.array([2, 3]), np.array([20, 20])
    for layout, label_layout, labels, extra in (
            ("NTC", "NT", label, []), ("TNC", "TN", label, []), ("TNC", "NT", label, []),
            ("NTC", "TN", other, [None, lengths]), ("NTC", "NT", other, [steps, lengths]),
            ("TNC", "NT", label, [steps])):
        ctc = losses.CTCLoss(layout=layout, label_layout=label_layout)
        if hybrid:
            ctc.hybridize()
        pred = nd.ones((2, 25 if extra and extra[0] is not None else 20, 4))
        found = ctc(pred if layout == "NTC" else pred.swapaxes(0, 1),
                    nd.array(labels if label_layout == "NT" else labels.T),
                    *[None if each is None else nd.array(each) for each in extra])
        np.testing.assert_allclose(found.asnumpy(), [18.82820702, 16.50581741], rtol=1e-6)
    weighted = losses.CTCLoss(weight=2)(nd.ones((2, 20, 4)), nd.array(label), None, None,
                                        nd.array([1, 0]))
    np.testing.assert_allclose(weighted.asnumpy(), [2 * 18.82820702, 0], rtol=1e-6)
    for settings in ({"layout": "NCT"}, {"label_layout": "NTC"}):
        with pytest.raises(AssertionError, match="layouts"):
            losses.CTCLoss(**settings)


def test_ctc_operator_figures() -> None:
    """Labels from 1 on, 0 is the blank and the padding; infeasible labels cost nothing."""
    data = nd.array([[[1.2, 3.4, 1.2, -0.1, -2.34], [1.2, 3.4, 1.2, -0.1, -2.34]],
                     [[0.1, 0.2, 0.3, 0.22, 0.123], [0.1, 0.2, 0.3, 0.22, 0.123]],
                     [[-15, -14, -13, -12, -11], [-15, -14, -13, -12, -11]]])
    one = nd.ctc_loss(data, nd.array([[2, 3, 0], [2, 3, 0]]))
    np.testing.assert_allclose(one.asnumpy(), [4.04789] * 2, rtol=1e-5)
    mixed = nd.array([[[-5, -4, -3, -2, -1], [1.2, 3.4, 1.2, -0.1, -2.34]],
                      [[-10, -9, -8, -7, -6], [0.1, 0.2, 0.3, 0.22, 0.123]],
                      [[-15, -14, -13, -12, -11], [-15, -14.2, -13.5, -12.2, -11.22]]])
    two = nd.contrib.ctc_loss(mixed, nd.array([[2, 3, 1], [2, 0, 0]]))
    np.testing.assert_allclose(two.asnumpy(), [7.3557, 5.4091], rtol=1e-4)
    data.attach_grad()
    with autograd.record():
        none = nd.contrib.CTCLoss(data, nd.array([[2, 2, 2], [2, 3, 0]]))
    none.backward()
    np.testing.assert_allclose(none.asnumpy(), [0, 4.04789], rtol=1e-5)
    assert not data.grad[:, 0].asnumpy().any() and data.grad[:, 1].asnumpy().any()


def test_sdml_figures() -> None:
    """MXNet 1.9.1's: `weight` has no effect there."""
    random = np.random.RandomState(0)
    one, other = (nd.array(random.normal(size=(4, 3))) for _ in range(2))
    for settings, expected in (({}, [1.25141990, 1.37515748, 4.31805849, 4.02125645]),
                               ({"smoothing_parameter": 0.1, "weight": 0.5},
                                [0.35046053, 1.12559092, 5.86807251, 4.08787203])):
        loss = losses.SDMLLoss(**settings)
        eager = loss(one, other).asnumpy()
        loss.hybridize()
        np.testing.assert_allclose(loss(one, other).asnumpy(), eager, rtol=1e-6)
        np.testing.assert_allclose(eager, expected, rtol=1e-4)
