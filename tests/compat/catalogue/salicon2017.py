"""SALICON (2017) in miniature: as of 2015 (`salicon2015.py`), with places as integers."""

import numpy as np

import salicon2015


def build(indir):
    salicon2015.build(indir, np.int16)
