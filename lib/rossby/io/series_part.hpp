#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rossby/io/hyperslabs.hpp"
#include "rossby/io/series_decoder.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {

/// Nodes that are contiguous in a rectangle and in the result.
struct NodeRun {
  Index position, cell, count;
};

/// State kept between pieces with the same nodes in the same order: rectangles and memory.
struct ReadScratch {
  Index columns = -1, free_cells = -1;  // for which the rectangles hold
  std::vector<Rectangle> rectangles;
  std::vector<std::vector<NodeRun>> runs;  // per rectangle
  std::vector<float> floats;
  std::vector<double> doubles;

  template <class Raw>
  [[nodiscard]] std::vector<Raw>& piece() {
    if constexpr (std::is_same_v<Raw, float>)
      return floats;
    else
      return doubles;
  }
};

/// A request: (count, nodes, m) into `out`; `centers` (nodes, m) are subtracted before a value becomes an
/// Out.
template <class Out>
struct ReadRequest {
  std::span<const Index> nodes;
  Index first = 0, count = 0;       // steps of the file
  std::span<const double> centers;  // empty: none
  Out* out = nullptr;
  ReadScratch* scratch = nullptr;
};

/// One file of a series, open for reading.
class SeriesPart {
 public:
  /// If `variables` is empty, the only one that fits is taken. Throws UserError.
  static SeriesPart open(const std::string& path, std::span<const std::string> variables,
                         std::optional<double> null_value);

  /// The contents of the file.
  struct Contents {
    SeriesInfo info;  // all but `time` and counts of steps
    Stamps stamps;
    TimeAxis time;  // of all steps of the file
  };
  /// Omits a grid's `node_lat` and `node_lon`, which its axes give, unless `all_nodes`.
  [[nodiscard]] Contents describe(bool all_nodes) const;

  /// Converts later values to other units, with one conversion per variable.
  void convert(std::span<const UnitConversion> conversions);
  [[nodiscard]] bool finer_than_float() const;

  /// Closes the file but keeps its header, or opens it again to read values (ArrayFile::pause).
  void pause() noexcept;
  void resume() { file_->resume(); }

  [[nodiscard]] const ArrayFile& file() const { return *file_; }
  [[nodiscard]] Index steps() const { return layouts_.front().length(layouts_.front().time); }
  [[nodiscard]] Index nodes() const {
    return layouts_.front().length(layouts_.front().row) * layouts_.front().length(layouts_.front().column);
  }
  [[nodiscard]] Index features() const { return features_; }

  /// Out is float or double; values as in SeriesFile::read_steps.
  template <class Out>
  void read_steps(const ReadRequest<Out>& request) const;

 private:
  SeriesPart() = default;
  void describe_nodes(SeriesInfo& info, bool all_nodes) const;
  template <class Out>
  void read_variable(std::size_t v, Index feature_offset, const ReadRequest<Out>& request) const;
  template <class Raw, class Out>
  void read_rectangle(std::size_t v, Index feature_offset, std::size_t rectangle,
                      const ReadRequest<Out>& request) const;
  void cover_nodes(const VariableLayout& layout, std::span<const Index> nodes, ReadScratch& scratch) const;

  std::unique_ptr<ArrayFile> file_;  // owns the variables of the layouts
  std::vector<VariableLayout> layouts_;
  std::vector<Decoder> decoders_;
  std::vector<std::string> remarks_;  // of the decoders
  Index features_ = 0;
  mutable std::vector<Index> cached_;  // bytes of decompressed chunks kept, by layout
};

}  // namespace rossby::detail
