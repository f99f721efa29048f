"""Loads the library, which registers the ops of torch.ops.weft."""

import pathlib

import torch

torch.ops.load_library(pathlib.Path(__file__).with_name("_weft.so"))
