// Weft hides the communication of distributed ML behind its computation. This is the whole face; see README.md.
#pragma once

#include "weft/base/error.h"
#include "weft/mesh/mesh.h"
#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"
#include "weft/world/cuda/cuda_op.h"
#include "weft/world/op.h"
#include "weft/world/window.h"
#include "weft/world/world.h"
