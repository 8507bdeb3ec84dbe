#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/zarr_metadata.hpp"

namespace rossby {

/// A Zarr store of version 2 in a folder, open for reading; only chunks with requested data are read.
/// Dimensions have the names that xarray writes (_ARRAY_DIMENSIONS), and an array's fill_value is its
/// _FillValue, as in xarray. An Anemoi store, data(time, variable, ensemble, cell) with `variables` among the
/// attributes, appears as separate arrays: one variable(time, ensemble, cell) each, time, and the cells'
/// latitudes and longitudes.
class ZarrStore : public ArrayFile {
 public:
  static std::unique_ptr<ZarrStore> open(const std::string& path);

  [[nodiscard]] std::vector<std::string> groups() const override { return store_.groups; }
  [[nodiscard]] std::optional<std::string> text(const NetcdfVariable& variable,
                                                const char* attribute) const override;
  [[nodiscard]] bool has(const NetcdfVariable& variable, const char* attribute) const override;
  [[nodiscard]] std::vector<double> numbers(const NetcdfVariable& variable,
                                            const char* attribute) const override;
  [[nodiscard]] bool is_real(const NetcdfVariable& variable, const char* attribute) const override;
  [[nodiscard]] bool unpacks_to_float(const NetcdfVariable& /*variable*/) const override { return false; }
  [[nodiscard]] int bits_of_other_sign(const NetcdfVariable& variable) const override;
  [[nodiscard]] std::optional<std::string> title(const char* attribute) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            float* out) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            double* out) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            Index* out) const override;
  void check_claim(const NetcdfVariable& variable) const override;
  void check_written(const NetcdfVariable& variable) const override;
  [[nodiscard]] std::optional<double> default_fill(const NetcdfVariable& /*variable*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Index> chunks(const NetcdfVariable& variable) const override;
  void cache_chunks(const NetcdfVariable& variable, Index bytes) const override;
  void pause() noexcept override;
  void resume() override {}
  [[nodiscard]] const std::vector<std::string>& unreadable() const override { return store_.unreadable; }
  [[nodiscard]] std::string remark(const NetcdfVariable& variable) const override;

 protected:
  [[nodiscard]] std::vector<std::string> read_texts(const NetcdfVariable& variable) const override;

 private:
  using Chunk = std::shared_ptr<const std::vector<char>>;  // null: missing

  /// A variable as presented: an array, or a part of it at a place along one of its dimensions.
  struct Shown {
    std::size_t array = 0;
    int fixed = -1;  // dimension of the array; −1: the whole array
    Index place = 0;
    nlohmann::json attributes;
  };

  explicit ZarrStore(const std::string& path);
  void show_arrays();
  void show_anemoi();
  void show(const std::string& name, Shown shown, std::vector<std::string> dimensions);
  [[nodiscard]] const Shown& shown(const NetcdfVariable& variable) const {
    return shown_[static_cast<std::size_t>(variable.id)];
  }
  [[nodiscard]] const detail::ZarrArray& array_of(const NetcdfVariable& variable) const {
    return store_.arrays[shown(variable).array];
  }
  [[nodiscard]] std::string chunk_path(const detail::ZarrArray& array, const std::vector<Index>& place) const;
  [[nodiscard]] Chunk load(std::size_t array, const std::vector<Index>& place) const;
  template <class T>
  void read_as(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
               T* out) const;

  detail::ZarrMetadata store_;
  std::vector<Shown> shown_;  // by id of the variable
  // The last used chunk comes first.
  struct Kept {
    std::size_t array;
    std::string name;
    Chunk chunk;
  };
  mutable std::list<Kept> kept_;
  mutable std::size_t kept_bytes_ = 0, most_bytes_ = std::size_t{64} << 20;
};

}  // namespace rossby
