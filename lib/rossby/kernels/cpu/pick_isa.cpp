// The one place where tables of the instruction sets meet.

#include "rossby/kernels/cpu/simd/adam.hpp"
#include "rossby/kernels/cpu/simd/columns.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dropout.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"
#include "rossby/kernels/cpu/simd/gru.hpp"
#include "rossby/kernels/cpu/simd/linear.hpp"
#include "rossby/kernels/cpu/simd/losses.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"
#include "rossby/kernels/cpu/simd/sampled.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/spmm.hpp"
#include "rossby/kernels/cpu/simd/tall.hpp"

ROSSBY_PICK(AdamKernels, adam_kernels)
ROSSBY_PICK(ColumnKernels, column_kernels)
ROSSBY_PICK(DropoutKernels, dropout_kernels)
ROSSBY_PICK(ElementwiseKernels, elementwise_kernels)
ROSSBY_PICK(GruKernels, gru_kernels)
ROSSBY_PICK(LossKernels, loss_kernels)
ROSSBY_PICK(NarrowLinearKernels, narrow_linear_kernels)
ROSSBY_PICK(SampledKernels, sampled_kernels)
ROSSBY_PICK(SparseKernels, sparse_kernels)
ROSSBY_PICK(SpmmKernels, spmm_kernels)
ROSSBY_PICK(DenseKernels, dense_kernels)
template const rossby::cpu::DenseKernels<rossby::Bf16>& rossby::cpu::dense_kernels(Isa);
ROSSBY_PICK(TallKernels, tall_kernels)
