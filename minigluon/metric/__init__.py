"""Measures of how good predictions are, gathered over many batches: ``create("acc")``."""
from .accuracy import Accuracy, TopKAccuracy
from .confusion import F1, MCC, PCC
from .evalmetric import (
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from .likelihood import Caffe, CrossEntropy, Loss, NegativeLogLikelihood, Perplexity, Torch
from .regression import MAE, MSE, RMSE, PearsonCorrelation

__all__ = [
    "F1", "MAE", "MCC", "MSE", "PCC", "RMSE", "Accuracy", "Caffe", "CompositeEvalMetric",
    "CrossEntropy", "CustomMetric", "EvalMetric", "Loss", "NegativeLogLikelihood",
    "PearsonCorrelation", "Perplexity", "TopKAccuracy", "Torch", "alias", "check_label_shapes",
    "create", "np", "register",
]
