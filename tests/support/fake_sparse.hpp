#pragma once

#include <chrono>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "rossby/kernels/sparse_library.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::test {

/// A library of sparse products on a simulated device, with the rules of cuSPARSE: matrices are made once and
/// given back, dense rows are as far apart as they are long or farther, a product runs with the buffer that
/// was prepared for its shapes, which nothing else has written to. What breaks a rule returns an error, or
/// NaN where it shows on the device alone.
class FakeSparse final : public SparseApi {
 public:
  mutable int started = 0, stopped = 0, prepared = 0, multiplied = 0;
  mutable std::set<const void*> alive;  // matrices
  std::string fails;                    // the call that does
  double seconds = 0;                   // that a product takes at least

  int start(void** handle, DeviceDriver& driver) const override {
    if (fails == "start") return 1;
    ++started;
    *handle = &dynamic_cast<SimulatedDriver&>(driver);
    return 0;
  }
  int stop(void*) const override { return ++stopped, 0; }
  int make_matrix(void** matrix, const Csr& csr) const override {
    if (fails == "make" || csr.rows < 0 || csr.entries < 0) return 2;
    auto made = std::make_unique<Csr>(csr);
    *matrix = made.get();
    alive.insert(made.get());
    matrices_.push_back(std::move(made));
    return 0;
  }
  int drop_matrix(void* matrix) const override { return alive.erase(matrix) == 1 ? 0 : 3; }
  int buffer_bytes(void*, const Product& product, std::size_t* bytes) const override {
    *bytes = sizeof(Shapes);
    return fails == "buffer" || !right(product) ? 4 : 0;
  }
  int prepare(void* handle, const Product& product, void* buffer) const override {
    if (fails == "prepare" || !right(product)) return 5;
    ++prepared;
    queue(handle).enqueue(
        [buffer, shapes = Shapes(product)] { std::memcpy(buffer, &shapes, sizeof shapes); });
    return 0;
  }
  int multiply(void* handle, const Product& product, void* buffer) const override {
    if (fails == "multiply" || !right(product)) return 6;
    ++multiplied;
    const Csr csr = *static_cast<const Csr*>(product.matrix);
    queue(handle).enqueue([product, buffer, csr, shapes = Shapes(product), least = seconds] {
      const auto begin = std::chrono::steady_clock::now();
      const bool known = std::memcmp(buffer, &shapes, sizeof shapes) == 0;
      product.wide ? run<double>(product, csr, known) : run<float>(product, csr, known);
      while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < least) {
      }
    });
    return 0;
  }

 private:
  struct Shapes {
    const void* matrix;
    Index rows, columns, x, y;
    explicit Shapes(const Product& p)
        : matrix(p.matrix), rows(p.y.rows), columns(p.y.columns), x(p.x.stride), y(p.y.stride) {}
  };

  [[nodiscard]] bool right(const Product& p) const {
    if (!alive.count(p.matrix)) return false;
    const auto& csr = *static_cast<const Csr*>(p.matrix);
    return csr.wide == p.wide && p.x.rows == csr.columns && p.y.rows == csr.rows &&
           p.x.columns == p.y.columns && p.x.stride >= p.x.columns && p.y.stride >= p.y.columns &&
           p.x.data != p.y.data;
  }
  static SimulatedDriver& queue(void* handle) { return *static_cast<SimulatedDriver*>(handle); }

  template <class T>
  static void run(const Product& p, const Csr& csr, bool known) {
    const T poison = std::numeric_limits<T>::quiet_NaN();
    const auto* value = static_cast<const T*>(csr.value);
    for (Index i = 0; i < csr.rows; ++i)
      for (Index c = 0; c < p.y.columns; ++c) {
        T& to = static_cast<T*>(p.y.data)[i * p.y.stride + c];
        T sum = 0;
        for (std::int32_t e = csr.ptr[i]; e < csr.ptr[i + 1]; ++e) {
          const bool inside = e < csr.entries && csr.column[e] >= 0 && csr.column[e] < csr.columns;
          sum += inside ? value[e] * static_cast<const T*>(p.x.data)[csr.column[e] * p.x.stride + c] : poison;
        }
        // As a library does: what is multiplied by zero is not read.
        const T before = p.beta == 0 ? T(0) : static_cast<T>(p.beta) * to;
        to = known && csr.ptr[csr.rows] == csr.entries ? static_cast<T>(p.alpha) * sum + before : poison;
      }
  }

  mutable std::vector<std::unique_ptr<Csr>> matrices_;
};

}  // namespace rossby::test
