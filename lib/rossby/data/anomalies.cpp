#include "rossby/data/anomalies.hpp"

#include <cmath>
#include <cstddef>

#include <cblas.h>

#include "rossby/base/error.hpp"

// LAPACK's Fortran interface; the last arguments are the hidden lengths of the character arguments.
extern "C" {
void dsyevr_(const char* jobz, const char* range, const char* uplo, const int* n, double* a, const int* lda,
             const double* vl, const double* vu, const int* il, const int* iu, const double* abstol, int* m,
             double* w, double* z, const int* ldz, int* isuppz, double* work, const int* lwork, int* iwork,
             const int* liwork, int* info, std::size_t, std::size_t, std::size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void dpotrs_(const char* uplo, const int* n, const int* nrhs, const double* a, const int* lda, double* b,
             const int* ldb, int* info, std::size_t);
}

namespace rossby {
namespace {

/// Computes the `modes` largest eigenvalues of a symmetric matrix, descending, and their unit vectors (modes,
/// size). Destroys the matrix.
void largest_eigenpairs(std::vector<double>& matrix, Index size, Index modes, std::vector<double>& values,
                        std::vector<double>& vectors) {
  const int n = static_cast<int>(size);
  const int first = static_cast<int>(size - modes) + 1;
  int found = 0, info = 0, integer_size = -1, real_size = -1;
  const double unused = 0;
  std::vector<double> ascending(as_size(size)), z(as_size(size * modes)), work(1);
  std::vector<int> support(as_size(2 * modes)), integer_work(1);
  for (int pass = 0; pass < 2; ++pass) {  // the first call queries the work space
    dsyevr_("V", "I", "L", &n, matrix.data(), &n, &unused, &unused, &first, &n, &unused, &found,
            ascending.data(), z.data(), &n, support.data(), work.data(), &real_size, integer_work.data(),
            &integer_size, &info, 1, 1, 1);
    require(info == 0, "dsyevr finds the eigenvalues of a Gram matrix");
    if (pass == 1) break;
    real_size = static_cast<int>(work[0]);
    integer_size = integer_work[0];
    work.resize(static_cast<std::size_t>(real_size));
    integer_work.resize(static_cast<std::size_t>(integer_size));
  }
  require(found == modes, "dsyevr finds as many eigenvalues as were asked for");
  values.resize(as_size(modes));
  vectors.resize(as_size(modes * size));
  for (Index k = 0; k < modes; ++k) {
    values[as_size(k)] = ascending[as_size(modes - 1 - k)];
    std::copy_n(z.begin() + (modes - 1 - k) * size, size, vectors.begin() + k * size);
  }
}

}  // namespace

std::vector<double> training_means(const Series& series, std::span<const Index> steps, Reducer& reducer) {
  const Index width = series.rows * series.features;
  std::vector<double> sum(as_size(width)), count(as_size(width));
  for (const Index t : steps) {
    const float* x = series.values.data() + t * width;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      if (std::isnan(x[c])) continue;
      sum[c] += x[c];
      count[c] += 1;
    }
  }
  const std::size_t m = as_size(series.features);
  std::vector<double> total(2 * m);  // sums, then counts
  for (std::size_t c = 0; c < sum.size(); ++c) {
    total[c % m] += sum[c];
    total[m + c % m] += count[c];
  }
  reducer.ordered_sum(total);
  for (std::size_t c = 0; c < sum.size(); ++c) {
    if (count[c] > 0)
      sum[c] /= count[c];
    else
      sum[c] = total[m + c % m] > 0 ? total[c % m] / total[m + c % m] : 0;
  }
  return sum;
}

std::vector<double> lag_one_coefficients(const Series& series, std::span<const double> mean,
                                         std::span<const Index> pairs) {
  const Index width = series.rows * series.features;
  std::vector<double> product(mean.size()), square(mean.size());
  for (const Index t : pairs) {
    const float* now = series.values.data() + t * width;
    const float* before = now - width;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      if (std::isnan(now[c]) || std::isnan(before[c])) continue;
      const double x = static_cast<double>(before[c]) - mean[c];
      product[c] += (static_cast<double>(now[c]) - mean[c]) * x;
      square[c] += x * x;
    }
  }
  for (std::size_t c = 0; c < mean.size(); ++c) product[c] = square[c] > 0 ? product[c] / square[c] : 0;
  return product;
}

void pack_anomalies(const Series& series, std::span<const double> mean, std::span<const Index> steps,
                    Index feature, Index first_row, Index count, std::span<double> out) {
  const Index m = series.features;
  const double* center = mean.data() + first_row * m + feature;
  double* to = out.data();
  for (const Index t : steps) {
    if (t < 0) {
      std::fill_n(to, count, 0.0);
      to += count;
      continue;
    }
    const float* x = series.values.data() + (t * series.rows + first_row) * m + feature;
    for (Index i = 0; i < count; ++i)
      *to++ = std::isnan(x[i * m]) ? 0.0 : static_cast<double>(x[i * m]) - center[i * m];
  }
}

std::vector<double> gram_matrix(const Series& series, std::span<const double> mean,
                                std::span<const Index> steps, Index feature, Reducer& reducer) {
  const auto n = static_cast<Index>(steps.size());
  std::vector<double> gram(as_size(n * n)), block;
  for_row_blocks(series.rows, [&](Index first, Index count) {
    block.resize(as_size(n * count));
    pack_anomalies(series, mean, steps, feature, first, count, block);
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, static_cast<int>(n), static_cast<int>(count), 1.0,
                block.data(), static_cast<int>(count), 1.0, gram.data(), static_cast<int>(n));
  });
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j) gram[as_size(j * n + i)] = gram[as_size(i * n + j)];
  reducer.sum(std::span<double>(gram));
  return gram;
}

Eofs leading_eofs(const Series& series, std::span<const double> mean, std::span<const Index> steps,
                  Index feature, Index modes, Reducer& reducer) {
  const auto n = static_cast<Index>(steps.size());
  Eofs eofs;
  eofs.rows = series.rows;
  std::vector<double> gram = gram_matrix(series, mean, steps, feature, reducer);
  modes = std::min(modes, n);
  if (modes == 0) return eofs;
  std::vector<double> unit;  // (modes, steps)
  largest_eigenpairs(gram, n, modes, eofs.eigenvalue, unit);
  // Components below the rounding of the Gram matrix are no patterns of the data.
  const double floor = 1e-12 * std::max(eofs.eigenvalue.front(), 0.0);
  while (modes > 0 && eofs.eigenvalue[as_size(modes - 1)] <= floor) --modes;
  eofs.modes = modes;
  eofs.eigenvalue.resize(as_size(modes));
  eofs.amplitude.resize(as_size(n * modes));
  eofs.pattern.resize(as_size(series.rows * modes));
  std::vector<double> weight(as_size(n * modes));  // amplitude / eigenvalue: maps fields to patterns
  for (Index k = 0; k < modes; ++k) {
    const double* u = unit.data() + k * n;
    const double* largest =
        std::max_element(u, u + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double root = std::copysign(std::sqrt(eofs.eigenvalue[as_size(k)]), *largest);
    for (Index t = 0; t < n; ++t) {
      eofs.amplitude[as_size(t * modes + k)] = u[t] * root;
      weight[as_size(t * modes + k)] = u[t] / root;
    }
  }
  std::vector<double> block;
  for_row_blocks(modes > 0 ? series.rows : 0, [&](Index first, Index count) {
    block.resize(as_size(n * count));
    pack_anomalies(series, mean, steps, feature, first, count, block);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(count), static_cast<int>(modes),
                static_cast<int>(n), 1.0, block.data(), static_cast<int>(count), weight.data(),
                static_cast<int>(modes), 0.0, eofs.pattern.data() + first * modes, static_cast<int>(modes));
  });
  return eofs;
}

namespace {

/// Up to this size, a call of LAPACK takes longer than the arithmetic.
constexpr Index small = 16;

/// As dpotrf_: row j of the factor, from its diagonal on, replaces that of the matrix.
bool small_cholesky(double* matrix, Index n) {
  for (Index j = 0; j < n; ++j) {
    const double* row = matrix + j * n;
    if (!(row[j] > 0)) return false;
    const double inverse = 1 / std::sqrt(row[j]);
    for (Index i = j; i < n; ++i) matrix[j * n + i] *= inverse;
    for (Index k = j + 1; k < n; ++k)
      for (Index i = k; i < n; ++i) matrix[k * n + i] -= row[k] * row[i];
  }
  return true;
}

void small_solve(const double* factor, Index n, double* x) {
  for (Index j = 0; j < n; ++j) {
    x[j] /= factor[j * n + j];
    for (Index i = j + 1; i < n; ++i) x[i] -= factor[j * n + i] * x[j];
  }
  for (Index j = n - 1; j >= 0; --j) {
    for (Index i = j + 1; i < n; ++i) x[j] -= factor[j * n + i] * x[i];
    x[j] /= factor[j * n + j];
  }
}

}  // namespace

bool cholesky(std::span<double> matrix, Index size) {
  if (size <= small) return small_cholesky(matrix.data(), size);
  const int n = static_cast<int>(size);
  int info = 0;
  dpotrf_("L", &n, matrix.data(), &n, &info, 1);
  require(info >= 0, "dpotrf gets valid arguments");
  for (Index i = 0; i < size && info == 0; ++i)
    if (std::isnan(matrix[static_cast<std::size_t>(i * size + i)])) return false;  // which dpotrf may not see
  return info == 0;
}

void cholesky_solve(std::span<const double> factor, Index size, std::span<double> right, Index count) {
  if (size <= small) {
    for (Index k = 0; k < count; ++k) small_solve(factor.data(), size, right.data() + k * size);
    return;
  }
  const int n = static_cast<int>(size);
  const int columns = static_cast<int>(count);
  if (columns == 0) return;
  int info = 0;
  // Rows of `right` are columns in Fortran order.
  dpotrs_("L", &n, &columns, factor.data(), &n, right.data(), &n, &info, 1);
  require(info == 0, "dpotrs gets valid arguments");
}

}  // namespace rossby
