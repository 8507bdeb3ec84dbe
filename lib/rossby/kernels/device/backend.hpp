#pragma once

// What a source of this folder defines: the contracts, in the namespace that it is compiled for.

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/relate_backends.hpp"
#include "rossby/kernels/relate_dense_backends.hpp"
#include "rossby/kernels/sampled_backends.hpp"
#include "rossby/kernels/spmm_backends.hpp"
