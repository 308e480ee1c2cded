"""A static model of kernels: what they execute, counted in their PTX, and the time that this takes on a board.

Nothing is executed but addresses and the tests of branches, for some blocks of the grid. Figures are predictions.
"""

from targets.cuda.model.code import MachineCode
from targets.cuda.model.predict import Prediction, predict
from targets.cuda.model.walk import Counts, count

__all__ = ["Counts", "MachineCode", "Prediction", "count", "predict"]
