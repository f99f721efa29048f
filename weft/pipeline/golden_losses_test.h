// Losses of 20 steps of the small model, from PyTorch: what tools/golden_train.py prints.
#pragma once

namespace weft::pipeline {

inline constexpr double kGoldenLosses[] = {
    4.1114211, 4.0981431, 4.0261350, 3.9854014, 4.0105114, 3.9695065, 3.9627979, 3.9253933, 3.9074020, 3.8126247,
    3.8137703, 3.7873590, 3.7874920, 3.8298960, 3.7455285, 3.7334976, 3.7616186, 3.8159163, 3.7984812, 3.8002939,
};

}  // namespace weft::pipeline
